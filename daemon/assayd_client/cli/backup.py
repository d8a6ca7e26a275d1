"""`assay backup`: copy a daemon's state directory while the daemon runs.

The database first, then the bundles that its verdicts name: each was on disk before its verdict. Others are
of attempts that the copy knows as unfinished, or not at all; whoever goes on with the copy makes those anew.
A bundle never changes, so one that was copied before is not copied again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from assayd.errors import ConfigError, RequestError
from assayd_client import DaemonUnreachable, PlainClient

DATABASE = "assayd.db"
IDENTITY = "daemon-id"
PARTIAL = ".partial"


def find_state(client: PlainClient) -> Path:
    """Return the state directory that the daemon has; that of the settings, while no daemon answers.

    Raises:
        ConfigError: ``backup.database``, when the database is not a file there.
        ClientError: the daemon answers, and does not tell.
    """
    try:
        daemon = client.daemon()
    except DaemonUnreachable:
        from assayd.settings import load_settings

        settings = load_settings()
        place, with_database = settings.state_dir, settings.database_url is None
    else:
        place, with_database = Path(daemon["state_dir"]), daemon["database_in_state"]
    if not with_database:
        message = (
            "database_url is set: copy that database with its own tools, and name --state-dir for the rest"
        )
        raise ConfigError("backup.database", message)
    return place


def back_up(target: Path, source: Path) -> int:
    """Copy a state directory; give how many bundles were new.

    Raises: RequestError ``backup.failed``, when something cannot be read or written.
    """
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        bundles: Iterable[str] | None = None
        if (source / DATABASE).exists():
            _copy_database(source / DATABASE, target / DATABASE)
            bundles = _named(target / DATABASE)
        shutil.copyfile(source / IDENTITY, target / IDENTITY)
        return _copy_bundles(source / "artifacts", target / "artifacts", bundles)
    except (OSError, sqlite3.Error) as error:
        raise RequestError("backup.failed", f"the state directory cannot be copied: {error}") from error


def _copy_database(source: Path, target: Path) -> None:
    """Copy by SQLite's own means, so that what is being written is in it whole or not at all."""
    fresh = target.with_name(target.name + PARTIAL)
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(fresh)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
    for leftover in ("-wal", "-shm"):  # of an earlier copy that a daemon was started on
        target.with_name(target.name + leftover).unlink(missing_ok=True)
    fresh.replace(target)


def _named(database: Path) -> list[str]:
    """Name the bundles of a database's verdicts."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as copy:
        return [row[0] for row in copy.execute("SELECT bundle FROM verdicts WHERE bundle IS NOT NULL")]


def _copy_bundles(source: Path, target: Path, names: Iterable[str] | None) -> int:
    """Copy the bundles of these names (all of them, when the database is elsewhere); count the new ones."""
    copied = 0
    if names is None:
        names = [str(bundle.relative_to(source)) for bundle in source.glob("*/*/[!.]*")]
    for name in sorted(names):
        bundle, place = source / name, target / name
        if place.exists():
            continue
        partial = place.with_name(f".tmp-{place.name}")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if partial.exists():
            _remove(partial)
        try:
            shutil.copytree(bundle, partial)
        except (FileNotFoundError, shutil.Error) as problem:
            # Removed meanwhile, being old, or missing for longer: the other bundles are copied all the same.
            if bundle.exists():
                raise RequestError(
                    "backup.failed", f"the bundle {name} cannot be copied: {problem}"
                ) from problem
            _remove(partial)
            continue
        partial.replace(place)
        copied += 1
    return copied


def _remove(folder: Path) -> None:
    """Remove a folder with read-only folders in it; one that is not there is fine."""
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o700)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
