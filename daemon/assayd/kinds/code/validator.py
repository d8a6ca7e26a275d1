"""Code nodes: Python that declares its inputs and its result by annotations, and assigns `result`.

The static stages are syntax, annotations and inputs; each must pass before the next one begins. The code
then runs in a container with the inputs as native values, and its result must have the declared outer type.
Source: docs/kinds/code.md.

The request for generating a code node consists of a description, inputs, cases and libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.errors import RequestError
from assayd.findings import expected as expected_results
from assayd.findings import python_failures
from assayd.findings import runs as run_findings
from assayd.findings.expected import CASES, VALUE_COMPARISON_RULES, describe_cases
from assayd.findings.python_failures import IMAGE_MODULES
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.kinds.code import inputs as code_inputs
from assayd.kinds.code import judging as code_judging
from assayd.kinds.code import types as code_types
from assayd.kinds.code.inputs import check_inputs, check_values, find_missing_names
from assayd.kinds.code.judging import find_unread_inputs, iter_runs, judge_runs, needs_second_run
from assayd.kinds.code.payload import SAMPLES, CodeCase, CodePayload, Module, PreparedCode
from assayd.kinds.code.types import RESULT, check_annotations, find_declarations
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Document, Example, PromptContext, Proposal, SourcePart
from assayd.model.report import Judgement
from assayd.model.run import TEMPORARY, Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import JsonValue
from assayd.model.text_limits import FINDINGS
from assayd.policies import tighten_policy
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import source as python_source
from assayd.static.python.inferred_names import check_undefined_names
from assayd.static.python.source import PythonSource, find_mentioned_modules
from assayd.static.python.source import normalize_source as python_normal_form

_SHOWN_CHARS = 2000
TASK = "Write a code node: Python that computes `result` from its inputs, which are given as variables."

EXAMPLE = Example(
    request="Number of words longer than `least` in `text`.",
    context={"inputs": {"text": "a short line", "least": 4}},
    answer=Proposal(
        code="""\
text: str
least: int

result: int = sum(len(word) > least for word in text.split())
"""
    ),
    reason="Counts the words by their length.",
)

FILENAME = "node.py"
_TIMEOUT = "payload.timeout_s"

_PRELOAD = (
    "base64", "collections", "collections.abc", "csv", "dataclasses", "datetime", "decimal", "enum",
    "functools", "hashlib", "io", "itertools", "json", "math", "operator", "random", "re", "statistics",
    "string", "textwrap", "time", "typing", "urllib.parse", "uuid",
)  # fmt: skip

_HEADLINES = {
    "syntax": "The code isn't valid Python:",
    "annotations": "The code doesn't declare its inputs and its result correctly:",
    "inputs": "The inputs don't match the code's declarations:",
    "sandbox": "The code failed when it ran:",
    "result": "The code ran, but its result doesn't match its declaration:",
}
_REMINDERS = (
    "Declare every input on a separate line at the top (after imports), without a value: data: list",
    "Assign the result with its type at module level: result: dict = {…}",
    "Only the outer type is checked; T | None is allowed, and so are helper functions.",
)
_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    *python_meant.RULES,
    *code_types.ANNOTATION_RULES,
    *code_inputs.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.NOT_COMPILED_RULE,
    *python_failures.RULES,
    *code_judging.RULES,
    *code_judging.WORTH_RULES,
    *expected_results.RULES,
)


class CodeContext(BaseModel):
    """The context of a generated code node: its inputs, the cases that it must pass, and useful modules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    cases: Annotated[tuple[CodeCase, ...], Field(max_length=CASES)] = ()
    libraries: Annotated[tuple[Module, ...], Field(max_length=50)] = ()


def build_base_payload(context: CodeContext) -> Document:
    """Return the payload's inputs, cases and required modules, without code."""
    cases = [case.model_dump(mode="json") for case in context.cases]
    base: dict[str, object] = {"inputs": context.inputs}
    if cases:
        base["cases"] = cases
    if context.libraries:
        base["requires"] = list(context.libraries)
    return base


def describe_surroundings(inputs: Mapping[str, object], cases: Sequence[CodeCase]) -> list[PromptContext]:
    """Return the inputs and the cases for a prompt.

    Without inputs, return only the cases, which contain their inputs.
    """
    found = [_describe_inputs(inputs)] if inputs or not cases else []
    if cases:
        told = describe_cases((case, case.inputs, case.expected) for case in cases)
        found.append(PromptContext(title="cases that must pass: inputs -> result", text=told))
    return found


def _describe_inputs(inputs: Mapping[str, object]) -> PromptContext:
    """Return the type and up to 2,000 characters of the value of each input."""
    shown = [
        f"{name}: {type(value).__name__} = {json.dumps(value, ensure_ascii=False)[:_SHOWN_CHARS]}"
        for name, value in inputs.items()
    ]
    return PromptContext(title="inputs", text="\n".join(shown) or "none")


def describe_request_context(context: CodeContext) -> list[PromptContext]:
    """Return the context that the generated code must fit."""
    return describe_surroundings(context.inputs, context.cases)


