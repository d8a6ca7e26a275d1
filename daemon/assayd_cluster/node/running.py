"""Processes one message on a node: claim the attempt, have the daemon run it, send the verdict.

Decides what each failure means for the message. It is acknowledged by a return, once the gateway has the
verdict or needs none; put back for another node by `PutBack`; laid aside by `Untrue`. Every step may be taken
again, here or on another node: the claim gives the same run, the daemon the same attempt, and of two verdicts
the first counts.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_never,
    wait_chain,
    wait_fixed,
)
from tenacity.retry import RetryBaseT

from assayd.errors import AssaydError
from assayd.log import trace_ids
from assayd.model.trace_context import TraceContext
from assayd_client.errors import ClientError
from assayd_cluster.documents import INLINE_BYTES, Claimed
from assayd_cluster.node.daemon_link import DaemonLink, Document, File
from assayd_cluster.node.forwarding import Forwarder, live_event
from assayd_cluster.node.gateway_link import (
    GatewayAway,
    GatewayLink,
    NodeRefused,
    Run,
    RunHeld,
    RunOver,
)

log = structlog.get_logger()

AT_ONCE_S = 0.25
"""A run that ends within this time is sent whole; a longer one sends events as they come."""
LOOK_S = 10.0
"""How long one question after a verdict waits for it."""
LAST_RUN = 2
PREFIX = "assayd/"
"""How a daemon prefixes images for its engine; profiles name them without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How long until what did not work is tried again, the last one repeated.

    After `daemon_away_s` without an answer of the daemon, its runs are left to other nodes.
    """

    again_s: Sequence[float] = (0.2, 0.5, 1.0, 2.0, 5.0)
    daemon_away_s: float = 60.0


class PutBack(AssaydError):
    """The message is to go to another node, or to come again."""


class Untrue(AssaydError):
    """The message is none of the gateway's: it is laid aside."""


class Stopping:
    """How far this node is on its way to its end, for everything that waits."""

    def __init__(self) -> None:
        self.draining = threading.Event()
        self.hurried = threading.Event()


