"""The line of a finished attempt, and what is counted of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assayd.attempts.attempt_run import Finished
from assayd.attempts.telemetry import count_attempt, facts_of, summary_line, watch_disk
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict
from assayd.model.submission import Peer

GOLDEN = Path(__file__).parents[2] / "golden"
START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)


def finished(name: str, verdict: Verdict, **attempt: object) -> Finished:
    document = json.loads((GOLDEN / f"{name}.json").read_text())
    made = Attempt(
        id="01JTC8ZK5V0000000000000001",
        kind="extractor",
        policy="extractor",
        input_digest="ab",
        created_at=START,
        peer=Peer(uid=1000, gid=1000, pid=7),
        labels={"category": "reports"},
        state=State.FINISHED,
        verdict=verdict,
        cause=document["cause"],
        timings_s={"queued": 0.001, "run": 0.25, "total": 0.5},
        bundle=document["bundle"],
        rules=("runtime.exception",),
    )
    facts = facts_of(document["report"] or {}, document["execution"])
    return Finished(attempt=replace(made, **attempt), report=b"", execution=b"", facts=facts)


def test_line_of_an_attempt_answers_what_an_operator_asks() -> None:
    line = summary_line(finished("failed_at_run", Verdict.FAILED, warm=True, batch_id="nightly"))

    assert line["verdict"] == "failed"
    assert (line["cause"], line["exit_code"], line["stage_reached"]) == ("exited_nonzero", 1, "sandbox")
    assert (line["errors"], line["rules"]) == (1, ["runtime.exception"])
    assert (line["uid"], line["pid"], line["batch_id"], line["warm"]) == (1000, 7, "nightly", True)
    assert (line["run_ms"], line["total_ms"]) == (250.0, 500.0)
    assert (line["peak_memory_bytes"], line["denied_connections"]) == (31457280, 1)
    assert line["container"] == "c0ffee"


def test_line_of_an_attempt_holds_nothing_that_the_guest_wrote() -> None:
    execution = {"stdout": "written by the guest", "stderr": "written by the guest", "stdout_bytes": 20}

    assert "written by the guest" not in json.dumps(dict(facts_of({}, execution).told))


def test_line_of_a_refusal_has_the_same_keys() -> None:
    refused = summary_line(finished("refused", Verdict.FAILED))

    assert refused.keys() == summary_line(finished("failed_at_run", Verdict.FAILED)).keys()
    assert (refused["container"], refused["cpu_ms"]) == (None, None)


def test_attempt_is_counted_by_verdict_cause_stage_and_denial() -> None:
    metrics = Metrics()

    count_attempt(metrics, finished("failed_at_run", Verdict.FAILED, warm=False))

    text = metrics.render().decode()
    assert 'assayd_attempts_total{cause="exited_nonzero",kind="extractor",verdict="failed"} 1.0' in text
    assert 'assayd_leases_total{start="cold"} 1.0' in text
    assert 'assayd_denied_connections_total{kind="extractor"} 1.0' in text
    assert 'assayd_denied_imports_total{kind="extractor"} 0.0' in text
    assert 'assayd_attempt_duration_seconds_count{stage="run"} 1.0' in text
    assert 'assayd_stage_duration_seconds_count{kind="extractor",stage="sandbox"} 1.0' in text
    assert 'stage="quality"' not in text  # it was skipped


def test_disk_is_measured_when_it_is_asked_for(tmp_path: Path) -> None:
    metrics = Metrics()
    watch_disk(metrics, tmp_path)
    (tmp_path / "assayd.db").write_bytes(b"12345")
    (tmp_path / "assayd.db-wal").write_bytes(b"678")

    text = metrics.render().decode()

    assert "assayd_database_bytes 8.0" in text
    free = next(line for line in text.splitlines() if line.startswith("assayd_disk_free_bytes "))
    assert float(free.split()[1]) > 0


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
def test_every_kind_of_end_is_counted(name: str) -> None:
    metrics = Metrics()

    count_attempt(metrics, finished(name, Verdict.ERROR if name == "broken" else Verdict.FAILED))

    assert "assayd_attempts_total{" in metrics.render().decode()
