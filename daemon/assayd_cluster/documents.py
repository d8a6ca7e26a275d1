"""Defines the messages between gateway and node under ``/v1/nodes/{name}``.

The gateway treats these messages as hostile input. A node reports its state every few seconds, claims the
attempts that the broker delivers, and sends verdicts. It can write only to runs that it holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, FailFast, Field

from assayd.model.attempt import State
from assayd.model.policy import Enforcement
from assayd.model.report import StageStatus, Verdict
from assayd.model.run import Cause

ULID = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
SHA256 = r"^[0-9a-f]{64}$"
NODE_NAME_PATTERN = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"

HEARTBEAT_INTERVAL_S = 5.0
"""Seconds between two heartbeats of a node or gateway."""
HEARTBEAT_TIMEOUT_S = 15.0
"""Seconds after its last heartbeat for which a node or gateway counts as alive."""
MAX_INLINE_BYTES = 64 * 2**10
"""Maximum size of a file that is sent with the verdict; larger files are sent before the verdict."""
MAX_CAPACITY = 256
"""Maximum number of concurrent attempts of a node, even if the node reports more."""
MOST_FILES = 400
MOST_EVENTS = 5_000
MAX_EVENT_SEQ = 10**6
"""Maximum number of events of a run; the event numbers of the next run begin above it."""
MOST_NAME = 8192
MAX_PIECE_CHARS = 512 * 2**10

MAX_NODE_VALUES = 1_000_000
"""Maximum number of values in a node's document, because reports contain results of any size."""
MAX_ERROR_CHARS = 2000
"""Maximum number of characters of an error message to store."""
MAX_RAW_ERROR_CHARS = 64 * 2**10
"""Maximum number of characters of an error message to accept."""
MAX_RULES = 50

AttemptId = Annotated[str, Field(pattern=ULID)]
Digest = Annotated[str, Field(pattern=SHA256)]
Moment = Annotated[
    AwareDatetime, Field(ge=datetime(2020, 1, 1, tzinfo=UTC), lt=datetime(2200, 1, 1, tzinfo=UTC))
]
"""A time that every clock, database and time zone can represent."""
ShortText = Annotated[str, Field(max_length=512)]
"""A name or a digest."""
Milliseconds = Annotated[float, Field(ge=0, le=1e10)]
Number = Annotated[int, Field(ge=0, le=MAX_EVENT_SEQ)]


class _RequestDocument(BaseModel):
    # Unknown keys are skipped unread: an error for each would cost seconds.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _AnswerDocument(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)  # a node may be older than its gateway


class NodeHeartbeat(_RequestDocument):
    """The body of ``PUT /v1/nodes/{name}``: a node's state. `runs` lists the attempts of its worker.

    `waiting` is the number of runs that have waited for several seconds for their turn in the daemon.
    `leaving`: the node is shutting down in an orderly way, and this is its last heartbeat.
    """

    capacity: int = Field(ge=1, le=MAX_CAPACITY)
    ready: bool
    reason: str = Field("", max_length=1000)
    draining: bool = False
    leaving: bool = False
    version: str = Field(max_length=64)
    engine: str = Field("", max_length=200)
    images: dict[ShortText, ShortText] = Field({}, max_length=256)
    profiles: dict[ShortText, ShortText] = Field({}, max_length=1024)
    runs: Annotated[list[AttemptId], FailFast()] = Field([], max_length=8192)
    waiting: int = Field(0, ge=0, le=8192)


class HeartbeatAnswer(_AnswerDocument):
    """The answer to a heartbeat: whether the node should accept work, and the reason if it shouldn't."""

    consume: bool
    why: str = ""


class CancelledRuns(_AnswerDocument):
    """The answer to ``GET /v1/nodes/{name}/cancelled?wait_s=``: the attempts that the node must cancel."""

    attempts: list[str]


class Claim(_RequestDocument):
    """The body of ``POST /v1/nodes/{name}/runs``: the contents of a broker message."""

    attempt: AttemptId
    ticket: str = Field(min_length=43, max_length=44, pattern=r"^[A-Za-z0-9+/_-]{43}=?$")


class ClaimedRun(_AnswerDocument):
    """The answer to a claim: the run that the node now holds.

    `document` is the body for ``PUT /v1/attempts/{attempt}`` at the node's own daemon, as JSON text,
    without the parts that only the gateway uses (repairs, webhooks, the parent).
    """

    run: int = Field(ge=1, le=2)
    document: str
    uid: int
    kind: str
    policy: str


class StateBody(_RequestDocument):
    """A change of an attempt's state, except the first and last state, which the gateway records itself."""

    state: Literal["checking", "leasing", "running", "judging"]


