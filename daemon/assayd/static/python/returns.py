"""Finds functions without a return value whose value is used: the forgotten ``return``.

    def rotate(rows):                     function.no_value    edit: return turned
        turned = list(zip(*rows))
        turned
    grid = rotate(rows)

    def __repr__(self):               function.no_value    (a warning)
        text = f"<{self.name}>"

A last statement without effect is an error; the fix is `return` before it. If it is a bare name or a bare
list, this holds even if the value is never seen to be used. A function that merely never returns a value
is a warning if its value is used, because None may be intended. Generators, and functions that end with
raise, aren't checked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from assayd.findings.source_text import get_snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.safe_fixes import CompileBudget, parse_or_none
from assayd.static.python.scopes import list_nodes
from assayd.static.python.source import PythonSource

NO_VALUE_RULE = Rule(
    id="function.no_value",
    title="A function without return whose value is used",
    help="Bad: def f(x): x + 1, and y = f(2). Good: def f(x): return x + 1.",
)

_Function = ast.FunctionDef
_IDLE = (
    ast.BinOp, ast.BoolOp, ast.Compare, ast.Dict, ast.DictComp, ast.JoinedStr, ast.List, ast.ListComp,
    ast.Name,
    ast.IfExp, ast.Set, ast.SetComp, ast.Subscript, ast.Tuple, ast.UnaryOp,
)  # fmt: skip
_EFFECT_FREE_TYPES = (
    ast.Dict,
    ast.DictComp,
    ast.JoinedStr,
    ast.List,
    ast.ListComp,
    ast.Name,
    ast.Set,
    ast.SetComp,
    ast.Tuple,
)
"""Expressions without side effects: they call nothing, and rarely raise."""
_BUILTIN_METHOD_NAMES = frozenset(
    name for kind in (bytes, dict, float, int, list, set, str, tuple) for name in dir(kind)
)
"""Method names that other objects may also have."""
_RETURNING_METHODS = frozenset(
    {
        "__bool__", "__bytes__", "__float__", "__format__", "__fspath__", "__hash__", "__index__", "__int__",
        "__iter__", "__len__", "__repr__", "__str__",
    }
)  # fmt: skip
"""Special methods that must not return None."""
_MAX_REPORTED = 20


def check_returns(source: PythonSource, *, severity: Severity = Severity.ERROR) -> Iterator[Finding]:
    """Yield the findings for functions without a `return` that their use, name or last line requires.

    Args:
        source: the parsed source.
        severity: the severity of a last statement without effect.
    """
    if source.tree is None:
        return
    nodes = list_nodes(source.tree)
    named: dict[str, list[_Function]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            named.setdefault(node.name, []).append(node)
    silent = {
        name: found[0]
        for name, found in named.items()
        if len(found) == 1 and not found[0].decorator_list and _never_returns_value(found[0])
    }
    bound = _find_other_bound_names(nodes) if silent else frozenset()
    silent = {name: one for name, one in silent.items() if name not in bound}
    budget = CompileBudget.for_texts([source.text])
    used = _find_used_functions(nodes, silent)
    for name, line in list(used.items())[:_MAX_REPORTED]:
        yield _build_missing_return_finding(silent[name], line, source, severity, budget)
    said = {id(silent[name]) for name in used}
    for function in islice(_iter_silent_special_methods(nodes), _MAX_REPORTED):
        said.add(id(function))
        yield _build_silent_method_finding(function, source)
    every = (function for found in named.values() for function in found if id(function) not in said)
    for function in islice((one for one in every if _discards_last_value(one)), _MAX_REPORTED):
        yield _build_no_effect_finding(function, source, severity, budget)


def _iter_silent_special_methods(nodes: Sequence[ast.AST]) -> Iterator[_Function]:
    """Return the special methods that never return a value although Python requires one."""
    inside = (node for one in nodes if isinstance(one, ast.ClassDef) for node in one.body)
    methods = (node for node in inside if isinstance(node, ast.FunctionDef))
    wanted = (one for one in methods if one.name in _RETURNING_METHODS and not one.decorator_list)
    return (one for one in wanted if _never_returns_value(one) or _ends_in_constant(one))


def _ends_in_constant(function: _Function) -> bool:
    """Return whether a function without `return` and `yield` ends in a bare bool or number."""
    match function.body[-1]:
        case ast.Expr(value=ast.Constant(value=bool() | int() | float())):
            return not any(isinstance(n, ast.Return | ast.Yield) for n in _iter_own_nodes(function))
        case _:
            return False


def _build_silent_method_finding(function: _Function, source: PythonSource) -> Finding:
    last = function.body[-1]
    value = (
        ast.unparse(last.value)[:200]
        if isinstance(last, ast.Expr)
        else _find_last_assigned_name(function) or "…"
    )
    line = last.end_lineno or last.lineno
    return Finding(
        rule=NO_VALUE_RULE.id,
        category="function",
        message=f"{function.name}() ends without return (line {line}), but Python requires a value.",
        severity=Severity.WARNING,
        line=line,
        snippet=get_snippet(source.text, line),
        suggestion=f"Write: return {value}",
    )


def _never_returns_value(function: _Function) -> bool:
    """Return whether a function ends normally without ever returning a value.

    The result is False for generators, and if the last statement is a loop, `pass` or a constant.
    """
    own = list(_iter_own_nodes(function))
    if any(isinstance(n, ast.Yield | ast.YieldFrom) or (isinstance(n, ast.Return) and n.value) for n in own):
        return False
    last = function.body[-1]
    if isinstance(last, ast.Raise | ast.Pass | ast.While):
        return False
    return not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant))


def _discards_last_value(function: _Function) -> bool:
    """Return whether the last statement only computes a value, which is then neither used nor stored."""
    last = function.body[-1]
    if not isinstance(last, ast.Expr) or not isinstance(last.value, _EFFECT_FREE_TYPES):
        return False
    if len(function.body) == 1 or any(isinstance(n, ast.Call | ast.Await) for n in ast.walk(last)):
        return False
    bound = {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)}
    bound |= {
        n.id for n in _iter_own_nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    used = {n.id for n in ast.walk(last) if isinstance(n, ast.Name)}
    return (
        bool(used) and used <= bound and not any(isinstance(n, ast.Yield) for n in _iter_own_nodes(function))
    )


def _iter_own_nodes(function: _Function) -> Iterator[ast.AST]:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _find_other_bound_names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that something other than a function definition binds or deletes."""
    bound: set[str] = set()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=asname):
                bound.add(asname or name)
            case _:
                pass
    return frozenset(bound)


