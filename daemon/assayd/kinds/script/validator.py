"""Validates scripts: a program of the image must succeed and write its declared outputs.

`code` is Python that runs as a script, and `argv` starts a program of the image; both can be combined with
`files`. The static check is only that the source compiles; policy violations at run time are recorded.
Source: docs/kinds/script.md.

The request for generating a script consists of a description, files, standard input and cases. `SAMPLES` are
for the self-test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from assayd.errors import RequestError
from assayd.findings import expected as expected_results
from assayd.findings import python_failures, units
from assayd.findings import runs as run_findings
from assayd.findings.briefing import describe_file_head, describe_permissions
from assayd.findings.expected import (
    CASES,
    OUTPUT_COMPARISON_RULES,
    ExpectedCase,
    describe_cases,
    judge_expected_output,
    merge_findings,
    require_unique_names,
)
from assayd.findings.python_failures import IMAGE_MODULES, ExceptionContext
from assayd.findings.retry_context import normalize_source
from assayd.findings.runs import build_unfinished_findings
from assayd.findings.units import JudgedUnit, build_not_started_result, judge_exec, judge_python_unit
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.model.finding import Finding, Layer, Rule, Severity, has_errors
from assayd.model.policy import ExecutionPolicy, ImportMode
from assayd.model.prompting import Document, Example, PromptContext, Proposal, RepairContext, SourcePart
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import TEMPORARY, ContainerFacts, Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.model.submission import Sample
from assayd.model.text_limits import shorten_text
from assayd.static import work_paths
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import source as python_source
from assayd.static.python.inferred_names import check_undefined_names
from assayd.static.python.source import normalize_source as python_normal_form
from assayd.static.work_paths import FileContent, check_paths, decode_content

_MAX_ARGUMENTS = 256

_MAX_ARGUMENT_BYTES = 65_536

_SHOWN_HEAD_BYTES = 2048
TASK = (
    "Write a script: Python that reads standard input and the given files, and prints the requested output."
)

EXAMPLE = Example(
    request="Write the input's words to words.txt, one a line, and print how many there are.",
    context={"stdin": "a b\nc\n", "collect": ["words.txt"]},
    answer=Proposal(
        code="""\
import sys

words = sys.stdin.read().split()
with open("words.txt", "w") as file:
    file.writelines(f"{word}\\n" for word in words)
print(len(words))
"""
    ),
    reason="Splits standard input at white space.",
)

UNIT = "script"

FILENAME = "script.py"
_ENVIRONMENT = {"HOME": "/sandbox", "TMPDIR": "/sandbox"}
"""Variables in addition to the image's PATH and LANG: programs can write only to /sandbox."""

_HEADLINES = {"syntax": "The script can't run:", "sandbox": "The script failed:"}
_REMINDERS = (
    "Write one Python file; it passes if it ends by itself with exit code 0.",
    "Write only below the start directory; wait for every process that the script starts.",
)

_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    *python_meant.RULES,
    *work_paths.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.NOT_COMPILED_RULE,
    *python_failures.RULES,
    units.NOT_EXECUTED_RULE,
    Rule(
        id="collect.missing",
        title="A declared output is missing",
        help="Bad: collect ['out.csv'], and nothing writes it.",
    ),
    Rule(id="collect.cut", title="A declared output is too large"),
    *expected_results.RULES,
)
_WRITES = """
import csv
import sys

rows = [line.split() for line in sys.stdin]
with open("out.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
print(len(rows), "rows")
"""
_PYTHON_ARGV = ["python3.11", "main.py"]
_MISSING_PATTERN = re.compile(r"FileNotFoundError: .*No such file or directory")
_MAX_NAMED_PATHS = 3


def _check_argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


class ScriptCase(ExpectedCase):
    """The expected output of the program when it reads `stdin` as its standard input."""

    stdin: str = ""
    expected: str


