"""Defines recorders, which maintain the tables of a kind inside the transactions of attempts.

The job store creates the tables that are missing, and calls the recorder in each of these transactions. The
tables can reference columns of `tables.attempts`.

The rows of a recorder are committed together with the attempt's rows, but an attempt doesn't depend on
them: if a recorder fails twice, the failure is logged and the attempt continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import structlog
from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError

from assayd.model.attempt import Attempt
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Case
from assayd.model.submission import Submission
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd.store.server import SingleStatementChange
from assayd.store.tables import Values

log = structlog.get_logger()

MAX_STEP_TRIES = 2


class Recorder(Protocol):
    """A writer of the records of one kind. Its methods write to the connection but don't commit."""

    @property
    def kind(self) -> str:
        """Return the kind whose attempts are recorded."""
        ...

    @property
    def tables(self) -> Sequence[Table]:
        """Return the recorder's tables, in an order in which referenced tables come first."""
        ...

    def records(self, access: DatabaseAccess) -> object:
        """Return the object that reads the tables for the kind's routes. See also `SubmissionCompleter`."""
        ...

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Record a new attempt, whose submission is `document` in canonical JSON."""
        ...

    def leased(self, connection: Connection, run: AttemptRun) -> None:
        """Record the container that a run has leased."""
        ...

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[AttemptEvent],
        refusals: Sequence[str],
    ) -> None:
        """Record a verdict with the executed cases and the attempt's events.

        `refusals` contains the messages of the errors that prevented the run.
        """
        ...

    def removed(self, connection: Connection) -> None:
        """Delete the records whose attempts have been deleted."""
        ...


class VerdictWriteResult(StrEnum):
    """The result of recording a verdict that a node has reported."""

    FIRST = "first"
    """The verdict was recorded."""
    LATER = "later"
    """The attempt already had a verdict."""
    FOREIGN = "foreign"
    """The node no longer holds the run."""


class JobRowWriter(Protocol):
    """A writer of all rows that belong to the transactions of attempts."""

    def build_accept_statement(
        self, attempt: Attempt, row: Values, document: bytes
    ) -> SingleStatementChange[bool] | None:
        """Return a one-statement change that records a new attempt, or None if more are necessary.

        If the change returns False, the caller determines the reason with `accept`.
        """
        ...

    def build_finish_statement(
        self, attempt: Attempt, verdict: Values, events: Sequence[Values], held_by: str
    ) -> SingleStatementChange[VerdictWriteResult] | None:
        """Return a one-statement change that records the verdict of a node's run.

        Return None if more statements are necessary.
        """
        ...

    def accept(self, connection: Connection, attempt: Attempt, row: Values, document: bytes) -> bool:
        """Insert a new attempt and its submission. Return False if the attempt's id or key is in use."""
        ...

    def finish(
        self, connection: Connection, attempt: Attempt, verdict: Values, events: Sequence[Values]
    ) -> bool:
        """Insert a verdict and the attempt's events. Return False if the attempt already has a verdict."""
        ...


@runtime_checkable
class SubmissionCompleter(Protocol):
    """An interface for record stores that supply payload fields which submissions omit."""

    async def complete(
        self, submission: Submission, uid: int, *, from_gateway: bool = False
    ) -> Mapping[str, object] | None:
        """Return the payload fields that the records supply for a submission, or None if it needs none.

        `from_gateway` is True if a gateway has already completed the submission from its own records.

        Raises: RequestError, e.g. if the records belong to another user; StoreError.
        """
        ...


@runtime_checkable
class GroupFinder(Protocol):
    """An interface for record stores that know the groups of an attempt, such as its pipeline."""

    async def find_groups(self, attempt_id: str) -> Mapping[str, str]:
        """Return the ids of an attempt's groups by type.

        The result is empty if the attempt has no records.
        """
        ...


def run_recorder_step(connection: Connection, step: str, write: Callable[[], None]) -> None:
    """Run a recorder's step in a savepoint, so that its failure can't abort the transaction.

    The step is tried up to `TRIES` times; database errors are logged.
    """
    for number in range(1, MAX_STEP_TRIES + 1):
        try:
            with connection.begin_nested():
                write()
        except SQLAlchemyError as problem:
            log.error("records.not_written", step=step, tried=number, problem=type(problem).__name__)
        else:
            return


class PlainJobRowWriter:
    """An implementation of `recorder.JobRowWriter` that uses one statement per table."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._new_submission = access.build_insert_or_ignore(tables.submissions)
        self._new_attempt = access.build_insert_or_ignore(tables.attempts)
        self._new_verdict = access.build_insert_or_ignore(tables.verdicts)
        self._new_events = access.build_list_inserter(tables.events)

    def build_accept_statement(self, attempt: Attempt, row: tables.Values, document: bytes) -> None:
        """Return None, because each table needs a separate statement."""

    def build_finish_statement(
        self, attempt: Attempt, verdict: tables.Values, events: Sequence[tables.Values], held_by: str
    ) -> None:
        """Return None, because each table needs a separate statement."""

    def accept(self, connection: Connection, attempt: Attempt, row: tables.Values, document: bytes) -> bool:
        """Insert a new attempt and its submission. Return False if the attempt's id or key is in use."""
        connection.execute(self._new_submission, {"digest": row["submission"], "document": document})
        return connection.execute(self._new_attempt, row).rowcount == 1

    def finish(
        self,
        connection: Connection,
        attempt: Attempt,
        verdict: tables.Values,
        events: Sequence[tables.Values],
    ) -> bool:
        """Insert a verdict and the attempt's events. Return False if the attempt already has a verdict."""
        if connection.execute(self._new_verdict, verdict).rowcount != 1:
            return False
        if events:
            self._new_events(connection, events)
        return True
