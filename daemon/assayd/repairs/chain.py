"""Recounts a repair attempt by attempt: what each fix changed in the submission before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from assayd.documents import canonical, repair_document, submission_diff
from assayd.model.attempt import Attempt
from assayd.model.bundle import stamp
from assayd.model.repair import Repair, RepairOutcome
from assayd.model.report import Verdict
from assayd.ports.llm import ProviderStep
from assayd.ports.repairs import Document, RepairStore
from assayd.store.generations import DatabaseGenerationStore

ReadSubmission = Callable[[str], Awaitable[Document | None]]
"""Returns what was submitted as an attempt; None when nothing was yet, or it is not kept any more."""


async def diffs_of(repair: Repair, read: ReadSubmission) -> tuple[str | None, ...]:
    """Return what each fix changed; None for one that was not submitted, or is not kept any more."""
    before, diffs = await read(repair.attempt_id), list[str | None]()
    for fix in repair.fixes:
        after = await read(fix.attempt_id) if fix.attempt_id is not None else None
        diffs.append(await diff_of(before, after))
        before = after if fix.attempt_id is not None else before
    return tuple(diffs)


async def diff_of(before: Document | None, after: Document | None) -> str | None:
    """Return what changed between two submissions; None where one of them is not kept any more."""
    if before is None or after is None:
        return None
    return await asyncio.to_thread(submission_diff, before.get("payload"), after.get("payload"))


async def chain_attachments(
    attempt: Attempt,
    verdict: Verdict,
    *,
    repairs: RepairStore,
    generations: DatabaseGenerationStore,
    read: ReadSubmission,
) -> Mapping[str, bytes]:
    """Return what the bundle of an attempt holds of the chain that it belongs to, up to itself.

    That is the repair, and the answer that the attempt was made of, as it came.
    """
    if attempt.parent_id is None and attempt.intent is None:
        return {}  # a fix follows an attempt, and what is written from words has them
    of_it = [one for one in await repairs.of_attempt(attempt.id) if _place(one, attempt) is not None]
    if not of_it:
        return _answer_file(attempt, await _drafted(attempt, generations))
    *before, last = of_it[-1].fixes[: _place(of_it[-1], attempt)]
    outcome = RepairOutcome.REPAIRED if verdict is Verdict.VALIDATED else None
    repair = replace(of_it[-1], fixes=(*before, replace(last, verdict=verdict)), outcome=outcome)
    diffs = await diffs_of(repair, read)
    told = {f"repair_{stamp(attempt.created_at)}.json": canonical(repair_document(repair, diffs))}
    return {**told, **_answer_file(attempt, await repairs.step(repair.id, last.number))}


async def _drafted(attempt: Attempt, generations: DatabaseGenerationStore) -> ProviderStep | None:
    """Return the answer to words that became an attempt, if one did."""
    generation = await generations.of_attempt(attempt)
    drafts = generation.drafts if generation is not None else ()
    number = next((draft.number for draft in drafts if draft.attempt_id == attempt.id), None)
    if generation is None or number is None:
        return None
    return await generations.step(generation.id, number)


def _answer_file(attempt: Attempt, step: ProviderStep | None) -> Mapping[str, bytes]:
    """Return an answer as it came, by its name in the bundle; fixes by rules are no text."""
    if step is None or not step.reply.text:
        return {}
    return {f"answer_{stamp(attempt.created_at)}.txt": step.reply.text.encode("utf-8", "replace")}


def _place(repair: Repair, attempt: Attempt) -> int | None:
    """Return the number of the fix that an attempt runs."""
    return next((fix.number for fix in repair.fixes if fix.attempt_id == attempt.id), None)
