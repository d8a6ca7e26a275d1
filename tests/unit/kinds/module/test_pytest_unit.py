"""The record of a `pytest` unit, compared with its end and with the file's tests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.kinds.module.expected_tests import ExpectedTests
from assayd.kinds.module.pytest_unit import TestedFile, build_no_tests_ran_finding, judge_tests
from assayd.model.finding import has_errors
from assayd.model.report import CaseStatus
from assayd.model.run import Cause, PolicyEvent, ResourceUsage, RunOutcome, UnitEndReason, UnitResult

FILE = "test_it.py"
TEXTS = {FILE: "def test_a():\n    assert 1 == 2\n\ndef test_b(): ...\n", "adapter.py": "import os\n"}
EXPECTED = ExpectedTests(certain=("test_a", "test_b"), possible=("test_c",))
A, B = f"{FILE}::test_a", f"{FILE}::test_b"
RAISED = {
    "error_type": "AssertionError",
    "message": "assert 1 == 2",
    "file": FILE,
    "line": 2,
    "traceback": "Traceback …",
    "where": "test_a",
}
Line = dict[str, object]


def started(name: str) -> Line:
    return {"event": "started", "id": name}


def ended(name: str, outcome: str = "passed", **more: object) -> Line:
    return {
        "event": "ended",
        "id": name,
        "outcome": outcome,
        "duration_s": 0.5,
        "stdout": "out",
        "stderr": "",
        **more,
    }


def collected(*names: str) -> Line:
    return {"event": "collected", "tests": list(names)}


GOOD = (collected(A, B), started(A), ended(A), started(B), ended(B))


def body(*lines: Line, status: str = "returned", notes: tuple[str, ...] = (), **changes: object) -> bytes:
    names = next((line["tests"] for line in lines if line.get("event") == "collected"), [])
    final = {
        "status": status,
        "framework": 0,
        "lines": len(lines),
        "collected": len(names),  # type: ignore[arg-type]
        "ended": sum(line.get("event") == "ended" for line in lines),
        "notes": list(notes),
        **changes,
    }
    return b"\n".join(json.dumps(line).encode() for line in (*lines, final))


def unit(record: bytes | None, cause: Cause = Cause.COMPLETED, **changes: object) -> UnitResult:
    made = UnitResult(
        name=FILE,
        wait_status=0 if cause is Cause.COMPLETED else 256,
        results=() if record is None else (record,),
        usage=ResourceUsage(wall_s=3.0),
        outcome=RunOutcome(cause=cause),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def judge(result: UnitResult | None, expected: ExpectedTests = EXPECTED) -> TestedFile:
    return judge_tests(FILE, result, TEXTS, expected)


def failed(*lines: Line, **more: object) -> TestedFile:
    return judge(unit(body(*lines, status="failed", **more), Cause.EXITED_NONZERO))  # type: ignore[arg-type]


def rules(tested: TestedFile) -> list[str]:
    return [finding.rule for finding in tested.findings]


def statuses(tested: TestedFile) -> list[str]:
    return [case.status.value for case in tested.cases]


def test_tests_that_pass_are_cases() -> None:
    tested = judge(unit(body(*GOOD)))
    assert rules(tested) == []
    assert [case.name for case in tested.cases] == [A, B]
    assert statuses(tested) == ["passed", "passed"]
    first = tested.cases[0]
    assert (first.duration_s, first.stdout, first.cause) == (0.5, "out", Cause.COMPLETED)


def test_failure_has_its_place_and_its_words() -> None:
    tested = failed(collected(A, B), started(A), ended(A, "failed", **RAISED), started(B), ended(B))
    [finding] = tested.findings
    assert (finding.rule, finding.category, finding.file, finding.line) == (
        "tests.failed",
        "test_failure",
        FILE,
        2,
    )
    assert finding.message == f"{A}: AssertionError: assert 1 == 2"
    assert finding.snippet == "    assert 1 == 2"
    assert (finding.context, bool(finding.suggestion)) == (A, True)
    case = tested.cases[0]
    assert (case.status, case.error_type, case.file, case.line) == (
        CaseStatus.FAILED,
        "AssertionError",
        FILE,
        2,
    )
    assert case.traceback == "Traceback …"


@pytest.mark.parametrize(
    ("line", "rule", "status"),
    [
        (ended(A, "error", step="setup", **RAISED), "tests.error", "error"),
        (ended(A, "failed", **{**RAISED, "error_type": "SystemExit"}), "tests.exited", "failed"),
        (ended(A, "failed", message="[XPASS(strict)] why"), "tests.failed", "failed"),
    ],
)
def test_other_bad_ends_have_their_own_rules(line: Line, rule: str, status: str) -> None:
    tested = failed(collected(A, B), started(A), line, started(B), ended(B))
    assert rules(tested) == [rule]
    assert statuses(tested) == [status, "passed"]


def test_test_that_gave_a_coroutine_never_ran() -> None:
    reason = "Skipped: async def function and no async plugin installed (see warnings)"
    lines = (
        collected(A, B),
        started(A),
        ended(A, "skipped", reason=reason),
        started(B),
        ended(B),
    )
    tested = judge(unit(body(*lines)))
    assert (rules(tested), statuses(tested)) == (["tests.never_runs"], ["skipped", "passed"])


def test_skipped_tests_give_their_reason() -> None:
    lines = (
        collected(A, B),
        started(A),
        ended(A, "skipped", reason="no"),
        started(B),
        ended(B, "xfailed", reason="yes"),
    )
    tested = judge(unit(body(*lines)))
    assert rules(tested) == []
    assert [case.message for case in tested.cases] == ["no", "expected to fail: yes"]
    assert statuses(tested) == ["skipped", "skipped"]


def test_file_that_cannot_be_imported_is_told_where() -> None:
    raised = {**RAISED, "error_type": "ImportError", "message": "no X", "file": "adapter.py", "line": 1}
    tested = failed({"event": "not_imported", **raised})
    [finding] = tested.findings
    assert (finding.rule, finding.file, finding.line) == ("tests.import_failed", "adapter.py", 1)
    assert statuses(tested) == ["skipped", "skipped"]


@pytest.mark.parametrize(
    ("error_type", "rule"),
    [
        ("SystemExit", "tests.exited"),
        ("SyntaxError", "syntax.guest_disagrees"),
        ("ModuleNotFoundError", "tests.import_failed"),
    ],
)
def test_import_that_fails_is_told_by_what_failed(error_type: str, rule: str) -> None:
    assert rules(failed({"event": "not_imported", **RAISED, "error_type": error_type})) == [rule]


def test_file_that_skips_itself_has_skipped_tests_and_no_finding() -> None:
    tested = judge(unit(body({"event": "import_skipped", **RAISED, "message": "no device"})))
    assert rules(tested) == []
    assert [case.message for case in tested.cases] == ["no device", "no device"]


def test_tests_that_never_ran_are_told() -> None:
    stopped = {"event": "stopped", **RAISED, "error_type": "Exit", "message": "enough"}
    tested = failed(collected(A, B), started(A), stopped)
    assert rules(tested) == ["tests.exited"]
    assert statuses(tested) == ["error", "skipped"]
    assert rules(failed(collected(A, B), started(A), ended(A))) == ["tests.not_run"]


def test_tests_are_compared_with_those_of_the_text() -> None:
    c, strange = f"{FILE}::test_c[1-x::y]", f"{FILE}::test_new"
    more = (started(c), ended(c))
    assert rules(judge(unit(body(collected(A, B, c), *GOOD[1:], *more)))) == []
    lines = (collected(A, B, strange), *GOOD[1:], started(strange), ended(strange))
    assert rules(judge(unit(body(*lines)))) == ["tests.unexpected"]
    assert rules(judge(unit(body(collected(A), started(A), ended(A))))) == ["tests.not_collected"]
    other = "other.py::test_a"
    assert "tests.unexpected" in rules(judge(unit(body(collected(other), started(other), ended(other)))))


def test_exchanged_framework_fails_though_all_tests_pass() -> None:
    tested = failed(*GOOD, notes=("pytest.raises was exchanged",))
    assert rules(tested) == ["tests.tampered"]


def test_too_many_tests_are_told() -> None:
    assert rules(failed({"event": "too_many", "count": 5000})) == ["tests.too_many"]


def test_test_that_hangs_is_named_and_those_before_it_are_shown() -> None:
    partial = body(*GOOD[:4]).rpartition(b"\n")[0] + b'\n{"event": "en'
    late = unit(partial, Cause.TIMEOUT, wait_status=9, end=UnitEndReason.DEADLINE, malformed="in the middle")
    tested = judge(late)
    [finding] = tested.findings
    assert (finding.rule, finding.context) == ("tests.hung", B)
    assert "3 s" in finding.message
    assert statuses(tested) == ["passed", "error"]


@pytest.mark.parametrize(
    "cause", [Cause.OUT_OF_MEMORY, Cause.SIGNALLED, Cause.OUTPUT_LIMIT, Cause.LEFT_PROCESSES]
)
def test_other_ends_keep_their_own_rules_whatever_was_told(cause: Cause) -> None:
    tested = judge(unit(body(*GOOD), cause, malformed=None if cause is Cause.LEFT_PROCESSES else "cut"))
    assert rules(tested) == [f"sandbox.{cause}"]


def test_import_that_hangs_names_the_file() -> None:
    [finding] = judge(unit(None, Cause.TIMEOUT, wait_status=9)).findings
    assert (finding.rule, FILE in finding.message) == ("tests.hung", True)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b"PASS",
        body(*GOOD) + b"\n{}",
        body(*GOOD).rpartition(b"\n")[0],
        body(*GOOD, lines=4),
        body(*GOOD, ended=3),
        body(*GOOD, status="fine"),
        body(*GOOD, status="failed"),
        body(*GOOD[:3]),
        body(GOOD[0], *GOOD[3:], *GOOD[1:3]),
        body(*GOOD, *GOOD[3:]),
        body(*GOOD[1:]),
        body(collected(A, B), started(A), ended(B)),
        body(collected(A, B), started(A), ended(A, "great"), started(B), ended(B)),
        body(collected(A, B), started(A), ended(A, "failed", **RAISED), started(B), ended(B)),
        body(*GOOD, collected(A, B)),
        body(*GOOD, notes=("pytest.raises was exchanged",)),
        body({"event": "not_imported", **RAISED}),
        body({"event": "shout"}),
        body(collected(A, B), started(A), ended(A, duration_s="1"), started(B), ended(B)),
        body(collected(A, B), started(A), ended(A, stdout=7), started(B), ended(B)),
        b"[" * 5000,
    ],
)
def test_record_that_does_not_fit_is_a_contradiction(record: bytes) -> None:
    assert "tests.contradicted" in rules(judge(unit(record)))


def test_record_against_the_exit_code_is_a_contradiction() -> None:
    assert rules(judge(unit(body(*GOOD), Cause.EXITED_NONZERO))) == ["tests.contradicted"]
    assert rules(judge(unit(body(*GOOD, status="failed"), Cause.EXITED_NONZERO))) == ["tests.contradicted"]


def test_two_records_are_a_contradiction() -> None:
    forged = unit(
        None, Cause.PROTOCOL_VIOLATION, results=(body(*GOOD), body(*GOOD)), malformed="more than one result"
    )
    tested = judge(forged)
    assert rules(tested) == ["tests.contradicted"]
    assert statuses(tested) == ["error", "error"]


def test_refused_acts_are_findings_with_their_file() -> None:
    events = (
        PolicyEvent(kind="import", detail="socket", allowed=False, enforced=True, file="adapter.py", line=1),
        PolicyEvent(kind="network", detail="a.org:443", allowed=False, enforced=True, file=FILE, line=2),
        PolicyEvent(kind="os._exit", detail="os._exit", allowed=False, enforced=True, file=FILE, line=1),
    )
    tested = judge(unit(body(*GOOD), Cause.POLICY_VIOLATION, wait_status=0, events=events))
    assert [(f.rule, f.category, f.file, f.line) for f in tested.findings] == [
        ("policy.import", "import_violation", "adapter.py", 1),
        ("policy.network", "network_violation", FILE, 2),
        ("tests.exited", "test_failure", FILE, 1),
    ]


def test_unit_that_never_started_has_skipped_cases() -> None:
    tested = judge(None)
    assert (rules(tested), statuses(tested)) == ([], ["skipped", "skipped"])


def test_nothing_that_ran_is_told_apart_from_all_that_was_skipped() -> None:
    assert build_no_tests_ran_finding([], [FILE]).rule == "tests.none_ran"
    lines = (collected(A), started(A), ended(A, "skipped", reason="no network"))
    tested = judge(unit(body(*lines)), ExpectedTests(certain=("test_a",)))
    found = build_no_tests_ran_finding(tested.cases, [FILE])
    assert (found.rule, "no network" in found.message) == ("tests.all_skipped", True)


_LINES = st.sampled_from(
    [*GOOD, {"event": "stopped", **RAISED}, {"event": "not_imported", **RAISED}, {"event": 1}, {}]
)


@given(
    st.lists(_LINES, max_size=7),
    st.sampled_from(["returned", "failed"]),
    st.sampled_from([Cause.COMPLETED, Cause.EXITED_NONZERO]),
)
def test_no_order_of_lines_passes_but_the_right_one(lines: list[Line], status: str, cause: Cause) -> None:
    tested = judge(unit(body(*lines, status=status), cause))
    passes = tuple(lines) == GOOD and status == "returned" and cause is Cause.COMPLETED
    assert has_errors(tested.findings) is not passes


@given(st.binary(max_size=60))
def test_no_bytes_pass(record: bytes) -> None:
    assert has_errors(judge(unit(record)).findings)


def test_module_that_is_none_is_told_with_the_files_that_are() -> None:
    events = (
        PolicyEvent(kind="import", detail="client", allowed=False, enforced=True, file=FILE, line=None),
    )
    tested = judge(unit(body(*GOOD), Cause.POLICY_VIOLATION, wait_status=0, events=events))
    [finding] = tested.findings
    assert finding.rule == "policy.import"
    assert "neither a file of the module" in finding.message
    assert "adapter" in (finding.suggestion or "")


def test_fixture_that_is_none_is_named() -> None:
    told = {**RAISED, "error_type": "FixtureLookupError", "message": "('mocker', <FixtureRequest for <x>>)"}
    lines = (collected(A), started(A), ended(A, "error", **told))
    tested = judge(
        unit(body(*lines, status="failed"), Cause.EXITED_NONZERO), ExpectedTests(certain=("test_a",))
    )
    assert "fixture 'mocker' doesn't exist" in (tested.findings[0].suggestion or "")
