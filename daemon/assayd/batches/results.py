"""Reads the results of a batch line by line, as its items lie in the store: flat in memory, however many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from assayd.documents import attempt_body, compact, item_document
from assayd.errors import StoreError
from assayd.model.attempt import Attempt, State
from assayd.model.batch import Item
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

AT_ONCE = 32
"""Items whose reports are read side by side."""

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


async def results(
    batch_id: str, store: DatabaseBatchStore, jobs: DatabaseJobStore, documents: ReadDocuments
) -> AsyncGenerator[bytes, None]:
    """Return a line of JSON per item, with its attempt and report.

    Args:
        batch_id: which batch.
        store: where its items are.
        jobs: where their attempts are.
        documents: gives report and execution of a finished attempt, as JSON text.
    """
    after = 0
    while items := await store.items(batch_id, after=after, limit=AT_ONCE):
        attempts = await jobs.many({item.attempt_id for item in items if item.attempt_id is not None})
        pairs = [(item, attempts.get(item.attempt_id or "")) for item in items]
        yield b"".join(await asyncio.gather(*(_line(item, attempt, documents) for item, attempt in pairs)))
        after = items[-1].line


async def _line(item: Item, attempt: Attempt | None, documents: ReadDocuments) -> bytes:
    head = compact(item_document(item)).removesuffix(b"}")
    return b'%b,"attempt":%b}\n' % (head, await _attempt(attempt, documents))


async def _attempt(attempt: Attempt | None, documents: ReadDocuments) -> bytes:
    if attempt is None:
        return b"null"
    if attempt.state is not State.FINISHED:
        return attempt_body(attempt)
    try:
        report, execution = await documents(attempt)
    except StoreError:  # its bundle was removed, or is damaged: what is on record of it stands
        return attempt_body(attempt)
    return attempt_body(attempt, report=report, execution=execution)
