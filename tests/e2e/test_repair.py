"""Every way in which a repair can end, with real containers and a scripted provider."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assayd.sandbox.sandbox import read_oom_kill_count
from assayd_client import ClientError, Document, PlainClient
from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import ROOT

pytestmark = pytest.mark.engine

WAIT_S = 60.0
ENDLESS = "while True: pass"
FAILURES = ("{}['a']", "int('a')", "1 / 0", "[][1]", "None()")
"""Failures of different kinds."""


class Stage:
    """A daemon with a scripted provider, and the provider's scripts."""

    def __init__(self, engine: str) -> None:
        self.daemon = new_daemon(engine, settings={"POOL__DEFAULT_TARGET": "1"})
        self.folder = self.daemon.home / "plays"
        self.folder.mkdir()
        os.mkfifo(self.folder / "asked")
        program = [sys.executable, str(ROOT / "tests/support/texts/fix_program.py"), str(self.folder)]
        providers = {
            "played": {"type": "command", "argv": program},
            "gone": {"type": "command", "argv": ["/nonexistent/model"]},
        }
        alert = ["/bin/sh", "-c", f"cat > {self.folder}/alert"]
        self.daemon.settings |= {
            "REPAIR__PROVIDERS": json.dumps(providers),
            "REPAIR__ON_EXHAUSTED": json.dumps(alert),
        }

    def write(self, name: str, *steps: str | None) -> None:
        """Write a script; each step is the statement of a fix, or None to wait."""
        texts = [step if step is None else f"# {name}\n{step}\n" for step in steps]
        (self.folder / f"{name}.json").write_text(json.dumps(texts))

    def asked(self, name: str) -> int:
        """Return the number of requests to the provider."""
        return (self.folder / f"{name}.count").stat().st_size

    def wait_until_asked(self) -> None:
        """Wait until a provider waits."""
        pipe = os.open(self.folder / "asked", os.O_RDONLY | os.O_NONBLOCK)
        try:
            ready, _, _ = select.select([pipe], [], [], WAIT_S)
            assert ready
            assert os.read(pipe, 16)
        finally:
            os.close(pipe)


@contextmanager
def staged(engine: str, **settings: str) -> Iterator[Stage]:
    """Run a daemon with a scripted provider while the body runs."""
    stage = Stage(engine)
    stage.daemon.settings |= settings
    try:
        stage.daemon.start()
        yield stage
    finally:
        stage.daemon.dispose()


@pytest.fixture(scope="module")
def stage(one_engine: str) -> Iterator[Stage]:
    """Return the daemon that all tests but one share."""
    with staged(one_engine) as stage:
        yield stage


@pytest.fixture
def client(stage: Stage) -> Iterator[PlainClient]:
    with stage.daemon.client() as client:
        yield client


def script(name: str, statement: str, **more: object) -> Document:
    return {
        "kind": "script",
        "payload": {"code": f"# {name}\n{statement}\n"},
        "repair": {"provider": "played"},
        **more,
    }


def started(client: PlainClient, submission: Document) -> tuple[Document, Document]:
    """Submit a failing submission that asks for a repair; return the attempt and the repair."""
    attempt = client.submit(submission, wait_s=WAIT_S)
    assert attempt["verdict"] == "failed"
    (repair,) = client.repairs_of(attempt["id"])["repairs"]
    return attempt, repair


def ended(client: PlainClient, repair: Document) -> Document:
    """Wait until a repair ends; return it."""
    for _ in client.repair_events(repair["id"]):
        pass
    return client.repair_state(repair["id"])


def repaired(client: PlainClient, submission: Document) -> Document:
    return ended(client, started(client, submission)[1])


def verdicts(repair: Document) -> list[str | None]:
    return ["duplicate" if fix["duplicate"] else fix["verdict"] for fix in repair["attempts"]]


def under_way(stage: Stage, client: PlainClient, repair: Document) -> str:
    """Wait until the attempt of a repair's first fix exists, which is recorded earlier; return its id."""
    told = client.repair_events(repair["id"])
    attempt_id: str = next(fix["attempt_id"] for event in told for fix in event.body["attempts"])
    end = time.monotonic() + WAIT_S
    with stage.daemon.http() as http:
        while http.get(f"/v1/attempts/{attempt_id}").status_code == 404:
            assert time.monotonic() < end
    return attempt_id


def kill_container_of(stage: Stage, attempt_id: str) -> None:
    """Kill the container of an attempt's latest run without the daemon's knowledge."""
    stage.daemon.kill_container(stage.daemon.container_of(attempt_id))