class StageBody(_RequestDocument):
    """The result of a stage that has ended."""

    name: str = Field(max_length=64)
    status: StageStatus
    duration_ms: Milliseconds
    findings: Number


class UnitBody(_RequestDocument):
    """The start of a unit, or the end of a unit with its cause."""

    name: str = Field(max_length=MOST_NAME)
    index: Number
    total: Number
    status: str = Field(max_length=32)
    duration_ms: Milliseconds


class OutputBody(_RequestDocument):
    """A piece of a unit's output."""

    unit: str = Field(max_length=MOST_NAME)
    text: str = Field(max_length=MAX_PIECE_CHARS)


class _LiveEvent(_RequestDocument):
    run: int = Field(ge=0, le=1)
    seq: int = Field(ge=1, le=MAX_EVENT_SEQ)
    at: Moment


class StateEvent(_LiveEvent):
    """An event of kind ``state``: the state of an attempt has changed."""

    kind: Literal["state"]
    body: StateBody


class StageEvent(_LiveEvent):
    """An event of kind ``stage``: a stage has ended."""

    kind: Literal["stage"]
    body: StageBody


class UnitEvent(_LiveEvent):
    """An event of kind ``unit``: a unit has started or ended."""

    kind: Literal["unit"]
    body: UnitBody


class OutputEvent(_LiveEvent):
    """An event of kind ``stdout`` or ``stderr``; output events aren't stored."""

    kind: Literal["stdout", "stderr"]
    body: OutputBody


class GapEvent(_LiveEvent):
    """A marker for output that didn't reach the node; the gateway detects other missing output itself."""

    kind: Literal["gap"]


LiveEvent = Annotated[
    StateEvent | StageEvent | UnitEvent | OutputEvent | GapEvent, Field(discriminator="kind")
]
"""An event with the run number (0 before the container exists) and the position that the daemon assigned."""


class LiveEvents(_RequestDocument):
    """The body of ``POST /v1/nodes/{name}/runs/{attempt}/{run}/events``."""

    events: Annotated[list[LiveEvent], FailFast()] = Field(max_length=MOST_EVENTS)


class BundleFile(_RequestDocument):
    """A file of a bundle. `base64` is the file's content; None means that the content was sent earlier."""

    name: str = Field(max_length=512)
    media_type: str = Field(max_length=100)
    sha256: Digest
    bytes: int = Field(ge=0, le=2**40)
    truncated: bool = False
    base64: str | None = None


class RunTimings(_RequestDocument):
    """The durations of a run's phases, as measured by its node's daemon."""

    static: Milliseconds | None = None
    lease: Milliseconds | None = None
    run: Milliseconds | None = None
    report: Milliseconds | None = None


class RunFailure(_RequestDocument):
    """The internal error of a run."""

    code: str = Field(pattern=r"^[a-z0-9_.]{1,64}$")
    message: str = Field(max_length=MAX_RAW_ERROR_CHARS)


class JudgedAttempt(_RequestDocument):
    """The parts of a node's attempt document that the gateway reads."""

    id: AttemptId
    kind: str = Field(max_length=64)
    policy: str = Field(max_length=64)
    input_digest: Digest
    state: State
    verdict: Verdict
    created_at: Moment
    timings_ms: RunTimings
    warm: bool | None
    cause: Cause | None
    rules: list[Annotated[str, Field(max_length=MAX_RAW_ERROR_CHARS)]] = Field(max_length=MAX_RULES)
    enforcement: Enforcement | None = None
    approvable: bool = True
    error: RunFailure | None


class RunVerdict(_RequestDocument):
    """The body of ``PUT /v1/nodes/{name}/runs/{attempt}/{run}/verdict``: the verdict of the node's daemon.

    `attempt` is the attempt document as the node's daemon returns it from ``GET /v1/attempts/{id}``, with
    `report` and `execution` set to null, because the bundle contains them as files. `events` contains all
    durable events.
    """

    attempt: JudgedAttempt
    events: Annotated[list[LiveEvent], FailFast()] = Field([], max_length=MOST_EVENTS)
    files: Annotated[list[BundleFile], FailFast()] = Field(max_length=MOST_FILES)


class RunLost(_RequestDocument):
    """The body that reports a run without a verdict; it is sent to the same route as a verdict.

    `started`: whether submitted code may have run. `refused`: whether the node's daemon refused the
    submission.
    """

    lost: Literal[True]
    reason: str = Field(max_length=1000)
    started: bool = True
    refused: bool = False


class VerdictAnswer(_AnswerDocument):
    """The response to a verdict; `counted` is False if the verdict of another run was recorded first."""

    counted: bool
