"""Judges the run of a code node, and warns about results of little value.

A code node's `result` must exist, be complete, and have the declared type.

    result: int, and never assigned            result.missing
    result: list = {}                          result.type
    result: list = list(range(10**7))          result.cut
    result: int = 10**1000                     result.cut
    result: object = object()                  result.not_plain     (a warning)

Source: docs/kinds/code.md.

Finds code nodes that pass validation but have little value. Source: docs/quality.md.

limit: int, and only print() reads limit   quality.unread_input
rows: list, then rows = [1, 2]             quality.unread_input
result: float = random.random()            quality.varying
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.findings import runs as run_findings
from assayd.findings.expected import judge_expected_value, merge_findings
from assayd.findings.python_failures import ExceptionContext
from assayd.findings.runs import build_cause_finding, build_unfinished_findings
from assayd.findings.source_text import SplitText, get_line, get_snippet
from assayd.findings.units import JudgedUnit, build_not_started_result, judge_python_unit, read
from assayd.guest_results import BoundNames, GuestJsonError, TypedValue
from assayd.kinds.code import types as code_types
from assayd.kinds.code.payload import CodeCase, CodePayload, PreparedCode
from assayd.kinds.code.types import RESULT
from assayd.model.finding import Finding, Layer, Rule, Severity, has_errors
from assayd.model.policy import ExecutionPolicy, NetworkMode
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd.static.python.scopes import ScopedTree, build_scoped_tree, list_annotated_names, resolve_name

WORTH_RULES = (
    Rule(
        id="quality.unread_input",
        title="The code never reads an input",
        severity=Severity.WARNING,
        help="Bad: limit: int, and result: list = rows[:10]. Good: result: list = rows[:limit].",
    ),
    Rule(
        id="quality.varying",
        title="Two runs return different results",
        severity=Severity.WARNING,
        help="Bad: result: float = random.random(). Good: random.Random(7).random().",
    ),
)
_DYNAMIC_READERS = frozenset({"globals", "locals", "vars", "eval", "exec"})
"""Functions whose callers can read names that don't appear in the source."""
_PURE_FUNCTIONS = frozenset({
    "abs", "all", "any", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max",
    "min", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip",
})  # fmt: skip
_OUTPUT_FUNCTIONS = frozenset({"print"})
"""Functions whose effects aren't part of the result."""
_VARYING_PATTERN = re.compile(
    r"\b(?:random|secrets|uuid|time|datetime|os|socket|threading|id|hash|object|numpy|getpid)\b"
)
"""Words without which code computes the same result in each run."""
_SIDE_EFFECT_PATTERN = re.compile(
    r"\b(?:open|sqlite3|pathlib|Path|shutil|subprocess|tempfile|os|write|socket|input|stdin)\b"
)
"""Words of code whose second run may find traces of the first."""


def find_unread_inputs(text: str, tree: ast.Module, inputs: Collection[str]) -> Iterator[Finding]:
    """Yield findings about inputs that no live statement reads, or that are replaced before they are read.

    Yield nothing if the code can read names dynamically, e.g. by `vars`.
    """
    declared = {name: node for name, node in reversed(list_annotated_names(tree)) if node.value is None}
    walked = build_scoped_tree(tree)
    reads = _find_reads(walked)
    if _DYNAMIC_READERS & reads.keys():
        return
    live = _find_live_statements(tree.body, reads)
    for name in inputs:
        if name not in declared:
            continue
        line = declared[name].lineno
        if not any(statement in live for statement in reads.get(name, ())):
            message = f"The code never reads the input '{name}'."
            if any(_is_print_call(each) or isinstance(each, ast.Assert) for each in reads.get(name, ())):
                message = (
                    f"The result doesn't depend on the input '{name}': the code only prints or checks it."
                )
            hint = f"Use '{name}' in the computation, or remove it from the inputs."
            yield _build_unread_input_finding(message, hint, text, line)
        elif (place := _find_overwrite_line(name, tree.body, reads)) is not None:
            message = f"The code replaces the input '{name}' before it reads it."
            hint = "Remove the assignment, and use the value that is passed."
            yield _build_unread_input_finding(message, hint, text, place)


def needs_second_run(code: str, policy: ExecutionPolicy) -> bool:
    """Return whether a second run has no external effects, but could return a different result.

    The result is False if the policy turns quality rules off or allows network access.
    """
    if policy.quality.is_off or policy.network.mode is not NetworkMode.BLOCKED:
        return False
    return _VARYING_PATTERN.search(code) is not None and _SIDE_EFFECT_PATTERN.search(code) is None


