"""Implements the node as a Celery worker, with threads for heartbeats, events and cancellations.

On SIGTERM or SIGINT, the node claims no further runs, returns the attempts that it hasn't begun, and
finishes the running attempts. A second signal ends the node at once: the broker redelivers its messages to
other nodes, and the daemon ends its runs.

The node reports its state to the gateway every few seconds. It consumes messages while its daemon can run
attempts, the gateway answers and allows this, and the node isn't draining. A cancelled consumer keeps its
connection, because it must still acknowledge the messages that it holds. After a reconnection, consumption
stays on or off as before.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import structlog
from celery import signals
from celery.exceptions import CPendingDeprecationWarning, Reject, SecurityWarning
from celery.worker import state
from celery.worker.consumer import Consumer

from assayd import __version__
from assayd import log as logs
from assayd.errors import AssaydError
from assayd.model.trace_context import parse_text
from assayd_client.errors import ClientError
from assayd_cluster.broker import TASK, create_celery
from assayd_cluster.documents import HEARTBEAT_INTERVAL_S, HEARTBEAT_TIMEOUT_S, NodeHeartbeat
from assayd_cluster.node.links import DaemonClient, GatewayClient
from assayd_cluster.node.running import (
    EVERY_S,
    EventForwarder,
    MessageForged,
    MessageRequeued,
    NodeRunner,
    StopSignals,
)
from assayd_cluster.settings import (
    NodeSettings,
    read_secret,
    require_encrypted_broker,
    require_encrypted_gateway,
)

log = structlog.get_logger()


IDLE_BEAT_INTERVAL_S = 1.0
"""Seconds between heartbeats while the node consumes no messages or the gateway doesn't respond."""

CANCEL_POLL_S = 20.0
"""Seconds for which one request waits for cancelled attempts."""
AGAIN_S = 1.0
LEAVING_TIMEOUT_S = 5.0
"""Timeout of a stopping node for its last report to the gateway."""
_DELAYED_STEP = "celery.worker.consumer.delayed_delivery:DelayedDelivery"


