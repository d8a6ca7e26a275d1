"""The attempt: a submission from acceptance to its verdict; and its bundle, the files of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.document import DOCUMENT, document_field
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.submission import Peer


class State(StrEnum):
    """The processing state of an attempt."""

    QUEUED = "queued"
    """The attempt is accepted and durable, and waits for a slot."""
    CHECKING = "checking"
    """An analysis worker runs the static stages."""
    LEASING = "leasing"
    """The attempt waits for a container, again if an internal error lost the run."""
    RUNNING = "running"
    """A container runs the units."""
    JUDGING = "judging"
    """The kind judges the result, and the bundle is written."""
    FINISHED = "finished"
    """The attempt has a verdict and no longer changes."""


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.CHECKING, State.JUDGING}),
    State.CHECKING: frozenset({State.LEASING, State.JUDGING}),
    State.LEASING: frozenset({State.LEASING, State.RUNNING, State.JUDGING}),
    State.RUNNING: frozenset({State.LEASING, State.JUDGING}),
    State.JUDGING: frozenset({State.FINISHED}),
    State.FINISHED: frozenset(),
}
"""The allowed transitions. An internal error leads to JUDGING from any unfinished state."""

MAX_RUNS = 2
"""The maximum number of runs of an attempt: an attempt is repeated at most once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of a bundle."""

    __pydantic_config__ = DOCUMENT

    name: str = field(metadata=document_field("Name relative to the bundle's directory."))
    bytes: int = field(metadata=document_field("Size."))
    sha256: str = field(metadata=document_field("Digest of the content."))
    media_type: str = field(metadata=document_field("Media type of the content."))
    truncated: bool = field(default=False, metadata=document_field("Whether its content was cut."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An internal error, as reported by an attempt with the verdict `error`."""

    __pydantic_config__ = DOCUMENT

    code: str = field(metadata=document_field("Stable name of the error."))
    message: str = field(metadata=document_field("One sentence for a person."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt without its report and execution record, which are stored in its bundle.

    `timings_s` maps the phases that took place (`queued`, `static`, `lease`, `run`, `report`, `total`) to
    seconds. `bundle` is the written bundle's location relative to the artifact root. `rules` are the
    distinct rules of the attempt's errors. `replay_of` is the id of the replayed attempt. `intent` is the
    natural-language request. `webhook` is a URL that receives the verdict. `enforcement` is the mode of the
    applied policy. If `approvable` is false, the result can't be approved or committed. `max_runs` is the
    sender's limit of runs. `node` is the cluster node that produced the verdict, or None on a single host.
    `distrusted_at` is the time at which an operator declared that node's verdicts untrustworthy. `trace` is
    the attempt's span in the format of `model.trace_context`.
    """

    id: str
    kind: str
    policy: str
    input_digest: str
    created_at: datetime
    peer: Peer
    state: State = State.QUEUED
    verdict: Verdict | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    batch_id: str | None = None
    parent_id: str | None = None
    replay_of: str | None = None
    intent: str | None = None
    webhook: str | None = None
    trace: str | None = None
    attempt_number: int = 1
    run_number: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    timings_s: Mapping[str, float] = field(default_factory=dict)
    warm: bool | None = None
    cause: str | None = None
    rules: tuple[str, ...] = ()
    enforcement: Enforcement | None = None
    approvable: bool = True
    max_runs: int | None = None
    node: str | None = None
    distrusted_at: datetime | None = None
    bundle: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    error: Failure | None = None

    @property
    def flow(self) -> tuple[int, str]:
        """Return the attempt's fair-queue flow: the user id, with the batch id or the process id."""
        return self.peer.uid, self.batch_id or str(self.peer.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one run of an attempt, before they are written.

    `files` maps names (relative paths that the daemon chooses, see docs/result-contract.md) to content;
    `truncated` names the truncated files. `manifest` holds additional fields of ``manifest.json``.
    """

    attempt_id: str
    run_number: int
    created_at: datetime
    category: str
    platform: str
    files: Mapping[str, bytes]
    truncated: frozenset[str] = frozenset()
    manifest: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBundle:
    """A written bundle, with its location and its files."""

    location: str
    artifacts: tuple[Artifact, ...]


BLOCK_BYTES = 4096
"""The assumed block size of the file system, in bytes."""


def compute_disk_bytes(artifacts: Iterable[Artifact]) -> int:
    """Return the disk space in bytes, rounded up to whole blocks, of the files of a bundle."""
    return sum(-(-artifact.bytes // BLOCK_BYTES) * BLOCK_BYTES for artifact in artifacts)


SECOND_RUN = ".run2"
"""The suffix of the location of an attempt's second bundle."""

ATTESTATION = "attestation.json"
"""The file name of the attestation in a bundle."""


def find_replaced_location(location: str) -> str | None:
    """Return the location of the first bundle that a second bundle replaces, or None for a first bundle."""
    return location.removesuffix(SECOND_RUN) if location.endswith(SECOND_RUN) else None


def format_timestamp(created_at: datetime) -> str:
    """Return the timestamp used in the names of bundles and their files."""
    return created_at.strftime("%Y%m%dT%H%M%S.%fZ")