class ScriptPayload(BaseModel):
    """A program with its files and input: either `code`, or a program of the image in `argv`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str | None = Field(None, description="Python, or a model's answer with it.")
    files: Mapping[str, FileContent] = Field(
        default_factory=dict, description="Files of the start directory, by path."
    )
    argv: tuple[Annotated[str, AfterValidator(_check_argument)], ...] = Field(
        (),
        max_length=_MAX_ARGUMENTS,
        description="A program of the image and its arguments, instead of `code`.",
    )
    stdin: str = Field("", description="Standard input of the first run.")
    collect: tuple[str, ...] = Field((), description="Paths that must exist at the end.")
    cases: tuple[ScriptCase, ...] = Field(
        (),
        max_length=CASES,
        description="Runs with their own input and expected output; without `stdin`, the only ones.",
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[ScriptCase, ...]) -> tuple[ScriptCase, ...]:
        require_unique_names(cases)
        return cases

    @model_validator(mode="after")
    def _require_one_program(self) -> ScriptPayload:
        if (self.code is None) == (not self.argv):
            raise ValueError("pass either code, or argv (with files), not both")
        if self.argv and not self.argv[0]:
            raise ValueError("argv must start with the name of a program")
        if sum(len(argument.encode()) for argument in self.argv) > _MAX_ARGUMENT_BYTES:
            raise ValueError(f"argv has more than {_MAX_ARGUMENT_BYTES} bytes; use stdin or a file")
        return self


def _build_sample(
    name: str, *rules: str, verdict: str = "failed", runs: bool = True, **payload: object
) -> Sample:
    return Sample(
        name=name,
        payload=payload,
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        own_image=payload.get("argv") == _PYTHON_ARGV,
    )


SAMPLES = (
    _build_sample("good", code=_WRITES, stdin="a 1\nb 2\n", collect=["out.csv"], verdict="validated"),
    _build_sample(
        "good_files",
        files={"main.py": "import helper\nhelper.greet()\n", "helper.py": "def greet(): print('hello')\n"},
        argv=_PYTHON_ARGV,
        verdict="validated",
    ),
    _build_sample("exits", code="import sys\nsys.exit(0)\n", verdict="validated"),
    _build_sample("syntax", "syntax.missing_colon", code="for n in range(3)\n    print(n)\n", runs=False),
    _build_sample("path", "path.invalid", code="print(1)\n", collect=["../out.csv"], runs=False),
    _build_sample("raised", "sandbox.raised", code="print(1 / 0)\n"),
    _build_sample("undefined", "sandbox.name_undefined", code="print(json.dumps({}))\n"),
    _build_sample("no_module", "sandbox.module_missing", code="import acme_reports\n"),
    _build_sample("status", "sandbox.exited_nonzero", code="raise SystemExit(3)\n"),
    _build_sample("endless", "sandbox.timeout", code="while True: pass\n"),
    _build_sample(
        "leaves",
        "sandbox.left_processes",
        code="import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n",
    ),
    _build_sample("no_program", "sandbox.not_executed", argv=["no-such-program"]),
    _build_sample("not_written", "collect.missing", code="print('done')\n", collect=["out.csv"]),
)


class ScriptContext(BaseModel):
    """The context of a generated script: files, standard input, required outputs, and cases to pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    stdin: str = ""
    collect: tuple[str, ...] = ()
    cases: Annotated[tuple[ScriptCase, ...], Field(max_length=CASES)] = ()


def describe_request_context(context: ScriptContext) -> list[PromptContext]:
    """Return the context that the generated script must fit."""
    found = []
    for path, given in sorted(context.files.items()):
        found.append(describe_file_head(path, decode_content(given), _SHOWN_HEAD_BYTES))
    if context.stdin:
        found.append(PromptContext(title="standard input", text=context.stdin))
    if context.collect:
        wanted = "\n".join(context.collect)
        found.append(PromptContext(title="files that must exist at the end", text=wanted))
    if context.cases:
        told = describe_cases((case, case.stdin, case.expected) for case in context.cases)
        found.append(PromptContext(title="cases that must pass: standard input -> output", text=told))
    return found


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
        found = (*found, *build_unfinished_findings(result, "The script"))
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
    """Add the existing files to a finding about a missing file. Return other findings unchanged."""
    found = _MISSING_PATTERN.match(finding.message)
    if found is None or (finding.suggestion or "").startswith("The image doesn't have this program"):
        return finding
    there = ", ".join(sorted(submitted.files)) or "none"
    given = "; standard input has text: read sys.stdin" if submitted.stdin else ""
    return replace(finding, suggestion=f"Only the submitted files exist ({shorten_text(there, 300)}){given}.")


