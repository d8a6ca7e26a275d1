"""Code nodes: Python that declares its inputs and its result by annotations, and leaves `result`.

Static: syntax, annotations, inputs; each stops the ones after it. Then one run in a container, with the
inputs as native values; the result must have the declared outer type. Source: seed 004.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.errors import RequestError
from assayd.findings import python_failures
from assayd.findings import runs as run_findings
from assayd.findings.call_unit import Tried
from assayd.findings.python_failures import IMAGE_MODULES, Surroundings
from assayd.findings.python_unit import judge_end, never_started, read
from assayd.findings.repair_context import context_of
from assayd.findings.retry_context import retry_context
from assayd.findings.runs import cause_finding
from assayd.guest_results.json_reader import GuestJsonError
from assayd.guest_results.record import Bound, Value
from assayd.kinds.code import annotations as code_annotations
from assayd.kinds.code import inputs as code_inputs
from assayd.kinds.code import result as code_result
from assayd.kinds.code.annotations import RESULT, check_annotations, declarations
from assayd.kinds.code.command_line import command_line
from assayd.kinds.code.inputs import awaited, check_inputs
from assayd.kinds.code.result import Wanted, check_result
from assayd.model.finding import Finding, Rule, has_errors
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.model.submission import JsonValue, Sample
from assayd.model.text_limits import FINDINGS
from assayd.policies import tighten
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import Cap, FileOptions, OnFail, Stage, Validator
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import normal_form as python_normal
from assayd.static.python import source as python_source
from assayd.static.python.inferred_names import check_meant
from assayd.static.python.source import PythonSource
from assayd.static.submitted_file import only_text

FILENAME = "node.py"
UNIT = "node"
_TIMEOUT = "payload.timeout_s"

_PRELOAD = (
    "base64", "collections", "collections.abc", "csv", "dataclasses", "datetime", "decimal", "enum",
    "functools", "hashlib", "io", "itertools", "json", "math", "operator", "random", "re", "statistics",
    "string", "textwrap", "time", "typing", "urllib.parse", "uuid",
)  # fmt: skip

_HEADLINES = {
    "syntax": "The code is not valid Python:",
    "annotations": "The code does not declare its inputs and its result as it must:",
    "inputs": "The inputs are not what the code declares:",
    "sandbox": "The code failed when it ran:",
    "result": "The code ran, and its result is not what it declares:",
}
_REMINDERS = (
    "Declare every input on a line of its own at the top, without a value: data: list",
    "Assign the result with its type, at module level: result: dict = {…}",
    "Types are checked by their outer part: list[dict] asks for a list; T | None is fine.",
    "The image has Python's standard library; there is no network.",
)
_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    *python_meant.RULES,
    *code_annotations.RULES,
    *code_inputs.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.NOT_COMPILED_RULE,
    *python_failures.RULES,
    *code_result.RULES,
)

Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]


class CodePayload(BaseModel):
    """`code` is Python, or an answer that holds it; `inputs` are the values of its declared names, as JSON.

    What JSON has no form for goes as a tagged object. `timeout_s` tightens the policy's `unit_timeout_s`;
    `requires` names the modules that the code needs.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    code: str
    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    requires: Annotated[tuple[Module, ...], Field(max_length=50)] = ()


class PreparedCode(CodePayload):
    """A payload with what was read out of its code, so that nothing needs to parse it again."""

    model_config = ConfigDict(strict=False)

    result_types: frozenset[str] = frozenset()
    result_annotation: str = ""
    result_line: int | None = None
    awaited: tuple[str, ...] = ()


_ORDERS = [
    {"id": 1, "customer": "acme", "total": 120.5, "paid": True},
    {"id": 2, "customer": "nord", "total": 80.0, "paid": False},
    {"id": 3, "customer": "acme", "total": 42.25, "paid": True},
]
_GOOD = """
from collections import defaultdict

orders: list[dict]
least: float

totals = defaultdict(float)
for order in orders:
    if order["paid"]:
        totals[order["customer"]] += order["total"]

result: dict[str, float] = {name: total for name, total in totals.items() if total >= least}
"""
_TAGGED = """
from datetime import datetime, timedelta

days: set
start: datetime
result: list = sorted(start + timedelta(days=day) for day in days)
"""


