from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from assayd.findings.units import judge_exec
from assayd.model.report import CaseStatus
from assayd.model.run import CapturedOutput, Cause, ResourceUsage, RunOutcome, UnitResult


def ended(cause: Cause, status: int | None = 0, *records: object, **evidence: object) -> UnitResult:
    return UnitResult(
        name="step",
        wait_status=status,
        results=tuple(json.dumps(record).encode() for record in records),
        stdout=CapturedOutput(head=b"said", total_bytes=4),
        usage=ResourceUsage(wall_s=2.0),
        outcome=RunOutcome(cause=cause, evidence=evidence),
    )


def failed_to_start(error: str) -> UnitResult:
    record = {"status": "not_executed", "error": error, "message": "why"}
    return ended(Cause.EXITED_NONZERO, 127 << 8, record)


def test_program_that_ended_well_passes_with_its_output() -> None:
    tried = judge_exec("step", ended(Cause.COMPLETED), program="bash")
    assert tried.findings == ()
    assert (tried.case.status, tried.case.exit_code, tried.case.stdout) == (CaseStatus.PASSED, 0, "said")


@pytest.mark.parametrize(
    ("unit", "status", "rule", "words"),
    [
        (ended(Cause.EXITED_NONZERO, 127 << 8), CaseStatus.FAILED, "sandbox.exited_nonzero", "exit code 127"),
        (ended(Cause.SIGNALLED, 11, signal="SIGSEGV"), CaseStatus.FAILED, "sandbox.signalled", "SIGSEGV"),
        (ended(Cause.TIMEOUT, 9), CaseStatus.ERROR, "sandbox.timeout", "limit of the unit"),
        (ended(Cause.LEFT_PROCESSES), CaseStatus.ERROR, "sandbox.left_processes", "left processes running"),
        (failed_to_start("ENOENT"), CaseStatus.FAILED, "sandbox.not_executed", "'bash' isn't in the image"),
        (failed_to_start("EACCES"), CaseStatus.FAILED, "sandbox.not_executed", "'bash' can't be executed"),
        (failed_to_start("ELOOP"), CaseStatus.FAILED, "sandbox.not_executed", "(why)"),
        (
            ended(Cause.EXITED_NONZERO, 1 << 8, {"status": "no_function"}),
            CaseStatus.FAILED,
            "sandbox.protocol_violation",
            "not a program's record",
        ),
    ],
)
def test_each_other_end_is_one_finding_with_a_remedy(
    unit: UnitResult, status: CaseStatus, rule: str, words: str
) -> None:
    tried = judge_exec("step", unit, program="bash")
    [finding] = tried.findings
    assert (tried.case.status, finding.rule, bool(finding.suggestion)) == (status, rule, True)
    assert words in finding.message


def test_program_that_is_not_there_is_answered_with_those_that_are() -> None:
    [finding] = judge_exec("step", failed_to_start("ENOENT"), program="sh", offer="It has bash.").findings
    assert (finding.suggestion or "").endswith("It has bash.")


def test_killed_program_has_no_exit_code() -> None:
    unit = ended(Cause.OUT_OF_MEMORY, int(signal.SIGKILL))
    assert judge_exec("step", unit, program="bash").case.exit_code is None
    assert judge_exec("step", replace(unit, wait_status=None), program="bash").case.exit_code is None


def test_program_that_was_never_reached_is_skipped() -> None:
    assert judge_exec("step", None, program="bash").case.status is CaseStatus.SKIPPED