def test_validated_fix_ends_it_and_the_chain_is_told_everywhere(stage: Stage, client: PlainClient) -> None:
    stage.write("good", FAILURES[1], "print('ok')")
    attempt, begun = started(client, script("good", FAILURES[0]))

    repair = ended(client, begun)

    assert (repair["outcome"], verdicts(repair)) == ("repaired", ["failed", "validated"])
    last = client.attempt(repair["attempts"][1]["attempt_id"])
    assert (last["attempt_number"], last["parent_id"]) == (3, repair["attempts"][0]["attempt_id"])
    shown = stage.daemon.assay("show", attempt["id"]).stdout
    for line in ("failed: ", "KeyError", "reason: Step 2.", "-int('a')", "+print('ok')", "Repair: repaired"):
        assert line in shown
    (told,) = [a["name"] for a in last["artifacts"] if a["name"].startswith("repair_")]
    kept = json.loads(client.artifact(last["id"], told))
    assert (kept["id"], verdicts(kept)) == (repair["id"], ["failed", "validated"])
    assert [fix["diff"] for fix in kept["attempts"]] == [fix["diff"] for fix in repair["attempts"]]
    assert not [a for a in attempt["artifacts"] if a["name"].startswith("repair_")]


def test_used_up_attempts_end_it_and_the_operator_is_told(stage: Stage, client: PlainClient) -> None:
    stage.write("worse", *FAILURES[1:])
    repair = repaired(client, script("worse", FAILURES[0]))

    assert (repair["outcome"], verdicts(repair)) == ("exhausted", ["failed"] * 3)
    assert stage.asked("worse") == 3
    stage.daemon.log.wait_for("repair.alerted", repair_id=repair["id"])
    told = json.loads((stage.folder / "alert").read_text())
    assert told["repair"]["id"] == repair["id"]
    assert told["report"]["attempt_id"] == repair["attempts"][2]["attempt_id"]


def test_failure_that_comes_back_twice_ends_it_as_stuck(stage: Stage, client: PlainClient) -> None:
    stage.write("same", "x = 1\n1 / 0", "x = 2\n1 / 0")
    repair = repaired(client, script("same", FAILURES[2]))

    assert (repair["outcome"], verdicts(repair)) == ("stuck", ["failed"] * 2)
    assert [fix["strategy"] for fix in repair["attempts"]] == ["fix", "rethink"]


def test_duplicate_is_not_run_and_counts_and_another_is_asked_for(stage: Stage, client: PlainClient) -> None:
    stage.write("again", f"# changed\n{FAILURES[0]}", "print('ok')")
    repair = repaired(client, script("again", FAILURES[0]))

    assert (repair["outcome"], verdicts(repair)) == ("repaired", ["duplicate", "validated"])
    assert repair["attempts"][0]["attempt_id"] is None
    assert repair["attempts"][1]["strategy"] == "different"


def test_duplicates_alone_use_the_attempts_up(stage: Stage, client: PlainClient) -> None:
    stage.write("only", *[f"#\n{FAILURES[0]}"] * 3)
    repair = repaired(client, script("only", FAILURES[0]))

    assert (repair["outcome"], verdicts(repair)) == ("exhausted", ["duplicate"] * 3)


def test_policy_violation_ends_it_at_once(stage: Stage, client: PlainClient) -> None:
    stage.write("evil", "import socket", "print('ok')")
    repair = repaired(client, script("evil", FAILURES[0], policy="default"))

    assert (repair["outcome"], verdicts(repair)) == ("terminal", ["failed"])
    assert repair["attempts"][0]["cause"] == "policy_violation"
    assert stage.asked("evil") == 1


def test_trouble_of_ours_is_never_shown_to_a_provider(stage: Stage, client: PlainClient) -> None:
    for number in range(10):  # until no kill elsewhere on the machine can be taken for the reason
        play, before = f"lost-{number}", read_oom_kill_count()
        stage.write(play, ENDLESS, "print('ok')")
        begun = started(client, script(play, FAILURES[0]))[1]
        running = under_way(stage, client, begun)
        for event in client.events(running):
            if event.kind == "unit" and event.body["status"] == "started":
                kill_container_of(stage, running)
        repair = ended(client, begun)
        if read_oom_kill_count() == before:
            break

    assert (repair["outcome"], verdicts(repair)) == ("terminal", ["error"])
    assert stage.asked(play) == 1


def test_provider_that_cannot_be_run_ends_it_with_the_reason(client: PlainClient) -> None:
    repair = repaired(client, {**script("x", FAILURES[0]), "repair": {"provider": "gone"}})

    assert (repair["outcome"], repair["attempts"]) == ("provider_failed", [])
    assert "/nonexistent/model can't be started" in repair["detail"]


def test_repair_is_cancelled_while_the_provider_thinks(stage: Stage, client: PlainClient) -> None:
    stage.write("slow", None)
    begun = started(client, script("slow", FAILURES[0]))[1]
    stage.wait_until_asked()

    client.cancel_repair(begun["id"])

    assert ended(client, begun)["outcome"] == "cancelled"
    with pytest.raises(ClientError) as refused:
        client.cancel_repair(begun["id"])
    assert refused.value.status == 409


