"""A batch survives its daemon: it is killed repeatedly, stopped halfway, and copied while it runs."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from assayd_client import Document, PlainClient
from support.daemons.daemon_fixtures import MakeDaemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, PROCESSES, RAISES, extractor

pytestmark = pytest.mark.engine

ITEMS = 500
EVERY = 50
"""One line in so many needs a container; most are refused as they are read."""


def line(number: int) -> bytes:
    """Return the line's submission."""
    if number % EVERY == 7:
        code = GOOD if number % 20 == 7 else RAISES
        return json.dumps(extractor(f"{code}# {number}\n")).encode()
    if number % EVERY == 8:
        return b'{"kind": "extractor", "payload": {"code":'
    # A few of these are equal, and one attempt.
    return json.dumps(extractor(f"{PROCESSES}# {number % 450}\n")).encode()


def expected(number: int) -> str:
    if number % EVERY == 8:
        return "error"
    return "validated" if number % EVERY == 7 and number % 20 == 7 else "failed"


LINES = [line(number) for number in range(1, ITEMS + 1)]


def wait_until_done(daemon: DaemonProcess, batch: str, count: int) -> None:
    """Wait until this number of items has a verdict."""
    end = time.monotonic() + 300
    with daemon.client() as client:
        while done(client.batch(batch)) < count:
            assert time.monotonic() < end, f"{count} items were not done in time"


def done(batch: Document) -> int:
    return batch["counts"]["total"] - batch["counts"]["waiting"]


def finished(client: PlainClient, batch: str) -> Document:
    assert [event.kind for event in client.batch_events(batch)][-1] == "finished"
    return client.batch(batch)


def test_killed_three_times_every_item_has_one_verdict_and_nothing_is_left(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"LOG__LEVEL": "info"})
    daemon.start()
    with daemon.client() as client:
        batch = client.send_batch([b"\n".join(LINES)], name="killed", dedupe=True)["id"]
    for count in (100, 220, 380):
        wait_until_done(daemon, batch, count)
        daemon.kill()
        daemon.start()
    with daemon.client() as client:
        over = finished(client, batch)
        received = client.send_batch([b"\n".join(LINES)], name="killed", dedupe=True)["received"]
        results = list(client.batch_results(batch))

    assert (over["state"], over["counts"]["total"], over["counts"]["waiting"]) == ("finished", ITEMS, 0)
    assert (received["added"], received["known"]) == (0, ITEMS)
    assert [each["line"] for each in results] == list(range(1, ITEMS + 1))
    # Killed twice in the middle of a run, an attempt is not run a third time: our trouble, said as such.
    wrong = [each for each in results if each["verdict"] != expected(each["line"])]
    assert {each["attempt"]["error"]["code"] for each in wrong} <= {"attempt.interrupted"}
    assert len({each["attempt_id"] for each in results if each["attempt_id"]}) == len(
        {LINES[number] for number in range(ITEMS) if expected(number + 1) != "error"}
    )
    assert_one_verdict_each(daemon)
    assert daemon.stop() == 0
    assert daemon.containers() == []


def assert_one_verdict_each(daemon: DaemonProcess) -> None:
    attempts = {row["id"] for row in daemon.rows("SELECT id FROM attempts")}
    verdicts = daemon.rows("SELECT attempt_id, bundle FROM verdicts")
    assert Counter(row["attempt_id"] for row in verdicts) == dict.fromkeys(attempts, 1)
    artifacts = daemon.state / "artifacts"
    assert list(artifacts.rglob(".tmp-*")) == []
    bundles = {str(path.parent.relative_to(artifacts)) for path in artifacts.rglob("manifest.json")}
    assert bundles == {row["bundle"] for row in verdicts}


def test_stopped_in_the_middle_the_next_life_runs_only_what_is_missing(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"CONCURRENCY": "1"})
    daemon.start()
    codes = (f"import time\ntime.sleep({seconds})\n" for seconds in (0, 4, 0.1))
    body = [json.dumps({"kind": "script", "payload": {"code": code}}).encode() + b"\n" for code in codes]
    with daemon.client() as client:
        batch = client.send_batch(body, name="stopped", concurrency=1)["id"]
        wait_until_done(daemon, batch, 1)
        daemon.send(signal.SIGTERM)
        daemon.log.wait_for("daemon.stopping")
        assert daemon.wait() == 0
    before = {row["attempt_id"] for row in daemon.rows("SELECT attempt_id FROM verdicts")}
    assert 1 <= len(before) <= 2

    daemon.start()
    with daemon.client() as client:
        over = finished(client, batch)
    assert over["counts"]["validated"] == 3
    assert len(daemon.rows("SELECT * FROM runs")) == 3
    assert_one_verdict_each(daemon)


def test_copy_that_is_made_while_the_daemon_runs_goes_on_elsewhere(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    daemon = make_daemon()
    daemon.start()
    with daemon.client() as client:
        first = client.submit(extractor(GOOD), wait_s=60)
        batch = client.send_batch([b"\n".join(LINES[:60])], name="copied")["id"]
        wait_until_done(daemon, batch, 20)
        for _ in range(2):  # the second adds what has come meanwhile
            made = daemon.assay("backup", tmp_path / "copy", "--state-dir", daemon.state)
            assert made.returncode == 0, made.stderr
        finished(client, batch)
    daemon.stop()

    restored = make_daemon(state=tmp_path / "copy")
    restored.start()
    with restored.client() as client:
        assert client.attempt(first["id"])["report"] == first["report"]
        over = finished(client, batch)
        assert over["counts"]["total"] == 60
        results = list(client.batch_results(batch))
        assert [each["verdict"] for each in results] == [expected(each["line"]) for each in results]
    assert_one_verdict_each(restored)
