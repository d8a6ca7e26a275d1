"""Migrates the database schema. Each file in the folder `versions` defines one revision."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from assayd.errors import StoreError


def upgrade(connection: Connection, current: str | None, target: str) -> None:
    """Migrate a database to a revision.

    Raises:
        StoreError: ``store.newer``, if the database's revision is unknown to this program.
    """
    config = configuration()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        message = (
            f"a newer version wrote the database (revision {current}; this version knows {target}); "
            "install that version, or use another state directory"
        )
        raise StoreError("store.newer", message)
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def configuration() -> Config:
    """Return the configuration of Alembic for the revisions in this package."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config
