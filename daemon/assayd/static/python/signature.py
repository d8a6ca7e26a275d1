"""Checks that a source defines the called function with a matching signature.

Only module-level definitions are considered, including those inside `if`, `try`, `with` and loops; if
there are several, the last one is checked. The name may also be bound by assigning a lambda or another
function. For a decorated function or a computed value, a warning reports that it can't be checked. The
following lines each violate one rule for ``extract``:

    def main(path): …                     signature.missing               edit, when it is the only function
    class extract: …                      signature.not_a_function
    async def extract(path): …            signature.async                 edit, when nothing is awaited
    def extract(path): yield {}           signature.generator
    def extract(): …                      signature.no_parameter
    def extract(path, base): …            signature.too_many_parameters
    def extract(path, *, base): …         signature.keyword_only
    def extract(path): print(path)        signature.no_return
    def extract(filename): …              signature.parameter_name        (a warning)
    def extract(path: int): …             signature.parameter_annotation  (a warning)
    def extract(path) -> str: …           signature.return_annotation     (a warning)
    extract = make()                      signature.unchecked             (a warning)

A function that nearly matches gets one of these edits:

    def extract_metadata(path): …         def extract(path): …     (the only function, not named elsewhere)
    async def extract(path): …            def extract(path): …     (nothing in it is awaited)

Reads the types in annotations without evaluating them.

This module supports unions, `Optional`, `Annotated`, quoted annotations and module-level aliases. For
other annotations, the source text is used as the name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.findings.source_text import get_line
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.text_limits import shorten_text
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import list_nodes
from assayd.static.python.source import PythonSource

_UNIONS = frozenset({"Union", "Optional"})
_WRAPPERS = frozenset({"Annotated", "Final", "ClassVar"})


def find_annotation_aliases(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the module-level aliases for annotations, e.g. ``Row = dict[str, str]`` or a TypedDict."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.ClassDef(name=name, bases=[base]):
                found[name] = base
            case _:
                pass
    return found


def list_alternatives(annotation: ast.expr, aliases: Mapping[str, ast.expr]) -> frozenset[str]:
    """Return the names of the types that an annotation allows, without parameters and modules.

    Each alias is followed only once, so that recursive aliases terminate.
    """
    found: set[str] = set()
    followed: set[str] = set()
    pending = [annotation]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id in aliases and node.id not in followed:
            followed.add(node.id)
            pending.append(aliases[node.id])
            continue
        names, inner = _read_annotation(node)
        found.update(names)
        pending.extend(inner)
    return frozenset(found - followed)


def _read_annotation(node: ast.expr) -> tuple[list[str], list[ast.expr]]:
    """Return the types that a node itself names, and its nested annotations."""
    match node:
        case ast.Constant(value=None):
            return ["None"], []
        case ast.Constant(value=str(text)):
            quoted = _parse_or_none(text)
            return ([shorten_text(text, 60)], []) if quoted is None else ([], [quoted])
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name], []
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return [], [left, right]
        case ast.Subscript(value=value, slice=inner):
            return _read_annotation_subscript(value, inner)
        case _:
            return ["something else"], []


def _read_annotation_subscript(value: ast.expr, inner: ast.expr) -> tuple[list[str], list[ast.expr]]:
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in _WRAPPERS:
        return [], parts[:1]
    if name in _UNIONS:
        return ["None"] if name == "Optional" else [], parts
    return [], [value]


def _parse_or_none(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_ASYNC_NODE_TYPES = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def build_rename_edit(tree: ast.Module, text: str, name: str) -> Edit | None:
    """Return the edit that renames the only function to `name`.

    Return None unless the function takes one argument, its name begins with `name` and an underscore, and no
    other code uses either name.
    """
    nodes = list_nodes(tree)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if len(functions) != 1 or functions[0] not in tree.body or isinstance(functions[0], ast.AsyncFunctionDef):
        return None
    [function] = functions
    spec = function.args
    one = len((*spec.posonlyargs, *spec.args)) == 1 and not spec.kwonlyargs
    named = any(isinstance(node, ast.Name) and node.id in {name, function.name} for node in nodes)
    line = get_line(text, function.lineno)
    if not one or named or line is None or not function.name.startswith(f"{name}_"):
        return None
    new = re.sub(rf"^(def\s+){function.name}\b", rf"\g<1>{name}", line)
    return Edit(start_line=function.lineno, end_line=function.lineno, replacement=new)


def build_synchronous_edit(function: ast.AsyncFunctionDef, text: str) -> Edit | None:
    """Return the edit that removes `async` from a function, or None if the function awaits or yields."""
    waits = any(
        isinstance(node, _ASYNC_NODE_TYPES) or getattr(node, "is_async", 0) for node in ast.walk(function)
    )
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    line = get_line(text, function.lineno)
    found = None if line is None else re.fullmatch(r"(\s*)async\s+(def\b.*)", line)
    if waits or yields or found is None:
        return None
    return Edit(start_line=function.lineno, end_line=function.lineno, replacement=found[1] + found[2])


RULES = (
    Rule(id="signature.missing", title="The function is missing"),
    Rule(id="signature.not_a_function", title="The name isn't a function"),
    Rule(id="signature.async", title="The function is asynchronous", help="Bad: async def. Good: def."),
    Rule(id="signature.generator", title="The function is a generator", help="Bad: yield. Good: return."),
    Rule(id="signature.no_parameter", title="The function takes no argument"),
    Rule(id="signature.too_many_parameters", title="The function requires too many arguments"),
    Rule(id="signature.keyword_only", title="The function requires keyword arguments"),
    Rule(id="signature.no_return", title="The function returns nothing"),
    Rule(id="signature.parameter_name", title="The parameter has another name", severity=Severity.WARNING),
    Rule(
        id="signature.parameter_annotation", title="The parameter has another type", severity=Severity.WARNING
    ),
    Rule(id="signature.return_annotation", title="The result has another type", severity=Severity.WARNING),
    Rule(
        id="signature.mutable_default",
        title="A mutable default is shared by all calls",
        severity=Severity.WARNING,
        help="Bad: def extract(path, found={}). Good: found = {} inside.",
    ),
    Rule(id="signature.unchecked", title="The function can't be checked", severity=Severity.WARNING),
)

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFunction:
    """The function that a source must define. It is called with one positional argument."""

    function: str
    parameter: str
    parameter_types: frozenset[str]
    return_types: frozenset[str]
    template: str
    """The line that a person or a model should write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SignatureCheck:
    text: str
    expected: ExpectedFunction

    def error(self, node: ast.AST, rule: str, message: str) -> Finding:
        suggestion = f"Write: {self.expected.template}"
        return finding_at(node, self.text, f"signature.{rule}", message, suggestion=suggestion)

    def warning(self, node: ast.AST, rule: str, message: str) -> Finding:
        suggestion = f"Write: {self.expected.template}"
        return finding_at(
            node, self.text, f"signature.{rule}", message, suggestion=suggestion, severity=Severity.WARNING
        )


