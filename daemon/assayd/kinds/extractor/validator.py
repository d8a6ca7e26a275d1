"""Path extractors: a function that turns a file path into a dict of its fields.

The static stages are syntax, security and signature; each must pass before the next one begins. The
function is then called for each sample path, in separate processes of one container, and every call must
return a dict. Approved code is applied to many paths in one process. YAML rules are checked as rules, and
then converted to Python and run. Source: docs/kinds/extractor.md.

The request for generating an extractor consists of a description, sample paths and cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assayd.findings import expected as expected_results
from assayd.findings import runs as run_findings
from assayd.findings.briefing import describe_permissions
from assayd.findings.expected import CASES, VALUE_COMPARISON_RULES, describe_cases, judge_expected_value
from assayd.findings.retry_context import normalize_source
from assayd.findings.runs import build_cause_finding, merge_similar_findings
from assayd.findings.source_text import SplitText
from assayd.findings.units import JudgedUnit, RepeatedCallJudge, judge_call
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.kinds.extractor import quality as extraction_quality
from assayd.kinds.extractor.payload import (
    SAMPLES,
    ExtractorCase,
    ExtractorPayload,
    PreparedExtractor,
    SamplePath,
)
from assayd.kinds.extractor.quality import (
    ExtraCalls,
    collect_results,
    judge_quality,
    judge_results,
    plan_extra_calls,
)
from assayd.kinds.extractor.rules import INVALID_RULE, check_rules, extract_rules_text, render_python
from assayd.kinds.extractor.taken_fields import find_extracted_fields
from assayd.model.finding import Finding, Layer, Rule, has_errors
from assayd.model.policy import ExecutionPolicy, ImportPolicy
from assayd.model.prompting import Document, Example, ExtractedFields, PromptContext, Proposal, SourcePart
from assayd.model.report import Case, CaseStatus, Judgement
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import SAMPLE_PATHS
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import security as python_security
from assayd.static.python import signature as python_signature
from assayd.static.python import source as python_source
from assayd.static.python.imports import MAIN_RULE, PACKAGE_RULE, add_import_edits
from assayd.static.python.inferred_names import check_undefined_names
from assayd.static.python.names import BUILTINS, NAMES_BY_PACKAGE
from assayd.static.python.signature import ExpectedFunction, check_signature
from assayd.static.python.source import PythonSource, find_mentioned_modules
from assayd.static.python.source import normalize_source as python_normal_form

MAX_PATHS_SHOWN = 100
TASK = "Write an extractor, which takes a file path apart and returns the fields that it names."

EXAMPLE = Example(
    request="client and year",
    context={"sample_paths": ["/data/CLIENT-ABC/2024/report.csv", "/data/CLIENT-XY/2023/data.csv"]},
    answer=Proposal(
        code="""\
import re


def extract(path: str) -> dict:
    found = re.search(r"/CLIENT-([A-Z]+)/([0-9]{4})/", path)
    return {"client": found[1], "year": int(found[2])} if found else {}
"""
    ),
    reason="One pattern finds both parts.",
)

FILENAME = "extractor.py"
RULES_FILENAME = "rules.yaml"

EXPECTED = ExpectedFunction(
    function="extract",
    parameter="path",
    parameter_types=frozenset({"str", "Any", "AnyStr", "LiteralString", "Text", "object"}),
    return_types=frozenset({"dict", "Dict", "TypedDict", "Mapping", "MutableMapping", "Any"}),
    template="def extract(path: str) -> dict:",
)

_PRELOAD = (
    "abc", "base64", "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses",
    "datetime", "enum",
    "fnmatch", "functools", "hashlib", "io", "itertools", "json", "json.decoder", "logging", "math",
    "operator",
    "os.path", "pathlib", "re", "string", "textwrap", "time", "typing", "unicodedata", "urllib.parse",
    "uuid", "warnings",
)  # fmt: skip
"""Modules of the default policy that most code uses.

