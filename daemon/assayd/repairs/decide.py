"""Decides what a repair does next. Pure: a history and a time give one step.

    validated ─────────────────────────────> stop: repaired
    cause that no new code should answer ──> stop: terminal
    time over ─────────────────────────────> stop: timeout
    fixes used up ─────────────────────────> stop: exhausted
    same failure for the third time ───────> stop: stuck
    last fix was a duplicate ──────────────> ask: different
    same failure for the second time ──────> ask: rethink
    else ──────────────────────────────────> ask: fix

Source: docs/repair.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from assayd.model.repair import Repair, RepairOutcome, Strategy
from assayd.model.report import Verdict
from assayd.model.run import Cause

TERMINAL_CAUSES = frozenset({Cause.POLICY_VIOLATION.value, Cause.INFRASTRUCTURE.value, Cause.CANCELLED.value})
"""After these the code is not to be tried again: it broke a policy, or it is not the code that failed."""

STUCK_AFTER = 3
"""How often the same failure in a row ends a repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProvider:
    """Ask the provider for a fix."""

    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the repair."""

    outcome: RepairOutcome


def decide(repair: Repair, now: datetime) -> AskProvider | Stop:
    """Return the next step of a repair whose last attempt, if any, has its verdict."""
    if (outcome := _outcome(repair, now)) is not None:
        return Stop(outcome=outcome)
    if repair.fixes and repair.fixes[-1].duplicate:
        return AskProvider(strategy=Strategy.DIFFERENT)
    return AskProvider(strategy=Strategy.RETHINK if _repeats(repair.fingerprints) > 1 else Strategy.FIX)


def _outcome(repair: Repair, now: datetime) -> RepairOutcome | None:
    """Return the first reason to stop, the good one before all others."""
    reasons = (
        (RepairOutcome.REPAIRED, bool(repair.fixes) and repair.fixes[-1].verdict is Verdict.VALIDATED),
        (RepairOutcome.TERMINAL, _is_terminal(repair)),
        (RepairOutcome.TIMEOUT, now >= repair.ends_at),
        (RepairOutcome.EXHAUSTED, len(repair.fixes) >= repair.max_attempts),
        (RepairOutcome.STUCK, _repeats(repair.fingerprints) >= STUCK_AFTER),
    )
    return next((outcome for outcome, holds in reasons if holds), None)


def _is_terminal(repair: Repair) -> bool:
    """Return whether the last attempt ended in a way that no model should be asked about."""
    ran = [fix for fix in repair.fixes if not fix.duplicate]
    if not ran:
        return repair.first_cause in TERMINAL_CAUSES
    return ran[-1].verdict in {Verdict.ERROR, Verdict.CANCELLED} or ran[-1].cause in TERMINAL_CAUSES


def _repeats(fingerprints: tuple[str, ...]) -> int:
    """Count how often the last failure was met in a row."""
    count = 0
    for fingerprint in reversed(fingerprints):
        if fingerprint != fingerprints[-1]:
            break
        count += 1
    return count