def judge_outputs(submitted: ScriptPayload, result: RunResult) -> Iterator[Finding]:
    """Yield findings about declared outputs that are missing or truncated.

    If the runner reported why an output was omitted, include the reason.
    """
    there = {output.name: output for output in result.outputs}
    for path in submitted.collect:
        if path not in there:
            left = next((why for why in result.outputs_dropped if why.startswith(ascii(path))), None)
            message = f"The declared output {shorten_text(left or f'{path!a} is missing', 300)}."
            remedy = "Write a regular file with this name below the start directory."
            named = sorted(set(_iter_similar_paths(path, submitted.code or "")) - {path})
            instead = (
                f" The code uses {', '.join(named[:_MAX_NAMED_PATHS])}: write to {path}, or list that "
                "file in collect."
                if named
                else ""
            )
            yield _build_output_finding("collect.missing", message, remedy + instead)
        elif there[path].truncated:
            message = f"The declared output {path!a} is too large, so only a part was kept."
            yield _build_output_finding("collect.cut", message, "Write fewer or smaller files.")


def _iter_similar_paths(path: str, code: str) -> Iterator[str]:
    """Yield string literals with a path's suffix, e.g. ``reports/{year}.csv`` for ``report.csv``.

    Yield nothing for a path without a suffix.
    """
    suffix = PurePosixPath(path).suffix
    if suffix:
        found = re.findall(r"(['\"])([\w{}./ -]{1,100})\1", code)
        yield from (text for _, text in found if text.endswith(suffix))


def _build_output_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="outputs", message=message, layer=Layer.RUNTIME, suggestion=suggestion)


