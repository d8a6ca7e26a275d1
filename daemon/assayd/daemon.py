"""Runs the daemon from start to stop: locks its state directory, opens the socket, serves and stops.

The daemon stops in this order: it refuses new work, drains running work until a deadline, leaves the
remaining work to the next run, ends the API, empties the pool, sweeps, and closes the store. A second
signal ends the drain.

`Notifier` notifies the service manager, if there is one, of the daemon's state (sd_notify(3)).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import os
import shlex
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path

import sdnotify
import structlog
import uvicorn
import uvloop

from assayd import __version__
from assayd.aio import open_task_group
from assayd.api import ApiServer
from assayd.errors import ConfigError
from assayd.log import configure_logging
from assayd.model.attempt import State
from assayd.program import configure_allocator
from assayd.settings import Settings
from assayd.sockets import is_socket_activated, listen_loopback, listen_unix
from assayd.wiring import Assembly, PartOverrides, build_daemon, configure_api

log = structlog.get_logger()

USUALLY_S = 5.0
"""The seconds between heartbeats if no watchdog requires a shorter interval."""


class Notifier:
    """A connection to the service manager. `status` returns the daemon's state in one line.

    Heartbeats are sent from the event loop, so that they stop if the event loop is blocked. The service
    manager's watchdog then kills the daemon, and the daemon's next run recovers the unfinished work. Without
    a service manager, nothing is sent.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.status: Callable[[], str] = lambda: "starting"
        self.every_s = _compute_heartbeat_interval_s(environ)
        # Without an address, it would open a socket and forget it.
        self._line = sdnotify.SystemdNotifier() if environ.get("NOTIFY_SOCKET") else None
        if self._line is not None and self._line.socket is not None:
            # A service manager that doesn't listen must not delay the daemon; later notices repeat the state.
            self._line.socket.setblocking(False)

    @asynccontextmanager
    async def send_heartbeats(self) -> AsyncIterator[None]:
        """Send heartbeats and the status at regular intervals until the end of the `with` block."""
        async with open_task_group() as tasks:
            telling = tasks.create_task(self._send_periodically(), name="tell")
            try:
                yield
            finally:
                telling.cancel()

    async def _send_periodically(self) -> None:
        while True:
            self._notify(f"WATCHDOG=1\nSTATUS={self.status()}")
            await asyncio.sleep(self.every_s)

    def notify_ready(self) -> None:
        """Notify the service manager that the daemon is ready, after the start and after each reload."""
        self._notify(f"READY=1\nSTATUS={self.status()}")

    def notify_reloading(self) -> None:
        """Report the beginning of a policy reload to the service manager; `notify_ready` reports its end."""
        self._notify("RELOADING=1")

    def notify_stopping(self) -> None:
        """Notify the service manager that the daemon is stopping."""
        self._notify(f"STOPPING=1\nSTATUS={self.status()}")

    def close(self) -> None:
        """Close the socket. No more notifications are sent."""
        if self._line is not None and self._line.socket is not None:
            self._line.socket.close()
        self._line = None

    def _notify(self, what: str) -> None:
        if self._line is not None:
            self._line.notify(what)


def _compute_heartbeat_interval_s(environ: Mapping[str, str]) -> float:
    """Return the heartbeat interval in seconds: half of the watchdog's timeout, but at most `USUALLY_S`.

    Without a watchdog for this process, it is `USUALLY_S`.
    """
    allowed, meant_for = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
    if not allowed.isdigit() or int(allowed) == 0 or meant_for not in {None, str(os.getpid())}:
        return USUALLY_S
    return min(int(allowed) / 2e6, USUALLY_S)


DRAIN_TIMEOUT_S = 30.0
SWITCH_S = 0.0005
"""The seconds after which a thread must release the interpreter if other threads wait for it. The event loop
waits for the store's threads.
"""


def run(settings: Settings, overrides: PartOverrides | None = None) -> int:
    """Run the daemon until it is stopped, and return the exit code.

    Raises: ConfigError or StoreError, if the daemon can't start.
    """
    configure_logging(settings.log.level, settings.log.format)
    sys.setswitchinterval(SWITCH_S)
    configure_allocator()
    raise_priority(settings.nice)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(settings, overrides or PartOverrides()))
    return 0


