"""Provides attempts to chains: submits them for users, waits for their verdicts, and compares them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from tenacity import AsyncRetrying, retry_if_exception

from assayd.aio import compute_tenacity_delay_s
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.scheduler import Scheduler
from assayd.documents import build_submission_diff, canonical
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State, format_timestamp
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.jobs import DatabaseJobStore
from assayd_chains.documents import to_repair_document
from assayd_chains.model import Answer, Document, Outcome, Repair
from assayd_chains.provider import ProviderStep
from assayd_chains.store import DatabaseChainStore

WAIT_S = 60.0
"""Seconds per wait for the scheduler, which is repeated until the chain's time limit."""
FOREIGN_POLL_S = 1.0
"""Seconds between two checks of an attempt that another process runs."""

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]
ReadSubmission = Callable[[str], Awaitable[Document | None]]
"""A function that returns an attempt's submission, or None if there is none or if it was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSubmission:
    """A finished attempt with its submission and its report."""

    attempt: Attempt
    submission: Document
    report: Document

    @property
    def payload(self) -> dict[str, object]:
        """Return the payload of the submission. Raises: TypeError, if the payload isn't a JSON object."""
        payload = self.submission.get("payload")
        if not isinstance(payload, dict):
            raise TypeError("a submission on record has no payload")
        return payload