class ScriptKind(Kind[ScriptPayload]):
    """The validator of the kind `script`."""

    name = "script"
    payload = ScriptPayload
    bounded = MappingProxyType({"code": Cap.SOURCE, "files.*": Cap.SOURCE, "cases": Cap.INPUTS})
    default_policy = "script"
    any_image = True
    rules = _RULES
    samples = SAMPLES
    headlines = _HEADLINES
    reminders = _REMINDERS
    offer = "Python's standard library"
    comparison = OUTPUT_COMPARISON_RULES
    task = TASK
    example = EXAMPLE
    generation_context = ScriptContext

    @property
    def stages(self) -> Sequence[Stage[ScriptPayload]]:
        """Return the only static stage."""
        return (Stage(name="syntax", check=_check_syntax, on_fail=FailureAction.STOP),)

    def narrow(self, payload: ScriptPayload, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy, unless it restricts imports and the program's imports can't be checked.

        Raises: RequestError ``policy.unenforceable``, in this case.
        """
        if payload.argv and policy.imports.mode is ImportMode.ENFORCE:
            message = (
                f"policy {policy.name!r} enforces imports, which isn't possible inside another program; "
                "submit the script as code, or use a policy that only records them"
            )
            raise RequestError("policy.unenforceable", message, field="policy")
        return policy

    def prepare(self, payload: ScriptPayload) -> ScriptPayload:
        """Return the payload with the code extracted from the answer, or unchanged if it has no code."""
        code = payload.code
        return (
            payload
            if code is None
            else payload.model_copy(update={"code": model_answer.extract_code(code).text})
        )

    def plan(self, payload: ScriptPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan the runs of the program, including one run for every case."""
        return RunSpec(
            image=self.select_image(policy),
            limits=limits,
            units=tuple(
                _build_unit(name, read, payload, policy, limits) for name, read, _ in iter_runs(payload)
            ),
            network=policy.network,
            imports=policy.imports,
            folders=TEMPORARY,
            files={path: decode_content(given) for path, given in payload.files.items()},
            collect=tuple(map(escape, payload.collect)),
            allow_exec=policy.imports.mode is ImportMode.OBSERVE,
        )

    def judge(self, payload: ScriptPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge how the program ended, and then its output files."""
        return judge_runs(payload, result)

    def get_code(self, answer: str) -> str:
        """Return the Python code of an answer."""
        return model_answer.extract_code(answer).text

    def passage(self, payload: ScriptPayload) -> SourcePart:
        """Return the code, or the file that the program runs."""
        name, text = _select_main_text(payload)
        return SourcePart(name=name, language="python" if _is_python(payload) else "text", text=text)

    def surroundings(self, payload: ScriptPayload) -> Sequence[PromptContext]:
        """Return the required output files, and the cases."""
        around = []
        if payload.collect:
            wanted = "\n".join(payload.collect)
            around.append(PromptContext(title="files that must exist at the end", text=wanted))
        if payload.cases:
            told = describe_cases((case, case.stdin, case.expected) for case in payload.cases)
            around.append(PromptContext(title="cases that must pass: standard input -> output", text=told))
        return around

    def context(
        self, payload: ScriptPayload, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return the request for a fix. Include `reminders` and `offer` only for Python."""
        context = super().context(payload, report, policy)
        if _is_python(payload):
            return context
        return replace(context, instructions=(*describe_permissions(policy), *self._compared(payload)))

    def patch(self, payload: ScriptPayload, passage: str, code: str) -> Mapping[str, object]:
        """Return the payload with a new text for the code, or for the file that the program runs."""
        document = payload.model_dump(mode="json", exclude_unset=True)
        if payload.code is not None:
            return {**document, "code": self.get_code(code)}
        return {**document, "files": {**document.get("files", {}), passage: code}}

    def normalize_text(self, payload: ScriptPayload) -> bytes:
        """Return the syntax tree of Python code, or any other text without layout and comments."""
        _, text = _select_main_text(payload)
        return python_normal_form(text) if _is_python(payload) else normalize_source(text, "#")

    def around(self, context: ScriptContext) -> Sequence[PromptContext]:
        """Return the files, the standard input and the cases of the request."""
        return describe_request_context(context)


def _select_main_text(submitted: ScriptPayload) -> tuple[str, str]:
    """Return the text to repair: the code, the file that the program runs, or the first file."""
    if submitted.code is not None:
        return "code", model_answer.extract_code(submitted.code).text
    named = [name for name in submitted.files if name in submitted.argv]
    name = (named or sorted(submitted.files) or [""])[0]
    content = decode_content(submitted.files[name]) if name else b""
    return name, content.decode("utf-8", "replace")


def _is_python(submitted: ScriptPayload) -> bool:
    return submitted.code is not None or _select_main_text(submitted)[0].endswith(".py")


def _check_syntax(payload: ScriptPayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check syntax and paths: ``for n in range(3)`` -> syntax.missing_colon; ``../out`` -> path.invalid."""
    paths = (
        *check_paths(payload.files, field="files"),
        *check_paths(payload.collect, field="collect"),
    )
    if payload.code is None:
        return paths
    answer = model_answer.extract_code(payload.code)
    source = python_source.parse_source(answer.text)
    meant = check_undefined_names(source, policy.imports, offered=IMAGE_MODULES, severity=Severity.WARNING)
    return (*answer.findings, *source.findings, *meant, *paths)


def _build_unit(
    name: str, stdin: str, submitted: ScriptPayload, policy: ExecutionPolicy, limits: Limits
) -> Unit:
    """Return the program's unit. If imports are restricted, it must send a record with the violations."""
    if submitted.code is None:
        program: Program = Program.EXEC
        arguments: dict[str, object] = {"argv": list(submitted.argv), "env": _ENVIRONMENT}
    else:
        program = Program.PYTHON
        text = {"source": submitted.code, "filename": FILENAME, "builtins": "full", "as_script": True}
        arguments = {**text, "namespace": {}, "results": []}
    return Unit(
        name=name,
        program=program,
        arguments=arguments,
        deadline_s=limits.unit_timeout_s,
        stdin=stdin.encode("utf-8"),
        # A program may read its own source: open(__file__), inspect.getsource.
        files=_build_program_file(submitted),
        status_decides=policy.imports.mode is ImportMode.OBSERVE,
    )


def _build_program_file(submitted: ScriptPayload) -> Mapping[str, bytes]:
    """Return the code as a file, or no file if there is no code or a submitted file has the same name."""
    if submitted.code is None or FILENAME in submitted.files:
        return {}
    return {FILENAME: submitted.code.encode("utf-8")}


validator = ScriptKind()
