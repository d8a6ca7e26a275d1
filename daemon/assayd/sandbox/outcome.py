"""Classifies the end of units and runs: one cause from a closed list, with the decisive evidence.

Pure. The evidence is checked in this order, and the first match decides:

    1. the daemon's own actions  kills for deadline, output limit, cancellation; a deadline after another
                                 limit was reached counts as that limit's consequence
    2. the kernel's counters     cgroup out-of-memory kills, rejected forks, a full work directory
    3. the engine's flags        an out-of-memory kill of the whole container
    4. the signal                that ended the child, from its wait status
    5. the exit code             from its wait status
    6. the record                exactly one well-formed result (none from a unit that became another
                                 program, any from a script: its status is its result)
    7. left processes            none may be running

An exit code alone shows only that it wasn't 0. If a counter increased despite a complete and successful
record, the unit doesn't fail, but the evidence mentions the limit.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from assayd.model.run import (
    Cause,
    ContainerFacts,
    Limits,
    Program,
    RunEndReason,
    RunOutcome,
    RunResult,
    RunSpec,
    Unit,
    UnitEndReason,
    UnitResult,
)

_CAUSE_BY_UNIT_END = {
    UnitEndReason.DEADLINE: (Cause.TIMEOUT, "unit deadline"),
    UnitEndReason.OUTPUT_LIMIT: (Cause.OUTPUT_LIMIT, "output read cap"),
    UnitEndReason.RESULT_LIMIT: (Cause.OUTPUT_LIMIT, "result cap"),
}

_CAUSE_BY_RUN_END = {
    RunEndReason.CANCELLED: Cause.CANCELLED,
    RunEndReason.DEADLINE: Cause.TIMEOUT,
    RunEndReason.PROTOCOL: Cause.PROTOCOL_VIOLATION,
    RunEndReason.ENGINE: Cause.INFRASTRUCTURE,
}

_EXIT_KILLED = 128 + signal.SIGKILL
EXIT_RUNNER_FAULT = 70
"""Exit code of a runner that couldn't do its work."""


def classify_run(result: RunResult, spec: RunSpec) -> RunResult:
    """Return the result with its outcome, which is the units' outcome unless the run as a whole failed."""
    ended = _classify_failed_run(result, spec.limits)
    units = tuple(
        _set_outcome(unit, _add_limit(_determine_final_unit_outcome(unit, ended), spec.limits))
        for unit in result.units
    )
    return replace(result, units=units, outcome=ended or _combine_unit_outcomes(units, len(spec.units)))


def _set_outcome(unit: UnitResult, outcome: RunOutcome) -> UnitResult:
    return unit if outcome is unit.outcome else replace(unit, outcome=outcome)


def _determine_final_unit_outcome(unit: UnitResult, ended: RunOutcome | None) -> RunOutcome:
    return ended or _INTERRUPTED_OUTCOME if unit.end is UnitEndReason.INTERRUPTED else unit.outcome


def determine_unit_outcome(unit: UnitResult, planned: Unit) -> RunOutcome:
    """Return the outcome of a unit whose end the runner observed."""
    if unit.end in _CAUSE_BY_UNIT_END:
        cause, by = _CAUSE_BY_UNIT_END[unit.end]
        first = _find_first_limit(unit) if unit.end is UnitEndReason.DEADLINE else None
        spent = _describe_time(unit, planned.deadline_s) if cause is Cause.TIMEOUT and first is None else {}
        return _build_outcome(first or cause, unit, killed_by=by, **spent)
    failed = unit.wait_status != 0
    counted = _find_counted_limit(unit)
    if failed and counted is not None and counted is not Cause.DISK_LIMIT:
        return _build_outcome(counted, unit)
    refused = next((e for e in unit.events if e.enforced and not e.allowed), None)
    if refused is not None:
        return _build_outcome(Cause.POLICY_VIOLATION, unit, refused=f"{refused.kind} {refused.detail}")
    if failed and counted is not None:
        return _build_outcome(counted, unit)
    return _classify_wait_status(unit, planned)


def _describe_time(unit: UnitResult, limit_s: float) -> dict[str, object]:
    """Return the seconds spent computing, waiting for events, and waiting for a processor."""
    usage = unit.usage
    spent = {"used_s": usage.cpu_s, "waited_s": usage.waited_s, "starved_s": usage.starved_s}
    return {"limit_s": limit_s, **{name: round(value, 3) for name, value in spent.items()}}


def _find_first_limit(unit: UnitResult) -> Cause | None:
    """Return the limit that was reached before the deadline and caused it, or None.

    Code that waits for workers that couldn't start uses little processor time, whereas a loop uses all of
    it.
    """
    counted = _find_counted_limit(unit)
    counted_s = unit.usage.cpu_s + unit.usage.waited_s
    busy = unit.usage.cpu_s > _WAITING_SHARE * counted_s
    return None if counted is Cause.PROCESS_LIMIT and busy else counted


_WAITING_SHARE = 0.5
"""The share of a unit's time on a processor below which it was waiting."""


def _find_counted_limit(unit: UnitResult) -> Cause | None:
    """Return the limit that the unit reached according to the kernel's counters, or None."""
    if unit.usage.oom_kills:
        return Cause.OUT_OF_MEMORY
    if unit.usage.pids_refused:
        return Cause.PROCESS_LIMIT
    if unit.usage.work_full:
        return Cause.DISK_LIMIT
    return None