class AttemptClient(Protocol):
    """The interface through which a chain submits and follows attempts."""

    async def submit(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        """Submit a document on behalf of a peer, as the attempt with the given id.

        Repeated submission under the same id has no effect. Raises: RequestError, if the submission is
        refused.
        """
        ...

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        """Wait until an attempt has a verdict, and return it with its submission and report.

        Raises: RequestError ``not_found``.
        """
        ...

    async def submission(self, attempt_id: str) -> Document | None:
        """Return an attempt's submission, or None if the attempt isn't stored yet or was deleted."""
        ...

    async def policy(self, submission: Document, *, peer: Peer) -> ExecutionPolicy:
        """Return the effective policy of a submission. Raises: RequestError, e.g. ``policy.unknown``."""
        ...

    async def cancel(self, attempt_id: str) -> None:
        """Request the cancellation of an attempt. An attempt that has already ended isn't changed."""
        ...

    async def trace(self, attempt_id: str) -> str | None:
        """Return the trace context of an attempt as text, or None if it has no trace or was deleted."""
        ...


class DaemonAttempts:
    """A client of this daemon's own attempts. Implements `AttemptClient`."""

    def __init__(
        self,
        *,
        admission: Admission,
        scheduler: Scheduler,
        jobs: DatabaseJobStore,
        documents: ReadDocuments,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._admission = admission
        self._scheduler = scheduler
        self._jobs = jobs
        self._documents = documents
        self._sleep = sleep

    async def submit(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        """Submit a document on behalf of a peer.

        The call is retried while the queue or disk is full or the daemon is stopping.

        Raises: RequestError, if the submission is refused for another reason.
        """
        document = await asyncio.to_thread(canonical, dict(submission))
        origin = AttemptOrigin(peer=peer, attempt_id=attempt_id)
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_temporary_refusal), wait=compute_tenacity_delay_s, sleep=self._sleep
        )
        await retrying(self._admission.submit_document, document, origin)

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        """Wait until an attempt has a verdict, and return it with its submission and report.

        Raises: RequestError ``not_found``.
        """
        while True:
            ended = await self._scheduler.wait(attempt_id, WAIT_S)
            attempt = await self._jobs.get(attempt_id)
            if attempt is None:
                raise RequestError("not_found", f"attempt {attempt_id} doesn't exist")
            if attempt.state is State.FINISHED:
                submission = await self._read_submission(attempt)
                report, _ = await self._documents(attempt)
                read = await self._scheduler.budget.parse_in_turn(report, attempt.peer.uid, json.loads)
                return FinishedSubmission(attempt=attempt, submission=submission, report=read or {})
            if ended is None:
                await self._sleep(FOREIGN_POLL_S)

    async def submission(self, attempt_id: str) -> Document | None:
        """Return an attempt's submission, or None if the attempt isn't stored yet or was deleted."""
        attempt = await self._jobs.get(attempt_id)
        return None if attempt is None else await self._read_submission(attempt)

    async def _read_submission(self, attempt: Attempt) -> Document:
        """Return an attempt's submission. Only one large submission is read at a time."""
        budget, uid = self._scheduler.budget, attempt.peer.uid
        async with budget.reading(await self._jobs.document_size(attempt.id), uid):
            document = await self._jobs.document(attempt.id)
            return await budget.parse(document, uid, _parse_json_object)

    async def policy(self, submission: Document, *, peer: Peer) -> ExecutionPolicy:
        """Return a submission's effective policy: the current profile, tightened by the request."""
        document, uid = await asyncio.to_thread(canonical, dict(submission)), peer.uid
        return self._admission.policy(await self._admission.read_submission_in_turn(document, uid))

    async def cancel(self, attempt_id: str) -> None:
        """Request the cancellation of an attempt. An attempt that has already ended isn't changed."""
        self._scheduler.cancel(attempt_id)

    async def trace(self, attempt_id: str) -> str | None:
        """Return the trace context of an attempt as text, or None if it has no trace or was deleted."""
        attempt = await self._jobs.get(attempt_id)
        return attempt.trace if attempt is not None else None


async def submit_fallback_rules(attempts: AttemptClient, repair: Repair) -> None:
    """Submit a repair's accepted fallback rules in place of the code.

    Nothing is submitted if no rules were accepted, if they were submitted before, or if the code was deleted.
    """
    fallback = repair.fallback or {}
    attempt_id, before = fallback.get("attempt_id"), await attempts.submission(repair.attempt_id)
    if before is None or not isinstance(attempt_id, str):
        return
    if await attempts.submission(attempt_id) is not None:
        return
    parent = await attempts.finished(repair.attempt_id)
    kept = {name: value for name, value in before.items() if name != "repair"}
    payload = {**parent.payload, "code": fallback["rules"]}
    document = {**kept, "payload": payload, "parent_id": repair.attempt_id}
    await attempts.submit(attempt_id, document, peer=parent.attempt.peer)


def _is_temporary_refusal(refusal: BaseException) -> bool:
    return isinstance(refusal, RequestError) and refusal.retryable


async def load_stored_submission(jobs: DatabaseJobStore, attempt_id: str) -> Document | None:
    """Return an attempt's submission, or None if the attempt isn't stored yet or was deleted."""
    if await jobs.get(attempt_id) is None:
        return None
    return await asyncio.to_thread(_parse_json_object, await jobs.document(attempt_id))


def _parse_json_object(document: bytes) -> Document:
    found: Document = json.loads(document)
    return found


async def list_diffs(
    before: str | None, answers: Sequence[Answer], read: ReadSubmission
) -> tuple[str | None, ...]:
    """Return each answer's diff from the previous submission, or None if a submission isn't stored.

    Args:
        before: the attempt that the first answer follows, if any.
        answers: the answers in order of creation.
        read: the function that reads the submission of an attempt.
    """
    old, diffs = await read(before) if before is not None else None, list[str | None]()
    for answer in answers:
        new = await read(answer.attempt_id) if answer.attempt_id is not None else None
        diffs.append(await _diff_payloads(old, new))
        old = new if answer.attempt_id is not None else old
    return tuple(diffs)


async def _diff_payloads(before: Document | None, after: Document | None) -> str | None:
    if before is None or after is None:
        return None
    return await asyncio.to_thread(build_submission_diff, before.get("payload"), after.get("payload"))


async def build_attachments(
    attempt: Attempt, verdict: Verdict, *, store: DatabaseChainStore, jobs: DatabaseJobStore
) -> Mapping[str, bytes]:
    """Return the files that describe an attempt's chain up to this attempt, for the attempt's bundle.

    The files are the repair document and the raw answer from which the attempt was built. The result is empty
    if the attempt doesn't belong to a chain.
    """
    if attempt.parent_id is None and attempt.intent is None:
        return {}  # fixes have a parent, and generated code has fixes
    mine = [
        repair
        for repair in await store.repairs_of(attempt.id)
        if _find_fix_number(repair, attempt) is not None
    ]
    if not mine:
        return _build_answer_file(attempt, await _find_draft_step(attempt, store))
    *before, last = mine[-1].fixes[: _find_fix_number(mine[-1], attempt)]
    outcome = Outcome.VALIDATED if verdict is Verdict.VALIDATED else None
    repair = replace(mine[-1], fixes=(*before, replace(last, verdict=verdict)), outcome=outcome)
    diffs = await list_diffs(repair.attempt_id, repair.fixes, partial(load_stored_submission, jobs))
    shown = {
        f"repair_{format_timestamp(attempt.created_at)}.json": canonical(to_repair_document(repair, diffs))
    }
    return {**shown, **_build_answer_file(attempt, await store.step(repair.id, last.number, draft=False))}


async def _find_draft_step(attempt: Attempt, store: DatabaseChainStore) -> ProviderStep | None:
    """Return the provider's draft from which this attempt was made, or None if no draft was its source."""
    chain = await store.find_generation(attempt)
    drafts = chain.drafts if chain is not None else ()
    number = next((draft.number for draft in drafts if draft.attempt_id == attempt.id), None)
    if chain is None or number is None:
        return None
    return await store.step(chain.id, number, draft=True)


def _build_answer_file(attempt: Attempt, step: ProviderStep | None) -> Mapping[str, bytes]:
    """Return the raw answer, keyed by its file name in the bundle.

    The result is empty for edits by the provider `rules`.
    """
    if step is None or not step.reply.text:
        return {}
    return {f"answer_{format_timestamp(attempt.created_at)}.txt": step.reply.text.encode("utf-8", "replace")}


def _find_fix_number(repair: Repair, attempt: Attempt) -> int | None:
    """Return the number of the fix that an attempt runs, or None if the attempt doesn't run a fix."""
    return next((fix.number for fix in repair.fixes if fix.attempt_id == attempt.id), None)