class Runner:
    """Runs attempts, each in a thread of Celery's."""

    def __init__(
        self,
        gateway: GatewayLink,
        daemon: DaemonLink,
        forwarder: Forwarder,
        stopping: Stopping,
        tries: Tries = Tries(),
    ) -> None:
        self._tries = tries
        self._gateway = gateway
        self._daemon = daemon
        self._forwarder = forwarder
        self._stopping = stopping
        self._lock = threading.Condition()
        self._in_hand: set[str] = set()
        self.engine = ""
        """The node's daemon of the last attempt; empty before the first."""
        self.images: Mapping[str, str] = {}
        """The digests of the images that attempts have run in, by name."""

    def in_hand(self) -> list[str]:
        """Return the attempts that messages are held for."""
        with self._lock:
            return sorted(self._in_hand)

    def run(self, attempt_id: str, ticket: str, trace: TraceContext | None = None) -> None:
        """Run an attempt to its verdict, in the gateway's trace. Raises: PutBack, Untrue."""
        ids = {"attempt_id": attempt_id, **trace_ids(trace)}
        with self._holding(attempt_id), structlog.contextvars.bound_contextvars(**ids):
            claimed = self._claim(attempt_id, ticket)
            if claimed is None:
                return
            run = Run(attempt=attempt_id, number=claimed.run)
            self._hand_in(run, self._verdict(run, claimed, trace))
            log.info("run.handed_in", run_number=run.number)

    @contextmanager
    def _holding(self, attempt_id: str) -> Iterator[None]:
        """Have one message of an attempt at a time: one that is delivered again waits for the first."""
        with self._lock:
            while attempt_id in self._in_hand:
                self._lock.wait()
            self._in_hand.add(attempt_id)
        try:
            yield
        finally:
            with self._lock:
                self._in_hand.discard(attempt_id)
                self._lock.notify_all()

    def _claim(self, attempt_id: str, ticket: str) -> Claimed | None:
        """Claim a run; None where the attempt needs none. Waits while another node holds it."""
        try:
            retry = retry_if_exception_type((RunHeld, GatewayAway))
            return self._retrying("claim.failed", retry)(self._claim_once, attempt_id, ticket)
        except RunOver as over:
            log.info("claim.over", code=over.code)
            return None
        except NodeRefused as refused:
            log.warning("claim.refused", code=refused.code)
            raise Untrue(refused.code, refused.message) from refused

    def _claim_once(self, attempt_id: str, ticket: str) -> Claimed:
        if self._stopping.draining.is_set():
            raise PutBack("node.draining", "the node takes no new attempts")
        return self._gateway.claim(attempt_id, ticket)

    def _verdict(self, run: Run, claimed: Claimed, trace: TraceContext | None) -> Document:
        """Return what the daemon says of the attempt, or that the run is lost."""
        accepted = False

        def judge() -> Document:
            nonlocal accepted
            document = claimed.document
            attempt = self._daemon.submit(run.attempt, document, wait_s=AT_ONCE_S, trace=trace)
            accepted = True
            return self._finished(run, attempt)

        def stays_away(state: RetryCallState) -> bool:
            return state.idle_for >= self._tries.daemon_away_s

        try:
            return self._retrying("daemon.away", retry_if_exception(_will_pass), stays_away)(judge)
        except ClientError as trouble:
            if trouble.retryable:
                return _lost(f"the daemon is unreachable: {trouble.message}", started=accepted)
            return _lost(f"{trouble.code}: {trouble.message}", started=True)

    def _finished(self, run: Run, attempt: Document) -> Document:
        """Wait for the verdict, with events on the way, and return it with its files."""
        if attempt["verdict"] is None:
            with self._forwarder.forwarding(run) as forward:
                for event in self._daemon.events(run.attempt):
                    forward(event)
                    self._stop_if_hurried()
        while attempt["verdict"] is None:
            self._stop_if_hurried()
            attempt = self._daemon.attempt(run.attempt, wait_s=LOOK_S)
        if attempt["verdict"] == "error" and run.number < LAST_RUN:
            said = attempt["error"] or {}
            return _lost(f"{said.get('code')}: {said.get('message')}", started=True)
        return self._documents(attempt)

    def _documents(self, attempt: Document) -> Document:
        """Return a verdict as the gateway takes it."""
        if attempt.get("execution") is not None:
            container = attempt["execution"]["container"]
            name = container["image"].removeprefix(PREFIX)
            self.engine, self.images = container["engine"], {**self.images, name: container["image_digest"]}
        events = [live_event(event) for event in self._daemon.events(attempt["id"])]
        listed = {artifact["name"]: artifact for artifact in attempt["artifacts"]}
        return {
            "attempt": {
                **attempt,
                "report": None,
                "execution": None,
                "replay_diff": None,
                "bundle_path": None,
            },
            "events": [event for event in events if event is not None],
            "files": [_described(file, listed.get(file.name, {})) for file in self._daemon.files(attempt)],
        }

    def _hand_in(self, run: Run, verdict: Document) -> None:
        """Send a verdict until it is accepted or no longer needed."""
        try:
            self._retrying("verdict.kept", retry_if_exception_type(GatewayAway))(self._send, run, verdict)
        except RunOver as over:
            log.info("verdict.needless", code=over.code)
        except NodeRefused as refused:
            log.error("verdict.refused", code=refused.code, message=refused.message)
            if "lost" not in verdict:
                self._hand_in(run, _lost(f"the gateway refuses the verdict: {refused.code}", started=True))

    def _send(self, run: Run, verdict: Document) -> None:
        for file in verdict.get("files", ()):
            if "content" in file:
                self._gateway.send_file(run, file["sha256"], file["content"])
                del file["content"]
        self._gateway.send_verdict(run, verdict)

    def _retrying(
        self, event: str, retry: RetryBaseT, stop: Callable[[RetryCallState], bool] = stop_never
    ) -> Retrying:
        """Return what tries again after pauses that end when the node stops; each failure is logged."""

        def tell(state: RetryCallState) -> None:
            problem = state.outcome.exception() if state.outcome is not None else None
            if isinstance(problem, RunHeld):  # by another node, as it should be
                log.debug("claim.held", code=problem.code)
            else:
                log.warning(event, code=getattr(problem, "code", None))

        waits = wait_chain(*map(wait_fixed, self._tries.again_s))
        return Retrying(
            retry=retry, stop=stop, wait=waits, before_sleep=tell, sleep=self._pause, reraise=True
        )

    def _pause(self, seconds: float) -> None:
        if self._stopping.hurried.wait(seconds):
            self._hurry()

    def _stop_if_hurried(self) -> None:
        if self._stopping.hurried.is_set():
            self._hurry()

    def _hurry(self) -> NoReturn:
        raise PutBack("node.stopping", "the node is stopping")


def _will_pass(trouble: BaseException) -> bool:
    return isinstance(trouble, ClientError) and trouble.retryable


def _lost(reason: str, *, started: bool) -> Document:
    log.warning("run.lost", reason=reason)
    return {"lost": True, "reason": reason[:1000], "started": started}


def _described(file: File, artifact: Document) -> Document:
    """Return a file of a bundle, with its content: within the verdict, or to be sent ahead of it."""
    described: Document = {
        "name": file.name,
        "media_type": artifact.get("media_type", "application/json"),  # the manifest is in no list
        "sha256": file.sha256,
        "bytes": len(file.content),
        "truncated": artifact.get("truncated", False),
    }
    if len(file.content) <= INLINE_BYTES:
        return {**described, "base64": base64.b64encode(file.content).decode()}
    return {**described, "content": file.content}