def _tune_gc() -> None:
    """Tune garbage collection: freeze the existing objects and collect less often.

    An attempt creates a few thousand objects, but few cycles. With Python's default threshold, garbage
    collection took a sixth of the daemon's CPU time, and an occasional full collection stopped everything
    for 150 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def raise_priority(nice: int) -> None:
    """Raise the priority above the engine's processes, because filling the pool uses all cores.

    The priority isn't changed if this process was started with a non-default priority or isn't permitted to
    change it.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)


async def _main(settings: Settings, overrides: PartOverrides) -> None:
    with lock_state_dir(settings.state_dir):
        server_socket = listen_unix(settings.socket, mode=settings.socket_mode, group=settings.socket_group)
        try:
            async with AsyncExitStack() as stack:
                address = settings.metrics.address
                metrics = stack.enter_context(closing(listen_loopback(address))) if address else None
                notifier = stack.enter_context(closing(Notifier()))
                # First, because starting and stopping the other parts takes time.
                await stack.enter_async_context(notifier.send_heartbeats())
                parts = await build_daemon(settings, stack, overrides)
                api = configure_api(settings, parts)
                served = [(ApiServer(api.socket), server_socket)]
                if metrics is not None:
                    log.info("metrics.listening", address="{}:{}".format(*metrics.getsockname()))
                    served.append((ApiServer(api.metrics), metrics))
                await Daemon(parts, notifier, greeting=build_startup_message(settings)).serve(*served)
        finally:
            server_socket.close()
            if not is_socket_activated():
                settings.socket.unlink(missing_ok=True)
    log.info("daemon.stopped")


def build_startup_message(settings: Settings) -> str:
    """Return a message with the next command for a person at the console.

    The result is empty for other log formats.
    """
    if settings.log.format != "console":
        return ""
    client = Path(sys.argv[0]).absolute().with_name("assay")
    socket_path = shlex.quote(str(settings.socket.absolute()))
    return f"assayd serves. In another terminal: export ASSAY_SOCKET={socket_path}; {client} doctor"


@contextmanager
def lock_state_dir(state_dir: Path) -> Iterator[None]:
    """Hold an exclusive lock on the state directory while the body runs. Create the directory if necessary.

    Raises: ConfigError ``state.taken``, if another daemon holds the lock; ``state.unusable`` for other
    failures.
    """
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        _require_private_dir(state_dir)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(state_dir / "lock", flags, 0o600)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            message = f"{state_dir / 'lock'} is a symbolic link; remove it, and find out who created it"
            raise ConfigError("state.unusable", message) from problem
        raise ConfigError("state.unusable", f"can't use {state_dir}: {problem.strerror}") from problem
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            message = f"another daemon uses {state_dir}; stop that daemon, or set another state_dir"
            raise ConfigError("state.taken", message, retryable=True) from problem
        yield
    finally:
        os.close(handle)


def _require_private_dir(state_dir: Path) -> None:
    """Check that only the daemon's user can write to a directory.

    Raises: ConfigError ``state.unusable``, if others can write to it or own it; OSError, if it can't be read.
    """
    facts = state_dir.stat()
    mode = stat.S_IMODE(facts.st_mode)
    if facts.st_uid not in {0, os.geteuid()} or mode & 0o022:
        message = (
            f"{state_dir} (mode {mode:04o}, owner {facts.st_uid}) must belong to the daemon's user and be "
            "writable for that user only: chown it, chmod 0700"
        )
        raise ConfigError("state.unusable", message)


