"""A PostgreSQL server for the tests of this process, and fresh databases on it.

The server is started when a test first asks for it, and ended by a process that waits for the end of this
one, whatever that is. One database has the tables, and is emptied after each test: making one takes six times
as long.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import pytest

from assayd.store.access import open_database
from assayd.store.unsynced import UNSYNCED
from assayd_pipeline.stored import metadata

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "deploy/dev/postgres.sh"
# Tests are about what is committed, not about the machine's death.
_FAST = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "wal_level=minimal")
_FAST += ("-c", "max_wal_senders=0")
_EMPTIED = (UNSYNCED.name, *(table.name for table in reversed(metadata.sorted_tables)))
_END = 'read -r _; "$0" stop "$1"; rm -rf -- "$1"'

INSTALLED = shutil.which("psql") is not None and any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
needs_postgres = pytest.mark.postgres if INSTALLED else pytest.mark.system
"""Where PostgreSQL is not installed these are among the tests of `make test-system`, which installs it."""


class PostgresServer:
    """A PostgreSQL server for tests that can be killed and restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count(1)

    def start(self) -> None:
        """Start the server unless it runs."""
        self._run("start", self.folder, *_FAST)

    def kill(self) -> None:
        """Kill the server with all its sessions."""
        pid = (self.folder / "data/postmaster.pid").read_text().split()[0]
        subprocess.run(["kill", "-KILL", pid], check=True)

    def url(self, database: str, account: str = "owner") -> str:
        """Return SQLAlchemy's URL of a database for an account (owner, gateway or operator)."""
        return self._run("url", self.folder, account, database)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the owner's URL of a database that has all tables and no rows."""
        try:
            yield self._with_tables
        finally:
            self._empty()

    def _empty(self) -> None:
        address = self._with_tables.replace("+psycopg", "")
        try:
            with psycopg.connect(address, options="-c lock_timeout=5s") as connection:
                for name in _EMPTIED:
                    connection.execute(f"DELETE FROM {name}")  # type: ignore[call-overload]
        except psycopg.Error:  # a test has dropped a table, or holds one: the next gets them anew
            self.ask("DROP DATABASE with_tables WITH (FORCE)")
            del self._with_tables

    @contextmanager
    def empty_database(self, form: str = "") -> Iterator[str]:
        """Create a database without tables, and drop it at the end; yields its URL for the owner."""
        name = f"t{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name} OWNER assayd_owner {form}")
        try:
            yield self._urls.replace("DATABASE", name)
        finally:
            self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement outside the tests' databases, with an account that may create databases."""
        with psycopg.connect(self._operator, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @cached_property
    def _operator(self) -> str:
        return self.url("postgres", "operator").replace("+psycopg", "")

    @cached_property
    def _urls(self) -> str:
        return self.url("DATABASE")

    @cached_property
    def _with_tables(self) -> str:
        self.ask("CREATE DATABASE with_tables OWNER assayd_owner")
        url = self.url("with_tables")
        database = open_database(self.folder, url)
        with database.writing.begin() as connection:
            metadata.create_all(connection)
            UNSYNCED.metadata.create_all(connection)
        database.close()
        return url

    @staticmethod
    def _run(*arguments: str | Path) -> str:
        done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            pytest.fail(f"PostgreSQL does not start: {done.stderr.strip()}", pytrace=False)
        return done.stdout.strip()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return the server of this process."""
    (ROOT / ".run").mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="postgres-", dir=ROOT / ".run"))
    ending = subprocess.Popen(
        ["bash", "-c", _END, SCRIPT, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    server = PostgresServer(folder)
    try:
        server.start()
        yield server
    finally:
        assert ending.stdin is not None
        ending.stdin.close()
        ending.wait(60)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Return where the store of a test is: None for a file in its folder, or the URL of an empty database."""
    if request.param == "sqlite":
        yield None
        return
    with request.getfixturevalue("postgres").database() as url:
        yield url
