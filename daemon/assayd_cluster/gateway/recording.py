"""The rows of attempts as a gateway writes them: an accept is one statement, and so is a verdict.

With the attempt goes its row in the outbox, with the verdict that row goes away, and the other gateways are
told. Each statement costs gateway and server about as much as all that is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Table, bindparam, delete, exists, func, literal_column, select, true
from sqlalchemy.dialects.postgresql import Insert, insert

from assayd.documents import compact
from assayd.errors import StoreError
from assayd.model.attempt import Attempt
from assayd.store import tables
from assayd.store.rows import Values
from assayd.store.server import listed_rows
from assayd_cluster.clock import NOW
from assayd_cluster.gateway.dispatches import Message, new_ticket, ticket_digest
from assayd_cluster.gateway.notices import CHANNEL, Notices
from assayd_cluster.tables import dispatches, gateways


def _new(table: Table) -> Insert:
    """Return the insert of a row whose values are bound by table and column, or of nothing."""
    values = {each.name: bindparam(f"{table.name}_{each.name}", type_=each.type) for each in table.c}
    return insert(table).values(values).on_conflict_do_nothing()


def _bound(table: Table, row: Mapping[str, object]) -> Values:
    return {f"{table.name}_{name}": value for name, value in row.items()}


_ATTEMPT = _new(tables.attempts).returning(tables.attempts.c.id).cte("attempt")
# Only with the attempt: foreign keys are looked at when the statement ends.
_SUBMISSION = (
    insert(tables.submissions)
    .from_select(
        ["digest", "document"],
        select(
            bindparam("digest", type_=tables.submissions.c.digest.type),
            bindparam("document", type_=tables.submissions.c.document.type),
        ).select_from(_ATTEMPT),
    )
    .on_conflict_do_nothing()
    .cte("submission")
)
# Only of a gateway that lives: one that was taken for dead accepts nothing.
_DISPATCH = (
    insert(dispatches)
    .from_select(
        ["attempt_id", "gateway_id", "ticket_sha256", "created_at"],
        select(_ATTEMPT.c.id, gateways.c.id, bindparam("ticket", type_=dispatches.c.ticket_sha256.type), NOW)
        .select_from(_ATTEMPT.join(gateways, true()))
        .where(gateways.c.id == bindparam("gateway")),
    )
    .returning(dispatches.c.attempt_id)
    .cte("dispatch")
)
_ACCEPT = select(
    select(func.count()).select_from(_ATTEMPT).scalar_subquery().label("accepted"),
    select(func.count()).select_from(_DISPATCH).scalar_subquery().label("dispatched"),
).add_cte(_SUBMISSION)

_VERDICT = _new(tables.verdicts).returning(tables.verdicts.c.attempt_id).cte("verdict")
_LISTED = listed_rows(tables.events)
_EVENTS = (
    insert(tables.events)
    .from_select(
        [each.name for each in tables.events.c],
        select(*_LISTED.c).select_from(_LISTED.join(_VERDICT, true())),
    )
    .on_conflict_do_nothing()
    .cte("happened")
)
_GONE = (
    delete(dispatches)
    .where(dispatches.c.attempt_id.in_(select(_VERDICT.c.attempt_id)))
    .returning(dispatches.c.attempt_id)
    .cte("gone")
)
_TOLD = (
    select(func.pg_notify(bindparam("channel"), bindparam("notice")))
    # Where there is no other gateway, nobody is told.
    .where(exists(select(literal_column("1")).select_from(_GONE)))
    .where(select(func.count()).select_from(gateways).scalar_subquery() > 1)
    .scalar_subquery()
)
_FINISH = select(
    select(func.count()).select_from(_VERDICT).scalar_subquery().label("first"), _TOLD.label("told")
).add_cte(_EVENTS, _GONE)


class GatewayJobRows:
    """Implements `store.recorder.JobRows` on PostgreSQL."""

    def __init__(self, gateway_id: str, notices: Notices) -> None:
        self._gateway_id = gateway_id
        self._notices = notices
        self.messages: dict[str, Message] = {}
        """Those of attempts that were accepted here and are not published yet."""

    def accept(self, connection: Connection, attempt: Attempt, row: Values, document: bytes) -> bool:
        """Write a new attempt, its submission and its row in the outbox; False where it is on record.

        Raises: StoreError ``gateway.superseded``.
        """
        ticket, submission = new_ticket(), str(row["submission"])
        values = {
            **_bound(tables.attempts, row),
            "digest": submission,
            "document": document,
            "gateway": self._gateway_id,
            "ticket": ticket_digest(ticket),
        }
        done = connection.execute(_ACCEPT, values).one()
        if done.accepted and not done.dispatched:
            message = f"gateway {self._gateway_id} was taken for dead; send it to another, or once more"
            raise StoreError("gateway.superseded", message, retryable=True)
        if done.accepted:
            self.messages[attempt.id] = Message(attempt=attempt.id, submission=submission, ticket=ticket)
        return bool(done.accepted)

    def finish(
        self, connection: Connection, attempt: Attempt, verdict: Values, events: Sequence[Values]
    ) -> bool:
        """Write a verdict with its events, take the attempt out of the outbox, and tell the others."""
        values = {
            **_bound(tables.verdicts, verdict),
            "listed": compact(events).decode(),
            "channel": CHANNEL,
            "notice": self._notices.write("finished", attempt=attempt.id),
        }
        return bool(connection.execute(_FINISH, values).one().first)
