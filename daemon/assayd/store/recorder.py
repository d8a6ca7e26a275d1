"""How a kind keeps tables of its own: a recorder, which the job store asks inside the attempts' transactions.

Its tables are made where they are missing. They may refer to `tables.attempts` by its columns.

What a recorder writes is there exactly when the attempt's own rows are. It is not as important as they are:
what it cannot write is tried once more, then logged, and the attempt goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import structlog
from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError

from assayd.model.attempt import Attempt
from assayd.model.records import Event, Run
from assayd.model.report import Case
from assayd.model.submission import Submission
from assayd.store import rows, tables
from assayd.store.access import DatabaseAccess
from assayd.store.one_statement import OneStatement
from assayd.store.rows import Values

log = structlog.get_logger()

TRIES = 2


class Recorder(Protocol):
    """Records of one kind. Each method writes through the connection and commits nothing."""

    @property
    def kind(self) -> str:
        """The kind of attempts that it keeps records of."""
        ...

    @property
    def tables(self) -> Sequence[Table]:
        """Its tables, each after those that it refers to."""
        ...

    def records(self, access: DatabaseAccess) -> object:
        """Return what reads the tables: the kind's own routes are given it, and see `Completing`."""
        ...

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Note a new attempt, with its submission as canonical JSON."""
        ...

    def leased(self, connection: Connection, run: Run) -> None:
        """Note that an attempt gets a container."""
        ...

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[Event],
        refusals: Sequence[str],
    ) -> None:
        """Note a verdict, with the cases that were run and the events on the way there.

        `refusals` are the messages of the errors for which nothing was run.
        """
        ...

    def removed(self, connection: Connection) -> None:
        """Forget what belonged to attempts that are gone."""
        ...


class Written(StrEnum):
    """What became of a verdict that somebody brought of a run."""

    FIRST = "first"
    """It is on record."""
    LATER = "later"
    """There was a verdict before."""
    FOREIGN = "foreign"
    """The run is not theirs any more."""


class JobRows(Protocol):
    """How the rows of an attempt are written, with what else belongs into their transactions."""

    def accepting(self, attempt: Attempt, row: Values, document: bytes) -> OneStatement[bool] | None:
        """Return what writes a new attempt, where one statement does; False: `accept` says why not."""
        ...

    def finishing(
        self, attempt: Attempt, verdict: Values, events: Sequence[Values], held_by: str
    ) -> OneStatement[Written] | None:
        """Return what writes the verdict of a run that is somebody's, where one statement does."""
        ...

    def accept(self, connection: Connection, attempt: Attempt, row: Values, document: bytes) -> bool:
        """Write a new attempt and its submission; False where its id or its key is on record."""
        ...

    def finish(
        self, connection: Connection, attempt: Attempt, verdict: Values, events: Sequence[Values]
    ) -> bool:
        """Write a verdict and the events of the way there; False where there is a verdict."""
        ...


@runtime_checkable
class Completing(Protocol):
    """Records of a kind from which its submissions may be completed."""

    async def complete(self, submission: Submission, uid: int) -> Mapping[str, object] | None:
        """Return the payload that a user's submission stands for; None for one that says all itself.

        Raises: RequestError, e.g. for records that are somebody else's; StoreError.
        """
        ...


@runtime_checkable
class Naming(Protocol):
    """Records of a kind that say what an attempt belongs to."""

    async def belongs_to(self, attempt_id: str) -> Mapping[str, str]:
        """Return the ids of what an attempt belongs to, by what they are of; none for one without records."""
        ...


def keep(connection: Connection, step: str, write: Callable[[], None]) -> None:
    """Write records without putting at risk what the transaction is for."""
    for number in range(1, TRIES + 1):
        try:
            with connection.begin_nested():
                write()
        except SQLAlchemyError as problem:
            log.error("records.not_written", step=step, tried=number, problem=type(problem).__name__)
        else:
            return


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
