"""The outbox: the attempts that each gateway must publish, with their tickets.

A row is inserted by the transaction that accepts the attempt, and deleted by the transaction that records
its verdict (in `recording`). A node presents a ticket to claim the attempt; only the ticket's digest is
stored, and a new ticket invalidates the old one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, literal, select, update

from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.clock import NOW
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.tables import dispatches

_ROW = dispatches.c
_THIS = _ROW.attempt_id == bindparam("attempt")
_TICKET = update(dispatches).where(_THIS, _ROW.gateway_id == bindparam("gateway"))
_CANCEL = update(dispatches).where(_THIS, _ROW.cancelled_at.is_(None)).values(cancelled_at=NOW)
_SUBMISSION = select(tables.attempts.c.submission).where(tables.attempts.c.id == bindparam("attempt"))


def generate_ticket() -> str:
    """Return a new ticket: 256 random bits in URL-safe Base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def compute_ticket_digest(ticket: str) -> str:
    """Return the SHA-256 digest under which a ticket is stored."""
    return hashlib.sha256(ticket.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMessage:
    """A broker message for a node. `trace` is the span, if any, that the node's daemon continues."""

    attempt: str
    submission: str
    ticket: str
    trace: str | None = None


class DispatchOutbox:
    """The outbox: the messages that this gateway must send to the broker."""

    def __init__(
        self,
        access: DatabaseAccess,
        messages: dict[str, BrokerMessage],
        gateway_id: str,
        notices: GatewayNotices,
    ) -> None:
        self._access = access
        self._messages = messages
        self._gateway_id = gateway_id
        self._notices = notices

    async def message(self, attempt_id: str) -> BrokerMessage | None:
        """Return an attempt's message, or None if the attempt has a verdict or belongs to another gateway."""
        message = self._messages.pop(attempt_id, None)
        if message is not None:
            return message
        ticket = generate_ticket()
        if not await self._renew_ticket(attempt_id, ticket):
            return None
        wanted = {"attempt": attempt_id}
        found = await self._access.read(lambda connection: connection.execute(_SUBMISSION, wanted).scalar())
        return None if found is None else BrokerMessage(attempt=attempt_id, submission=found, ticket=ticket)

    async def _renew_ticket(self, attempt_id: str, ticket: str) -> bool:
        statement = _TICKET.values(ticket_sha256=compute_ticket_digest(ticket), published_at=None)
        values = {"attempt": attempt_id, "gateway": self._gateway_id}
        return await self._access.write(
            lambda connection: connection.execute(statement, values).rowcount == 1
        )

    async def record_published(self, attempt_ids: Sequence[str]) -> None:
        """Record that the broker has confirmed the messages of these attempts."""
        statement = update(dispatches).where(_ROW.attempt_id.in_(attempt_ids)).values(published_at=NOW)
        await self._access.write(lambda connection: connection.execute(statement).close(), durable=False)

    async def record_cancellation(self, attempt_id: str) -> bool:
        """Record durably that an attempt must end. Return False if the attempt has already ended."""

        def apply(connection: Connection) -> bool:
            wanted = {"attempt": attempt_id}
            connection.execute(_CANCEL, wanted)
            there = connection.execute(select(literal(1)).where(_THIS), wanted).scalar() is not None
            if there:
                self._notices.send_notice(connection, "cancelled", attempt=attempt_id)
            return there

        return await self._access.write(apply)
