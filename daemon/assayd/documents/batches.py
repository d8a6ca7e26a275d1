"""Write batches and their items as the contract names them."""

from __future__ import annotations

from assayd.documents.attempts import Document, timestamp
from assayd.model.batch import Item, Received, Tally
from assayd.ports.batches import Progress


def batch_document(progress: Progress, received: Received | None = None) -> Document:
    """Write a batch; `received` is what became of lines that were just sent."""
    batch = progress.batch
    return {
        "id": batch.id,
        "name": batch.name,
        "state": batch.state,
        "created_at": timestamp(batch.created_at),
        "cancelled_at": timestamp(batch.cancelled_at),
        "finished_at": timestamp(batch.finished_at),
        "peer": {"uid": batch.peer.uid, "gid": batch.peer.gid, "pid": batch.peer.pid},
        "concurrency": batch.concurrency,
        "dedupe": batch.dedupe,
        "complete": batch.complete,
        "counts": counts_document(progress.tally, progress.running),
        "received": received and _received(received),
    }


def counts_document(tally: Tally, running: int) -> Document:
    """Write how many items came to what."""
    return {
        "total": tally.total,
        "waiting": tally.waiting,
        "running": running,
        "validated": tally.validated,
        "failed": tally.failed,
        "error": tally.error,
        "cancelled": tally.cancelled,
        "malformed": tally.malformed,
    }


def progress_document(progress: Progress) -> Document:
    """Write an event of a batch. Each holds all that is known at the time, so none has to be read again."""
    moment = int(progress.at.timestamp() * 1_000_000)
    return {
        "id": str(moment),
        "batch_id": progress.batch.id,
        "kind": "finished" if progress.is_over else "progress",
        "at": timestamp(progress.at),
        "body": {"state": progress.batch.state, **counts_document(progress.tally, progress.running)},
    }


def item_document(item: Item) -> Document:
    """Write an item."""
    return {
        "line": item.line,
        "input_digest": item.input_digest,
        "attempt_id": item.attempt_id,
        "verdict": item.verdict,
        "cause": item.cause,
        "rules": list(item.rules),
        "error": item.error and {"code": item.error.code, "message": item.error.message},
    }


def _received(received: Received) -> Document:
    return {
        "lines": received.lines,
        "added": received.added,
        "known": received.known,
        "malformed": received.malformed,
        "conflicting": list(received.conflicting),
    }
