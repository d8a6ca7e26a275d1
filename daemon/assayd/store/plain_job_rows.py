"""The rows of an attempt, written by a statement for each table: as SQLite needs it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from assayd.model.attempt import Attempt
from assayd.store import rows, tables
from assayd.store.access import DatabaseAccess


class PlainJobRows:
    """Implements `recorder.JobRows` by a statement for each table."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._new_submission = access.insert_or_nothing(tables.submissions)
        self._new_attempt = access.insert_or_nothing(tables.attempts)
        self._new_verdict = access.insert_or_nothing(tables.verdicts)
        self._new_events = access.insert_list_or_nothing(tables.events)

    def accepting(self, attempt: Attempt, row: rows.Values, document: bytes) -> None:
        """Return None: each table has its own statement."""

    def finishing(
        self, attempt: Attempt, verdict: rows.Values, events: Sequence[rows.Values], held_by: str
    ) -> None:
        """Return None, as `accepting`."""

    def accept(self, connection: Connection, attempt: Attempt, row: rows.Values, document: bytes) -> bool:
        """Write a new attempt and its submission; False where its id or its key is on record."""
        connection.execute(self._new_submission, {"digest": row["submission"], "document": document})
        return connection.execute(self._new_attempt, row).rowcount == 1

    def finish(
        self,
        connection: Connection,
        attempt: Attempt,
        verdict: rows.Values,
        events: Sequence[rows.Values],
    ) -> bool:
        """Write a verdict and the events of the way there; False where there is a verdict."""
        if connection.execute(self._new_verdict, verdict).rowcount != 1:
            return False
        if events:
            self._new_events(connection, events)
        return True
