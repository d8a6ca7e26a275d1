"""Checks the declarations of a code node: its inputs and its result, as module-level annotations.

    inputs {"data": …}, no annotation          annotations.missing_input    edit: data: list
    result = sorted(data)                      annotations.missing_result   edit: result: list = sorted(data)
    result: int = 1 … result: str = "a"        annotations.conflicting
    data: [int]                                annotations.unreadable
    data: Frame                                annotations.unchecked        (info)

`types` checks the names in annotations. Annotations inside functions and classes don't declare anything.
Source: docs/kinds/code.md.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from assayd.findings.source_text import get_line, get_snippet
from assayd.kinds.code import types as code_types
from assayd.kinds.code.types import Declaration, check_names, finding_at
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.scopes import (
    find_insertion_line,
    is_variable,
    iter_module_statements,
    list_annotated_names,
)
from assayd.static.python.signature import find_annotation_aliases, list_alternatives

RESULT = "result"
_MOST_READ = 300
_MOST_ALIASES = 1000

RULES = (
    Rule(
        id="annotations.missing_input",
        title="An input isn't declared",
        help="Bad: result: int = len(data). Good: data: list, on a separate line before it.",
    ),
    Rule(
        id="annotations.missing_result",
        title="The result isn't declared",
        help="Bad: result = len(data). Good: result: int = len(data).",
    ),
    Rule(
        id="annotations.conflicting",
        title="Two different declarations of one name",
        help="Bad: result: int = 0 and result: str = ''. Good: result: int | str, once.",
    ),
    *code_types.RULES,
    Rule(
        id="annotations.unreadable",
        title="An annotation isn't a type",
        help="Bad: data: [int]. Good: data: list[int].",
    ),
    Rule(
        id="annotations.unchecked",
        title="A type isn't checked",
        severity=Severity.INFO,
        help="Checked: None, bool, int, float, str, bytes, list, dict, set, tuple, Decimal, dates and times.",
    ),
)


def find_declarations(tree: ast.Module, wanted: Collection[str]) -> list[Declaration]:
    """Return the module's declarations of the given names, in order; only the first few hundred are used.

    The number is limited because each declaration can require following all aliases of the module.
    """
    aliases = find_annotation_aliases(tree)
    if len(aliases) > _MOST_ALIASES:
        aliases = {}
    found = islice(((name, node) for name, node in list_annotated_names(tree) if name in wanted), _MOST_READ)
    return [
        Declaration(name=name, node=node, names=list_alternatives(node.annotation, aliases))
        for name, node in found
    ]


def check_annotations(text: str, tree: ast.Module, inputs: Mapping[str, object]) -> Iterator[Finding]:
    """Yield the findings about the declarations of the supplied inputs and the result."""
    known = {name for name, _ in list_annotated_names(tree)}
    wanted = find_declarations(tree, {*inputs, RESULT})
    for name in inputs:
        if name not in known and is_variable(name):
            yield _missing_input_finding(name, inputs[name], text, tree)
    if RESULT not in known:
        yield _missing_result_finding(text, tree)
    yield from check_names(tree, text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for declaration in wanted:
        yield from _check_type_names(declaration, text, own)
    yield from _find_conflicts(wanted, text)


def _missing_input_finding(name: str, value: object, text: str, tree: ast.Module) -> Finding:
    kind = code_types.infer_type(value)  # type: ignore[arg-type]  # it came as JSON
    declaration = f"{name}: {'object' if kind == code_types.ANYTHING else kind}"
    line = find_insertion_line(tree)
    inner = any(
        isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
        for node in ast.walk(tree)
    )
    where = " at module level; one inside a function or class does not count" if inner else ""
    return Finding(
        rule="annotations.missing_input",
        category="annotations",
        message=f"The input '{name}' isn't declared{where}.",
        line=line,
        snippet=get_snippet(text, line),
        suggestion=f"Add a separate line at the top: {declaration}",
        edit=Edit(start_line=line, end_line=line - 1, replacement=declaration),
    )


def _missing_result_finding(text: str, tree: ast.Module) -> Finding:
    assigned = [node for node in iter_module_statements(tree) if RESULT in _find_assigned_names(node)]
    if not assigned:
        where, call = _advise_inner_result(tree)
        return Finding(
            rule="annotations.missing_result",
            category="annotations",
            message=f"Nothing is assigned to 'result', the value that a code node returns{where}.",
            suggestion=call or "Assign it with its type, e.g.: result: dict = {…}",
        )
    node = assigned[-1]
    kind = _infer_obvious_type(node)
    return Finding(
        rule="annotations.missing_result",
        category="annotations",
        message="'result' is assigned without a declared type.",
        line=node.lineno,
        snippet=get_snippet(text, node.lineno),
        suggestion=f"Declare its type at the assignment: result:  {kind or 'list'} = …",
        edit=_build_annotation_edit(node, kind, text) if kind and len(assigned) == 1 else None,
    )


def _advise_inner_result(tree: ast.Module) -> tuple[str, str | None]:
    """Return advice if a module-level function assigns a local `result`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(
            RESULT in _find_assigned_names(one) for one in _walk_statements(node)
        ):
            kind = "dict" if node.returns is None else ast.unparse(node.returns)
            call = f"{node.name}({', '.join(arg.arg for arg in node.args.args)})"
            said = f"; a variable inside {node.name}() doesn't count, and code under __main__ doesn't run"
            return said, f"Add at the end, at module level: {RESULT}: {kind} = {call}"
    return "", None


