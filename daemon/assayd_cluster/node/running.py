"""Processes one message on a node: claims the attempt, has the daemon run it, and sends the verdict.

This module decides how each failure affects the message. A normal return acknowledges the message, when the
gateway has the verdict or needs none; `MessageRequeued` requeues the message for another node;
`MessageForged` rejects it.

Every step can be repeated, here or on another node: the claim returns the same run, the daemon returns the
same attempt, and the gateway records only the first verdict.

The events of all running runs are forwarded to the gateway together, several times a second. Output that
can't be sent is dropped. Other events are sent again while the gateway doesn't respond, because a gateway
takes back a run that reports nothing.
"""

from __future__ import annotations

import base64
import threading
import time
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

from assayd.attempts.events import OUTPUT
from assayd.errors import AssaydError
from assayd.log import build_trace_log_fields
from assayd.model.trace_context import TraceContext
from assayd_client.answers import StreamEvent
from assayd_client.errors import ClientError, QueueFull
from assayd_cluster.documents import MAX_INLINE_BYTES, ClaimedRun
from assayd_cluster.node.links import (
    AssignedRun,
    BundleFileContent,
    DaemonClient,
    Document,
    GatewayClient,
    GatewayUnavailable,
    RequestRefused,
    RunHeld,
    RunOver,
)

log = structlog.get_logger()


EVERY_S = 0.25
MAX_QUEUED_EVENTS = 500
"""Maximum number of events of one run to keep between two transmissions; other events are dropped."""

Event = dict[str, object]

MAX_SHORT_RUN_S = 0.25
"""Seconds within which a run can end without sending its events before the verdict."""
LOOK_S = 10.0
"""Seconds for which one request waits for a verdict."""
WAITS_S = 5.0
"""Seconds for which a run must have waited in the daemon to be reported to the gateway."""
WAITING_STATES = frozenset({"queued", "leasing"})
MAX_RUN_NUMBER = 2
PREFIX = "assayd/"
"""The prefix of image names in the daemon's engine, which profiles omit."""


class EventForwarder:
    """A collector of events from all threads, whose method `send` is called in one thread."""

    def __init__(self, gateway: GatewayClient) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._waiting: dict[AssignedRun, list[Event]] = {}

    @contextmanager
    def forward_events(self, run: AssignedRun) -> Iterator[Callable[[StreamEvent], None]]:
        """Yield a callback that forwards a run's events while the body runs."""

        def forward(event: StreamEvent) -> None:
            told = to_live_event(event)
            with self._lock:
                waiting = self._waiting.setdefault(run, [])
                if told is not None and len(waiting) < MAX_QUEUED_EVENTS:
                    waiting.append(told)

        try:
            yield forward
        finally:
            with self._lock:
                self._waiting.pop(run, None)

    def send(self) -> None:
        """Send the events that were collected since the last call."""
        with self._lock:
            batches = [(run, events) for run, events in self._waiting.items() if events]
            self._waiting.update((run, []) for run, _ in batches)
        for run, events in batches:
            try:
                self._gateway.send_events(run, events)
            except GatewayUnavailable:
                self._requeue_events(run, events)
            except AssaydError as trouble:
                log.debug("events.dropped", code=trouble.code, count=len(events))

    def _requeue_events(self, run: AssignedRun, events: list[Event]) -> None:
        """Queue events that weren't sent again, in front of newer ones, unless the run has ended."""
        with self._lock:
            waiting = self._waiting.get(run)
            if waiting is not None:
                lasting = [event for event in events if event["kind"] not in OUTPUT]
                waiting[:0] = lasting[: MAX_QUEUED_EVENTS - len(waiting)]


def to_live_event(event: StreamEvent) -> Event | None:
    """Return an event in the gateway's format, or None for events that the gateway creates itself."""
    run, seq = (int(number) for number in event.id.split("."))
    state = event.body.get("state") if event.kind == "state" else None
    if event.kind == "finished" or state in {"queued", "finished"}:
        return None
    return {"run": run, "seq": seq, "kind": event.kind, "at": event.at, "body": event.body}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelays:
    """The delays in seconds before failed operations are retried, of which the last is repeated.

    If the daemon doesn't respond for `daemon_away_s` seconds, other nodes take over its runs.
    """

    retry_delays_s: Sequence[float] = (0.2, 0.5, 1.0, 2.0, 5.0)
    daemon_away_s: float = 60.0


class MessageRequeued(AssaydError):
    """An error raised if a message must be requeued, for this node or another one."""


class MessageForged(AssaydError):
    """An error raised if a message isn't from the gateway, so that it is rejected and not requeued."""


class StopSignals:
    """The progress of this node's shutdown, which every waiting operation checks."""

    def __init__(self) -> None:
        self.draining = threading.Event()
        self.hurried = threading.Event()