Never names from a request: the runner itself imports these.
"""

_PATHS_PER_PROCESS = 100
"""Paths that approved code is applied to in one process; an early end loses all their results."""
_MAX_PROMPT_PATHS = 20
"""Maximum sample paths in a request for a fix."""

_HEADLINES = {
    "syntax": "The code isn't valid Python:",
    "security": "The code does something that extractors can't do:",
    "signature": "The function extract() has the wrong signature:",
    "sandbox": "The extractor failed on sample paths:",
    "quality": "The extractor ran, but its results are wrong:",
}
_UNLISTED_BUILTINS = ("breakpoint", "dir", "help", "exit", "quit", "copyright", "credits", "license")
"""Refused builtins that a prompt doesn't name."""
_REMINDERS = (
    f"Write one Python file that defines {EXPECTED.template} The argument is the path; no files exist. "
    "Helper functions are allowed.",
    "Return a plain dict of JSON values, or {} if the path has no fields.",
)
_REFUSAL_REMINDER = (
    f"Not allowed: {', '.join(name for name in BUILTINS if name not in _UNLISTED_BUILTINS)}; "
    "getattr() with a "
    "computed name; attributes such as x.__class__."
)

_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    INVALID_RULE,
    *python_meant.NAME_RULES,
    *python_security.RULES,
    PACKAGE_RULE,
    MAIN_RULE,
    *python_signature.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.RAISED_RULE,
    run_findings.NOT_COMPILED_RULE,
    run_findings.NO_FUNCTION_RULE,
    Rule(id="result.not_dict", title="extract() didn't return a plain dict", help="Bad: return None."),
    *extraction_quality.RULES,
    *extraction_quality.WORTH_RULES,
    *expected_results.RULES,
)