def check_signature(source: PythonSource, expected: ExpectedFunction) -> tuple[Finding, ...]:
    """Return the findings about the expected function, or no findings if the source can't be parsed."""
    if source.tree is None:
        return ()
    check = _SignatureCheck(text=source.text, expected=expected)
    bindings = _find_last_bindings(source.tree)
    bound = bindings.get(expected.function)
    for _ in range(len(bindings)):
        if not isinstance(bound, ast.Name) or bound.id not in bindings:
            break
        bound = bindings[bound.id]
    match bound:
        case None:
            missing = Finding(
                rule="signature.missing",
                category="signature",
                message=f"The function {expected.function}() is missing at the top level.",
                suggestion=_build_method_hint(source.tree, expected) or f"Write: {expected.template}",
                edit=build_rename_edit(source.tree, source.text, expected.function),
            )
            return (missing,)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            return tuple(_check_function(check, bound, find_annotation_aliases(source.tree)))
        case ast.ClassDef() | ast.alias() | ast.Constant():
            message = f"{expected.function} isn't a function of this file."
            return (check.error(bound, "not_a_function", message),)
        case _:
            message = f"{expected.function} is computed, so its signature is unknown."
            return (check.warning(bound, "unchecked", message),)


def _find_last_bindings(tree: ast.Module) -> dict[str, ast.AST]:
    """Return the last binding of each name at module level."""
    found: dict[str, ast.AST] = {}
    for node in _iter_module_statements(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found[node.name] = node
            case ast.Assign(targets=targets, value=value):
                found |= {t.id: value for t in targets if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name: alias for alias in node.names}
            case ast.Delete(targets=targets):
                for target in targets:
                    found.pop(target.id if isinstance(target, ast.Name) else "", None)
            case _:
                pass
    return found


def _iter_module_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of the module's scope in source order, including those in nested blocks."""
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        pending.extend(reversed(list(_iter_inner_statements(statement))))


def _iter_inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _check_function(
    check: _SignatureCheck, node: Function, aliases: Mapping[str, ast.expr]
) -> Iterator[Finding]:
    name = check.expected.function
    if isinstance(node, ast.AsyncFunctionDef):
        found = check.error(node, "async", f"{name}() is asynchronous; it would return a coroutine.")
        yield replace(found, edit=build_synchronous_edit(node, check.text))
    elif any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _iter_own_nodes(node)):
        yield check.error(node, "generator", f"{name}() is a generator; it would return no value.")
    elif not _returns_value(node):
        found = check.error(node, "no_return", f"{name}() never returns a value.")
        yield replace(
            found, suggestion=f"Add at the end of {name}(): return {_find_last_assigned(node) or '{…}'}"
        )
    yield from _check_parameters(check, node)
    yield from _check_annotations(check, node, aliases)


