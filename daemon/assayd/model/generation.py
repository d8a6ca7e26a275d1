"""A generation: a request in words, on its way to a submission that is validated; and what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.repair import ReplyCost
from assayd.model.report import Verdict
from assayd.model.submission import Peer


class GenerationOutcome(StrEnum):
    """How a generation ended."""

    VALIDATED = "validated"
    """An attempt of it was validated."""
    EXHAUSTED = "exhausted"
    """All answers are used up."""
    STUCK = "stuck"
    """The same failure came back although the code and the way of asking had changed."""
    TIMEOUT = "timeout"
    """Its time is over."""
    PROVIDER_FAILED = "provider_failed"
    """The provider gave no usable reply, after its own retries."""
    TERMINAL = "terminal"
    """The failure is none that new code should be asked for: a policy violation, or an internal error."""
    CANCELLED = "cancelled"
    """Somebody stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A person's hint, which grants a full budget."""

    uid: int
    at: datetime
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One answer to the words themselves, and what became of it.

    `number` counts from 1; `grant` is how many hints there had been. `problem` says why the answer is no
    submission; else the id of its attempt, and of the repair that follows if that fails, are chosen before it
    is submitted.
    """

    number: int
    grant: int
    asked_at: datetime
    reason: str
    text: str
    form: str = "code"
    problem: str | None = None
    parent_id: str | None = None
    attempt_id: str | None = None
    repair_id: str | None = None
    verdict: Verdict | None = None
    cause: str | None = None
    usage: ReplyCost = ReplyCost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One request in words, with all answers to it so far.

    `context` is what came with the words, as the kind declares it. There are at most `max_attempts` answers
    since the last hint, those of repairs included. `attempt_id` is the last attempt that was run.
    `webhook` is a URL that is told of its end.
    """

    id: str
    kind: str
    peer: Peer
    provider: str
    policy: str
    intent: str
    context: Mapping[str, object]
    labels: Mapping[str, str] = field(default_factory=dict)
    max_attempts: int
    started_at: datetime
    ends_at: datetime
    grants: tuple[Grant, ...] = ()
    drafts: tuple[Draft, ...] = ()
    attempt_id: str | None = None
    outcome: GenerationOutcome | None = None
    detail: str | None = None
    finished_at: datetime | None = None
    webhook: str | None = None

    @property
    def uid(self) -> int:
        """Return whose it is."""
        return self.peer.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A validated submission that somebody approved under a name. Versions count from 1, per user and name.

    `chain` names the attempts that led to it, oldest first; `document` is the submission as it was accepted,
    and an empty object where it was not asked for.
    """

    uid: int
    name: str
    version: int
    kind: str
    attempt_id: str
    digest: str
    intent: str | None
    chain: tuple[str, ...]
    approved_by: int
    approved_at: datetime
    bundle: str | None
    document: bytes = b"{}"
