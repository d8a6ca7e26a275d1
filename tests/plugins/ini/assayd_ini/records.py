"""Reads the table of submitted INI files."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from assayd.store.access import DatabaseAccess
from assayd_ini.tables import files


class IniRecords:
    """The submitted files."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access

    async def list(self, uid: int | None) -> Sequence[dict[str, object]]:
        """Return the files of a user (of all users: None), newest first. Raises: StoreError."""
        statement = select(files).order_by(files.c.attempt_id.desc()).limit(100)
        if uid is not None:
            statement = statement.where(files.c.uid == uid)

        def fetch(connection: Connection) -> Sequence[dict[str, object]]:
            return [dict(row) for row in connection.execute(statement).mappings()]

        return await self._access.read(fetch)
