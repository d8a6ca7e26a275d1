"""The claim of an attempt's first run, found out and written by one statement."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.elements import ColumnElement

from assayd.store import tables
from assayd.store.one_statement import StatementText

_RUN = tables.runs.c


def first_claim(claimed: Select[Any]) -> StatementText:
    """Return what assigns a node the first run of an attempt, where nothing speaks against that.

    `claimed` finds all that is to be known, and locks the attempt. With it comes `added`: 0 where it takes
    more to decide.
    """
    found = claimed.cte("found")
    values = {
        "attempt_id": found.c.id,
        "run_number": literal_column("1"),
        "daemon_id": bindparam("node", type_=_RUN.daemon_id.type),
        "leased_at": found.c.now,
        "expires_at": found.c.now + bindparam("lasts", type_=_RUN.expires_at.type),
    }
    others: ColumnElement[str] = literal_column("''")
    nothing_against_it = (
        found.c.ticket_sha256 == bindparam("ticket"),
        found.c.cancelled_at.is_(None),
        found.c.runs.is_(None),
        found.c.in_hand < 2 * func.coalesce(func.nullif(found.c.capacity, 0), 1),
    )
    added = (
        insert(tables.runs)
        .from_select(
            [each.name for each in tables.runs.c],
            select(*(values.get(each.name, others) for each in tables.runs.c)).where(*nothing_against_it),
        )
        .on_conflict_do_nothing()
        .returning(_RUN.run_number)
        .cte("added")
    )
    count = select(func.count()).select_from(added).scalar_subquery()
    return StatementText(select(found, count.label("added")))
