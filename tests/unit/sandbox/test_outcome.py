"""From evidence to cause: a table of every line in the closed list."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from assayd.model.run import (
    Cause,
    ContainerFacts,
    Limits,
    PolicyEvent,
    Program,
    ResourceUsage,
    RunEndReason,
    RunResult,
    RunSpec,
    Unit,
    UnitEndReason,
    UnitResult,
)
from assayd.sandbox.outcome import classify_run, determine_unit_outcome, get_signal_name

EXIT_1 = 1 << 8
KILLED = int(signal.SIGKILL)
SEGFAULT = int(signal.SIGSEGV)
CALL = Unit(name="u", program=Program.CALL, arguments={}, deadline_s=1)
EXEC = Unit(name="u", program=Program.EXEC, arguments={}, deadline_s=1)
LIMITS = Limits(timeout_s=1, unit_timeout_s=1, memory_bytes=1, max_processes=1)
REFUSED = PolicyEvent(kind="import", detail="socket", allowed=False, enforced=True, line=1)
OBSERVED = PolicyEvent(kind="import", detail="socket", allowed=False, enforced=False, line=1)


def unit(**changes: object) -> UnitResult:
    given: dict[str, object] = {"name": "u", "wait_status": 0, "results": (b"{}",), **changes}
    return UnitResult(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (unit(), Cause.COMPLETED),
        (unit(wait_status=EXIT_1), Cause.EXITED_NONZERO),
        (unit(wait_status=SEGFAULT, results=()), Cause.SIGNALLED),
        (unit(wait_status=SEGFAULT | 0x80, results=()), Cause.SIGNALLED),
        (unit(wait_status=KILLED, end=UnitEndReason.DEADLINE), Cause.TIMEOUT),
        (unit(wait_status=KILLED, end=UnitEndReason.OUTPUT_LIMIT), Cause.OUTPUT_LIMIT),
        (unit(wait_status=KILLED, end=UnitEndReason.RESULT_LIMIT), Cause.OUTPUT_LIMIT),
        (unit(wait_status=KILLED, usage=ResourceUsage(oom_kills=1)), Cause.OUT_OF_MEMORY),
        (unit(wait_status=KILLED), Cause.SIGNALLED),
        (unit(wait_status=EXIT_1, usage=ResourceUsage(oom_kills=1)), Cause.OUT_OF_MEMORY),
        (unit(wait_status=EXIT_1, usage=ResourceUsage(pids_refused=3)), Cause.PROCESS_LIMIT),
        (unit(wait_status=EXIT_1, usage=ResourceUsage(work_full=True)), Cause.DISK_LIMIT),
        (unit(usage=ResourceUsage(oom_kills=1)), Cause.COMPLETED),
        (unit(usage=ResourceUsage(pids_refused=1)), Cause.COMPLETED),
        (unit(usage=ResourceUsage(work_full=True)), Cause.COMPLETED),
        (unit(wait_status=EXIT_1, events=(REFUSED,)), Cause.POLICY_VIOLATION),
        (unit(events=(REFUSED,)), Cause.POLICY_VIOLATION),
        (unit(events=(OBSERVED,)), Cause.COMPLETED),
        (
            unit(wait_status=EXIT_1, events=(REFUSED,), usage=ResourceUsage(work_full=True)),
            Cause.POLICY_VIOLATION,
        ),
        (unit(end=UnitEndReason.DEADLINE, events=(REFUSED,)), Cause.TIMEOUT),
        (unit(results=()), Cause.PROTOCOL_VIOLATION),
        (unit(results=(b"{}", b"{}")), Cause.PROTOCOL_VIOLATION),
        (unit(malformed="garbage"), Cause.PROTOCOL_VIOLATION),
        (unit(left_processes=1), Cause.LEFT_PROCESSES),
    ],
)
def test_the_evidence_of_a_unit_decides_its_cause(result: UnitResult, cause: Cause):
    assert determine_unit_outcome(result, CALL).cause is cause


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (unit(results=()), Cause.COMPLETED),
        (unit(results=(), wait_status=EXIT_1), Cause.EXITED_NONZERO),
        (unit(results=(), wait_status=SEGFAULT), Cause.SIGNALLED),
        (unit(results=(), left_processes=1), Cause.LEFT_PROCESSES),
        (unit(results=(), malformed="garbage"), Cause.PROTOCOL_VIOLATION),
        (unit(results=(b"{}",)), Cause.PROTOCOL_VIOLATION),
    ],
)
def test_a_unit_that_became_another_program_completes_without_a_record(result: UnitResult, cause: Cause):
    assert determine_unit_outcome(result, EXEC).cause is cause


def test_a_record_tells_a_program_that_never_started_from_one_that_gave_the_same_status():
    never, ended = (
        determine_unit_outcome(unit(results=r, wait_status=127 << 8), EXEC) for r in ((b"{}",), ())
    )
    assert never.evidence == {"unit": "u", "executed": False, "exit_code": 127}
    assert ended.evidence == {"unit": "u", "exit_code": 127}


def test_evidence_names_the_signal_and_what_killed():
    evidence = determine_unit_outcome(unit(wait_status=KILLED, end=UnitEndReason.OUTPUT_LIMIT), CALL).evidence
    assert evidence == {"unit": "u", "killed_by": "output read cap", "signal": "SIGKILL"}


def test_evidence_of_a_deadline_says_what_the_time_went_into():
    usage = ResourceUsage(wall_s=2.5, cpu_s=0.2504, starved_s=1.5)
    evidence = determine_unit_outcome(
        unit(wait_status=KILLED, end=UnitEndReason.DEADLINE, usage=usage), CALL
    ).evidence
    spent = {"limit_s": 1, "used_s": 0.25, "waited_s": 0.75, "starved_s": 1.5}
    assert evidence == {"unit": "u", "killed_by": "unit deadline", "signal": "SIGKILL", **spent}


def run(
    *units: UnitResult, end: RunEndReason = RunEndReason.FINISHED, planned: int | None = None, **facts: object
):
    count = len(units) if planned is None else planned
    plan = tuple(Unit(name="u", program=Program.CALL, arguments={}, deadline_s=1) for _ in range(count))
    spec = RunSpec(image="python", limits=LIMITS, units=plan)
    container = ContainerFacts(**facts)  # type: ignore[arg-type]
    units = tuple(replace(u, outcome=determine_unit_outcome(u, p)) for u, p in zip(units, plan, strict=False))
    return classify_run(RunResult(units=units, end=end, container=container), spec)


@pytest.mark.parametrize(
    ("end", "facts", "cause"),
    [
        (RunEndReason.CANCELLED, {}, Cause.CANCELLED),
        (RunEndReason.DEADLINE, {}, Cause.TIMEOUT),
        (RunEndReason.PROTOCOL, {}, Cause.PROTOCOL_VIOLATION),
        (RunEndReason.ENGINE, {}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 137, "oom_killed": True}, Cause.OUT_OF_MEMORY),
        (RunEndReason.LOST, {"exit_code": 137}, Cause.OUT_OF_MEMORY),
        (RunEndReason.LOST, {"exit_code": 137, "kernel_oom_kills": 2}, Cause.OUT_OF_MEMORY),
        (RunEndReason.LOST, {"exit_code": 137, "kernel_oom_kills": 0}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 137, "killed": True}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 137, "killed": True, "kernel_oom_kills": 1}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": None}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 70}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 0}, Cause.INFRASTRUCTURE),
        (RunEndReason.LOST, {"exit_code": 139}, Cause.PROTOCOL_VIOLATION),
    ],
)
def test_the_end_of_a_run_outweighs_its_units(end: RunEndReason, facts: dict[str, object], cause: Cause):
    result = run(unit(), unit(end=UnitEndReason.INTERRUPTED, wait_status=None, results=()), end=end, **facts)
    assert result.outcome.cause is cause
    assert result.units[0].outcome.cause is Cause.COMPLETED
    assert result.units[1].outcome.cause is cause


def test_the_first_bad_unit_names_the_run():
    result = run(unit(), unit(wait_status=EXIT_1), unit(wait_status=SEGFAULT))
    assert result.outcome.cause is Cause.EXITED_NONZERO


def test_a_finished_run_with_a_unit_missing_is_no_pass():
    assert run(unit(), planned=2).outcome.cause is Cause.PROTOCOL_VIOLATION


def test_a_finished_run_completes_when_all_units_do():
    assert run(unit(), unit()).outcome.completed


def test_limits_that_were_met_beside_a_pass_stay_in_the_evidence():
    outcome = run(unit(usage=ResourceUsage(pids_refused=2))).outcome
    assert outcome.completed
    assert outcome.evidence["limits_met"] == [{"unit": "u", "exit_code": 0, "pids_refused": 2}]


def test_unknown_signals_keep_their_number():
    assert (get_signal_name(11), get_signal_name(200)) == ("SIGSEGV", "signal 200")


def late(cpu_s: float, **met: object) -> UnitResult:
    usage = ResourceUsage(wall_s=1.0, cpu_s=cpu_s, **met)  # type: ignore[arg-type]
    return unit(wait_status=KILLED, end=UnitEndReason.DEADLINE, results=(), usage=usage)


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (late(0.02, pids_refused=2), Cause.PROCESS_LIMIT),
        (late(0.98, pids_refused=2), Cause.TIMEOUT),
        (late(0.98, oom_kills=1), Cause.OUT_OF_MEMORY),
        (late(0.02, oom_kills=1, pids_refused=1), Cause.OUT_OF_MEMORY),
        (late(0.98, work_full=True), Cause.DISK_LIMIT),
        (late(0.02), Cause.TIMEOUT),
    ],
    ids=["waits for workers", "loops besides", "memory", "memory first", "disk", "nothing met"],
)
def test_the_limit_that_was_met_first_is_the_cause_and_the_deadline_its_consequence(
    result: UnitResult, cause: Cause
) -> None:
    outcome = determine_unit_outcome(result, CALL)
    assert outcome.cause is cause
    assert outcome.evidence["killed_by"] == "unit deadline"
    assert ("limit_s" in outcome.evidence) == (cause is Cause.TIMEOUT)


def test_processes_that_were_refused_say_how_many_there_may_be():
    outcome = run(unit(wait_status=EXIT_1, usage=ResourceUsage(pids_refused=1))).units[0].outcome
    assert outcome.evidence["limit_processes"] == LIMITS.max_processes
