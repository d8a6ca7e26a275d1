"""Reports this node's state to the gateway every few seconds, and starts or stops message consumption.

The node consumes messages while its daemon can run attempts, the gateway answers and allows this, and the
node isn't draining.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from assayd import __version__
from assayd.errors import AssaydError
from assayd_client.errors import ClientError
from assayd_cluster.documents import BEAT_S, LIVE_S, NodeHeartbeat
from assayd_cluster.node.daemon_link import DaemonClient
from assayd_cluster.node.gateway_link import GatewayClient
from assayd_cluster.node.running import NodeRunner, StopSignals

log = structlog.get_logger()

IDLE_BEAT_S = 1.0
"""Seconds between heartbeats while the node consumes no messages or the gateway doesn't respond."""


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
        """Send a heartbeat, and wait until the next one is due."""
        if self.left.is_set():
            self.sooner.wait()
            return
        leaving = self.leaving
        heard = self._send_heartbeat()
        if leaving:
            self.left.set()
        self.sooner.wait(BEAT_S if self._consuming and heard else IDLE_BEAT_S)
        self.sooner.clear()

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat, and return whether the gateway has responded."""
        try:
            state = self._build_heartbeat()
            answer = self._gateway.beat(state)
        except AssaydError as trouble:
            self._log_reason_change(f"{trouble.code}: {trouble.message}")
            if time.monotonic() - self._answered > LIVE_S:
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
