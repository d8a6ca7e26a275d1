"""Stores each webhook message in the transaction of its event until the message is delivered.

The content of a message is determined when it is written, so even a late delivery describes the state at
the time of the event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from assayd.documents import serialize_compact
from assayd.documents.webhooks import build_attempt_message, build_batch_message
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, ItemCounts
from assayd.model.hosts import UndeliveredCount, WebhookMessage, parse_webhook_url
from assayd.store.access import DatabaseAccess
from assayd.store.tables import Values, from_micros, read_optional_time, to_micros, webhook_messages

_MESSAGE = webhook_messages.c
_DUE_DESTINATIONS = (
    select(_MESSAGE.uid, _MESSAGE.origin).where(_MESSAGE.next_try_at <= bindparam("now")).distinct()
)
_DUE_MESSAGES = (
    select(webhook_messages)
    .where(
        _MESSAGE.uid == bindparam("by_uid"),
        _MESSAGE.origin == bindparam("by_origin"),
        _MESSAGE.next_try_at <= bindparam("now"),
    )
    .order_by(_MESSAGE.next_try_at, _MESSAGE.id)
)
_IS_MESSAGE = _MESSAGE.id == bindparam("message")
_SELECT_NEXT = select(func.min(_MESSAGE.next_try_at)).where(_MESSAGE.next_try_at > bindparam("now"))
_COUNT_WAITING = select(func.count()).where(_MESSAGE.uid == bindparam("by_uid"))
_UNDELIVERED = select(func.count(), func.min(_MESSAGE.created_at)).where(_MESSAGE.tries > 0)


def build_attempt_message_row(attempt: Attempt) -> Values | None:
    """Return the row of the message about a verdict, or None if the attempt has no webhook."""
    if attempt.webhook is None or attempt.finished_at is None:
        return None
    body = build_attempt_message(attempt, attempt.finished_at)
    return build_message_row(
        f"attempt_{attempt.id}", attempt.peer.uid, attempt.webhook, attempt.finished_at, body
    )


def build_batch_message_row(batch: Batch, tally: ItemCounts, at: datetime) -> Values | None:
    """Return the row of the message about a batch's end, or None if the batch has no webhook."""
    if batch.webhook is None:
        return None
    return build_message_row(
        f"batch_{batch.id}", batch.peer.uid, batch.webhook, at, build_batch_message(batch, tally, at)
    )


def build_message_row(subject: str, uid: int, url: str, at: datetime, body: object) -> Values:
    """Return the row of a message.

    The id combines subject and time, so each end of a subject has exactly one id.
    """
    micros = to_micros(at)
    return {
        "id": f"{subject}_{micros}",
        "uid": uid,
        "url": url,
        "origin": parse_webhook_url(url).origin,
        "body": serialize_compact(body).decode(),
        "created_at": micros,
        "tries": 0,
        "next_try_at": micros,
    }


class Outbox:
    """A store of webhook messages waiting for delivery, in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._add = access.build_insert_or_ignore(webhook_messages)

    def add(self, connection: Connection, row: Values | None) -> None:
        """Add a message, unless it is None, to the transaction of its event.

        Call `wake_sender` after the commit.
        """
        if row is not None:
            connection.execute(self._add, row)
            self._access.on_message(connection)

    def wake_sender(self) -> None:
        """Wake the webhook sender, because a transaction may have added messages."""
        self._access.messages_added.set()

    async def list_due(self, now: datetime, *, each: int) -> Sequence[WebhookMessage]:
        """Return the messages that are due at `now`, at most `each` for every user and origin."""
        at = {"now": to_micros(now)}

        def fetch(connection: Connection) -> list[WebhookMessage]:
            found: list[WebhookMessage] = []
            for lane in connection.execute(_DUE_DESTINATIONS, at).all():
                wanted = {**at, "by_uid": lane.uid, "by_origin": lane.origin}
                found += map(_read_message, connection.execute(_DUE_MESSAGES.limit(each), wanted).mappings())
            return found

        return await self._access.read(fetch)

    async def next_try_at(self, after: datetime) -> datetime | None:
        """Return the time at which the next message after a given time is due, or None if there is none."""
        at = {"now": to_micros(after)}
        return await self._access.read(
            lambda connection: read_optional_time(connection.execute(_SELECT_NEXT, at).scalar_one())
        )

    async def postpone(self, message_id: str, *, tries: int, until: datetime) -> None:
        """Record a failed delivery and the time of the next try."""
        statement = update(webhook_messages).where(_IS_MESSAGE)
        later = statement.values(tries=tries, next_try_at=to_micros(until))
        await self._execute_write(later, message_id)

    async def remove(self, message_id: str) -> None:
        """Delete a message that was delivered or has failed for the last time."""
        await self._execute_write(delete(webhook_messages).where(_IS_MESSAGE), message_id)

    async def _execute_write(self, statement: Any, message_id: str) -> None:
        # If a power failure undoes this deletion, the message is sent once more.
        await self._access.write(
            lambda connection: connection.execute(statement, {"message": message_id}).close(), durable=False
        )

    async def waiting(self, uid: int) -> int:
        """Count the waiting messages of a user."""
        return await self._access.read(
            lambda connection: int(connection.execute(_COUNT_WAITING, {"by_uid": uid}).scalar_one())
        )

    async def count_undelivered(self) -> UndeliveredCount:
        """Count the messages that have at least one failed delivery.

        The result includes the oldest one's time.
        """
        count, oldest = await self._access.read(lambda connection: connection.execute(_UNDELIVERED).one())
        return UndeliveredCount(count=count, oldest=read_optional_time(oldest))


def _read_message(row: Mapping[Any, Any]) -> WebhookMessage:
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