def test_repair_is_cancelled_with_the_attempt_that_it_has_under_way(
    stage: Stage, client: PlainClient
) -> None:
    stage.write("long", ENDLESS)
    begun = started(client, script("long", FAILURES[0]))[1]
    running = under_way(stage, client, begun)
    next(e for e in client.events(running) if e.kind == "unit" and e.body["status"] == "started")

    client.cancel_repair(begun["id"])

    assert ended(client, begun)["outcome"] == "cancelled"
    assert client.attempt(running, wait_s=WAIT_S)["verdict"] == "cancelled"


def pipeline(name: str, statement: str) -> Document:
    """Return a pipeline whose second step fails; its first line is a comment in bash and in SQL."""
    steps = [
        {"name": "first", "type": "bash", "content": "echo ready"},
        {"name": "second", "type": "bash", "content": f"# {name}\n{statement}\n"},
    ]
    return {"kind": "pipeline", "payload": {"steps": steps}, "repair": {"provider": "played"}}


@pytest.mark.parametrize(
    ("name", "last", "outcome", "status"),
    [
        ("mended", "echo ok", "repaired", "repaired"),
        ("given_up", "grep -q x data/missing", "exhausted", "failed"),
    ],
)
def test_repair_of_a_pipeline_changes_its_step_and_its_status(
    stage: Stage, client: PlainClient, name: str, last: str, outcome: str, status: str
) -> None:
    stage.write(name, "cat data/missing", "exit 3", last)
    attempt, begun = started(client, pipeline(name, "sort data/gone | grep -q x"))
    repair = ended(client, begun)

    assert (repair["outcome"], [fix["passage"] for fix in repair["attempts"]]) == (outcome, ["2"] * 3)
    assert client.repair_state(begun["id"])["record"] == {"pipeline_id": attempt["id"]}
    stored = client.records("pipelines", attempt["id"])
    assert stored["status"] == status
    assert [step["content"] for step in stored["steps"]] == ["echo ready", f"# {name}\n{last}\n"]
    followed = [attempt["id"], *(fix["attempt_id"] for fix in repair["attempts"])]
    assert [one["attempt_id"] for one in stored["attempts"]] == followed[::-1]


def test_statistics_tell_of_success_speed_duplicates_and_stuck(stage: Stage, client: PlainClient) -> None:
    stage.write("first", "print('ok')")
    repaired(client, script("first", FAILURES[0]))

    rows = json.loads(stage.daemon.assay("repair", "stats", "--json").stdout)["repairs"]

    (row,) = [row for row in rows if (row["kind"], row["provider"]) == ("script", "played")]
    assert row["ended"] >= row["repaired"] >= row["first_attempt"] >= 1
    assert 0 < row["first_attempt_rate"] <= row["success_rate"] <= 1
    assert min(row["fix_s"], row["repaired_s"]) > 0
    assert 'assayd_repair_fix_duration_seconds_count{kind="script",provider="played"}' in (
        client.metrics().decode()
    )


def test_answers_are_counted_by_week_kind_and_provider(stage: Stage, client: PlainClient) -> None:
    stage.write("counted", "print('ok')")
    repaired(client, script("counted", FAILURES[0]))

    weeks = client.answers(weeks=1, kind="script")["weeks"]
    printed = stage.daemon.assay("metrics", "--answers", "--weeks", "1", "--kind", "script")

    (week,) = [one for one in weeks if one["provider"] == "played"]
    assert week["repairs"] >= week["repaired"] >= 1
    assert all(one["attempts"] >= one["answered"] >= one["cleared"] for one in week["rules"])
    assert week["week"] in printed.stdout
    assert client.answers(kind="extractor")["weeks"] == []


def test_repair_goes_on_after_the_daemon_was_killed_and_never_tries_a_fourth_fix(stage: Stage) -> None:
    stage.write("killed", FAILURES[1], None, *FAILURES[2:4], "print('ok')")
    with stage.daemon.client() as client:
        begun = started(client, script("killed", FAILURES[0]))[1]
        stage.wait_until_asked()
    stage.daemon.kill()
    stage.daemon.start()

    with stage.daemon.client() as client:
        repair = ended(client, begun)

    assert (repair["outcome"], verdicts(repair)) == ("exhausted", ["failed"] * 3)
    assert [fix["fix_reason"] for fix in repair["attempts"]] == ["Step 1.", "Step 3.", "Step 4."]


def test_time_that_is_up_ends_it(one_engine: str) -> None:
    with staged(one_engine, REPAIR__TIMEOUT_S="1") as stage, stage.daemon.client() as client:
        stage.write("late", None)
        repair = repaired(client, script("late", FAILURES[0]))

    assert (repair["outcome"], repair["attempts"]) == ("timeout", [])