def _check_parameters(check: _SignatureCheck, node: Function) -> Iterator[Finding]:
    """Report ``def extract(path, base)`` as signature.too_many_parameters."""
    name, spec = check.expected.function, node.args
    positional = [*spec.posonlyargs, *spec.args]
    required = len(positional) - len(spec.defaults)
    if not positional and spec.vararg is None:
        yield check.error(node, "no_parameter", f"{name}() takes no positional argument.")
    if required > 1:
        names = ", ".join(a.arg for a in positional[:required])
        message = f"{name}() receives one argument but requires {required}: {names}."
        yield check.error(node, "too_many_parameters", message)
    by_name = [a.arg for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is None]
    if by_name:
        message = f"{name}() requires keyword arguments: {', '.join(by_name)}."
        yield check.error(node, "keyword_only", message)
    for given, default in zip(positional[required:], spec.defaults, strict=True):
        if isinstance(default, ast.Dict | ast.List | ast.Set):
            message = f"The default of {given.arg!r} is shared by all calls: changes persist between calls."
            shared = check.warning(default, "mutable_default", message)
            yield replace(
                shared, suggestion=f"Create it inside the function: {given.arg} = {ast.unparse(default)}"
            )
    if positional and positional[0].arg != check.expected.parameter:
        message = f"The parameter is named {positional[0].arg!r}, not {check.expected.parameter!r}."
        yield check.warning(positional[0], "parameter_name", message)


def _check_annotations(
    check: _SignatureCheck, node: Function, aliases: Mapping[str, ast.expr]
) -> Iterator[Finding]:
    """Report ``def extract(path) -> str`` as signature.return_annotation."""
    first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
    if first is not None and first.annotation is not None:
        named = list_alternatives(first.annotation, aliases)
        if not named & check.expected.parameter_types:
            message = f"The parameter is annotated as {', '.join(sorted(named))}; it receives a string."
            yield check.warning(first, "parameter_annotation", message)
    returns = None if isinstance(node, ast.Lambda) else node.returns
    if returns is not None:
        named = list_alternatives(returns, aliases)
        others = named - check.expected.return_types
        if others:
            may = "may be" if named & check.expected.return_types else "is"
            message = f"By its annotation the result {may} {', '.join(sorted(others))}; it must be a dict."
            yield check.warning(returns, "return_annotation", message)


def _find_last_assigned(node: Function) -> str | None:
    """Return the name that the last statement assigns or consists of, or None if there is no such name."""
    last = node.body[-1] if isinstance(node, ast.FunctionDef) else None
    match last:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) | ast.Expr(value=ast.Name(id=name)):
            return name
        case _:
            return None


def _build_method_hint(tree: ast.Module, expected: ExpectedFunction) -> str | None:
    """Return a hint that calls the function as a method, or None if no class defines it."""
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        if any(isinstance(one, ast.FunctionDef) and one.name == expected.function for one in owner.body):
            call = f"return {owner.name}().{expected.function}({expected.parameter})"
            return f"{owner.name} has it as a method. Add at the top level: {expected.template} {call}"
    return None


def _returns_value(node: Function) -> bool:
    """Return whether the function itself returns a value, ignoring nested functions."""
    if isinstance(node, ast.Lambda):
        return True
    values = (n.value for n in _iter_own_nodes(node) if isinstance(n, ast.Return))
    return any(v is not None and not (isinstance(v, ast.Constant) and v.value is None) for v in values)


def _iter_own_nodes(node: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, except those inside nested functions and classes."""
    pending: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while pending:
        inner = pending.pop()
        yield inner
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(inner))
