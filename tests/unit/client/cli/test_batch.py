"""`assay batch` with a daemon in a thread."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from assayd_client import ClientError, NotFound, NotReady, PlainClient
from assayd_client.cli import main
from assayd_client.cli.batch import (
    BatchOutputs,
    BatchSummary,
    ThroughputMeter,
    _get_submission,
    exit_code,
    follow_batch,
    generate_name,
    send_and_report,
)
from assayd_client.cli.submitting import iter_batch_results
from support.cluster.either import EITHER, serving_either
from support.daemons.server import Served
from support.daemons.small_daemon import submission


@pytest.fixture(scope="module", params=EITHER)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving_either(request, tmp_path_factory.mktemp("s")) as served:
        yield served


@pytest.fixture
def assay(served: Served) -> Callable[..., int]:
    return lambda *words: main(["--socket", str(served.path), "batch", *map(str, words)])


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of lines; texts that begin with a brace are written unchanged."""

    def write(*codes: str, name: str = "items.jsonl") -> Path:
        file = tmp_path / name
        lines = (code if code.startswith("{") else json.dumps(submission(code)) for code in codes)
        file.write_text("\n".join(lines) + "\n")
        return file

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codes", "code"),
    [(["a", "b"], 0), (["a", "bad b"], 1), (["a", "bad b", "{"], 3), (["a", "{"], 3)],
)
def test_batch_is_run_and_its_end_is_the_exit_code(assay, write, codes: list[str], code: int) -> None:
    assert assay("run", write(*codes)) == code


def test_summary_counts_by_verdict_rule_and_cause(assay, write, capsys) -> None:
    assay("run", write("one", "bad", "bad again", "run", "{"), "--name", "summed")
    shown = capsys.readouterr()
    first, *others = shown.out.splitlines()
    assert re.fullmatch(r"summed  finished, 5 of 5 done in [0-9.]+m?s", first)
    assert others == [
        "       2 validated",
        "       2 failed",
        "       1 error (1 of them can't be submitted)",
        "",
        "Rules",
        "       2 small.bad",
        "",
        "Lines that can't be submitted",
        "       1 malformed: line 5",
        "           line 5: Expecting property name enclosed in double quotes at line 1, column 2",
        "",
        "Show the lines that weren't validated: assay batch results summed --failed",
        "Run these lines again: assay batch results summed --failed --lines | assay batch run -",
    ]
    assert shown.err == ""


def test_lines_that_are_not_validated_can_be_had_alone(assay, write, capsys) -> None:
    assay("run", write("one", "bad", "{"), "--name", "some")
    capsys.readouterr()

    assert assay("results", "some", "--failed") == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["line"], each["verdict"]) for each in results] == [(2, "failed"), (3, "error")]


def test_lines_that_are_not_validated_can_be_run_again(assay, write, tmp_path: Path, capsys) -> None:
    assay("run", write("one", "bad", "{", "bad again"), "--name", "lossy")
    capsys.readouterr()

    assert assay("results", "lossy", "--failed", "--lines") == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["payload"]["code"] for line in shown.out.splitlines()] == ["bad", "bad again"]
    assert shown.err == "assay: line 3 can't be printed: its submission isn't stored\n"
    (tmp_path / "again.jsonl").write_text(shown.out)
    assert assay("run", tmp_path / "again.jsonl", "--name", "again") == 1
    assert "2 failed" in capsys.readouterr().out


def test_line_whose_bundle_was_removed_meanwhile_is_named(capsys) -> None:
    def miss(attempt_id: str, name: str) -> bytes:
        raise NotFound("artifact.missing", "the bundle doesn't exist", status=404)

    attempt = {"id": "A", "artifacts": [{"name": "submission_1.json"}]}
    client: Any = SimpleNamespace(artifact=miss)
    assert _get_submission(client, {"line": 7, "attempt": attempt}) is None
    assert capsys.readouterr().err == "assay: line 7 can't be printed: its submission isn't stored\n"


