"""Batches, replay and removal, with the command line and the client library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assayd_client import AsyncClient, PlainClient
from support.daemons.ask import ask_as_nobody
from support.daemons.daemon_fixtures import MakeDaemon, needs_root
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, GREEDY, LOUD, PATH, PROCESSES, RAISES, extractor

pytestmark = pytest.mark.engine

OTHER = "/data/OTHER/2023/Q4/report.csv"


def write(folder: Path, *submissions: object) -> Path:
    file = folder / "items.jsonl"
    file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in submissions))
    return file


def test_batch_on_the_command_line(daemon: DaemonProcess, tmp_path: Path) -> None:
    file = write(tmp_path, extractor(GOOD), extractor(RAISES), "{", extractor(PROCESSES), extractor(GOOD))

    done = daemon.assay("batch", "run", file, "--name", "shown", "--dedupe", "--out", tmp_path / "out")

    assert done.returncode == 3, done.stderr
    assert "shown  finished, 5 of 5 done" in done.stdout
    results = [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]
    assert [each["verdict"] for each in results] == ["validated", "failed", "error", "failed", "validated"]
    assert results[0]["attempt_id"] == results[4]["attempt_id"]
    assert results[1]["rules"] == ["sandbox.raised"]
    assert results[0]["attempt"]["report"]["runtime_results"]["passed"] == 1
    fixed = write(tmp_path, extractor(GOOD), extractor(RAISES), extractor(LOUD), extractor(PROCESSES))
    resumed = daemon.assay("batch", "resume", "shown", fixed)
    assert resumed.returncode == 1, resumed.stderr
    assert "shown  finished, 5 of 5 done" in resumed.stdout


async def test_batch_of_a_program(daemon: DaemonProcess) -> None:
    async with AsyncClient(daemon.socket) as client:
        body = [json.dumps(extractor(GOOD, path)).encode() + b"\n" for path in (PATH, OTHER)]
        batch = await client.send_batch(body, name="program")
        events = [event async for event in client.batch_events(batch.id)]
        results = [result async for result in client.batch_results("program")]
    assert (events[-1].kind, events[-1].body["validated"]) == ("finished", 2)
    reports = [each.attempt.report for each in results if each.attempt]
    names = [report.runtime_results.cases[0].name for report in reports if report and report.runtime_results]
    assert names == [PATH, OTHER]


@pytest.mark.parametrize(
    "submission",
    [
        extractor(GOOD),
        extractor(LOUD, PATH, OTHER),
        extractor(RAISES),
        extractor(PROCESSES),
        extractor(GREEDY, seconds=2),
    ],
    ids=["good", "loud", "raises", "refused", "greedy"],
)
def test_replay_of_the_same_on_the_same_differs_in_nothing(
    client: PlainClient, submission: dict[str, object]
) -> None:
    first = client.submit(submission, wait_s=60)

    again = client.replay(first["id"], wait_s=60)

    assert again["replay_diff"]["differences"] == []
    assert (again["replay_diff"]["same"], again["verdict"]) == (True, first["verdict"])


def test_all_events_are_those_of_every_attempt(daemon: DaemonProcess, client: PlainClient) -> None:
    with daemon.client() as following:
        stream = following.all_events(after="0")  # a place that is none: what is at hand comes first
        seen: dict[str, list[str]] = {}
        wanted = [client.submit(extractor(code), wait_s=60)["id"] for code in (GOOD, PROCESSES)]
        for event in stream:
            seen.setdefault(event.attempt_id or "", []).append(event.kind)
            if all("finished" in seen.get(each, ()) for each in wanted):
                break
    assert seen[wanted[0]].count("stage") == 5


def test_what_is_too_much_is_removed_when_asked(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"RETENTION__ATTEMPTS": "1"})
    daemon.start()
    with daemon.client() as client:
        old, new = (client.submit(extractor(PROCESSES), wait_s=60) for _ in range(2))
        assert daemon.assay("gc", "--dry-run").stdout.startswith(
            "1 attempt and 0 bundles of attempts that remain would be"
        )
        assert daemon.assay("gc").stdout.startswith("1 attempt and 0 bundles of attempts that remain removed")
        assert not daemon.bundle(old).exists()
        assert daemon.bundle(new).is_dir()
        assert [each["id"] for each in client.attempts()["attempts"]] == [new["id"]]


@needs_root
def test_batches_and_removal_are_kept_from_other_users(daemon: DaemonProcess, client: PlainClient) -> None:
    batch = client.send_batch([b"{"], name="ours")
    for target in ("", "/items", "/results", "/events"):
        assert ask_as_nobody(daemon, "GET", f"/v1/batches/{batch['id']}{target}")[0] == 404
    assert ask_as_nobody(daemon, "POST", f"/v1/batches/{batch['id']}/cancel")[0] == 404
    listed = ask_as_nobody(daemon, "GET", "/v1/batches")[1]["batches"]
    assert batch["id"] not in {each["id"] for each in listed}
    status, refusal = ask_as_nobody(daemon, "POST", "/v1/gc")
    assert (status, refusal["error"]["code"]) == (403, "peer.not_operator")
