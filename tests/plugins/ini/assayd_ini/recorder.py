"""The records of INI files: the number of submitted lines and of fields that were read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, Table, insert, update

from assayd.model.attempt import Attempt
from assayd.model.records import AttemptEvent, AttemptRun
from assayd.model.report import Case, CaseStatus
from assayd.store.access import DatabaseAccess
from assayd_ini.records import IniRecords
from assayd_ini.tables import files


class IniRecorder:
    """Implements `store.recorder.Recorder` for the kind `ini`."""

    kind: str = "ini"
    tables: Sequence[Table] = (files,)

    def records(self, access: DatabaseAccess) -> IniRecords:
        """Return the submitted files."""
        return IniRecords(access)

    def accepted(self, connection: Connection, attempt: Attempt, document: bytes) -> None:
        """Record the file."""
        lines = len(json.loads(document)["payload"]["text"].splitlines())
        row = {"attempt_id": attempt.id, "uid": attempt.peer.uid, "lines": lines}
        connection.execute(insert(files).values(**row))

    def leased(self, connection: Connection, run: AttemptRun) -> None:
        """Do nothing, because the kind doesn't record runs."""

    def finished(
        self,
        connection: Connection,
        attempt: Attempt,
        cases: Sequence[Case],
        events: Sequence[AttemptEvent],
        refusals: Sequence[str],
    ) -> None:
        """Record the number of fields that were read."""
        read = sum(case.status is CaseStatus.PASSED for case in cases)
        connection.execute(update(files).where(files.c.attempt_id == attempt.id).values(fields_read=read))

    def removed(self, connection: Connection) -> None:
        """Do nothing: the rows are deleted with their attempts."""


recorder = IniRecorder()