def test_causes_are_those_of_failures() -> None:
    summary = BatchSummary()
    for cause in ("completed", "completed", "timeout"):
        summary.add({"verdict": "failed", "rules": [], "cause": cause, "error": None})
    shown = [each.plain for each in summary.lines()]
    assert shown == ["", "Causes", "       1 timeout"]


def test_files_have_every_result_in_input_order(assay, write, tmp_path: Path) -> None:
    out, junit, sarif = tmp_path / "new/out", tmp_path / "junit.xml", tmp_path / "found.sarif"
    file = write("one", "bad <two>\u2028", "{", "run")
    assert assay("run", file, "--out", out, "--junit", junit, "--sarif", sarif) == 3

    results = [json.loads(line) for line in (out / "results.jsonl").read_text().split("\n")[:-1]]
    assert [(each["line"], each["verdict"]) for each in results] == [
        (1, "validated"),
        (2, "failed"),
        (3, "error"),
        (4, "validated"),
    ]
    assert results[1]["attempt"]["report"]["findings"][0]["rule"] == "small.bad"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verdicts"] == {"validated": 2, "failed": 1, "error": 1}
    assert summary["rules"] == {"small.bad": 1}

    suite = ET.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], []]
    assert suite[1][0].get("type") == "small.bad"
    assert [case.get("name") for case in suite] == [
        f"line {each['line']}" + (f": {each['attempt_id']}" if each["attempt_id"] else "") for each in results
    ]

    (run,) = json.loads(sarif.read_text())["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["small.bad", "line.not_submitted"]
    found = [
        (each["ruleId"], each["level"], each["locations"][0]["physicalLocation"]["region"]["startLine"])
        for each in run["results"]
    ]
    assert found == [("small.bad", "error", 2), ("line.not_submitted", "error", 3)]
    assert run["results"][0]["message"]["text"] == "It is bad. (line 1 of the code)"


def test_results_of_an_earlier_batch_can_be_printed(assay, write, capsys) -> None:
    assay("run", write("one", "bad"), "--name", "printed")
    capsys.readouterr()
    assert assay("results", "printed") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["verdict"] for line in lines] == ["validated", "failed"]


def test_run_refuses_a_name_that_is_there_and_says_what_to_do(assay, write, capsys) -> None:
    file = write("one")
    assay("run", file, "--name", "twice")
    assert assay("run", file, "--name", "twice") == 2
    assert f"assay batch resume twice {file}" in capsys.readouterr().err


def test_resume_runs_only_what_is_missing(assay, served: Served, write, capsys) -> None:
    assay("run", write("resumed 1", "resumed 2"), "--name", "resumed")
    assert assay("resume", "resumed", write("resumed 1", "resumed 2", "resumed 3", "resumed 4")) == 0
    passed = [code for code in served.daemon.checks.passed if code.startswith("resumed")]
    assert sorted(passed) == [f"resumed {n}" for n in range(1, 5)]
    assert assay("resume", "nothing", write("x")) == 2


def test_line_with_another_policy_is_remarked_on(assay, write, capsys) -> None:
    assay("run", write("one", "two"), "--name", "changed")
    other = json.dumps(submission("two", policy="default"))
    assert assay("resume", "changed", write("one", other)) == 0
    assert "which are kept: 2\n" in capsys.readouterr().err


def test_dedupe_runs_the_same_once(assay, served: Served, write) -> None:
    assert assay("run", write("once", "once", "once"), "--dedupe") == 0
    assert served.daemon.checks.passed.count("once") == 1


