"""An attempt: one submission on its way from accepted to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.document import DOCUMENT, about
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.submission import Peer


class State(StrEnum):
    """Where an attempt is."""

    QUEUED = "queued"
    """Accepted and durable; waits for a slot."""
    CHECKING = "checking"
    """Its static stages run in an analysis worker."""
    LEASING = "leasing"
    """It waits for a container; once more when the run was lost through an internal error."""
    RUNNING = "running"
    """Its units run."""
    JUDGING = "judging"
    """The result is judged and the bundle written."""
    FINISHED = "finished"
    """It has a verdict; nothing changes any more."""


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.CHECKING, State.JUDGING}),
    State.CHECKING: frozenset({State.LEASING, State.JUDGING}),
    State.LEASING: frozenset({State.LEASING, State.RUNNING, State.JUDGING}),
    State.RUNNING: frozenset({State.LEASING, State.JUDGING}),
    State.JUDGING: frozenset({State.FINISHED}),
    State.FINISHED: frozenset(),
}
"""Every move that an attempt may make. An internal error leads to JUDGING from anywhere."""

MAX_RUNS = 2
"""An attempt is run again at most once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of a bundle."""

    __pydantic_config__ = DOCUMENT

    name: str = field(metadata=about("Name relative to the bundle's directory."))
    bytes: int = field(metadata=about("Size."))
    sha256: str = field(metadata=about("Digest of the content."))
    media_type: str = field(metadata=about("Media type of the content."))
    truncated: bool = field(default=False, metadata=about("Whether its content was cut."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An internal error, as an attempt with verdict `error` shows it."""

    __pydantic_config__ = DOCUMENT

    code: str = field(metadata=about("Stable name of the error."))
    message: str = field(metadata=about("One sentence for a person."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt without its report and execution, which are in its bundle.

    `timings_s` has the keys queued, static, lease, run, report, total (those that happened).
    `bundle` is the bundle's location relative to the artifact root, once it is written. `rules` are those
    of its errors, each once. `replay_of` is the attempt that it repeats. `intent` is the request, in
    words. `webhook` is a URL that receives the verdict. `enforcement` is the mode of the policy that it was
    judged under; a result that is not `approvable` can't be approved or committed. `max_runs` is the limit of
    runs that its sender set. `node` is the node of a cluster that judged it, None on a single host;
    `distrusted_at` is the time at which an operator distrusted that node's verdicts. `trace` is its span, as
    `model.trace_context` reads it.
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
        """Return the flow that it waits in: user id, then its batch's id or else the peer's process id."""
        return self.peer.uid, self.batch_id or str(self.peer.pid)