class MessageConsumptionSwitch:
    """A switch for this node's message consumption, which is initially off."""

    def __init__(self, app: Any, queue: str) -> None:
        self._queue = app.amqp.queues[queue]
        self._lock = threading.Lock()
        self._consumer: Any = None
        self._wanted = False
        app.amqp.queues.deselect([queue])

    def begin(self, consumer: Any) -> None:
        """Store the consumer that Celery has started."""
        with self._lock:
            self._consumer = consumer
        self._schedule_change()

    def set_wanted(self, wanted: bool) -> None:
        """Start or stop message consumption if `wanted` has changed."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        log.info("consumption.changed", consuming=wanted)
        self._schedule_change()

    def holds_messages(self) -> bool:
        """Return whether the node holds messages that aren't acknowledged yet."""
        return bool(state.reserved_requests)

    def _schedule_change(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.hub.call_soon(self._apply_change)

    def _apply_change(self) -> None:
        """Apply the decision in Celery's thread. If the connection breaks, Celery reconnects."""
        consumer, queues = self._consumer, self._consumer.app.amqp.queues
        if consumer.connection is None or consumer.task_consumer is None:
            select = queues.select_add if self._wanted else queues.deselect
            select(self._queue if self._wanted else [self._queue.name])
        elif self._wanted:
            consumer.add_task_queue(self._queue)
        else:
            consumer.cancel_task_queue(self._queue.name)


class HeartbeatSender:
    """A sender of heartbeats, whose method `beat` is called in one thread.

    Args:
        want: the callback that starts or stops message consumption.
    """

    def __init__(
        self,
        *,
        gateway: GatewayClient,
        daemon: DaemonClient,
        runner: NodeRunner,
        stopping: StopSignals,
        capacity: int,
        want: Callable[[bool], None],
    ) -> None:
        self._gateway = gateway
        self._daemon = daemon
        self._runner = runner
        self._stopping = stopping
        self._capacity = capacity
        self._want = want
        self._answered = 0.0
        self._consuming = False
        self._why = ""
        self.leaving = False
        """Whether the next heartbeat is the last one."""
        self.left = threading.Event()
        """Set once the last heartbeat has been sent, or has failed."""
        self.sooner = threading.Event()
        """Set to request a heartbeat before it is due."""

    def beat(self) -> None:
        """Send a heartbeat, and wait until the next one is due. After the last heartbeat, only wait."""
        if self.left.is_set():
            self.sooner.wait()
            return
        leaving = self.leaving
        heard = self._send_heartbeat()
        if leaving:
            self.left.set()
        self.sooner.wait(HEARTBEAT_INTERVAL_S if self._consuming and heard else IDLE_BEAT_INTERVAL_S)
        self.sooner.clear()

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat, and return whether the gateway has responded."""
        try:
            state = self._build_heartbeat()
            answer = self._gateway.beat(state)
        except AssaydError as trouble:
            self._log_reason_change(f"{trouble.code}: {trouble.message}")
            if time.monotonic() - self._answered > HEARTBEAT_TIMEOUT_S:
                self._set_consuming(consuming=False)
            return False
        self._answered = time.monotonic()
        consuming = answer.consume and state.ready and not state.draining
        self._log_reason_change("" if consuming else answer.why or state.reason or "the node is draining")
        self._set_consuming(consuming=consuming)
        return True

    def _set_consuming(self, *, consuming: bool) -> None:
        self._consuming = consuming
        self._want(consuming)

    def _build_heartbeat(self) -> NodeHeartbeat:
        reason, profiles = self._daemon.readiness(), dict[str, str]()
        try:
            profiles = self._daemon.profiles()
        except ClientError as trouble:
            reason = reason or trouble.message
        return NodeHeartbeat(
            capacity=self._capacity,
            ready=not reason,
            reason=reason[:1000],
            draining=self._stopping.draining.is_set(),
            leaving=self.leaving,
            version=__version__,
            engine=self._runner.engine,
            images=dict(self._runner.images),
            profiles=profiles,
            runs=self._runner.in_hand(),
            waiting=self._runner.count_waiting(),
        )

    def _log_reason_change(self, why: str) -> None:
        """Log the reason why the node consumes no messages, whenever this reason changes."""
        if why != self._why:
            self._why = why
            log.warning("node.idle", why=why) if why else log.info("node.consuming")


class MinimalConsumer(Consumer):  # type: ignore[misc]  # celery has no types
    """Celery's consumer without the step that declares exchanges for delayed messages, which are unused."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]
        """Celery's consumer steps without the step for delayed messages."""

        default_steps = tuple(step for step in Consumer.Blueprint.default_steps if step != _DELAYED_STEP)


def run(settings: NodeSettings) -> int:
    """Run the node until a signal stops it, and return the exit code.

    Raises: ConfigError, if a setting or a secret is unusable.
    """
    logs.configure_logging(settings.log.level, settings.log.format)
    # Running as root matters only for pickles, which aren't accepted; working on without a connection is
    # intended.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
    for name in ("celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(name).setLevel(logging.ERROR)  # they log every message
    node = NodeWorker(settings)
    return node.run()


class NodeWorker:
    """A node with its connections to the gateway, the broker and the daemon."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        broker_url = read_secret(settings.broker_url_file, "broker_url_file")
        require_encrypted_broker(broker_url, "broker_url_file")
        require_encrypted_gateway(settings.gateway, "gateway")
        token = read_secret(settings.token_file, "token_file")
        self._app = create_celery(broker_url, queue=settings.queue, ca_file=settings.broker_ca_file)
        self._app.conf.update(
            worker_consumer=MinimalConsumer,
            task_acks_on_failure_or_timeout=False,
            worker_cancel_long_running_tasks_on_connection_loss=False,
            # Celery can't raise a lowered limit again: with a quorum queue, it is fixed per connection.
            worker_enable_prefetch_count_reduction=False,
            broker_channel_error_retry=True,
            broker_connection_timeout=4,
        )
        self._gateway = GatewayClient(settings.name, settings.gateway, token=token, ca_file=settings.ca_file)
        self._daemon = DaemonClient(settings.socket)
        self._stopping = StopSignals()
        self._forwarder = EventForwarder(self._gateway)
        self._runner = NodeRunner(self._gateway, self._daemon, self._forwarder, self._stopping)
        self._consumption = MessageConsumptionSwitch(self._app, settings.queue)
        self._heart = HeartbeatSender(
            gateway=self._gateway,
            daemon=self._daemon,
            runner=self._runner,
            stopping=self._stopping,
            capacity=settings.capacity,
            want=self._consumption.set_wanted,
        )

    def run(self) -> int:
        """Run the node until it is stopped, and return the exit code."""
        self._app.task(name=TASK)(self._process_message)
        signals.setup_logging.connect(_skip_logging_setup)
        signals.worker_ready.connect(self._on_worker_ready)
        worker = self._app.Worker(
            pool_cls="threads",
            concurrency=self._settings.capacity,
            hostname=f"assayd@{self._settings.name}",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )
        for name, turn in (
            ("beat", self._heart.beat),
            ("events", self._send_pending_events),
            ("cancels", self._cancel_attempts),
        ):
            threading.Thread(target=_run_forever, args=(turn,), name=name, daemon=True).start()
        worker.start()
        return int(worker.exitcode or 0)

    def _process_message(self, *, attempt: str, ticket: str, trace: object = None, **_: object) -> None:
        """Process one message, as the task that Celery calls."""
        try:
            self._runner.run(attempt, ticket, parse_text(trace) if isinstance(trace, str) else None)
        except MessageRequeued as back:
            log.info("message.put_back", attempt_id=attempt, code=back.code)
            raise Reject(back.code, requeue=True) from back
        except MessageForged as untrue:
            raise Reject(untrue.code, requeue=False) from untrue
        except Exception as problem:
            log.exception("message.broken", attempt_id=attempt)
            raise Reject("internal", requeue=True) from problem

    def _on_worker_ready(self, sender: Any, **_: object) -> None:
        """Take over signals and message consumption in Celery's thread, once Celery is connected."""
        self._consumption.begin(sender)
        self._heart.sooner.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop_signal)

    def _on_stop_signal(self, *_: object) -> None:
        if self._stopping.draining.is_set():
            log.warning("node.left", runs=self._runner.in_hand())
            os._exit(1)
        log.info("node.draining", runs=self._runner.in_hand())
        self._stopping.draining.set()
        self._consumption.set_wanted(False)
        self._heart.sooner.set()
        threading.Thread(target=self._stop_when_idle, name="drain", daemon=True).start()

    def _stop_when_idle(self) -> None:
        """Stop Celery after all messages are acknowledged and the gateway knows that the node leaves."""
        while self._consumption.holds_messages():
            self._stopping.hurried.wait(0.1)
        self._heart.leaving = True
        self._heart.sooner.set()
        self._heart.left.wait(LEAVING_TIMEOUT_S)
        state.should_stop = os.EX_OK

    def _send_pending_events(self) -> None:
        self._stopping.hurried.wait(EVERY_S)
        self._forwarder.send()

    def _cancel_attempts(self) -> None:
        try:
            for attempt in self._gateway.wait_for_cancelled(CANCEL_POLL_S):
                self._daemon.cancel(attempt)
        except AssaydError as trouble:
            log.debug("cancels.unknown", code=trouble.code)
        self._stopping.hurried.wait(AGAIN_S)


def _run_forever(turn: Callable[[], None]) -> None:
    """Repeat an action until the process ends. If the action fails, shut the node down."""
    try:
        while True:
            turn()
    except BaseException:
        log.exception("node.broken")
        os.kill(os.getpid(), signal.SIGTERM)
        raise


def _skip_logging_setup(**_: object) -> None:
    """Prevent Celery from configuring logging, because the node has already configured it."""