class Daemon:
    """The daemon with all its parts, which it stops in order."""

    def __init__(
        self,
        parts: Assembly,
        notifier: Notifier,
        *,
        recovers: bool = True,
        drain_s: float = DRAIN_TIMEOUT_S,
        greeting: str = "",
    ) -> None:
        """Connect the parts.

        Args:
            parts: all parts of the daemon.
            notifier: notifies the service manager.
            recovers: whether this process continues attempts that are unfinished when it starts.
            drain_s: the time in seconds that running attempts have to end when the daemon stops.
            greeting: a message that is printed to standard error once the daemon is ready; if empty, no
                messages for a person are printed.
        """
        self._greeting = greeting
        self._parts = parts
        self._notifier = notifier
        self._recovers = recovers
        self._drain_s = drain_s
        notifier.status = self._build_status_line
        self._stop = asyncio.Event()
        self._stop_without_drain = asyncio.Event()

    async def serve(self, *served: tuple[uvicorn.Server, socket.socket]) -> None:
        """Serve on sockets until a signal requests a stop. Then stop in order."""
        self._watch_signals()
        async with asyncio.TaskGroup() as tasks:
            serving = [
                tasks.create_task(server.serve(sockets=[listening]), name="api")
                for server, listening in served
            ]
            sweeping = tasks.create_task(self._parts.readiness.sweep_periodically(), name="sweep")
            removing = tasks.create_task(self._parts.retention.sweep_periodically(), name="retention")
            preparing = tasks.create_task(self._prepare(), name="prepare")
            saying = tasks.create_task(self._notify_ready(), name="say-ready")
            looking = tasks.create_task(self._parts.acceptance.check_periodically(), name="acceptance")
            await self._stop.wait()
            self.log_stop()
            self._parts.acceptance.stop()
            self._notifier.notify_stopping()
            preparing.cancel()
            self._parts.batches.stop()
            await self._drain()
            self._parts.scheduler.release_waiters()
            for server, _ in served:
                server.should_exit = True
            await asyncio.wait(serving)
            for task in (sweeping, removing, saying, looking):
                task.cancel()

    def log_stop(self) -> None:
        """Log the stop.

        If the daemon has a greeting and attempts are running, also print their number to stderr.
        """
        active = self._parts.scheduler.active
        log.info("daemon.stopping", under_way=active, drain_s=self._drain_s)
        if self._greeting and active:
            waits = f"assayd waits up to {self._drain_s:.0f} s for {active} running attempts"
            print(
                f"{waits}; press Ctrl-C again to stop now and run them after the next start",
                file=sys.stderr,
                flush=True,
            )

    async def _notify_ready(self) -> None:
        """Notify the service manager that the daemon is ready.

        The notification is sent once the sandbox is ready or has reported why it isn't. If the engine is
        down, requests are therefore answered with status 503, and the service manager doesn't restart the
        daemon.
        """
        await self._parts.readiness.tried.wait()
        self._notifier.notify_ready()

    def _build_status_line(self) -> str:
        """Return the state of the daemon as one line: stopping, not serving (with the reason), or serving."""
        ready, problem = self._parts.acceptance.now()
        if self._stop.is_set():
            return f"stopping; {self._parts.scheduler.active} attempts running"
        if not ready:
            return f"not serving: {problem}"
        states = self._parts.scheduler.count_by_state()
        queued = states.pop(State.QUEUED)
        return f"serving; {states.total()} attempts running, {queued} waiting"

    async def _prepare(self) -> None:
        """Become ready, recover the previous run's unfinished work, log the readiness, and stay ready."""
        # Before anything can be accepted, so that it contains nothing of this run.
        unfinished = await self._parts.admission.load_unfinished() if self._recovers else ()
        await self._parts.readiness.prepare()
        if self._recovers:
            await self._parts.admission.recover(unfinished)
            await self._parts.batches.recover(unfinished)
            await self._parts.chains.recover_unfinished()
            await self._parts.workflows.recover_unfinished()
        _tune_gc()
        origin = self._parts.basics.origin
        log.info(
            "daemon.ready",
            version=__version__,
            daemon_id=origin.daemon_id,
            generation=origin.generation,
        )
        if self._greeting:
            print(self._greeting, file=sys.stderr, flush=True)
        await self._parts.readiness.keep_ready()

    async def _drain(self) -> None:
        """Wait for running attempts until the drain timeout or a second signal.

        Then abandon the remaining ones.
        """
        drained = asyncio.ensure_future(self._parts.scheduler.drain(self._drain_s))
        hurried = asyncio.ensure_future(self._stop_without_drain.wait())
        await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not drained.done() or not drained.result():
            log.warning("daemon.leaves_attempts", count=self._parts.scheduler.active)
            await self._parts.scheduler.abandon_all()
        drained.cancel()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._on_reload_signal)

    def stop(self) -> None:
        """Stop in order. On a second call, stop without waiting for running attempts."""
        if self._stop.is_set():
            self._stop_without_drain.set()
        self._stop.set()

    def _on_reload_signal(self) -> None:
        published = self._parts.readiness.tried.is_set()
        if published:
            self._notifier.notify_reloading()
        try:
            self._parts.basics.policies.reload()
        except ConfigError as problem:
            log.error("policies.reload_failed", problem=problem.message)
        else:
            log.info("policies.reloaded", names=list(self._parts.basics.policies.names))
            self._parts.audit.note(
                "policies.reloaded",
                actor={"daemon": self._parts.basics.origin.daemon_id},
                subject="policies",
                policies=self._parts.basics.policies.get_digests_by_name(),
            )
        if published:
            self._notifier.notify_ready()