def compare_second_run(
    first: JsonValue, again: tuple[JsonValue, ...], text: str, line: int | None
) -> list[Finding]:
    """Return a finding if a second run returned a different result. Return [] if the second run failed."""
    if not again or again[0] is None or again[0] == first:
        return []
    finding = Finding(
        rule="quality.varying",
        category="quality",
        message="A second run with the same inputs returned a different result.",
        severity=Severity.WARNING,
        layer=Layer.RUNTIME,
        line=line,
        snippet=get_snippet(text, line),
        suggestion="Remove the clock, or pass the time as an input; seed random numbers: random.Random(7).",
    )
    return [finding]


def _find_reads(walked: ScopedTree) -> dict[str, list[ast.AST]]:
    """Return, for each name of the module's scope and each builtin, the statements that read it."""
    found: dict[str, list[ast.AST]] = {}
    dead = _find_dead_nodes(site.node for site in walked.sites)
    for site in walked.sites:
        match site.node:
            case ast.Name() if site.node in dead:
                continue
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()) if resolve_name(
                name, site.scope
            ).may_be_builtin:
                found.setdefault(name, []).append(_find_enclosing_statement(site.node, walked))
            case ast.AugAssign(target=ast.Name(id=name)):
                found.setdefault(name, []).append(_find_enclosing_statement(site.node, walked))
    return found


def _find_enclosing_statement(node: ast.AST, walked: ScopedTree) -> ast.AST:
    """Return the module-level statement that encloses a node."""
    while (parent := walked.parent(node)) is not None and not isinstance(parent, ast.Module):
        node = parent
    return node


