"""Finds code nodes that pass validation but have little value. Source: docs/quality.md.

limit: int, and only print() reads limit   quality.unread_input
rows: list, then rows = [1, 2]             quality.unread_input
result: float = random.random()            quality.varying
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from assayd.findings.source_text import get_snippet
from assayd.kinds.code.annotations import RESULT
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import ExecutionPolicy, NetworkMode
from assayd.model.submission import JsonValue
from assayd.static.python.scopes import ScopedTree, build_scoped_tree, list_annotated_names, resolve_name

RULES = (
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
_BY_NAME = frozenset({"globals", "locals", "vars", "eval", "exec"})
"""Functions whose callers can read names that don't appear in the source."""
_PURE = frozenset({
    "abs", "all", "any", "bool", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max",
    "min", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip",
})  # fmt: skip
_TELLING = frozenset({"print"})
"""Functions whose effects aren't part of the result."""
_CHANCE = re.compile(
    r"\b(?:random|secrets|uuid|time|datetime|os|socket|threading|id|hash|object|numpy|getpid)\b"
)
"""Words without which code computes the same result in each run."""
_LEAVES_TRACES = re.compile(
    r"\b(?:open|sqlite3|pathlib|Path|shutil|subprocess|tempfile|os|write|socket|input|stdin)\b"
)
"""Words of code whose second run may find traces of the first."""


def find_unread_inputs(text: str, tree: ast.Module, inputs: Collection[str]) -> Iterator[Finding]:
    """Yield findings about inputs that no live statement reads."""
    declared = {name: node for name, node in reversed(list_annotated_names(tree)) if node.value is None}
    walked = build_scoped_tree(tree)
    reads = _find_reads(walked)
    if _BY_NAME & reads.keys():
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
            yield _unread_input_finding(message, hint, text, line)
        elif (place := _find_overwrite_line(name, tree.body, reads)) is not None:
            message = f"The code replaces the input '{name}' before it reads it."
            hint = "Remove the assignment, and use the value that is passed."
            yield _unread_input_finding(message, hint, text, place)


def needs_second_run(code: str, policy: ExecutionPolicy) -> bool:
    """Return whether a second run has no external effects and could return a different result."""
    if policy.quality.is_off or policy.network.mode is not NetworkMode.BLOCKED:
        return False
    return _CHANCE.search(code) is not None and _LEAVES_TRACES.search(code) is None


def compare_second_run(
    first: JsonValue, again: tuple[JsonValue, ...], text: str, line: int | None
) -> list[Finding]:
    """Return a finding if a second run returned a different result; return [] if the second run failed."""
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
                found.setdefault(name, []).append(_enclosing_statement(site.node, walked))
            case ast.AugAssign(target=ast.Name(id=name)):
                found.setdefault(name, []).append(_enclosing_statement(site.node, walked))
    return found


def _enclosing_statement(node: ast.AST, walked: ScopedTree) -> ast.AST:
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
            return name in _TELLING
    return False


def _find_live_statements(body: list[ast.stmt], reads: Mapping[str, list[ast.AST]]) -> set[ast.AST]:
    """Return the statements that do more than bind names that no live statement reads."""
    bound = {statement: names for statement in body if (names := _names_only_bound(statement)) is not None}
    live: set[ast.AST] = {statement for statement in body if statement not in bound}
    grew = True
    while grew:
        before = len(live)
        for statement, names in bound.items():
            if RESULT in names or any(place in live for name in names for place in reads.get(name, ())):
                live.add(statement)
        grew = len(live) > before
    return live


def _names_only_bound(statement: ast.stmt) -> set[str] | None:
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
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _PURE
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


def _unread_input_finding(message: str, hint: str, text: str, line: int) -> Finding:
    return Finding(
        rule="quality.unread_input",
        category="quality",
        message=message,
        severity=Severity.WARNING,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=hint,
    )