class NodeRunner:
    """A runner of attempts, each in one of Celery's threads."""

    def __init__(
        self,
        gateway: GatewayClient,
        daemon: DaemonClient,
        forwarder: EventForwarder,
        stopping: StopSignals,
        tries: RetryDelays = RetryDelays(),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tries = tries
        self._gateway = gateway
        self._daemon = daemon
        self._forwarder = forwarder
        self._stopping = stopping
        self._lock = threading.Condition()
        self._in_hand: set[str] = set()
        self._monotonic = monotonic
        self._waiting: dict[str, float] = {}
        """The attempts that wait for their turn in the daemon, and since when."""
        self.engine = ""
        """The engine in which the last attempt ran; empty before the first attempt."""
        self.images: Mapping[str, str] = {}
        """The digests of the images in which attempts have run, by image name."""

    def in_hand(self) -> list[str]:
        """Return the sorted ids of the attempts whose messages this node holds."""
        with self._lock:
            return sorted(self._in_hand)

    def count_waiting(self) -> int:
        """Return how many runs have waited in the daemon for at least `WAITS_S` seconds."""
        latest = self._monotonic() - WAITS_S
        with self._lock:
            return sum(since <= latest for since in self._waiting.values())

    def _note_state(self, attempt_id: str, state: object) -> None:
        """Record whether an attempt is waiting in the daemon, according to its state."""
        with self._lock:
            if state in WAITING_STATES:
                self._waiting.setdefault(attempt_id, self._monotonic())
            else:
                self._waiting.pop(attempt_id, None)

    def run(self, attempt_id: str, ticket: str, trace: TraceContext | None = None) -> None:
        """Run an attempt until its verdict, as part of the gateway's trace.

        Raises: MessageRequeued, if the node is stopping; MessageForged, if the gateway rejects the message.
        """
        ids = {"attempt_id": attempt_id, **build_trace_log_fields(trace)}
        with self._hold_attempt(attempt_id), structlog.contextvars.bound_contextvars(**ids):
            claimed = self._claim_run(attempt_id, ticket)
            if claimed is None:
                return
            run = AssignedRun(attempt=attempt_id, number=claimed.run)
            self._deliver_verdict(run, self._run_at_daemon(run, claimed, trace))
            log.info("run.handed_in", run_number=run.number)

    @contextmanager
    def _hold_attempt(self, attempt_id: str) -> Iterator[None]:
        """Hold an attempt while the body runs. If its message is redelivered, the second delivery waits."""
        with self._lock:
            while attempt_id in self._in_hand:
                self._lock.wait()
            self._in_hand.add(attempt_id)
        try:
            yield
        finally:
            with self._lock:
                self._in_hand.discard(attempt_id)
                self._waiting.pop(attempt_id, None)
                self._lock.notify_all()

    def _claim_run(self, attempt_id: str, ticket: str) -> ClaimedRun | None:
        """Claim a run, and wait while another node holds it. Return None if no run is needed.

        Raises: MessageRequeued, if the node is stopping; MessageForged, if the gateway rejects the message.
        """
        try:
            retry = retry_if_exception_type((RunHeld, GatewayUnavailable))
            return self._build_retrying("claim.failed", retry)(self._claim_once, attempt_id, ticket)
        except RunOver as over:
            log.info("claim.over", code=over.code)
            return None
        except RequestRefused as refused:
            log.warning("claim.refused", code=refused.code)
            raise MessageForged(refused.code, refused.message) from refused

    def _claim_once(self, attempt_id: str, ticket: str) -> ClaimedRun:
        if self._stopping.draining.is_set():
            raise MessageRequeued("node.draining", "the node takes no new attempts")
        return self._gateway.claim(attempt_id, ticket)

    def _run_at_daemon(self, run: AssignedRun, claimed: ClaimedRun, trace: TraceContext | None) -> Document:
        """Run an attempt at the daemon, and return the body to send: its verdict or the loss of the run."""
        accepted = False

        def judge() -> Document:
            nonlocal accepted
            document = claimed.document
            try:
                attempt = self._daemon.submit(run.attempt, document, wait_s=MAX_SHORT_RUN_S, trace=trace)
            except QueueFull:
                self._note_state(run.attempt, "queued")
                raise
            accepted = True
            return self._wait_for_verdict(run, attempt)

        def is_daemon_away(state: RetryCallState) -> bool:
            return state.idle_for >= self._tries.daemon_away_s

        try:
            return self._build_retrying("daemon.away", retry_if_exception(_is_retryable), is_daemon_away)(
                judge
            )
        except ClientError as trouble:
            if trouble.retryable:
                return _build_lost_run(f"the daemon is unreachable: {trouble.message}", started=accepted)
            refused = not accepted and 400 <= trouble.status < 500
            return _build_lost_run(f"{trouble.code}: {trouble.message}", started=True, refused=refused)

    def _wait_for_verdict(self, run: AssignedRun, attempt: Document) -> Document:
        """Wait for the verdict while forwarding events, and return the verdict with its files.

        If a first run ends with the verdict `error`, report the run as lost instead.
        """
        if attempt["verdict"] is None:
            self._note_state(run.attempt, attempt["state"])
            with self._forwarder.forward_events(run) as forward:
                for event in self._daemon.events(run.attempt):
                    if event.kind == "state":
                        self._note_state(run.attempt, event.body["state"])
                    forward(event)
                    self._raise_if_stopping_now()
        while attempt["verdict"] is None:
            self._raise_if_stopping_now()
            attempt = self._daemon.attempt(run.attempt, wait_s=LOOK_S)
        if attempt["verdict"] == "error" and run.number < MAX_RUN_NUMBER:
            said = attempt["error"] or {}
            return _build_lost_run(f"{said.get('code')}: {said.get('message')}", started=True)
        return self._build_verdict(attempt)

    def _build_verdict(self, attempt: Document) -> Document:
        """Return the body of a verdict for the gateway, with events and files."""
        if attempt.get("execution") is not None:
            container = attempt["execution"]["container"]
            name = container["image"].removeprefix(PREFIX)
            self.engine, self.images = container["engine"], {**self.images, name: container["image_digest"]}
        events = [to_live_event(event) for event in self._daemon.events(attempt["id"])]
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
            "files": [
                _build_file_document(file, listed.get(file.name, {})) for file in self._daemon.files(attempt)
            ],
        }

    def _deliver_verdict(self, run: AssignedRun, verdict: Document) -> None:
        """Send a verdict repeatedly until the gateway accepts it or no longer needs it.

        If the gateway refuses the verdict, report the run as lost.
        """
        try:
            self._build_retrying("verdict.kept", retry_if_exception_type(GatewayUnavailable))(
                self._send_verdict, run, verdict
            )
        except RunOver as over:
            log.info("verdict.needless", code=over.code)
        except RequestRefused as refused:
            log.error("verdict.refused", code=refused.code, message=refused.message)
            if "lost" not in verdict:
                self._deliver_verdict(
                    run, _build_lost_run(f"the gateway refuses the verdict: {refused.code}", started=True)
                )

    def _send_verdict(self, run: AssignedRun, verdict: Document) -> None:
        for file in verdict.get("files", ()):
            if "content" in file:
                self._gateway.send_file(run, file["sha256"], file["content"])
                del file["content"]
        self._gateway.send_verdict(run, verdict)

    def _build_retrying(
        self, event: str, retry: RetryBaseT, stop: Callable[[RetryCallState], bool] = stop_never
    ) -> Retrying:
        """Return a caller that retries and logs failed operations. Its pauses end when the node stops."""

        def tell(state: RetryCallState) -> None:
            problem = state.outcome.exception() if state.outcome is not None else None
            if isinstance(problem, RunHeld):  # by another node, which is intended
                log.debug("claim.held", code=problem.code)
            else:
                log.warning(event, code=getattr(problem, "code", None))

        waits = wait_chain(*map(wait_fixed, self._tries.retry_delays_s))
        return Retrying(
            retry=retry,
            stop=stop,
            wait=waits,
            before_sleep=tell,
            sleep=self._wait_unless_stopping,
            reraise=True,
        )

    def _wait_unless_stopping(self, seconds: float) -> None:
        if self._stopping.hurried.wait(seconds):
            self._raise_stopping()

    def _raise_if_stopping_now(self) -> None:
        if self._stopping.hurried.is_set():
            self._raise_stopping()

    def _raise_stopping(self) -> NoReturn:
        raise MessageRequeued("node.stopping", "the node is stopping")


def _is_retryable(trouble: BaseException) -> bool:
    return isinstance(trouble, ClientError) and trouble.retryable


def _build_lost_run(reason: str, *, started: bool, refused: bool = False) -> Document:
    log.warning("run.lost", reason=reason)
    return {"lost": True, "reason": reason[:1000], "started": started, "refused": refused}


def _build_file_document(file: BundleFileContent, artifact: Document) -> Document:
    """Return a file's entry in a verdict, with the content in Base64 unless it is sent separately."""
    described: Document = {
        "name": file.name,
        "media_type": artifact.get("media_type", "application/json"),  # the manifest isn't listed
        "sha256": file.sha256,
        "bytes": len(file.content),
        "truncated": artifact.get("truncated", False),
    }
    if len(file.content) <= MAX_INLINE_BYTES:
        return {**described, "base64": base64.b64encode(file.content).decode()}
    return {**described, "content": file.content}