def _sample(
    name: str, code: str, *rules: str, verdict: str = "failed", runs: bool = False, **inputs: object
) -> Sample:
    payload = {"code": code, "inputs": inputs}
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_SAMPLES = (
    _sample("good", _GOOD, verdict="validated", runs=True, orders=_ORDERS, least=100),
    _sample(
        "good_tagged",
        _TAGGED,
        verdict="validated",
        runs=True,
        days={"$py": "set", "value": [1, 2]},
        start={"$py": "datetime", "value": "2024-02-28T00:00:00"},
    ),
    _sample("syntax", "data: list\nresult: list = [n for n in data\n", "syntax.unclosed_bracket", data=[]),
    _sample("undeclared", "result: int = len(data)\n", "annotations.missing_input", data=[]),
    _sample("no_result", "data: list\nprint(data)\n", "annotations.missing_result", data=[]),
    _sample("any", "data: any\nresult: list = [data]\n", "annotations.lower_case_any", data=[]),
    _sample("typing", "data: List[int]\nresult: list = data\n", "annotations.not_imported", data=[]),
    _sample("input_type", "data: list\nresult: int = len(data)\n", "inputs.type", data={}),
    _sample("encoding", "d: set\nresult: set = d\n", "inputs.encoding", d={"$py": "set", "value": "ab"}),
    _sample("undefined", "result: int = total\n", "sandbox.name_undefined", runs=True),
    _sample("module", "import pandas\nresult: int = 1\n", "sandbox.module_missing", runs=True),
    _sample("raised", "rows: list\nresult: int = rows[3]\n", "sandbox.raised", runs=True, rows=[]),
    _sample("endless", "while True: pass\nresult: int = 1\n", "sandbox.timeout", runs=True),
    _sample("result_type", "result: list = dict(a=1)\n", "result.type", runs=True),
    _sample("result_missing", "result: int\nif False:\n    result = 1\n", "result.missing", runs=True),
    _sample(
        "object", "result: object = [object()]\n", "result.not_plain", runs=True, verdict="validated"
    ),
)  # fmt: skip