def _classify_wait_status(unit: UnitResult, planned: Unit) -> RunOutcome:
    status = unit.wait_status or 0
    if os.WIFSIGNALED(status):
        return _build_outcome(Cause.SIGNALLED, unit)
    if os.WEXITSTATUS(status):
        never_started = planned.program is Program.EXEC and unit.results
        return _build_outcome(Cause.EXITED_NONZERO, unit, **({"executed": False} if never_started else {}))
    if (wrong := _find_record_fault(unit, planned)) is not None:
        return _build_outcome(Cause.PROTOCOL_VIOLATION, unit, **wrong)
    if unit.left_processes:
        return _build_outcome(Cause.LEFT_PROCESSES, unit, left_processes=unit.left_processes)
    return _build_outcome(Cause.COMPLETED, unit)


def _find_record_fault(unit: UnitResult, planned: Unit) -> dict[str, object] | None:
    """Return the fault in a completed unit's record, or None."""
    if planned.status_decides and planned.program is not Program.EXEC:
        return None
    if unit.malformed is not None:
        return {"malformed": unit.malformed}
    wanted = 0 if planned.program is Program.EXEC else 1
    return None if len(unit.results) == wanted else {"result_records": len(unit.results)}


def _build_outcome(cause: Cause, unit: UnitResult, **evidence: object) -> RunOutcome:
    return RunOutcome(cause=cause, evidence={"unit": unit.name[:256], **evidence, **_collect_evidence(unit)})


def _collect_evidence(unit: UnitResult) -> dict[str, object]:
    """Return the signal or exit code, and the kernel's nonzero counters, as evidence."""
    status, usage = unit.wait_status, unit.usage
    traces: dict[str, object] = {
        "oom_kills": usage.oom_kills,
        "pids_refused": usage.pids_refused,
        "work_directory_full": usage.work_full,
    }
    if status is not None and os.WIFSIGNALED(status):
        traces["signal"] = get_signal_name(os.WTERMSIG(status))
    elif status is not None:
        traces["exit_code"] = os.WEXITSTATUS(status)
    return {key: value for key, value in traces.items() if value or key == "exit_code"}


def _add_limit(outcome: RunOutcome, limits: Limits) -> RunOutcome:
    """Return the outcome with the exceeded limit in its evidence, or unchanged if it has another cause."""
    if outcome.cause is Cause.PROCESS_LIMIT:
        return replace(outcome, evidence={**outcome.evidence, "limit_processes": limits.max_processes})
    most = {Cause.OUT_OF_MEMORY: limits.memory_bytes, Cause.DISK_LIMIT: limits.work_bytes}
    if outcome.cause not in most:
        return outcome
    return replace(outcome, evidence={**outcome.evidence, "limit_bytes": most[outcome.cause]})


def _classify_failed_run(result: RunResult, limits: Limits) -> RunOutcome | None:
    """Return the outcome of a run that failed as a whole, or None for any other run."""
    if result.end is RunEndReason.FINISHED:
        return None
    evidence: dict[str, object] = {"run_end": result.end.value}
    if result.detail:
        evidence["detail"] = result.detail
    if result.end is RunEndReason.LOST:
        return _classify_lost_runner(result.container, evidence)
    if result.end is RunEndReason.DEADLINE:
        evidence["timeout_s"] = limits.timeout_s
    return RunOutcome(cause=_CAUSE_BY_RUN_END[result.end], evidence=evidence)


def _classify_lost_runner(container: ContainerFacts, evidence: dict[str, object]) -> RunOutcome:
    """Return the outcome of a run whose runner was lost, derived from the engine's and kernel's facts."""
    kills = container.kernel_oom_kills
    evidence |= {"exit_code": container.exit_code, "oom_killed": container.oom_killed}
    evidence |= {"killed_by_us": True} if container.killed else {}
    evidence |= {} if kills is None else {"kernel_oom_kills": kills}
    # PID 1 can't be killed from inside, except by exhausting memory, which engines don't always report. If
    # the kernel is known to have killed no process, the signal came from the host.
    by_signal = container.exit_code == _EXIT_KILLED and not container.killed
    if container.oom_killed or (by_signal and kills != 0):
        return RunOutcome(cause=Cause.OUT_OF_MEMORY, evidence=evidence)
    # The other two exit codes are the runner's own: 70 is its fault; it exits with 0 if its standard input
    # closes, which means that the daemon's connection broke.
    ours = (None, 0, EXIT_RUNNER_FAULT, _EXIT_KILLED)
    cause = Cause.INFRASTRUCTURE if container.exit_code in ours else Cause.PROTOCOL_VIOLATION
    return RunOutcome(cause=cause, evidence=evidence)


def _combine_unit_outcomes(units: tuple[UnitResult, ...], planned: int) -> RunOutcome:
    """Return the outcome of the first unit that didn't complete, or `completed`.

    If units are missing, the cause is a protocol violation.
    """
    for unit in units:
        if not unit.outcome.completed:
            return unit.outcome
    if len(units) != planned:
        detail = {"units": len(units), "planned": planned}
        return RunOutcome(cause=Cause.PROTOCOL_VIOLATION, evidence=detail)
    met = [unit.outcome.evidence for unit in units if _find_counted_limit(unit)]
    evidence: dict[str, object] = {"units": planned}
    return RunOutcome(cause=Cause.COMPLETED, evidence=evidence | ({"limits_met": met[:10]} if met else {}))


_INTERRUPTED_OUTCOME = RunOutcome(
    cause=Cause.INFRASTRUCTURE, evidence={"detail": "interrupted without a reason"}
)


def get_signal_name(number: int) -> str:
    """Return a signal's name, e.g. SIGSEGV, or "signal" and the number if the name is unknown."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
