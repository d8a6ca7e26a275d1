"""A checkout's private PostgreSQL server: permissions of its accounts, and its restart after a kill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from support.stores.postgres import SCRIPT, PostgresServer, needs_postgres

pytestmark = needs_postgres


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[call-overload]
        return row and row[0]


def test_account_of_gateways_writes_rows_and_changes_no_table(postgres: PostgresServer) -> None:
    owner, gateway = postgres.url("assayd"), postgres.url("assayd", "gateway")
    with psycopg.connect(owner.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE rights (n integer)")
    assert ask(gateway, "INSERT INTO rights VALUES (1) RETURNING n") == 1
    for refused in ("DROP TABLE rights", "CREATE TABLE other (n integer)", "TRUNCATE rights"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(gateway, refused)


def test_server_that_is_killed_comes_back_with_what_it_had(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url("assayd").replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    postgres.kill()
    postgres.start()
    assert ask(postgres.url("assayd"), "SELECT n FROM kept") == 7


def test_server_that_runs_is_left_as_it_is(postgres: PostgresServer) -> None:
    began = ask(postgres.url("assayd"), "SELECT pg_postmaster_start_time()")
    postgres.start()
    assert ask(postgres.url("assayd"), "SELECT pg_postmaster_start_time()") == began


@pytest.fixture
def hidden() -> Iterator[Path]:
    """Return a folder that only its owner can enter, with a name that is too long for a socket."""
    with TemporaryDirectory(prefix="assayd-") as folder:
        Path(folder).chmod(0o700)
        state = Path(folder, "x" * 90)
        yield state
        subprocess.run([SCRIPT, "stop", state], check=True)


def test_server_in_a_hidden_folder_takes_passwords_on_tls_only(hidden: Path) -> None:
    environment = {**os.environ, "POSTGRES_TLS": "1"}
    subprocess.run([SCRIPT, "start", hidden], env=environment, check=True, stderr=subprocess.DEVNULL)
    asked = subprocess.run(
        [SCRIPT, "url", hidden], env=environment, check=True, capture_output=True, text=True
    )
    url = asked.stdout.strip()
    assert ask(url, "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "TLSv1.3"
    for weaker in (url.replace("verify-full", "disable"), url.replace("assayd_gateway:", "assayd_gateway:x")):
        with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf|password authentication failed"):
            ask(weaker, "SELECT 1")