class Code:
    """The kind `code`."""

    kind: str = "code"
    payload: type[CodePayload] = CodePayload
    prepared: type[PreparedCode] = PreparedCode
    bounded: Mapping[str, Cap] = MappingProxyType({"code": Cap.SOURCE, "inputs": Cap.INPUTS})
    default_policy: str = "code"
    image: str = "python"
    rules: Sequence[Rule] = _RULES
    runtime_stages: Sequence[str] = ("sandbox", "result")
    samples: Sequence[Sample] = _SAMPLES

    @property
    def stages(self) -> Sequence[Stage[CodePayload]]:
        """The static stages, in order."""
        return (
            Stage(name="syntax", check=_check_syntax, on_fail=OnFail.STOP),
            Stage(name="annotations", check=_check_annotations, on_fail=OnFail.STOP),
            Stage(name="inputs", check=_check_inputs, on_fail=OnFail.STOP),
        )

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload of one file, ``--input`` with the inputs, ``--option`` timeout_s and requires."""
        code = only_text(files, what="a code node")
        if options.sample_paths or options.extra.keys() - {option.name for option in command_line.options}:
            message = "a code node takes --input, and --option of timeout_s and requires"
            raise RequestError("request.options", message)
        return {"code": code, "inputs": dict(options.input or {}), **_extra(options.extra)}

    def narrow(self, payload: CodePayload, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Take the payload's own timeout for a unit's.

        Raises: RequestError ``override.wider``.
        """
        timeout_s = payload.timeout_s
        if timeout_s is None:
            return policy
        if timeout_s > policy.resources.unit_timeout_s:
            most = policy.resources.unit_timeout_s
            message = f"payload.timeout_s: {timeout_s:g} is more than the policy's {most:g}"
            raise RequestError("override.wider", f"{message}; a request can only tighten", field=_TIMEOUT)
        return tighten(policy, {"resources": {"unit_timeout_s": timeout_s}})

    def prepare(self, payload: CodePayload) -> PreparedCode:
        """Return the payload with the code that an answer means, and what it declares."""
        source = _parsed(payload)
        if source.tree is None:
            return PreparedCode.model_construct(**dict(payload))
        result = declarations(source.tree, {RESULT})[0]
        return PreparedCode.model_construct(
            code=source.text,
            inputs=payload.inputs,
            timeout_s=payload.timeout_s,
            requires=payload.requires,
            result_types=result.types,
            result_annotation=result.shown(source.text),
            result_line=result.node.lineno,
            awaited=awaited(source.tree, payload.inputs),
        )

    def plan(self, payload: CodePayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan the one run."""
        arguments = {
            "source": payload.code,
            "filename": FILENAME,
            "namespace": payload.inputs,
            "results": [RESULT],
            "builtins": "full",
            "tagged": True,
        }
        unit = Unit(name=UNIT, program=Program.PYTHON, arguments=arguments, deadline_s=limits.unit_timeout_s)
        return RunSpec(
            image=self.image,
            limits=limits,
            units=(unit,),
            network=policy.network,
            imports=policy.imports,
            preload=_PRELOAD,
        )

    def judge(self, payload: PreparedCode, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge how the code ended, and then what it gave."""
        tried = _judge_unit(result.units[0] if result.units else None, payload)
        if tried.case.status is not CaseStatus.PASSED or has_errors(tried.findings):
            return Judgement(stage_findings={_stage_of(tried): tried.findings}, cases=(tried.case,))
        wanted = Wanted(
            types=payload.result_types,
            annotation=payload.result_annotation,
            line=payload.result_line,
            text=payload.code,
        )
        found = tuple(check_result(tried.value, wanted))
        case = replace(tried.case, result=tried.value.value if tried.value else None)
        if has_errors(found):
            case = replace(case, status=CaseStatus.FAILED, message=found[0].message)
        return Judgement(stage_findings={"sandbox": tried.findings, "result": found}, cases=(case,))

    def retry_context(self, findings: Sequence[Finding], stage: str) -> str:
        """Word a failed stage for a model."""
        headline = _HEADLINES.get(stage, "The code was refused:")
        return retry_context(findings, headline=headline, reminders=_REMINDERS)

    def context(self, payload: CodePayload, report: Mapping[str, object]) -> RepairContext:
        """Ask for the code again, with what its report says and the inputs that it gets."""
        inputs = ", ".join(f"{name}: {type(value).__name__}" for name, value in _inputs(payload).items())
        return context_of(
            Passage(name="code", language="python", text=model_answer.clean(payload.code).text),
            report,
            instructions=_REMINDERS,
            runtime_stages=self.runtime_stages,
            surroundings=(Surrounding(title="inputs", text=inputs or "none"),),
        )

    def patch(self, payload: CodePayload, passage: str, code: str) -> Mapping[str, object]:
        """Put another text in the place of the code."""
        return {**payload.model_dump(mode="json", exclude_unset=True), "code": code}

    def normal_form(self, payload: CodePayload) -> bytes:
        """Return the syntax tree of the code."""
        return python_normal.normal_form(model_answer.clean(payload.code).text)


def _inputs(payload: CodePayload) -> Mapping[str, JsonValue]:
    return payload.inputs  # type: ignore[return-value]  # it was read as JSON


def _parsed(payload: CodePayload) -> PythonSource:
    return python_source.parse(model_answer.clean(payload.code).text)


def _extra(options: Mapping[str, str]) -> dict[str, object]:
    extra: dict[str, object] = {}
    if "requires" in options:
        extra["requires"] = [name.strip() for name in options["requires"].split(",")]
    if "timeout_s" in options:
        try:
            extra["timeout_s"] = float(options["timeout_s"])
        except ValueError:
            raise RequestError("request.options", "--option timeout_s is not a number") from None
    return extra


def _check_syntax(payload: CodePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """``result: list = [1, 2`` -> syntax.unclosed_bracket."""
    source = _parsed(payload)
    # Names of typing are looked at where they matter, in annotations.
    meant = check_meant(source, policy.imports, offered=IMAGE_MODULES, leaving_out={"typing"})
    return (*model_answer.clean(payload.code).findings, *source.findings, *meant)


def _check_annotations(payload: CodePayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """``result = len(data)`` -> annotations.missing_result, annotations.missing_input."""
    source = _parsed(payload)
    if source.tree is None:
        return source.findings
    return tuple(islice(check_annotations(source.text, source.tree, _inputs(payload)), FINDINGS))


def _check_inputs(payload: CodePayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """``data: list``, given ``{}`` -> inputs.type."""
    source = _parsed(payload)
    if source.tree is None:
        return source.findings
    found = check_inputs(source.text, source.tree, _inputs(payload), payload.requires)
    return tuple(islice(found, FINDINGS))


def _judge_unit(unit: UnitResult | None, payload: PreparedCode) -> Tried:
    """Judge the end of the run; a good one must have told the value of `result`, or that there is none."""
    if unit is None:
        return never_started(UNIT)
    around = Surroundings(text=payload.code, required=payload.requires, awaited=payload.awaited)
    tried = judge_end(unit, around, what="The code")
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    try:
        return replace(tried, value=_value(unit))
    except GuestJsonError as problem:
        finding = cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        case = replace(tried.case, status=CaseStatus.ERROR, message=finding.message)
        return Tried(case=case, findings=(*tried.findings, finding))


def _value(unit: UnitResult) -> Value | None:
    record = read(unit)
    if not isinstance(record, Bound):
        raise GuestJsonError("not the record of a node")
    if RESULT not in record.values and record.missing != (RESULT,):
        raise GuestJsonError("the record tells nothing of the result")
    return record.values.get(RESULT)


def _stage_of(tried: Tried) -> str:
    """Put a text that only the container's Python refuses where syntax belongs."""
    disagrees = any(finding.rule == run_findings.NOT_COMPILED_RULE.id for finding in tried.findings)
    return "syntax" if disagrees else "sandbox"


validator: Validator[CodePayload, PreparedCode] = Code()