def _find_used_functions(nodes: Sequence[ast.AST], functions: dict[str, _Function]) -> dict[str, int]:
    """Return the functions whose value is used, each with the line of its first use."""
    idle = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    passed_on = {id(n.value) for n in nodes if isinstance(n, ast.Return)}
    methods = {id(n) for c in nodes if isinstance(c, ast.ClassDef) for n in c.body}
    found: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in functions and id(functions[name]) not in methods:
                called = name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)) if (
                name in functions and id(functions[name]) in methods
            ):
                called = name
            case ast.Call(func=ast.Attribute(attr=name)) if (
                name in functions and id(functions[name]) in methods and name not in _BUILTIN_METHOD_NAMES
            ):
                called = name
            case _:
                continue
        if id(node) not in idle | passed_on:
            found.setdefault(called, node.lineno)
    return found


def _build_missing_return_finding(
    function: _Function, line: int, source: PythonSource, severity: Severity, budget: CompileBudget
) -> Finding:
    last = function.body[-1]
    idle = isinstance(last, ast.Expr) and isinstance(last.value, _IDLE)
    name = function.name
    at = last.lineno if idle else last.end_lineno or last.lineno
    given = _find_last_assigned_name(function)
    return Finding(
        rule=NO_VALUE_RULE.id,
        category="function",
        message=f"{name}() ends without return (line {at}), and its value, None, is used in line {line}.",
        severity=severity if idle else Severity.WARNING,
        line=at,
        snippet=get_snippet(source.text, at),
        suggestion=f"Write: return {ast.unparse(last.value)}"[:300]
        if idle and isinstance(last, ast.Expr)
        else f"End {name}() with: return {given or '…'}",
        edit=build_return_edit(last, source.text, budget=budget) if idle else None,
    )


def _build_no_effect_finding(
    function: _Function, source: PythonSource, severity: Severity, budget: CompileBudget
) -> Finding:
    """Return the finding for a last statement without effect, with an edit that inserts `return`."""
    last = function.body[-1]
    value = ast.unparse(last.value)[:200] if isinstance(last, ast.Expr) else "…"
    return Finding(
        rule=NO_VALUE_RULE.id,
        category="function",
        message=f"{function.name}() ends without return (line {last.lineno}): its last value is lost.",
        severity=severity,
        line=last.lineno,
        snippet=get_snippet(source.text, last.lineno),
        suggestion=f"Write: return {value}",
        edit=build_return_edit(last, source.text, budget=budget),
    )


def _find_last_assigned_name(function: _Function) -> str | None:
    """Return the name of the variable that is assigned last, or None if no variable is assigned."""
    for statement in reversed(function.body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                return name
            case _:
                pass
    made = [
        s.targets[0].id
        for s in function.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    ]
    return made[-1] if made else None


def build_return_edit(
    last: ast.stmt, text: str, name: str | None = None, *, budget: CompileBudget | None = None
) -> Edit | None:
    """Return the edit that returns the last statement's value, or the variable that the statement assigns.

    Args:
        last: the last statement; it isn't edited if other code precedes it on its line.
        text: the source; it must still compile after the edit.
        name: the variable that the statement assigns; None for an expression.
        budget: the characters that may still be compiled; without enough of them, the result is None.
    """
    lines = text.split("\n")
    line = lines[last.lineno - 1]
    indent = line[: len(line) - len(line.lstrip())]
    if indent.encode() != line.encode()[: last.col_offset]:
        return None
    changed = f"{indent}return {line.lstrip()}"
    if name is not None:
        continues = any(each.endswith("\\") for each in lines[max(last.lineno - 2, 0) : last.lineno])
        if continues or last.end_lineno != last.lineno:
            return None
        changed = f"{line}\n{indent}return {name}"
    lines[last.lineno - 1] = changed
    if budget is not None and not budget.try_spend(text):
        return None
    if parse_or_none("\n".join(lines)) is None:
        return None
    return Edit(start_line=last.lineno, end_line=last.lineno, replacement=changed)
