"""One container from its creation to its verified removal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from assayd.aio import run_cleanup
from assayd.errors import EngineError
from assayd.guest.frames import FrameError
from assayd.model.policy import NetworkMode
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_EXECUTOR,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerExitFacts,
    ContainerRef,
    ContainerSpec,
    Engine,
)
from assayd.sandbox.channel import (
    LEAVE_FRAME,
    GuestProtocolError,
    ReadyReport,
    RunnerChannel,
    StreamEndedError,
    wait_until_ready,
)
from assayd.sandbox.pool_decisions import PoolKey

log = structlog.get_logger()

OPEN_TIMEOUT_S = 60.0
REMOVE_TIMEOUT_S = 60.0
EXIT_REQUEST_TIMEOUT_S = 0.5
MIN_LONG_RUN_S = 0.2
"""Seconds after which a run is long; an ordinary run takes a tenth of it."""
_MAX_TEXT_CHARS = 200
SETTLE_TRIES, SETTLE_S = 200, 0.05
"""Number of, and seconds between, checks whether a container has ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOrigin:
    """The labels that are common to all containers of this process.

    `executor` is the number of the executor process, or empty in the daemon itself.
    """

    daemon_id: str
    generation: str
    executor: str = ""


class Container:
    """A started container whose runner is ready. It is leased at most once.

    `orderly` is true if the conversation was completed, so that the runner can be requested to exit.
    """

    def __init__(self, *, engine: Engine, ref: ContainerRef, key: PoolKey, channel: RunnerChannel) -> None:
        self._engine = engine
        self.ref = ref
        self.key = key
        self.channel = channel
        self.ready = ReadyReport(python="", memory_bytes=0, cgroup=0)
        self.orderly = False

    def __repr__(self) -> str:
        return f"<Container {self.ref.ulid} {self.key.image}>"

    async def end_and_get_facts(self, *, ends_by_itself: bool) -> tuple[ContainerExitFacts, bool]:
        """End the container. Return the facts about its end, and whether the daemon had to kill it.

        If `ends_by_itself`, the container has up to 10 seconds to exit before the daemon kills it, because a
        kill would hide the cause.
        """
        await self.channel.close()
        for _ in range(SETTLE_TRIES if ends_by_itself else 0):
            facts = await self._engine.facts(self.ref)
            if not facts.running:
                return facts, False
            await asyncio.sleep(SETTLE_S)
        await self._engine.kill(self.ref)
        return await self._engine.facts(self.ref), True

    async def lower_priority_later(self) -> None:
        """Lower the container's processor share once its run has lasted 0.2 seconds. Only log a failure."""
        await asyncio.sleep(MIN_LONG_RUN_S)
        try:
            await self._engine.make_way(self.ref)
        except EngineError as problem:
            log.warning("container.makes_no_way", container=self.ref.ulid, code=problem.code)

    async def remove(self) -> None:
        """Close the stream, end the container, and verify that it was removed.

        Raises: EngineError, if the container wasn't removed.
        """
        if self.orderly and not self._engine.capabilities().quick:
            await self._request_exit()
        await self.channel.close()
        await self._engine.remove(self.ref)

    async def _request_exit(self) -> None:
        """Request the runner's exit, which takes the engine less time than a kill.

        Ignore failures and timeouts.
        """
        with suppress(GuestProtocolError, StreamEndedError, EngineError, TimeoutError):
            async with asyncio.timeout(EXIT_REQUEST_TIMEOUT_S):
                await self.channel.send(LEAVE_FRAME)
                await self.channel.receive()  # Only the end of the stream can follow.

    async def ended(self) -> None:
        """Wait until an idle container's stream delivers data or ends.

        In both cases, the container has died.
        """
        await self.channel.duplex.read()


async def open_container(
    engine: Engine, key: PoolKey, origin: ContainerOrigin, ulid: str, *, ahead: bool = False
) -> Container:
    """Create, verify and start a container, wait until its runner is ready, and return the container.

    With `ahead`, the runner preloads modules.

    Raises: EngineError. In this case, either no container remains, or the reaper will find it by its labels.
    """
    spec = build_container_spec(key, origin, ulid)
    async with _convert_guest_faults():
        ref = await engine.create(spec)
        try:
            await engine.verify(ref, spec)
            container = Container(
                engine=engine, ref=ref, key=key, channel=RunnerChannel(await engine.start(ref))
            )
        except BaseException:
            await _remove_container(engine.remove(ref), ulid)
            raise
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                container.ready = await wait_until_ready(container.channel, key.preload if ahead else ())
        except StreamEndedError as end:
            await _remove_container(container.remove(), ulid)
            said = container.channel.duplex.diagnostics.decode("utf-8", "replace").strip()[-_MAX_TEXT_CHARS:]
            message = f"the runner ended before it was ready; its output: {said!r}"
            raise EngineError("runner.silent", message, retryable=True) from end
        except BaseException:
            await _remove_container(container.remove(), ulid)
            raise
    return container


async def _remove_container(removal: Coroutine[object, object, None], ulid: str) -> None:
    """Remove a container that couldn't be opened.

    A failure is only logged, so that the original error is raised.
    """
    try:
        await run_cleanup(removal, timeout_s=REMOVE_TIMEOUT_S)
    except (EngineError, TimeoutError) as problem:
        log.warning("container.left_behind", container=ulid, problem=str(problem) or "timeout")


@asynccontextmanager
async def _convert_guest_faults() -> AsyncIterator[None]:
    """Convert faults of the runner to EngineErrors, because no submitted code has run yet."""
    try:
        yield
    except GuestProtocolError as fault:
        raise EngineError("image.mismatch", str(fault)) from fault
    except FrameError as problem:
        raise EngineError("runner.request", "the runner's preparation doesn't fit into a frame") from problem
    except TimeoutError as late:
        raise EngineError("runner.slow", "the runner wasn't ready in time", retryable=True) from late


def build_container_spec(key: PoolKey, origin: ContainerOrigin, ulid: str) -> ContainerSpec:
    """Return the engine's spec for a pool key, with the labels of one container."""
    return ContainerSpec(
        image=key.image,
        image_digest=key.image_digest,
        memory_bytes=key.memory_bytes,
        pids=key.pids,
        cpus=key.cpus,
        work_bytes=key.work_bytes,
        work_files=key.work_files,
        work_exec=key.work_exec,
        open_files=key.open_files,
        seccomp=key.seccomp,
        labels={
            LABEL_DAEMON: origin.daemon_id,
            LABEL_GENERATION: origin.generation,
            LABEL_CONTAINER: ulid,
            LABEL_POOL_KEY: key.digest,
            **({LABEL_EXECUTOR: origin.executor} if origin.executor else {}),
        },
        preload=key.preload,
        loopback=key.network == NetworkMode.ALLOWLIST.value,
    )
