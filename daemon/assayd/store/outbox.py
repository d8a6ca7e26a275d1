"""Messages to webhooks in the database: written in the transaction of what they tell, gone when delivered.

What a message says is decided when it is written, so that it tells of that moment whenever it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from assayd.documents import compact
from assayd.documents.webhooks import attempt_message, batch_message
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, Tally
from assayd.model.webhook import Undelivered, WebhookMessage, read_webhook_url
from assayd.store.access import DatabaseAccess
from assayd.store.rows import Values, from_micros, read_moment, to_micros
from assayd.store.tables import webhook_messages

_MESSAGE = webhook_messages.c
_LANES = select(_MESSAGE.uid, _MESSAGE.origin).where(_MESSAGE.next_try_at <= bindparam("now")).distinct()
_OF_LANE = (
    select(webhook_messages)
    .where(
        _MESSAGE.uid == bindparam("by_uid"),
        _MESSAGE.origin == bindparam("by_origin"),
        _MESSAGE.next_try_at <= bindparam("now"),
    )
    .order_by(_MESSAGE.next_try_at, _MESSAGE.id)
)
_THIS = _MESSAGE.id == bindparam("message")
_NEXT = select(func.min(_MESSAGE.next_try_at)).where(_MESSAGE.next_try_at > bindparam("now"))
_WAITING = select(func.count()).where(_MESSAGE.uid == bindparam("by_uid"))
_UNDELIVERED = select(func.count(), func.min(_MESSAGE.created_at)).where(_MESSAGE.tries > 0)


def message_of_attempt(attempt: Attempt) -> Values | None:
    """Return the row that tells of a verdict; None where nobody asked for it."""
    if attempt.webhook is None or attempt.finished_at is None:
        return None
    body = attempt_message(attempt, attempt.finished_at)
    return message_row(f"attempt_{attempt.id}", attempt.peer.uid, attempt.webhook, attempt.finished_at, body)


def message_of_batch(batch: Batch, tally: Tally, at: datetime) -> Values | None:
    """Return the row that tells of the end of a batch; None where nobody asked for it."""
    if batch.webhook is None:
        return None
    return message_row(
        f"batch_{batch.id}", batch.peer.uid, batch.webhook, at, batch_message(batch, tally, at)
    )


def message_row(subject: str, uid: int, url: str, at: datetime, body: object) -> Values:
    """Return the row of a message. Its id is subject and time, so that no end is sent under two ids."""
    micros = to_micros(at)
    return {
        "id": f"{subject}_{micros}",
        "uid": uid,
        "url": url,
        "origin": read_webhook_url(url).origin,
        "body": compact(body).decode(),
        "created_at": micros,
        "tries": 0,
        "next_try_at": micros,
    }


class Outbox:
    """Keeps messages until they are delivered, in SQLite or PostgreSQL, and takes new ones."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._add = access.insert_or_nothing(webhook_messages)

    def add(self, connection: Connection, row: Values | None) -> None:
        """Add a message to the transaction of what it tells, if there is one; `announce` after the commit."""
        if row is not None:
            connection.execute(self._add, row)
            self._access.on_message(connection)

    def announce(self) -> None:
        """Wake who sends, now that a message may be on record."""
        self._access.messages_added.set()

    async def due(self, now: datetime, *, each: int) -> Sequence[WebhookMessage]:
        """Return what is to be sent now: of every user and origin the first so many."""
        at = {"now": to_micros(now)}

        def fetch(connection: Connection) -> list[WebhookMessage]:
            found: list[WebhookMessage] = []
            for lane in connection.execute(_LANES, at).all():
                wanted = {**at, "by_uid": lane.uid, "by_origin": lane.origin}
                found += map(_read, connection.execute(_OF_LANE.limit(each), wanted).mappings())
            return found

        return await self._access.read(fetch)

    async def next_try(self, after: datetime) -> datetime | None:
        """Return when the next message is due after a time; None when there is none."""
        at = {"now": to_micros(after)}
        return await self._access.read(
            lambda connection: read_moment(connection.execute(_NEXT, at).scalar_one())
        )

    async def postpone(self, message_id: str, *, tries: int, until: datetime) -> None:
        """Record that a try has failed, and when the next is due."""
        statement = update(webhook_messages).where(_THIS)
        later = statement.values(tries=tries, next_try_at=to_micros(until))
        await self._write(later, message_id)

    async def remove(self, message_id: str) -> None:
        """Forget a message: it was delivered, or given up."""
        await self._write(delete(webhook_messages).where(_THIS), message_id)

    async def _write(self, statement: Any, message_id: str) -> None:
        # What a loss of power forgets of this is sent once more.
        await self._access.write(
            lambda connection: connection.execute(statement, {"message": message_id}).close(), durable=False
        )

    async def waiting(self, uid: int) -> int:
        """Count the messages of a user."""
        return await self._access.read(
            lambda connection: int(connection.execute(_WAITING, {"by_uid": uid}).scalar_one())
        )

    async def undelivered(self) -> Undelivered:
        """Count the messages whose tries have failed so far."""
        count, oldest = await self._access.read(lambda connection: connection.execute(_UNDELIVERED).one())
        return Undelivered(count=count, oldest=read_moment(oldest))


def _read(row: Mapping[Any, Any]) -> WebhookMessage:
    return WebhookMessage(
        id=row["id"],
        uid=row["uid"],
        url=row["url"],
        origin=row["origin"],
        body=row["body"],
        created_at=from_micros(row["created_at"]),
        next_try_at=from_micros(row["next_try_at"]),
        tries=row["tries"],
    )