def _walk_statements(node: ast.FunctionDef) -> Iterator[ast.stmt]:
    return (one for one in ast.walk(node) if isinstance(one, ast.stmt))


def _find_assigned_names(node: ast.stmt) -> set[str]:
    match node:
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()


_LITERALS: Mapping[type[ast.expr], str] = {
    ast.List: "list",
    ast.ListComp: "list",
    ast.Dict: "dict",
    ast.DictComp: "dict",
    ast.Set: "set",
    ast.SetComp: "set",
    ast.Tuple: "tuple",
    ast.JoinedStr: "str",
    ast.Compare: "bool",
}
_CONSTRUCTORS = {
    "sorted": "list",
    "len": "int",
    **{name: name for name in ("list", "dict", "set", "str", "int")},
}


def _infer_obvious_type(node: ast.stmt) -> str | None:
    """Return the type of an assigned value if the expression shows it, otherwise None."""
    if not isinstance(node, ast.Assign):
        return None
    match node.value:
        case ast.Constant(value=value):
            return "None" if value is None else type(value).__name__
        case ast.Call(func=ast.Name(id=name)):
            return _CONSTRUCTORS.get(name)
        case value:
            return _LITERALS.get(type(value))


def _build_annotation_edit(node: ast.stmt, kind: str, text: str) -> Edit | None:
    """Return the edit that adds an annotation to an assignment, if the assignment begins its line."""
    line = get_line(text, node.lineno) or ""
    head, equals, rest = line.partition("=")
    if not equals or head.strip() != RESULT:
        return None
    replaced = f"{head.rstrip()}: {kind} ={rest}"
    return Edit(start_line=node.lineno, end_line=node.lineno, replacement=replaced)


def _check_type_names(declaration: Declaration, text: str, own: Collection[str]) -> Iterator[Finding]:
    odd = [name for name in code_types.find_unknown_types(declaration.names) if not name.isidentifier()]
    known = {"any", *own}
    other = [
        n for n in code_types.find_unknown_types(declaration.names) if n.isidentifier() and n not in known
    ]
    if odd:
        message = f"The annotation of '{declaration.name}' isn't a type: {declaration.shown(text)}"
        remedy = f"Write a type, e.g. {declaration.name}: list[int], or T | None for one that may be None."
        yield finding_at(declaration, text, "annotations.unreadable", message, remedy)
    elif other:
        message = f"The type of '{declaration.name}' isn't checked: {', '.join(other)} is unknown."
        yield replace(
            finding_at(declaration, text, "annotations.unchecked", message, None), severity=Severity.INFO
        )


def _find_conflicts(wanted: Sequence[Declaration], text: str) -> Iterator[Finding]:
    first: dict[str, Declaration] = {}
    for declaration in wanted:
        before = first.setdefault(declaration.name, declaration)
        if before.names != declaration.names:
            here, there = declaration.shown(text), before.shown(text)
            message = f"'{declaration.name}' is {here} here, and {there} on line {before.node.lineno}."
            types = code_types.format_types(before.types | declaration.types)
            remedy = f"Declare it once: {declaration.name}: {types}"
            yield finding_at(declaration, text, "annotations.conflicting", message, remedy)