def _find_dead_nodes(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    """Return the nodes in a branch of ``if False`` or ``while 0``."""
    branches = (
        node.body
        for node in nodes
        if isinstance(node, ast.If | ast.While)
        and isinstance(node.test, ast.Constant)
        and not node.test.value
    )
    return {inner for branch in branches for statement in branch for inner in ast.walk(statement)}


def _is_print_call(statement: ast.AST) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in _OUTPUT_FUNCTIONS
    return False


def _find_live_statements(body: list[ast.stmt], reads: Mapping[str, list[ast.AST]]) -> set[ast.AST]:
    """Return the statements with an effect: all but those that only bind names that no live one reads."""
    bound = {
        statement: names for statement in body if (names := _find_only_bound_names(statement)) is not None
    }
    live: set[ast.AST] = {statement for statement in body if statement not in bound}
    grew = True
    while grew:
        before = len(live)
        for statement, names in bound.items():
            if RESULT in names or any(place in live for name in names for place in reads.get(name, ())):
                live.add(statement)
        grew = len(live) > before
    return live


def _find_only_bound_names(statement: ast.stmt) -> set[str] | None:
    """Return the names that a statement binds, or None if the statement has another effect."""
    match statement:
        case (
            ast.FunctionDef(name=name, decorator_list=[]) | ast.AsyncFunctionDef(name=name, decorator_list=[])
        ):
            return {name}
        case ast.Assign(targets=[*targets], value=value) if all(isinstance(t, ast.Name) for t in targets):
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            return names if RESULT in names or _is_pure(value) else None
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return {name} if value is None or name == RESULT or _is_pure(value) else None
        case ast.Expr(value=value) | ast.Assert(test=value):
            parts = [value]
            if isinstance(value, ast.Call) and _is_print_call(statement):
                parts = [*value.args, *(each.value for each in value.keywords)]
            return set() if all(map(_is_pure, parts)) else None
        case ast.For(target=ast.Name(id=name), iter=value, body=body, orelse=[]) if _is_pure(value):
            return {name} if all(isinstance(each, ast.Pass | ast.Continue) for each in body) else None
    return None


def _is_pure(value: ast.expr) -> bool:
    """Return whether an expression calls only built-in functions without side effects."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call | ast.Await | ast.NamedExpr))
    return all(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _PURE_FUNCTIONS
        for call in calls
    )


def _find_overwrite_line(name: str, body: list[ast.stmt], reads: Mapping[str, list[ast.AST]]) -> int | None:
    """Return the line of an assignment to an input that precedes every read of that input, or None."""
    reading = {id(statement) for statement in reads.get(name, ())}
    for statement in body:
        if id(statement) in reading:
            return None
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                return statement.lineno
    return None


def _build_unread_input_finding(message: str, hint: str, text: str, line: int) -> Finding:
    return Finding(
        rule="quality.unread_input",
        category="quality",
        message=message,
        severity=Severity.WARNING,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=hint,
    )


_NOTES_SHOWN = 3
_IN_PLACE_PATTERN = re.compile(
    r"\.(append|clear|discard|extend|insert|remove|reverse|sort|update)\([^()]*\)\s*(?:#.*)?$"
)
"""A call of a mutating method at the end of a line."""
_PLAIN_HINT = (
    "Return plain values: numbers, strings, lists, dicts, sets, tuples, bytes, Decimal, dates and times."
)
_REMEDY_BY_TYPE = {
    **dict.fromkeys(
        (
            "array", "deque", "dict_items", "dict_keys", "dict_values", "enumerate", "filter", "generator",
            "islice", "map", "range", "reversed", "zip",
        ),
        "Convert it to a list: result: list = list(…)",
    ),
    **dict.fromkeys(("function", "method", "builtin_function_or_method"), "Call it: …()"),
    "coroutine": "Run it: result: … = asyncio.run(…)",
    "module": "Return a value from the module, not the module itself.",
}  # fmt: skip
"""Remedies for values without a JSON form, by the name of their type."""

RULES = (
    Rule(
        id="result.missing",
        title="The code assigned no result",
        help="Bad: if data: result: int = 1. Good: a value on every code path.",
    ),
    Rule(
        id="result.type",
        title="The result has another type than declared",
        help="Bad: result: list = {}. Good: result: dict = {}.",
    ),
    Rule(
        id="result.cut",
        title="The result is too large",
        help="Good: sums, samples and counts; large data as few long strings.",
    ),
    Rule(
        id="result.not_plain",
        title="The result can't be returned unchanged",
        severity=Severity.WARNING,
        help="Bad: result: object = Point(1, 2). Good: result: dict = {'x': 1, 'y': 2}.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The declaration of the result: the allowed types, and the annotation as written in the source."""

    types: Collection[str]
    annotation: str
    line: int | None
    text: str


def check_result(value: TypedValue | None, wanted: Wanted) -> Iterator[Finding]:
    """Yield findings about the value of `result`, or about its absence if the value is None."""
    if value is None:
        message = "The code ended without a value in 'result'."
        remedy = f"Assign it on every code path: result: {wanted.annotation} = …"
        yield _make_finding("result.missing", message, remedy, wanted)
        return
    actual = code_types.infer_type(value.value)
    unseen = actual == code_types.ANYTHING and not value.complete
    if not unseen and not code_types.matches_type(actual, wanted.types):
        name = shorten_text(value.type_name, 60) if actual == code_types.ANYTHING else actual
        message = f"The result is declared as {wanted.annotation}, but has the type {name}."
        yield _make_finding("result.type", message, _suggest_fix(actual, name, wanted), wanted)
    if not value.complete:
        message = f"The result is too large: {_format_notes(value)}"
        remedy = "Return less: aggregate, filter, or join values; return numbers of 900 digits as strings."
        yield _make_finding("result.cut", message, remedy, wanted)
    elif value.notes:
        message = f"The result can't be returned unchanged: {_format_notes(value)}"
        yield _make_finding("result.not_plain", message, _PLAIN_HINT, wanted, Severity.WARNING)


def _suggest_fix(actual: str, name: str, wanted: Wanted) -> str:
    if actual == "None" and (found := _IN_PLACE_PATTERN.search(get_line(wanted.text, wanted.line) or "")):
        other = {"sort": "sorted(…)", "reverse": "list(reversed(…))"}.get(found[1])
        instead = f", or use {other}" if other else ""
        return (
            f".{found[1]}() changes the value in place and returns None. Call it on a separate line{instead}."
        )
    if actual == "None":
        optional = code_types.format_types({*wanted.types, "None"})
        return f"Assign a value on every code path, or declare: result: {optional}"
    if actual == code_types.ANYTHING:
        return _REMEDY_BY_TYPE.get(name, _PLAIN_HINT)
    way = code_types.suggest_conversion(actual, wanted.types, "…")
    by_code = f" Or convert it: result: {wanted.annotation} = {way}" if way else ""
    return f"Declare the actual type: result: {name}.{by_code}"


def _format_notes(value: TypedValue) -> str:
    shown = "; ".join(f"{note.path}: {note.problem}" for note in value.notes[:_NOTES_SHOWN])
    more = len(value.notes) - _NOTES_SHOWN
    return shorten_text(shown, 600) + (f"; and {more} more" if more > 0 else "")


def _make_finding(
    rule: str, message: str, suggestion: str, wanted: Wanted, severity: Severity = Severity.ERROR
) -> Finding:
    return Finding(
        rule=rule,
        category="result",
        message=message,
        severity=severity,
        layer=Layer.RUNTIME,
        line=wanted.line,
        snippet=get_snippet(wanted.text, wanted.line),
        suggestion=suggestion,
    )


UNIT = "node"


def iter_runs(payload: CodePayload) -> Iterator[tuple[str, Mapping[str, object], CodeCase | None]]:
    """Yield the name, the inputs and the case (None for the main run) of each run."""
    if payload.inputs or not payload.cases:
        yield UNIT, payload.inputs, None
    for case in payload.cases:
        yield case.name, case.inputs, case


def judge_runs(payload: PreparedCode, result: RunResult) -> Judgement:
    """Judge the end of every run. If all runs completed, judge their results as well."""
    payload = payload.model_copy(update={"code": SplitText(payload.code)})  # each unit quotes its lines
    cases = [case for _, _, case in iter_runs(payload)]
    tries = [
        _judge_unit(name, _find_unit(result, index, name), payload)
        for index, (name, _, _) in enumerate(iter_runs(payload))
    ]
    found = merge_findings(tries)
    if any(one.case.status is not CaseStatus.PASSED for one in tries) or has_errors(found):
        found = found if has_errors(found) else (*found, *build_unfinished_findings(result, "The code"))
        stage = next((stage for one in tries if (stage := _select_failed_stage(one)) != "sandbox"), "sandbox")
        return Judgement(stage_findings={stage: found}, cases=tuple(one.case for one in tries))
    judged = [_judge_result(one, case, payload) for one, case in zip(tries, cases, strict=True)]
    last = tries[-1]
    value = last.value.value if last.value else None
    varying = compare_second_run(value, last.again, payload.code, payload.result_line)
    return Judgement(
        stage_findings={"sandbox": found, "result": (*merge_findings(judged), *varying)},
        cases=tuple(one.case for one in judged),
    )


def _judge_result(tried: JudgedUnit, wanted: CodeCase | None, payload: PreparedCode) -> JudgedUnit:
    """Compare the type of a run's result with the declaration, and the value with the case."""
    declared = Wanted(
        types=payload.result_types,
        annotation=payload.result_annotation,
        line=payload.result_line,
        text=payload.code,
    )
    found = tuple(check_result(tried.value, declared))
    case = replace(tried.case, result=tried.value.value if tried.value else None)
    if has_errors(found):
        case = replace(case, status=CaseStatus.FAILED, message=found[0].message)
    judged = JudgedUnit(case=case, findings=found, value=tried.value)
    if wanted is None:
        return judged
    return judge_expected_value(judged, wanted, wanted.expected)  # type: ignore[arg-type]  # it was read as JSON


def _find_unit(result: RunResult, index: int, name: str) -> UnitResult | None:
    """Return the unit at a run's position, or None if it is missing or has a different name."""
    unit = result.units[index] if index < len(result.units) else None
    return unit if unit is not None and unit.name == name else None


def _judge_unit(name: str, unit: UnitResult | None, payload: PreparedCode) -> JudgedUnit:
    """Return the result of a run. A successful run must report `result` or its absence."""
    if unit is None:
        return build_not_started_result(name)
    around = ExceptionContext(text=payload.code, required=payload.requires, awaited=payload.awaited)
    tried = judge_python_unit(unit, around, what="The code")
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    try:
        value, again = _read_result_value(unit)
        return replace(tried, value=value, again=again)
    except GuestJsonError as problem:
        finding = build_cause_finding(Cause.PROTOCOL_VIOLATION, "The code", str(problem))
        case = replace(tried.case, status=CaseStatus.ERROR, message=finding.message)
        return JudgedUnit(case=case, findings=(*tried.findings, finding))


def _read_result_value(unit: UnitResult) -> tuple[TypedValue | None, tuple[JsonValue, ...]]:
    """Return the value of `result`, or None if it is missing, and its values in a second run.

    Raises: GuestJsonError, if the record isn't that of a code node.
    """
    record = read(unit)
    if not isinstance(record, BoundNames):
        raise GuestJsonError("not the record of a node")
    if RESULT not in record.values and record.missing != (RESULT,):
        raise GuestJsonError("the record lacks the result")
    return record.values.get(RESULT), record.again


def _select_failed_stage(tried: JudgedUnit) -> str:
    """Return the stage of a failure: `syntax` if the container's Python rejected the source.

    Otherwise, return `sandbox`.
    """
    disagrees = any(finding.rule == run_findings.NOT_COMPILED_RULE.id for finding in tried.findings)
    return "syntax" if disagrees else "sandbox"
