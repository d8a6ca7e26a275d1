"""What gateway and node say to each other, below ``/v1/nodes/{name}``. To the gateway it is hostile input.

A node tells every few seconds how it is, claims what the broker hands it, and brings verdicts. It may write
for runs that it holds, and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.attempts import AttemptDocument

ULID = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
SHA256 = r"^[0-9a-f]{64}$"
NODE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$"

BEAT_S = 5.0
"""How often a node, or a gateway, says that it lives."""
LIVE_S = 15.0
"""How long after its last beat one counts as alive."""
INLINE_BYTES = 64 * 2**10
"""Files of a bundle up to this size come with the verdict; larger ones are sent before it, each by itself."""
MOST_FILES = 400
MOST_EVENTS = 5_000

AttemptId = Annotated[str, Field(pattern=ULID)]
Digest = Annotated[str, Field(pattern=SHA256)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeBeat(_Document):
    """``PUT /v1/nodes/{name}``: how a node is. `runs` are the attempts that its worker has in hand."""

    capacity: int = Field(ge=1, le=4096)
    ready: bool
    reason: str = Field("", max_length=1000)
    draining: bool = False
    version: str = Field(max_length=64)
    engine: str = Field("", max_length=200)
    images: dict[str, str] = Field({}, max_length=256)
    profiles: dict[str, str] = Field({}, max_length=1024)
    runs: list[AttemptId] = Field([], max_length=8192)


class BeatAnswer(_Document):
    """Whether the node is to take work, and why not."""

    consume: bool
    why: str = ""


class CancelledRuns(_Document):
    """``GET /v1/nodes/{name}/cancelled?wait_s=``: the runs that are to end, once there are any."""

    attempts: list[str]


class Claim(_Document):
    """``POST /v1/nodes/{name}/runs``: what a message of the broker said."""

    attempt: AttemptId
    ticket: str = Field(min_length=43, max_length=44, pattern=r"^[A-Za-z0-9+/_-]{43}=?$")


class Claimed(_Document):
    """A run that the node holds now.

    `document` is the body for ``PUT /v1/attempts/{attempt}`` at the node's own daemon, as JSON text; what is
    the cluster's business alone (repairs, webhooks) is not in it. `cancelled`: end it at once. `live`:
    somebody may be following, so its events are sent as they come.
    """

    run: int = Field(ge=1, le=2)
    document: str
    uid: int
    kind: str
    policy: str
    created_at: str
    cancelled: bool = False
    live: bool = True


class LiveEvent(_Document):
    """One event as the node's daemon numbered it; ``seq`` 1 of a run says ``queued`` and is left out."""

    seq: int = Field(ge=1, le=10**15)
    kind: Literal["state", "stage", "unit", "stdout", "stderr", "finished", "gap"]
    at: str = Field(max_length=40)
    body: dict[str, Any]


class LiveEvents(_Document):
    """``POST /v1/nodes/{name}/runs/{attempt}/{run}/events``."""

    events: list[LiveEvent] = Field(max_length=MOST_EVENTS)


class BundleFile(_Document):
    """A file of the bundle; `base64` is its content, unless it was sent before."""

    name: str = Field(max_length=512)
    media_type: str = Field(max_length=100)
    sha256: Digest
    bytes: int = Field(ge=0)
    truncated: bool = False
    base64: str | None = None


class RunVerdict(_Document):
    """``PUT /v1/nodes/{name}/runs/{attempt}/{run}/verdict``: what the node's daemon said of the attempt.

    `attempt` is its attempt document as ``GET /v1/attempts/{id}`` of the node's daemon gives it, without
    `report` and `execution` (null): those are files of the bundle. `events` are all that are durable.
    """

    attempt: AttemptDocument
    events: list[LiveEvent] = Field([], max_length=MOST_EVENTS)
    files: list[BundleFile] = Field(max_length=MOST_FILES)


class RunLost(_Document):
    """The same route, for a run that came to no verdict. `started`: something submitted may have run."""

    lost: Literal[True]
    reason: str = Field(max_length=1000)
    started: bool = True


class VerdictAnswer(_Document):
    """What became of it; `counted` is False when another run's verdict was first."""

    counted: bool
