"""A full, read-only, locked or damaged state directory: a clear error, and no further damage."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from assayd_client import ClientError, PlainClient
from support.daemons.daemon_fixtures import MakeDaemon, needs_root
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, endless, extractor

pytestmark = pytest.mark.engine

SIZE = 8 * 2**20


@contextmanager
def file_system(place: Path, *options: str) -> Iterator[Path]:
    """Mount a small file system."""
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join((f"size={SIZE}", "mode=0700", *options)), "none", place],
        check=True,
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(folder: Path) -> Path:
    """Fill a file system; return the file that fills it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def unfinished(daemon: DaemonProcess) -> list[str]:
    rows = daemon.rows("SELECT id FROM attempts WHERE id NOT IN (SELECT attempt_id FROM verdicts)")
    return [row["id"] for row in rows]


@pytest.fixture
def small(make_daemon: MakeDaemon, tmp_path: Path) -> Iterator[DaemonProcess]:
    """Return a daemon with little space for its state."""
    with file_system(tmp_path / "small") as state:
        daemon = make_daemon(state=state, settings={"LIMITS__MIN_FREE_MB": "0"})
        daemon.start()
        yield daemon
        daemon.kill()


@needs_root
def test_full_disk_refuses_new_attempts_until_there_is_room(small: DaemonProcess) -> None:
    with small.client() as client:
        filler = fill(small.state)

        with pytest.raises(ClientError) as refused:
            submit_until_refused(client)

        assert (refused.value.status, refused.value.code) == (503, "store.full")
        assert refused.value.retryable
        filler.unlink()
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
    assert unfinished(small) == []


def submit_until_refused(client: PlainClient) -> None:
    """Submit until the database can't grow any more."""
    for number in range(200):
        client.submit(extractor(GOOD + "#" * 20_000 + str(number)), wait_s=60)


@needs_root
def test_attempt_that_ends_on_a_full_disk_is_an_error_once_there_is_room(small: DaemonProcess) -> None:
    with small.client() as client:
        attempt = client.submit(endless())
        next(e for e in client.events(attempt["id"]) if e.kind == "unit" and e.body["status"] == "started")
        filler = fill(small.state)
        client.cancel(attempt["id"])
        small.log.wait_for("bundle.write_failed")

        filler.unlink()

        finished = client.attempt(attempt["id"], wait_s=60)
        assert (finished["verdict"], finished["error"]["code"]) == ("error", "store.full")
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
    assert unfinished(small) == []
    assert list((small.state / "artifacts").rglob(".tmp-*")) == []


def test_verdict_waits_until_the_database_can_take_it(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.start()
    with daemon.client() as client:
        attempt = client.submit(endless())
        next(e for e in client.events(attempt["id"]) if e.kind == "unit" and e.body["status"] == "started")
        with closing(sqlite3.connect(daemon.state / "assayd.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            client.cancel(attempt["id"])
            assert daemon.log.wait_for("verdict.not_recorded")["code"] == "store.busy"
            assert client.attempt(attempt["id"])["verdict"] is None

        finished = client.attempt(attempt["id"], wait_s=60)
        assert (finished["verdict"], finished["cause"]) == ("cancelled", "cancelled")
    assert unfinished(daemon) == []


@needs_root
def test_read_only_state_directory_is_refused(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    with file_system(tmp_path / "sealed", "ro") as state:
        daemon = make_daemon(state=state)
        daemon.spawn()

        assert daemon.wait() == 2
        assert f"can't use {state}: Read-only file system" in daemon.log.tail()
        assert not daemon.socket.exists()


@pytest.mark.parametrize("damage", ["garbage", "page"])
def test_damaged_database_is_refused_and_left_as_it_is(make_daemon: MakeDaemon, damage: str) -> None:
    daemon = make_daemon()
    daemon.start()
    with daemon.client() as client:
        for number in range(8):
            client.submit(extractor(f"{GOOD}# {number}" * 20), wait_s=60)
    daemon.stop()
    database = daemon.state / "assayd.db"
    content = bytearray(database.read_bytes())
    if damage == "garbage":
        content[:100] = b"\xa5" * 100
    else:
        content[4096:] = bytes(byte ^ 0x5A for byte in content[4096:])
    database.write_bytes(content)
    before = {path: path.read_bytes() for path in daemon.state.iterdir() if path.is_file()}

    daemon.spawn()

    assert daemon.wait() == 3
    assert "store.corrupt" in daemon.log.tail()
    assert "restore it from a backup, or move it elsewhere" in daemon.log.tail()
    assert {path: path.read_bytes() for path in daemon.state.iterdir() if path.is_file()} == before
    assert daemon.containers() == []


def test_daemon_starts_anew_when_the_damaged_database_is_moved_away(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.state.mkdir()
    (daemon.state / "assayd.db").write_text("not a database")
    daemon.spawn()
    assert daemon.wait() == 3

    (daemon.state / "assayd.db").rename(daemon.state / "damaged.db")
    daemon.start()

    with daemon.client() as client:
        assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
