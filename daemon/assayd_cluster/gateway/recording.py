"""Writes the rows of attempts for a gateway, with one statement per acceptance and one per verdict.

The statement for an acceptance also inserts the attempt into the outbox; the statement for a verdict
deletes this row and notifies the other gateways. A combined statement takes the gateway and the server
about as much time as its parts would as separate statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import (
    CTE,
    Connection,
    FromClause,
    ScalarSelect,
    Table,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from assayd.documents import serialize_compact
from assayd.errors import StoreError
from assayd.model.attempt import Attempt
from assayd.store import tables
from assayd.store.recorder import VerdictWriteResult
from assayd.store.server import CompiledStatement, Row, SingleStatementChange, select_json_rows
from assayd.store.tables import Values
from assayd_cluster.gateway.notices import CHANNEL, GatewayNotices
from assayd_cluster.gateway.outbox import BrokerMessage, compute_ticket_digest, generate_ticket
from assayd_cluster.tables import NOW, dispatches, gateways

T = TypeVar("T")


def _count_rows(rows: FromClause) -> ScalarSelect[int]:
    return select(func.count()).select_from(rows).scalar_subquery()


def _build_insert(table: Table) -> Insert:
    """Return an `INSERT` with parameters named after table and column, which keeps existing rows."""
    values = {each.name: bindparam(f"{table.name}_{each.name}", type_=each.type) for each in table.c}
    return insert(table).values(values).on_conflict_do_nothing()


def _build_conditional_insert(table: Table, there: FromClause) -> Insert:
    """Return an insert like `_build_insert` that inserts a row only if `there` contains a row."""
    values = [bindparam(f"{table.name}_{each.name}", type_=each.type) for each in table.c]
    names = [each.name for each in table.c]
    return insert(table).from_select(names, select(*values).select_from(there)).on_conflict_do_nothing()


def _prefix_parameters(table: Table, row: Mapping[str, object]) -> Values:
    return {f"{table.name}_{name}": value for name, value in row.items()}


# Only for a live gateway: one that counts as dead accepts nothing.
_GATEWAY = select(gateways.c.id).where(gateways.c.id == bindparam("gateway")).cte("gateway")
_ATTEMPT = _build_conditional_insert(tables.attempts, _GATEWAY).returning(tables.attempts.c.id).cte("attempt")
# Inserted with the attempt, because foreign keys are checked when the statement ends.
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
_DISPATCH = (
    insert(dispatches)
    .from_select(
        ["attempt_id", "gateway_id", "ticket_sha256", "created_at"],
        select(
            _ATTEMPT.c.id, _GATEWAY.c.id, bindparam("ticket", type_=dispatches.c.ticket_sha256.type), NOW
        ).select_from(_ATTEMPT.join(_GATEWAY, true())),
    )
    .cte("dispatch")
)
_ACCEPT = CompiledStatement(
    select(_count_rows(_ATTEMPT).label("accepted"), _count_rows(_GATEWAY).label("lives")).add_cte(
        _SUBMISSION, _DISPATCH
    )
)

# For a run that still belongs to its node, until the verdict is recorded.
_HELD_RUN_CTE = (
    select(tables.runs.c.run_number)
    .where(
        tables.runs.c.attempt_id == bindparam("verdicts_attempt_id"),
        tables.runs.c.run_number == bindparam("verdicts_run_number"),
        tables.runs.c.daemon_id == bindparam("held_by"),
        tables.runs.c.leased_at == bindparam("verdicts_started_at"),
        tables.runs.c.expires_at > 0,
    )
    .with_for_update(read=True)
    .cte("held")
)
_EVENT_ROWS = select_json_rows(tables.events)


def _build_finish_statement(verdict: Insert, *held: CTE) -> CompiledStatement:
    """Return the statement that records a verdict.

    If a node sent the verdict, `held` selects the node's run.
    """
    new = verdict.returning(tables.verdicts.c.attempt_id).cte("verdict")
    events = (
        insert(tables.events)
        .from_select(
            [each.name for each in tables.events.c],
            select(*_EVENT_ROWS.c).select_from(_EVENT_ROWS.join(new, true())),
        )
        .on_conflict_do_nothing()
        .cte("happened")
    )
    gone = (
        delete(dispatches)
        .where(dispatches.c.attempt_id.in_(select(new.c.attempt_id)))
        .returning(dispatches.c.attempt_id)
        .cte("gone")
    )
    told = (
        select(func.pg_notify(bindparam("channel"), bindparam("notice")))
        # A single gateway sends no notice.
        .where(exists(select(literal_column("1")).select_from(gone)))
        .where(select(func.count()).select_from(gateways).scalar_subquery() > 1)
        .scalar_subquery()
    )
    counts = [
        _count_rows(new).label("first"),
        *(_count_rows(each).label("held") for each in held),
        told.label("told"),
    ]
    return CompiledStatement(select(*counts).add_cte(events, gone))


_FINISH = _build_finish_statement(_build_insert(tables.verdicts))
_FINISH_HELD = _build_finish_statement(
    _build_conditional_insert(tables.verdicts, _HELD_RUN_CTE), _HELD_RUN_CTE
)


class GatewayJobRows:
    """An implementation of `store.recorder.JobRowWriter` on PostgreSQL."""

    def __init__(self, gateway_id: str, notices: GatewayNotices) -> None:
        self._gateway_id = gateway_id
        self._notices = notices
        self.messages: dict[str, BrokerMessage] = {}
        """The messages of attempts that were accepted here and aren't published yet, by attempt id."""

    def accept(self, connection: Connection, attempt: Attempt, row: Values, document: bytes) -> bool:
        """Write a new attempt with its submission and outbox row. Return False if it already exists.

        Raises: StoreError ``gateway.superseded``, if this gateway was declared dead.
        """
        accepted, lives = self._build_accept_statement(attempt, row, document, _read_acceptance)(connection)
        if not lives:
            message = f"gateway {self._gateway_id} was declared dead; retry, or use another gateway"
            raise StoreError("gateway.superseded", message, retryable=True)
        return accepted

    def build_accept_statement(
        self, attempt: Attempt, row: Values, document: bytes
    ) -> SingleStatementChange[bool]:
        """Return the statement of `accept`, whose result is also False if the gateway was declared dead."""
        return self._build_accept_statement(
            attempt, row, document, lambda found: bool(found and found["accepted"])
        )

    def _build_accept_statement(
        self, attempt: Attempt, row: Values, document: bytes, come_to: Callable[[Row | None], T]
    ) -> SingleStatementChange[T]:
        ticket, submission = generate_ticket(), str(row["submission"])
        values = {
            **_prefix_parameters(tables.attempts, row),
            "digest": submission,
            "document": document,
            "gateway": self._gateway_id,
            "ticket": compute_ticket_digest(ticket),
        }

        def read(found: Row | None) -> T:
            if found is not None and found["accepted"]:
                self.messages[attempt.id] = BrokerMessage(
                    attempt=attempt.id, submission=submission, ticket=ticket
                )
            return come_to(found)

        return SingleStatementChange(_ACCEPT, values, read)

    def finish(
        self, connection: Connection, attempt: Attempt, verdict: Values, events: Sequence[Values]
    ) -> bool:
        """Write a verdict with its events, delete the attempt's outbox row, and notify other gateways.

        Return False if the attempt already has a verdict.
        """
        values = self._build_finish_parameters(attempt, verdict, events)
        return SingleStatementChange(_FINISH, values, lambda found: bool(found and found["first"]))(
            connection
        )

    def build_finish_statement(
        self, attempt: Attempt, verdict: Values, events: Sequence[Values], held_by: str
    ) -> SingleStatementChange[VerdictWriteResult]:
        """Return the statement of `finish` for a verdict sent by the node that holds the run."""
        values = {**self._build_finish_parameters(attempt, verdict, events), "held_by": held_by}
        return SingleStatementChange(_FINISH_HELD, values, _read_verdict_write_result)

    def _build_finish_parameters(self, attempt: Attempt, verdict: Values, events: Sequence[Values]) -> Values:
        return {
            **_prefix_parameters(tables.verdicts, verdict),
            "listed": serialize_compact(events).decode(),
            "channel": CHANNEL,
            "notice": self._notices.write("finished", attempt=attempt.id),
        }


def _read_acceptance(found: Row | None) -> tuple[bool, bool]:
    return (False, False) if found is None else (bool(found["accepted"]), bool(found["lives"]))


def _read_verdict_write_result(found: Row | None) -> VerdictWriteResult:
    if found is None or not found["held"]:
        return VerdictWriteResult.FOREIGN
    return VerdictWriteResult.FIRST if found["first"] else VerdictWriteResult.LATER
