"""Attempts as a repair sees them: submitted like anybody's, and followed to their verdict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, retry_if_exception

from assayd.aio import back_off
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.scheduler import Scheduler
from assayd.documents import canonical
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.submission import Peer
from assayd.ports.repairs import Document, Subject
from assayd.store.jobs import DatabaseJobStore

WAIT_S = 60.0
UNKNOWN_S = 1.0
"""How long to leave an attempt alone that this run of the daemon does not carry out."""
"""How long one look at the scheduler waits; the repair's own time ends the looking."""

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


async def stored_submission(jobs: DatabaseJobStore, attempt_id: str) -> Document | None:
    """Return what was submitted as an attempt; None when nothing was yet, or it is not kept any more."""
    if await jobs.get(attempt_id) is None:
        return None
    document: Document = json.loads(await jobs.document(attempt_id))
    return document


class AttemptGateway:
    """Implements `ports.repairs.Attempts`."""

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

    async def submit(self, attempt_id: str, submission: Document, *, parent: Attempt) -> None:
        """Submit in the name of the parent's peer; doing it again changes nothing."""
        wanted = {name: value for name, value in submission.items() if name != "repair"}
        document = canonical({**wanted, "parent_id": parent.id})
        origin = AttemptOrigin(peer=parent.peer, attempt_id=attempt_id)
        await self._submit(document, origin)

    async def submit_new(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        """Submit something of its own in the name of a peer; doing it again changes nothing."""
        await self._submit(canonical(dict(submission)), AttemptOrigin(peer=peer, attempt_id=attempt_id))

    async def _submit(self, document: bytes, origin: AttemptOrigin) -> None:
        """Submit, again where the refusal will pass: a full queue, a full disk, a daemon that stops."""
        retrying = AsyncRetrying(retry=retry_if_exception(_will_pass), wait=back_off, sleep=self._sleep)
        await retrying(self._admission.submit_document, document, origin)

    async def finished(self, attempt_id: str) -> Subject:
        """Wait until an attempt has its verdict. Raises: RequestError ``not_found``."""
        while True:
            ended = await self._scheduler.wait(attempt_id, WAIT_S)
            attempt = await self._jobs.get(attempt_id)
            if attempt is None:
                raise RequestError("not_found", f"there is no attempt {attempt_id}")
            if attempt.state is State.FINISHED:
                return await self._subject(attempt)
            if ended is None:
                await self._sleep(UNKNOWN_S)

    async def _subject(self, attempt: Attempt) -> Subject:
        submission = json.loads(await self._jobs.document(attempt.id))
        report, _ = await self._documents(attempt)
        return Subject(attempt=attempt, submission=submission, report=json.loads(report) or {})

    async def submission(self, attempt_id: str) -> Document | None:
        """Return what was submitted; None when nothing was yet, or it is not kept any more."""
        return await stored_submission(self._jobs, attempt_id)

    async def policy(self, submission: Document) -> ExecutionPolicy:
        """Return the effective policy of a submission: its profile as it is now, tightened by the request."""
        return self._admission.policy(await self._admission.read(canonical(dict(submission))))

    async def cancel(self, attempt_id: str) -> None:
        """Ask an attempt to end; one that has ended is left alone."""
        self._scheduler.cancel(attempt_id)


def _will_pass(refusal: BaseException) -> bool:
    return isinstance(refusal, RequestError) and refusal.retryable
