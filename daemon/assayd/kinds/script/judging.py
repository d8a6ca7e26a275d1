"""Judges the run of a script: how it ended, and its output files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from assayd.findings.expected import judge_expected_output, merge_findings
from assayd.findings.python_failures import ExceptionContext
from assayd.findings.runs import unfinished_findings
from assayd.findings.units import JudgedUnit, build_not_started_result, judge_exec, judge_python_unit
from assayd.kinds.script.payload import ScriptCase, ScriptPayload
from assayd.model.finding import Finding, Layer, has_errors
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import ContainerFacts, RunResult, UnitResult
from assayd.model.text_limits import shorten_text

UNIT = "script"


def iter_runs(submitted: ScriptPayload) -> Iterator[tuple[str, str, ScriptCase | None]]:
    """Yield the name, the standard input and the case (or None) of each run."""
    for case in submitted.cases:
        yield case.name, case.stdin, case
    if submitted.stdin or not submitted.cases:
        yield UNIT, submitted.stdin, None


def judge_runs(submitted: ScriptPayload, result: RunResult) -> Judgement:
    """Judge every run's end and every case's output. If all pass, also judge the last run's files."""
    tries = [
        _judge_run(name, _find_unit(result, index, name), submitted, case, result.container)
        for index, (name, _, case) in enumerate(iter_runs(submitted))
    ]
    if all(one.case.status is CaseStatus.PASSED and not has_errors(one.findings) for one in tries):
        tries[-1] = _judge_outputs(tries[-1], submitted, result)
    found = merge_findings(tries)
    if not has_errors(found) and any(one.case.status is not CaseStatus.PASSED for one in tries):
        found = (*found, *unfinished_findings(result, "The script"))
    return Judgement(stage_findings={"sandbox": found}, cases=tuple(one.case for one in tries))


def _judge_outputs(tried: JudgedUnit, submitted: ScriptPayload, result: RunResult) -> JudgedUnit:
    missing = tuple(judge_outputs(submitted, result))
    if not missing:
        return tried
    case = replace(tried.case, status=CaseStatus.FAILED, message=missing[0].message)
    return JudgedUnit(case=case, findings=(*tried.findings, *missing))


def _judge_run(
    name: str,
    unit: UnitResult | None,
    submitted: ScriptPayload,
    wanted: ScriptCase | None,
    container: ContainerFacts,
) -> JudgedUnit:
    tried = _judge_unit(name, unit, submitted, container)
    if wanted is None or unit is None:
        return tried
    before = tried.findings
    judged = judge_expected_output(tried, wanted, wanted.expected, unit.stdout)
    return judged if judged.findings is before else replace(judged, findings=(*before, *judged.findings))


def _find_unit(result: RunResult, index: int, name: str) -> UnitResult | None:
    """Return the unit at a run's position, or None if it is missing or has a different name."""
    unit = result.units[index] if index < len(result.units) else None
    return unit if unit is not None and unit.name == name else None


def _judge_unit(
    name: str, unit: UnitResult | None, submitted: ScriptPayload, container: ContainerFacts
) -> JudgedUnit:
    """Return the result of the program. `unit` is None if the unit never started."""
    if submitted.code is None:
        offer = (
            f"Image {container.image.rpartition('/')[2]} has {container.offer}." if container.offer else ""
        )
        return judge_exec(name, unit, program=submitted.argv[0], offer=offer)
    if unit is None:
        return build_not_started_result(name)
    tried = judge_python_unit(unit, ExceptionContext(text=submitted.code), what="The script")
    return replace(
        tried, findings=tuple(_add_existing_files(finding, submitted) for finding in tried.findings)
    )


def _add_existing_files(finding: Finding, submitted: ScriptPayload) -> Finding:
    """Add the existing files to a finding about a missing file."""
    found = _NO_FILE.match(finding.message)
    if found is None or (finding.suggestion or "").startswith("The image doesn't have this program"):
        return finding
    there = ", ".join(sorted(submitted.files)) or "none"
    given = "; standard input has text: read sys.stdin" if submitted.stdin else ""
    return replace(finding, suggestion=f"Only the submitted files exist ({shorten_text(there, 300)}){given}.")


_NO_FILE = re.compile(r"FileNotFoundError: .*No such file or directory")


def judge_outputs(submitted: ScriptPayload, result: RunResult) -> Iterator[Finding]:
    """Yield findings about the declared outputs. Include the runner's reason for each omitted output."""
    there = {output.name: output for output in result.outputs}
    for path in submitted.collect:
        if path not in there:
            left = next((why for why in result.outputs_dropped if why.startswith(ascii(path))), None)
            message = f"The declared output {shorten_text(left or f'{path!a} is missing', 300)}."
            remedy = "Write a regular file with this name below the start directory."
            named = sorted(set(_iter_similar_paths(path, submitted.code or "")) - {path})
            instead = (
                f" The code uses {', '.join(named[:_MAX_NAMED])}: write to {path}, or list that "
                "file in collect."
                if named
                else ""
            )
            yield _output_finding("collect.missing", message, remedy + instead)
        elif there[path].truncated:
            message = f"The declared output {path!a} is too large, so only a part was kept."
            yield _output_finding("collect.cut", message, "Write fewer or smaller files.")


def _iter_similar_paths(path: str, code: str) -> Iterator[str]:
    """Yield string literals with a path's suffix, e.g. ``reports/{year}.csv`` for ``report.csv``."""
    suffix = PurePosixPath(path).suffix
    if suffix:
        found = re.findall(r"(['\"])([\w{}./ -]{1,100})\1", code)
        yield from (text for _, text in found if text.endswith(suffix))


_MAX_NAMED = 3


def _output_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="outputs", message=message, layer=Layer.RUNTIME, suggestion=suggestion)
