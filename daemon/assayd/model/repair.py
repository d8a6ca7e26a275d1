"""A repair: failed attempt, fix asked for, next attempt, until validated or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from assayd.model.report import Verdict


class RepairOutcome(StrEnum):
    """How a repair ended."""

    REPAIRED = "repaired"
    """An attempt with a fix was validated."""
    EXHAUSTED = "exhausted"
    """All attempts are used up."""
    STUCK = "stuck"
    """The same failure came back although the code and the way of asking had changed."""
    TIMEOUT = "timeout"
    """The time for the whole repair is over."""
    PROVIDER_FAILED = "provider_failed"
    """The provider gave no usable reply, after its own retries."""
    TERMINAL = "terminal"
    """The failure is none that new code should be asked for: a policy violation, or an internal error."""
    CANCELLED = "cancelled"
    """Somebody stopped it."""


class Strategy(StrEnum):
    """How a fix is asked for."""

    FIX = "fix"
    """Show the failure and ask for a correction."""
    DIFFERENT = "different"
    """Report that the last fix had been given before, and ask for another."""
    RETHINK = "rethink"
    """Report that the failure came back, and ask for another approach to the whole passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCost:
    """What one reply cost. Tokens are None where the provider does not count them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    took_s: float = 0.0


UNUSABLE = "fix.unusable"
"""The cause of a fix that does not fit into the submission, e.g. because no step has its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One reply of a provider, and what became of it.

    `number` counts from 1. A duplicate was given before and is not run: it has no attempt. The id of an
    attempt is chosen before it is submitted. `fingerprint` is that of the failure which the attempt ended
    with; None while it runs and when it was validated. `digest` is that of the normal form of the patched
    submission. Where `form` is ``files`` or ``steps``, `patched_code` is these as JSON.
    """

    number: int
    strategy: Strategy
    asked_at: datetime
    error: str = ""
    digest: str
    reason: str
    passage: str
    patched_code: str
    form: str = "code"
    duplicate: bool = False
    attempt_id: str | None = None
    verdict: Verdict | None = None
    cause: str | None = None
    fingerprint: str | None = None
    usage: ReplyCost = ReplyCost()

    @property
    def unusable(self) -> bool:
        """Return whether it does not fit into the submission: it has no attempt, and it counts."""
        return self.cause == UNUSABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One repair of one failed attempt, with all fixes so far.

    `first_fingerprint` and `first_digest` are those of the attempt that it began with; None until that has
    failed. There are at most `max_attempts` fixes. All of it must be over at `ends_at`, which counts from
    then. `granted_by` is the user who began it with something of their own, and a full budget;
    `generation_id` the generation that it is part of.
    """

    id: str
    attempt_id: str
    kind: str
    provider: str
    uid: int
    max_attempts: int
    started_at: datetime
    ends_at: datetime
    first_fingerprint: str | None = None
    first_digest: str | None = None
    first_cause: str | None = None
    fixes: tuple[Fix, ...] = ()
    hint: str | None = None
    granted_by: int | None = None
    generation_id: str | None = None
    fallback: Mapping[str, object] | None = None
    outcome: RepairOutcome | None = None
    detail: str | None = None
    finished_at: datetime | None = None

    @property
    def last_attempt_id(self) -> str:
        """Name the attempt that is to be fixed next: the newest that was run."""
        ran = [fix.attempt_id for fix in self.fixes if fix.attempt_id is not None]
        return ran[-1] if ran else self.attempt_id

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Return the failures in the order in which they were met, one per attempt that was run."""
        found = (fix.fingerprint for fix in self.fixes if fix.fingerprint is not None)
        return tuple(one for one in (self.first_fingerprint, *found) if one is not None)

    @property
    def digests(self) -> frozenset[str | None]:
        """Return the normal forms of everything that was tried, over the whole history."""
        return frozenset({self.first_digest, *(fix.digest for fix in self.fixes)})