class CodeKind(Kind[CodePayload, PreparedCode]):
    """The validator of the kind `code`."""

    name = "code"
    payload = CodePayload
    prepared = PreparedCode
    bounded = MappingProxyType({"code": Cap.SOURCE, "inputs": Cap.INPUTS, "cases": Cap.INPUTS})
    default_policy = "code"
    any_image = True
    rules = _RULES
    runtime_stages = ("sandbox", "result")
    samples = SAMPLES
    headlines = _HEADLINES
    reminders = _REMINDERS
    offer = "Python's standard library"
    comparison = VALUE_COMPARISON_RULES
    task = TASK
    example = EXAMPLE
    generation_context = CodeContext

    @property
    def stages(self) -> Sequence[Stage[CodePayload]]:
        """Return the static stages, in order."""
        return (
            Stage(name="syntax", check=_check_syntax, on_fail=FailureAction.STOP),
            Stage(name="annotations", check=_check_annotations, on_fail=FailureAction.STOP),
            Stage(name="inputs", check=_check_inputs, on_fail=FailureAction.STOP),
        )

    def narrow(self, payload: CodePayload, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Return the policy, with each unit's timeout set to the payload's timeout, if it has one.

        Raises: RequestError ``override.wider``, if the payload's timeout exceeds the policy's.
        """
        timeout_s = payload.timeout_s
        if timeout_s is None:
            return policy
        if timeout_s > policy.resources.unit_timeout_s:
            most = policy.resources.unit_timeout_s
            message = f"payload.timeout_s: {timeout_s:g} exceeds the policy's {most:g}"
            raise RequestError("override.wider", f"{message}; a request can only tighten", field=_TIMEOUT)
        return tighten_policy(policy, {"resources": {"unit_timeout_s": timeout_s}})

    def prepare(self, payload: CodePayload) -> PreparedCode:
        """Return the payload with the code extracted from the answer, and the code's declarations.

        If the code isn't valid Python, return the payload's fields unchanged.
        """
        source = _parse_code(payload)
        if source.tree is None:
            return PreparedCode.model_construct(**dict(payload))
        result = find_declarations(source.tree, {RESULT})[0]
        return PreparedCode.model_construct(
            code=source.text,
            inputs=payload.inputs,
            timeout_s=payload.timeout_s,
            requires=payload.requires,
            cases=payload.cases,
            result_types=result.types,
            result_annotation=result.shown(source.text),
            result_line=result.node.lineno,
            awaited=find_missing_names(source.tree, payload.merge_inputs()),
        )

    def plan(self, payload: CodePayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan one run with the payload's inputs, and one run for each case."""
        *units, last = (
            _build_unit(name, inputs, payload.code, limits) for name, inputs, _ in iter_runs(payload)
        )
        if needs_second_run(payload.code, policy):
            last = replace(last, arguments={**last.arguments, "again": 1}, without_check=last.arguments)
        return RunSpec(
            image=self.select_image(policy),
            limits=limits,
            units=(*units, last),
            network=policy.network,
            imports=policy.imports,
            folders=TEMPORARY,
            preload=_PRELOAD,
            needed=find_mentioned_modules(_PRELOAD, payload.code),
        )

    def judge(self, payload: PreparedCode, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the end of each run, and then the results."""
        return judge_runs(payload, result)

    def get_code(self, answer: str) -> str:
        """Return the Python code of an answer."""
        return model_answer.extract_code(answer).text

    def passage(self, payload: CodePayload) -> SourcePart:
        """Return the code extracted from the answer."""
        return SourcePart(name="code", language="python", text=self.get_code(payload.code))

    def surroundings(self, payload: CodePayload) -> Sequence[PromptContext]:
        """Return the inputs with their values, and the cases."""
        return describe_surroundings(_merge_all_inputs(payload), payload.cases)

    def normalize_text(self, payload: CodePayload) -> bytes:
        """Return the syntax tree of the code."""
        return python_normal_form(model_answer.extract_code(payload.code).text)

    def around(self, context: CodeContext) -> Sequence[PromptContext]:
        """Return the inputs and cases of the request."""
        return describe_request_context(context)

    def base(self, context: CodeContext) -> Document:
        """Return the payload's inputs, cases and required modules, without code."""
        return build_base_payload(context)


def _merge_all_inputs(payload: CodePayload) -> Mapping[str, JsonValue]:
    return payload.merge_inputs()  # type: ignore[return-value]  # it was read as JSON


def _build_unit(name: str, inputs: Mapping[str, object], code: str, limits: Limits) -> Unit:
    arguments = {
        "source": code,
        "filename": FILENAME,
        "namespace": inputs,
        "results": [RESULT],
        "builtins": "full",
        "tagged": True,
    }
    return Unit(name=name, program=Program.PYTHON, arguments=arguments, deadline_s=limits.unit_timeout_s)


def _parse_code(payload: CodePayload) -> PythonSource:
    return python_source.parse_source(model_answer.extract_code(payload.code).text)


def _check_syntax(payload: CodePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check the syntax: ``result: list = [1, 2`` -> syntax.unclosed_bracket."""
    source = _parse_code(payload)
    # Names of typing are checked in annotations, where they matter.
    meant = check_undefined_names(
        source,
        policy.imports,
        offered=IMAGE_MODULES,
        leaving_out={"typing"},
        given=_merge_all_inputs(payload),
    )
    return (*model_answer.extract_code(payload.code).findings, *source.findings, *meant)


def _check_annotations(payload: CodePayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check annotations: ``result = len(data)`` -> annotations.missing_result, annotations.missing_input."""
    source = _parse_code(payload)
    if source.tree is None:
        return source.findings
    return tuple(islice(check_annotations(source.text, source.tree, _merge_all_inputs(payload)), FINDINGS))


def _check_inputs(payload: CodePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check inputs against their declarations: ``data: list``, given ``{}`` -> inputs.type."""
    source = _parse_code(payload)
    if source.tree is None:
        return source.findings
    first = payload.inputs or _merge_all_inputs(payload)
    # The modules of another image are known only there.
    required = payload.requires if policy.image is None else ()
    found = check_inputs(source.text, source.tree, first, required)  # type: ignore[arg-type]
    given = [(case.name, case.inputs) for case in payload.cases]
    unread = find_unread_inputs(source.text, source.tree, payload.merge_inputs())
    return tuple(islice((*found, *check_values(source.text, source.tree, given), *unread), FINDINGS))


validator = CodeKind()
