"""Recounts a repair attempt by attempt: what each fix changed in the submission before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from assayd.documents import canonical, repair_document, submission_diff
from assayd.model.attempt import Attempt
from assayd.model.repair import Repair, RepairOutcome
from assayd.model.report import Verdict
from assayd.ports.artifacts import stamp
from assayd.ports.repairs import Document, RepairStore

ReadSubmission = Callable[[str], Awaitable[Document | None]]
"""Returns what was submitted as an attempt; None when nothing was yet, or it is not kept any more."""


async def diffs_of(repair: Repair, read: ReadSubmission) -> tuple[str | None, ...]:
    """Return what each fix changed; None for one that was not submitted, or is not kept any more."""
    before, diffs = await read(repair.attempt_id), list[str | None]()
    for fix in repair.fixes:
        after = await read(fix.attempt_id) if fix.attempt_id is not None else None
        diffs.append(await _diff(before, after))
        before = after if fix.attempt_id is not None else before
    return tuple(diffs)


async def _diff(before: Document | None, after: Document | None) -> str | None:
    if before is None or after is None:
        return None
    return await asyncio.to_thread(submission_diff, before.get("payload"), after.get("payload"))


async def repair_attachments(
    attempt: Attempt, verdict: Verdict, *, store: RepairStore, read: ReadSubmission
) -> Mapping[str, bytes]:
    """Return what the bundle of an attempt holds of the repair that it belongs to, up to itself."""
    of_it = [repair for repair in await store.of_attempt(attempt.id) if _place(repair, attempt) is not None]
    if not of_it:
        return {}
    *before, last = of_it[-1].fixes[: _place(of_it[-1], attempt)]
    outcome = RepairOutcome.REPAIRED if verdict is Verdict.VALIDATED else None
    repair = replace(of_it[-1], fixes=(*before, replace(last, verdict=verdict)), outcome=outcome)
    diffs = await diffs_of(repair, read)
    return {f"repair_{stamp(attempt.created_at)}.json": canonical(repair_document(repair, diffs))}


def _place(repair: Repair, attempt: Attempt) -> int | None:
    """Return the number of the fix that an attempt runs."""
    return next((fix.number for fix in repair.fixes if fix.attempt_id == attempt.id), None)
