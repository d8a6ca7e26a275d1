"""Plans and judges the trial of a module: whether its tests detect small changes to the adapter.

    the tests detect fewer than half of the changes     quality.mutants  (a warning)
    they detect more                                    quality.mutants  (info)

After the module has passed, every test file runs with each change in a second container. A change is
detected if a test fails, hangs, or ends its process. A change in a line that no test executed isn't tried
and is reported as undetected. Source: docs/quality.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assayd.findings.source_text import get_snippet
from assayd.kinds.module import pytest_unit
from assayd.kinds.module.expected_tests import ExpectedTests, PreparedModule
from assayd.kinds.module.mutants import Mutant
from assayd.kinds.module.pytest_record import collect_executed_lines
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.run import RunResult, RunSpec, Unit, UnitEndReason, UnitResult
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(
        id="quality.mutants",
        title="Tests that notice few changes to the adapter",
        severity=Severity.WARNING,
        help="Bad: assert result. Good: assert result == {…}. Runs if a profile sets quality.mutants.",
    ),
)
_MIN_DETECTED_SHARE = 0.5
"""Share of detected changes from which the finding is informational."""
_TIME_FACTOR, _MIN_S = 5, 2.0
"""Limits of a change's processor time: a multiple of the time without the change, and a minimum in
seconds.
"""
_SHOWN_CHARS = 40
_MAX_BYTES = 8 * 2**20
"""Maximum bytes of all changed texts sent to the container; further changes aren't tried."""


def plan_trial(
    spec: RunSpec, payload: PreparedModule, adapter: str, tests: Mapping[str, UnitResult]
) -> RunSpec | None:
    """Plan a unit for each change and test file. Return None if the tests execute no changed line.

    Args:
        spec: the plan of the run that passed.
        payload: the module, with its changes.
        adapter: the file to change.
        tests: the result of each test file.
    """
    originals = [
        replace(
            unit,
            arguments={name: unit.arguments[name] for name in ("modules", "test")} | {"first_failure": True},
            deadline_s=min(unit.deadline_s, _MIN_S + _TIME_FACTOR * tests[unit.name].usage.cpu_s),
        )
        for unit in spec.units
        if unit.name in tests
    ]
    units: list[Unit] = []
    left = _MAX_BYTES
    for one in _find_covered_mutants(payload, tests):
        changed = one.text(payload.files[adapter])
        left -= len(changed) * len(originals)
        if left < 0:
            break
        units += (replace(unit, files={adapter: changed}) for unit in originals)
    return replace(spec, units=tuple(units)) if units else None


def judge_trial(
    payload: PreparedModule, adapter: str, tests: Mapping[str, UnitResult], trial: RunResult | None
) -> list[Finding]:
    """Return the finding about detected changes, or no finding if no change was tried.

    Changes in executed lines that weren't tried are ignored. Changes in other lines count as undetected.
    """
    tried = _find_covered_mutants(payload, tests)
    units = trial.units if trial is not None else ()
    unnoticed = [one for one in payload.mutants if one not in tried]
    left = 0
    for place, one in enumerate(tried):
        own = units[place * len(tests) : (place + 1) * len(tests)]
        if any(unit.end is not UnitEndReason.INTERRUPTED and not unit.outcome.completed for unit in own):
            continue
        if len(own) == len(tests) and all(unit.outcome.completed for unit in own):
            unnoticed.append(one)
        else:
            left += 1
    count = len(payload.mutants) - left
    return [_build_mutants_finding(payload, adapter, count, left, unnoticed)] if count else []


def _find_covered_mutants(payload: PreparedModule, tests: Mapping[str, UnitResult]) -> list[Mutant]:
    """Return the mutants in executed lines, or all mutants if the executed lines are unknown."""
    told = [
        pytest_unit.judge_tests(file, unit, {}, payload.expected.get(file, ExpectedTests())).coverage
        for file, unit in tests.items()
    ]
    ran = collect_executed_lines([one for one in told if one is not None])
    return [one for one in payload.mutants if ran is None or one.statement in ran]


def _build_mutants_finding(
    payload: PreparedModule, adapter: str, count: int, left: int, unnoticed: Sequence[Mutant]
) -> Finding:
    noticed, text = count - len(unnoticed), payload.files[adapter]
    unnoticed = sorted(unnoticed, key=lambda one: one.start)
    line = unnoticed[0].line if unnoticed else None
    severity = Severity.INFO if noticed >= _MIN_DETECTED_SHARE * count else Severity.WARNING
    told = [f"line {one.line}: {_format_code(one.now)} for {_format_code(one.was)}" for one in unnoticed]
    if left:
        told.append(f"{left} more changes weren't tried")
    return Finding(
        rule="quality.mutants",
        category="quality",
        message=f"The tests notice {noticed} of {count} small changes to the adapter.",
        severity=severity,
        layer=Layer.RUNTIME,
        file=adapter,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=_describe_unnoticed(unnoticed),
        context=f"unnoticed: {'; '.join(told)}" if told else None,
    )


def _describe_unnoticed(unnoticed: Sequence[Mutant]) -> str | None:
    if not unnoticed:
        return None
    first, *others = unnoticed
    lines = ", ".join(map(str, dict.fromkeys(one.line for one in others)))
    more = f" Other lines that no test checks: {lines}." if others else ""
    told = f"No test fails if line {first.line} has {_format_code(first.now)} for {_format_code(first.was)}"
    return f"Assert what the adapter returns. {told}.{more}"


def _format_code(code: str) -> str:
    return f"`{shorten_text(' '.join(code.split()), _SHOWN_CHARS)}`" if code.strip() else "nothing"
