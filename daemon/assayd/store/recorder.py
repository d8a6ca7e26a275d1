"""Defines recorders, which maintain a kind's own tables inside the transactions of attempts.

The job store calls a recorder in each of these transactions and creates missing tables. They can reference
columns of `tables.attempts`.

The rows of a recorder are committed together with the attempt's rows, but aren't required: a failing
recorder is retried once, then the failure is logged, and the attempt continues.
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
    """A writer of the records of one kind. Its methods write through the connection without a commit."""

    @property
    def kind(self) -> str:
        """The kind whose attempts are recorded."""
        ...

    @property
    def tables(self) -> Sequence[Table]:
        """The recorder's tables, each after the tables that it references."""
        ...

    def records(self, access: DatabaseAccess) -> object:
        """Return the object that reads the tables, for the kind's routes; see also `Completing`."""
        ...

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Record a new attempt. `document` is its submission as canonical JSON."""
        ...

    def leased(self, connection: Connection, run: Run) -> None:
        """Record the lease of a container."""
        ...

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[Event],
        refusals: Sequence[str],
    ) -> None:
        """Record a verdict with the executed cases and the attempt's events.

        `refusals` are the messages of the errors that prevented the run.
        """
        ...

    def removed(self, connection: Connection) -> None:
        """Delete the records of deleted attempts."""
        ...


class Written(StrEnum):
    """The result of recording a verdict that a node reports for a run."""

    FIRST = "first"
    """The verdict was recorded."""
    LATER = "later"
    """The attempt already had a verdict."""
    FOREIGN = "foreign"
    """The node no longer holds the run."""


class JobRows(Protocol):
    """A writer of an attempt's rows, and of all other rows in the same transactions."""

    def accepting(self, attempt: Attempt, row: Values, document: bytes) -> OneStatement[bool] | None:
        """Return the one-statement change that records a new attempt; None if one isn't sufficient.

        If the change returns False, `accept` determines the reason.
        """
        ...

    def finishing(
        self, attempt: Attempt, verdict: Values, events: Sequence[Values], held_by: str
    ) -> OneStatement[Written] | None:
        """Return the one-statement change that records a verdict of a node's run, or None if one can't."""
        ...

    def accept(self, connection: Connection, attempt: Attempt, row: Values, document: bytes) -> bool:
        """Insert a new attempt and its submission. Return False if the attempt's id or key exists."""
        ...

    def finish(
        self, connection: Connection, attempt: Attempt, verdict: Values, events: Sequence[Values]
    ) -> bool:
        """Insert a verdict and the attempt's events. Return False if the attempt already has a verdict."""
        ...


@runtime_checkable
class Completing(Protocol):
    """A kind's records that can complete the kind's submissions."""

    async def complete(self, submission: Submission, uid: int) -> Mapping[str, object] | None:
        """Return the full payload that a user's submission refers to, or None if it is complete.

        Raises: RequestError, e.g. for records of another user; StoreError.
        """
        ...


@runtime_checkable
class Naming(Protocol):
    """A kind's records that know the groups to which an attempt belongs, such as its pipeline."""

    async def belongs_to(self, attempt_id: str) -> Mapping[str, str]:
        """Return the ids of an attempt's groups by type of group; empty if the attempt has no records."""
        ...


def keep(connection: Connection, step: str, write: Callable[[], None]) -> None:
    """Run a step of a recorder so that its failure can't abort the transaction."""
    for number in range(1, TRIES + 1):
        try:
            with connection.begin_nested():
                write()
        except SQLAlchemyError as problem:
            log.error("records.not_written", step=step, tried=number, problem=type(problem).__name__)
        else:
            return


class PlainJobRows:
    """A `recorder.JobRows` with one statement per table."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._new_submission = access.insert_or_nothing(tables.submissions)
        self._new_attempt = access.insert_or_nothing(tables.attempts)
        self._new_verdict = access.insert_or_nothing(tables.verdicts)
        self._new_events = access.insert_list_if_absent(tables.events)

    def accepting(self, attempt: Attempt, row: rows.Values, document: bytes) -> None:
        """Return None, because each table needs a separate statement."""

    def finishing(
        self, attempt: Attempt, verdict: rows.Values, events: Sequence[rows.Values], held_by: str
    ) -> None:
        """Return None, because each table needs a separate statement."""

    def accept(self, connection: Connection, attempt: Attempt, row: rows.Values, document: bytes) -> bool:
        """Insert a new attempt and its submission. Return False if the attempt's id or key exists."""
        connection.execute(self._new_submission, {"digest": row["submission"], "document": document})
        return connection.execute(self._new_attempt, row).rowcount == 1

    def finish(
        self,
        connection: Connection,
        attempt: Attempt,
        verdict: rows.Values,
        events: Sequence[rows.Values],
    ) -> bool:
        """Insert a verdict and the attempt's events. Return False if the attempt already has a verdict."""
        if connection.execute(self._new_verdict, verdict).rowcount != 1:
            return False
        if events:
            self._new_events(connection, events)
        return True