class ExtractorContext(BaseModel):
    """The context of a generated extractor: sample paths and cases, of which at least one must exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_paths: Annotated[tuple[SamplePath, ...], Field(max_length=SAMPLE_PATHS)] = ()
    cases: Annotated[tuple[ExtractorCase, ...], Field(max_length=CASES)] = ()

    @model_validator(mode="after")
    def _require_paths(self) -> ExtractorContext:
        if not (self.sample_paths or self.cases):
            raise ValueError("pass sample_paths or cases: an extractor needs paths to run on")
        return self


def build_base_payload(context: ExtractorContext) -> Document:
    """Return the payload without code. If it has no sample paths, use the paths of the cases."""
    paths = context.sample_paths or tuple(dict.fromkeys(case.path for case in context.cases))
    cases = [case.model_dump(mode="json") for case in context.cases]
    return {"sample_paths": list(paths), **({"cases": cases} if cases else {})}


def describe_request_context(context: ExtractorContext) -> list[PromptContext]:
    """Return the context that the generated code must fit."""
    found = []
    if context.sample_paths:
        found.append(
            PromptContext(title="sample paths", text="\n".join(context.sample_paths[:MAX_PATHS_SHOWN]))
        )
    if context.cases:
        told = describe_cases((case, case.path, case.expected) for case in context.cases)
        found.append(PromptContext(title="cases that must pass", text=told))
    return found


class ExtractorKind(Kind[ExtractorPayload]):
    """The validator of the kind `extractor`."""

    name = "extractor"
    payload = ExtractorPayload
    prepared = PreparedExtractor
    bounded = MappingProxyType(
        {"code": Cap.SOURCE, "sample_paths": Cap.SAMPLE_PATHS, "cases": Cap.INPUTS, "paths": Cap.INPUTS}
    )
    default_policy = "extractor"
    any_image = True
    rules = _RULES
    runtime_stages = ("sandbox", "quality")
    samples = SAMPLES
    headlines = _HEADLINES
    reminders = _REMINDERS
    comparison = VALUE_COMPARISON_RULES
    task = TASK
    example = EXAMPLE
    generation_context = ExtractorContext

    def list_requirements(self, policy: ExecutionPolicy | None) -> tuple[str, ...]:
        """Return the requirements for a model. Under a report-only profile, omit the refused names."""
        refused = () if policy is not None and policy.is_report_only else (_REFUSAL_REMINDER,)
        return (*self.reminders, *refused, *describe_permissions(policy, offer=self.offer))

    @property
    def stages(self) -> Sequence[Stage[ExtractorPayload]]:
        """Return the static stages, in order."""
        return (
            Stage(name="syntax", check=_check_syntax, on_fail=FailureAction.STOP),
            Stage(name="security", check=_check_security, on_fail=FailureAction.STOP),
            Stage(name="signature", check=_check_signature, on_fail=FailureAction.STOP),
        )

    def prepare(self, payload: ExtractorPayload) -> PreparedExtractor:
        """Return the payload with Python code, extracted from the answer or generated from rules."""
        rules = extract_rules_text(payload.code)
        code = render_python(rules) if rules is not None else _clean_answer(payload).text
        given = {**dict(payload), "code": code, "from_rules": rules is not None}
        return PreparedExtractor.model_construct(**given)

    def plan(self, payload: ExtractorPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan one unit per sample path and case, or, to apply approved code, one unit for many paths."""
        text = payload.code
        names = _list_computed_access_names(text, policy.imports)
        builtins = "full" if policy.is_report_only else "safe"
        units = [
            _build_unit(name, call, text, limits, names, builtins) for name, call in _iter_unit_calls(payload)
        ]
        if (again := _plan_extra_calls(payload, policy)) is not None:
            last = units[-1]
            arguments = {**last.arguments, "again": again.calls}
            units[-1] = replace(last, arguments=arguments, without_check=last.arguments)
        return RunSpec(
            image=self.select_image(policy),
            limits=limits,
            units=tuple(units),
            network=policy.network,
            imports=_allow_parent_packages(policy.imports),
            preload=_PRELOAD,
            needed=find_mentioned_modules(_PRELOAD, text),
            independent_units=True,
        )

    def judge(self, payload: ExtractorPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the result for every path. If every path has a result, also judge the results' quality."""
        if payload.paths:
            return _judge_applied(payload, result)
        text, names = SplitText(payload.code), (*payload.sample_paths, *(case.name for case in payload.cases))
        tries = [_judge_path(name, unit, text) for name, unit in _match_units(names, result)]
        paths, called = tries[: len(payload.sample_paths)], tries[len(payload.sample_paths) :]
        compared = [_compare_case(one, case) for one, case in zip(called, payload.cases, strict=True)]
        cases = tuple(one.case for one in (*paths, *compared))
        found = merge_similar_findings((one.case.name, finding) for one in tries for finding in one.findings)
        disagreeing = tuple(f for f in found if f.rule == run_findings.NOT_COMPILED_RULE.id)
        if disagreeing:
            return Judgement(stage_findings={"syntax": disagreeing}, cases=cases)
        if not has_errors(found) and any(one.case.status is not CaseStatus.PASSED for one in tries):
            found = (*found, _build_incomplete_run_finding([one.case for one in tries], result))
        if has_errors(found):
            return Judgement(stage_findings={"sandbox": found}, cases=cases)
        differing = (f for one in compared if one.case.status is CaseStatus.FAILED for f in one.findings)
        quality = (*judge_quality(paths, text), *_judge_result_quality(payload, policy, tries), *differing)
        return Judgement(stage_findings={"sandbox": found, "quality": quality}, cases=cases)

    def withheld(self, payload: ExtractorPayload) -> bool:
        """Return whether the code was applied to `paths`, because this mode skips quality rules."""
        return bool(payload.paths)

    def get_code(self, answer: str) -> str:
        """Return the Python code or the rules of an answer."""
        return extract_rules_text(answer) or model_answer.extract_code(answer).text

    def passage(self, payload: ExtractorPayload) -> SourcePart:
        """Return the whole function, or all rules."""
        if (rules := extract_rules_text(payload.code)) is not None:
            return SourcePart(name=RULES_FILENAME, language="yaml", text=rules)
        return SourcePart(name=FILENAME, language="python", text=_clean_answer(payload).text)

    def surroundings(self, payload: ExtractorPayload) -> Sequence[PromptContext]:
        """Return the sample paths and the cases."""
        paths = "\n".join((payload.sample_paths or payload.paths)[:_MAX_PROMPT_PATHS])
        around = [PromptContext(title="sample paths", text=paths)]
        if payload.cases:
            told = describe_cases((case, case.path, case.expected) for case in payload.cases)
            around.append(PromptContext(title="cases that must pass", text=told))
        return around

    def normalize_text(self, payload: ExtractorPayload) -> bytes:
        """Return the syntax tree of Python code, or the text of rules without comments."""
        if (rules := extract_rules_text(payload.code)) is not None:
            return normalize_source(rules, "#")
        return python_normal_form(_clean_answer(payload).text)

    def around(self, context: ExtractorContext) -> Sequence[PromptContext]:
        """Return the sample paths and the cases of the request."""
        return describe_request_context(context)

    def base(self, context: ExtractorContext) -> Document:
        """Return the payload's sample paths and cases, without code."""
        return build_base_payload(context)

    def taken(self, payload: ExtractorPayload) -> ExtractedFields:
        """Return the sample paths, and the fields of the dict that `extract` returns.

        The result is empty for rules.
        """
        if extract_rules_text(payload.code) is not None:
            return ExtractedFields(texts=(), fields=())
        fields = find_extracted_fields(_clean_answer(payload).text, EXPECTED.function)
        return ExtractedFields(texts=payload.sample_paths, fields=fields)


def _clean_answer(payload: ExtractorPayload) -> model_answer.AnswerCode:
    return model_answer.extract_code(payload.code)


def _parse_code(payload: ExtractorPayload) -> PythonSource:
    return python_source.parse_source(_clean_answer(payload).text)


def _check_syntax(payload: ExtractorPayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check the syntax: ``def extract(path`` -> syntax.unclosed_bracket."""
    if (rules := extract_rules_text(payload.code)) is not None:
        return tuple(check_rules(rules))
    source = _parse_code(payload)
    meant = check_undefined_names(source, policy.imports)
    return (*_clean_answer(payload).findings, *source.findings, *meant)


def _check_security(payload: ExtractorPayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check security: ``import os`` -> import.not_allowed. Rules have no imports."""
    if extract_rules_text(payload.code) is not None:
        return ()
    source = _parse_code(payload)
    found = python_security.scan_source(source, policy.imports)
    paths = policy.imports.allows("os.path")
    return tuple(add_import_edits(found, source.tree, source.text, paths=paths)) if source.tree else found


def _check_signature(payload: ExtractorPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check the signature: ``def extract(): …`` -> signature.no_parameter. Rules have no signature."""
    if extract_rules_text(payload.code) is not None:
        return ()
    return check_signature(_parse_code(payload), EXPECTED)


def _allow_parent_packages(imports: ImportPolicy) -> ImportPolicy:
    """Allow ``import os`` at run time if ``import os.path`` is allowed.

    Both statements bind the name `os`, and the static rules check its uses.
    """
    packages = {name for name in NAMES_BY_PACKAGE if imports.allows(f"{name}.path")} - imports.denied
    return replace(imports, allowed=imports.allowed | packages)


_ACCESS_FUNCTIONS = ("getattr", "hasattr")
_INTERNAL_MODULE_NAMES = {"os.path": "posixpath"}
"""The internal names of modules, if they differ from the public ones."""


def _iter_unit_calls(payload: ExtractorPayload) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield the name of each unit with the arguments of its call or calls."""
    for path in payload.sample_paths:
        yield path, {"args": [path]}
    for case in payload.cases:
        yield case.name, {"args": [case.path]}
    for name, paths in _split_paths(payload.paths):
        yield name, {"args": [], "each": [[path] for path in paths]}


def _split_paths(paths: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Divide the paths to which approved code is applied among several processes."""
    for start in range(0, len(paths), _PATHS_PER_PROCESS):
        share = paths[start : start + _PATHS_PER_PROCESS]
        yield f"paths {start + 1} to {start + len(share)}", share


def _judge_applied(payload: ExtractorPayload, result: RunResult) -> Judgement:
    """Judge the results of approved code for many paths. Each result must be a dict, possibly empty."""
    judge, tries = RepeatedCallJudge(text=payload.code, function=EXPECTED.function), list[JudgedUnit]()
    shares = list(_split_paths(payload.paths))
    for (_, paths), (_, unit) in zip(shares, _match_units([name for name, _ in shares], result), strict=True):
        tries += [_require_dict(tried) for tried in judge.judge_unit(paths, unit)]
    cases = [one.case for one in tries]
    found = merge_similar_findings((one.case.name, finding) for one in tries for finding in one.findings)
    if not has_errors(found) and any(case.status is not CaseStatus.PASSED for case in cases):
        found = (*found, _build_incomplete_run_finding(cases, result))
    return Judgement(stage_findings={"sandbox": found, "quality": ()}, cases=tuple(cases))


def _plan_extra_calls(payload: ExtractorPayload, policy: ExecutionPolicy) -> ExtraCalls | None:
    if payload.paths or _is_from_rules(payload):
        return None
    last = payload.cases[-1].path if payload.cases else payload.sample_paths[-1]
    return plan_extra_calls(payload.sample_paths, last, payload.code, policy)


def _is_from_rules(payload: ExtractorPayload) -> bool:
    return isinstance(payload, PreparedExtractor) and payload.from_rules


def _judge_result_quality(
    payload: ExtractorPayload, policy: ExecutionPolicy, tries: Sequence[JudgedUnit]
) -> Iterator[Finding]:
    """Yield findings about the quality of the results, unless all are empty."""
    results = [one.case.result for one in tries]
    paths = [result if isinstance(result, dict) else {} for result in results[: len(payload.sample_paths)]]
    samples = dict(zip(payload.sample_paths, paths, strict=True))
    last = results[-1]
    if any(paths) and isinstance(last, dict) and not _is_from_rules(payload):
        again = _plan_extra_calls(payload, policy)
        yield from judge_results(collect_results(samples, last, again, tries[-1].again), payload.code)


def _list_computed_access_names(text: str, imports: ImportPolicy) -> dict[str, JsonValue]:
    """Return the module names that computed accesses can reach.

    The result is empty if the code has no such access.
    """
    if not any(function in text for function in _ACCESS_FUNCTIONS):
        return {}
    return {
        _INTERNAL_MODULE_NAMES.get(module, module): list[JsonValue](sorted(names))
        for module, names in imports.names.items()
        if imports.allows(module) and module.rpartition(".")[2] in text
    }


def _build_unit(
    name: str,
    call: Mapping[str, JsonValue],
    text: str,
    limits: Limits,
    names: Mapping[str, JsonValue],
    builtins: str,
) -> Unit:
    return Unit(
        name=name,
        program=Program.CALL,
        arguments={
            "source": text,
            "filename": FILENAME,
            "function": EXPECTED.function,
            **call,
            "kwargs": {},
            "builtins": builtins,
            **({"names": dict(names)} if names else {}),
        },
        deadline_s=limits.unit_timeout_s,
    )


def _match_units(names: Sequence[str], result: RunResult) -> Iterator[tuple[str, UnitResult | None]]:
    """Yield each path or case with the unit at its position, or with None if the names differ."""
    for index, name in enumerate(names):
        unit = result.units[index] if index < len(result.units) else None
        yield name, unit if unit is not None and unit.name == name else None


def _compare_case(tried: JudgedUnit, case: ExtractorCase) -> JudgedUnit:
    """Compare the result of a case with the expected result. The call itself is judged separately."""
    return judge_expected_value(tried, case, case.expected)  # type: ignore[arg-type]  # it was read as JSON


_DICT_CONVERSION_HINT = (
    "Convert it to a dict: return dict(…) with pairs, or a dict comprehension {key: value for …}."
)


def _judge_path(path: str, unit: UnitResult | None, text: str) -> JudgedUnit:
    """Return the result of one call, which must be a dict, but not an instance of a subclass."""
    return _require_dict(judge_call(path, unit, text=text, function=EXPECTED.function))


def _require_dict(tried: JudgedUnit) -> JudgedUnit:
    if tried.value is None:
        return tried
    if tried.value.type_name == "dict" and isinstance(tried.value.value, dict):
        return tried
    finding = Finding(
        rule="result.not_dict",
        category="result",
        message=f"extract() returned {tried.value.type_name}, not dict.",
        layer=Layer.RUNTIME,
        suggestion=_DICT_CONVERSION_HINT
        if tried.value.type_name in {"generator", "map", "filter", "zip"}
        else "Return a plain dict on every code path; return {} for a path without fields.",
    )
    case = replace(tried.case, status=CaseStatus.FAILED, message=finding.message)
    return JudgedUnit(case=case, findings=(*tried.findings, finding))


def _build_incomplete_run_finding(cases: Sequence[Case], result: RunResult) -> Finding:
    """Return the finding for paths without results that no other finding explains."""
    missing = sum(case.status is not CaseStatus.PASSED for case in cases)
    cause = Cause.PROTOCOL_VIOLATION if result.outcome.completed else result.outcome.cause
    limit = f"limit of the whole attempt{_format_timeout(result)}; " if cause is Cause.TIMEOUT else ""
    return build_cause_finding(cause, "The run", f"{limit}{missing} of {len(cases)} paths have no result")


def _format_timeout(result: RunResult) -> str:
    limit_s = result.outcome.evidence.get("timeout_s")
    return f", {limit_s:g} s" if isinstance(limit_s, float | int) else ""


validator = ExtractorKind()
