"""Looks, at the end of a repair that came to nothing, whether rules can be offered instead."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from assayd.analysis.analyst import Analyst, WorkerDied
from assayd.errors import AssaydError
from assayd.kind import Kind
from assayd.model.repair import Repair, RepairOutcome
from assayd.ports.repairs import Attempts, Subject
from assayd.repairs.fallback.offer import EarlierTry, offer, trigger_of

log = structlog.get_logger()


async def offer_rules(
    repair: Repair, outcome: RepairOutcome, *, kind: Kind | None, attempts: Attempts, analyst: Analyst
) -> Mapping[str, object] | None:
    """Return the offer; None where there is nothing to offer, or nothing left to make it of."""
    if kind is None or outcome in {RepairOutcome.REPAIRED, RepairOutcome.CANCELLED}:
        return None
    try:
        subjects = [await attempts.finished(attempt_id) for attempt_id in _finished(repair)]
        tries = [EarlierTry(cause=one.attempt.cause, report=one.report) for one in subjects]
        for subject in reversed(subjects):
            taken = await analyst.taken(kind, _payload(subject), flow=subject.attempt.flow)
            if not taken.texts:
                return None
            if taken.fields:
                break
        trigger = trigger_of(outcome, tries, taken)
        return None if trigger is None else offer(trigger, tries, taken)
    except (AssaydError, WorkerDied) as problem:
        # An attempt was removed meanwhile, its source is too much to read, or an internal error: the repair
        # has its outcome all the same.
        log.warning("repair.nothing_offered", repair_id=repair.id, problem=str(problem))
        return None


def _finished(repair: Repair) -> list[str]:
    """Name the attempts whose end is known: the one that the repair is of, and those of its fixes."""
    ran = (fix.attempt_id for fix in repair.fixes if fix.verdict is not None)
    return [repair.attempt_id, *(attempt_id for attempt_id in ran if attempt_id is not None)]


def _payload(subject: Subject) -> dict[str, object]:
    payload = subject.submission.get("payload")
    return dict(payload) if isinstance(payload, dict) else {}