def test_status_and_list_and_json(assay, write, capsys) -> None:
    assay("run", write("one"), "--name", "shown")
    capsys.readouterr()
    assert assay("status", "shown") == 0
    shown = capsys.readouterr().out
    assert re.fullmatch(r"shown  finished, 1 of 1 done in [0-9.]+m?s\n       1 validated\n", shown)
    assert assay("status", "shown", "--json") == 0
    assert json.loads(capsys.readouterr().out)["counts"]["validated"] == 1
    assert assay("list", "--limit", "1") == 0
    assert capsys.readouterr().out.split("\t")[:7] == ["shown", "finished", "1", "1", "1", "0", "0"]
    assert assay("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["batches"][0]["name"] == "shown"
    assert assay("run", write("one"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"validated": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "/nowhere.jsonl"], "/nowhere.jsonl: No such file or directory"),
        (
            ["status", "nothing"],
            "batch nothing doesn't exist (finished batches are deleted after `retention`)",
        ),
        (
            ["cancel", "nothing"],
            "batch nothing doesn't exist (finished batches are deleted after `retention`)",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(assay, words: list[str], said: str, capsys) -> None:
    assert assay(*words) == 2
    assert capsys.readouterr().err == f"assay: {said}\n"


def test_file_without_lines_is_refused(assay, write, capsys) -> None:
    empty = write("x", name="empty.jsonl")
    empty.write_text("\n\n")
    assert assay("run", empty) == 2
    assert "the file has no lines" in capsys.readouterr().err


def test_folder_that_cannot_be_written_is_refused(assay, write, tmp_path: Path, capsys) -> None:
    (tmp_path / "taken").write_text("")
    assert assay("run", write("one"), "--out", tmp_path / "taken") == 2
    assert "taken: File exists" in capsys.readouterr().err


def test_rate_is_that_of_the_last_seconds() -> None:
    rate = ThroughputMeter()
    rate.note(0.0, 0)
    assert (rate.items_per_second, rate.remaining(5)) == (0.0, "-:--")
    for second in range(1, 101):
        rate.note(float(second), second * (1 if second < 50 else 3))
    assert rate.items_per_second == pytest.approx(3.0, rel=0.1)
    assert (rate.remaining(0), rate.remaining(180), rate.remaining(30_000)) == ("0:00", "1:00", "2:46:40")


def test_exit_code_tells_our_trouble_before_failures() -> None:
    none = {"validated": 1, "failed": 0, "error": 0, "cancelled": 0}
    assert exit_code(none) == 0
    assert exit_code({**none, "failed": 1}) == 1
    assert exit_code({**none, "failed": 1, "error": 1}) == 3
    assert exit_code({**none, "failed": 1, "cancelled": 1}) == 5


@pytest.mark.parametrize(
    ("file", "stem"), [("a b/c d.jsonl", "c-d"), ("...jsonl", "batch"), ("x.y.jsonl", "x.y")]
)
def test_made_up_name_is_one_that_the_daemon_takes(file: str, stem: str) -> None:
    assert generate_name(Path(file)).startswith(f"{stem}-20")


class TestReplay:
    @pytest.fixture
    def replay(self, served: Served) -> Callable[..., int]:
        return lambda *words: main(["--socket", str(served.path), "replay", *words])

    def test_the_same_result_is_zero(self, replay, served: Served, capsys) -> None:
        with PlainClient(served.path) as client:
            first = client.submit(submission("run"), wait_s=10)["id"]
        assert replay(first) == 0
        assert f"replays {first}\n✓ Same result: validated\n" in capsys.readouterr().out
        assert replay(first, "--json") == 0
        assert json.loads(capsys.readouterr().out)["replay_diff"]["same"]

    def test_another_result_is_one_and_is_shown(self, replay, served: Served, capsys) -> None:
        with PlainClient(served.path) as client:
            first = client.submit(submission("run"), wait_s=10)["id"]
        served.daemon.sandbox.image_digest = "sha256:newer"
        try:
            assert replay(first) == 1
        finally:
            served.daemon.sandbox.image_digest = "sha256:image"
        shown = capsys.readouterr().out
        assert "✗ 2 differences: validated before, validated now" in shown
        assert '  report.image_digest: "sha256:image" → "sha256:newer"' in shown


def test_gc_tells_what_it_did(served: Served, capsys) -> None:
    assert main(["--socket", str(served.path), "gc", "--dry-run"]) == 0
    assert (
        capsys.readouterr().out
        == "0 attempts and 0 bundles of attempts that remain would be removed, 0.0 MiB\n"
    )
    assert main(["--socket", str(served.path), "gc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is False


def test_batch_is_read_from_standard_input(assay, write, monkeypatch, capsys) -> None:
    with write("one", "bad").open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert assay("run", "-", "--name", "piped") == 1
    assert "piped  finished, 2 of 2 done" in capsys.readouterr().out


def test_items_with_labels_are_named_by_them(assay, write, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    labelled = json.dumps({**submission("one"), "labels": {"platform": "x", "category": "weather"}})
    assert assay("run", write(labelled), "--junit", junit) == 0
    assert ET.parse(junit).getroot()[0].get("name") == "line 1: category=weather platform=x"


def test_first_reasons_of_lines_that_cannot_be_submitted_are_told(assay, write, capsys) -> None:
    wrong = json.dumps({**submission("one"), "labels": {"category": "Not Allowed"}})
    assay("run", write(*[wrong] * 5, "{"))
    shown = capsys.readouterr().out
    assert "       5 invalid: lines 1, 2, 3, 4, 5\n           line 1: labels.category: " in shown
    assert "line 3: labels.category" in shown
    assert "line 4: labels.category" not in shown


def test_batch_is_found_by_the_beginning_of_its_id_and_as_the_last(
    assay, write, served: Served, capsys
) -> None:
    assay("run", write("found"), "--name", "findable")
    with PlainClient(str(served.path)) as client:
        batch_id = client.batch("findable")["id"]
    capsys.readouterr()
    for said in ("findable", "last", batch_id, batch_id[:22].lower()):
        assert assay("status", said) == 0
        assert capsys.readouterr().out.startswith("findable ")
    assert assay("resume", "last", write("found", "more")) == 0


class AwayOnce:
    """A client whose gateway has lost its database: the first attempt of every request fails."""

    def __init__(self, problem: ClientError) -> None:
        self._problem = problem
        self._failed: set[str] = set()

    def _fail_once(self, what: str) -> None:
        if what not in self._failed:
            self._failed.add(what)
            raise self._problem

    def batch_events(self, batch_id: str) -> Iterator[object]:
        self._fail_once("events")
        return iter(())

    def batch(self, batch_id: str) -> dict[str, object]:
        self._fail_once("batch")
        return {**BATCH, "state": "finished"}

    def batch_results(self, batch_id: str) -> Iterator[dict[str, object]]:
        yield {"line": 1}
        self._fail_once("results")
        yield {"line": 2}


BATCH: dict[str, Any] = {"id": "b", "name": "b", "state": "running"}
BATCH["counts"] = {"total": 2, "waiting": 0, "running": 0, "failed": 0, "error": 0, "cancelled": 0}
UNREACHABLE = NotReady("store.unreachable", "the database does not answer", status=503, retryable=True)


def test_following_waits_while_the_gateway_has_no_database() -> None:
    client: Any = AwayOnce(UNREACHABLE)
    assert follow_batch(client, BATCH)["state"] == "finished"
    assert [result["line"] for result in iter_batch_results(client, "b")] == [1, 2]


def test_following_ends_at_once_with_what_does_not_pass() -> None:
    client: Any = AwayOnce(ClientError("internal", "it failed", status=500))
    with pytest.raises(ClientError, match="it failed"):
        follow_batch(client, BATCH)


@pytest.mark.slow
def test_batch_whose_gateway_stays_away_says_how_to_go_on(write, capsys) -> None:
    class Away(AwayOnce):
        def send_batch(self, pieces: object, **wanted: object) -> dict[str, object]:
            raise UNREACHABLE

    client: Any = Away(UNREACHABLE)
    file = write("a")
    with pytest.raises(NotReady):
        send_and_report(client, "nightly", file, BatchOutputs())
    assert f"assay batch resume nightly {file}" in capsys.readouterr().err
