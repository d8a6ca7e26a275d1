"""Judges the run of a script: how it ended, and what it left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.findings.call_unit import Tried
from assayd.findings.exec_unit import judge_exec
from assayd.findings.python_failures import ExceptionContext
from assayd.findings.python_unit import judge_end, never_started
from assayd.kinds.script.payload import ScriptPayload
from assayd.model.finding import Finding, Layer
from assayd.model.run import RunResult, UnitResult
from assayd.model.text_limits import shorten

UNIT = "script"

_OFFER = "It has python3.11, and no shell."


def judge_unit(unit: UnitResult | None, submitted: ScriptPayload) -> Tried:
    """Judge how the program ended; None when it was never started."""
    if submitted.code is None:
        return judge_exec(UNIT, unit, program=submitted.argv[0], offer=_OFFER)
    if unit is None:
        return never_started(UNIT)
    return judge_end(unit, ExceptionContext(text=submitted.code), what="The script")


def judge_outputs(wanted: Sequence[str], result: RunResult) -> Iterator[Finding]:
    """Look for every declared output; what the runner left behind is told in its own words."""
    there = {output.name: output for output in result.outputs}
    for path in wanted:
        if path not in there:
            left = next((why for why in result.outputs_dropped if why.startswith(ascii(path))), None)
            message = f"The declared output {shorten(left or f'{path!a} is not there', 300)}."
            remedy = "Write a regular file of that name below the directory that the script starts in."
            yield _output_finding("collect.missing", message, remedy)
        elif there[path].truncated:
            message = f"The declared output {path!a} is too large; only a part was kept."
            yield _output_finding("collect.cut", message, "Write less, or fewer files.")


def _output_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="outputs", message=message, layer=Layer.RUNTIME, suggestion=suggestion)
