"""The types of a code node's inputs and result, and the annotations that declare them.

Reads the types that code nodes declare and the types of values, compares them, and checks their names.

Only outer types are compared: ``list[dict]`` requires a list. As in Python, a bool is an int, and an int is
accepted for a float. A value's type is read from its JSON form, including tags, never from the guest's
claims.

    data: dict[str, any]                       annotations.lower_case_any   edit: dict[str, object]
    data: List[int], List never imported       annotations.not_imported     edit: list[int]
    data: Optional[int], never imported        annotations.not_imported     edit: from typing import Optional

Names in quoted parts are checked, too. Source: docs/kinds/code.md.

Checks the declarations of a code node: its inputs and its result, as module-level annotations.

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
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from assayd.findings.source_text import byte_offset_to_column, get_line, get_snippet
from assayd.guest.tagged import TAG, TAGS, VALUE
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd.static.python.scopes import (
    find_bound_names,
    find_insertion_line,
    is_variable,
    iter_module_statements,
    list_annotated_names,
)
from assayd.static.python.signature import find_annotation_aliases, list_alternatives

ANYTHING = "anything"
"""The type of values and declarations that aren't checked."""

_TYPES_BY_NAME: Mapping[str, frozenset[str]] = {
    **{
        name: frozenset({name})
        for name in (
            "None", "bool", "bytes", "date", "Decimal", "dict", "float", "frozenset", "int", "list", "set",
            "str", "time", "timedelta", "tuple",
        )
    },
    "datetime": frozenset({"datetime"}),
    "UUID": frozenset({"UUID"}),
    **dict.fromkeys(("Path", "PosixPath", "PurePath", "PurePosixPath"), frozenset({"Path"})),
    "NoneType": frozenset({"None"}),
    "Text": frozenset({"str"}),
    "List": frozenset({"list"}),
    "Dict": frozenset({"dict"}),
    "DefaultDict": frozenset({"dict"}),
    "OrderedDict": frozenset({"dict"}),
    "Counter": frozenset({"dict"}),
    "Mapping": frozenset({"dict"}),
    "MutableMapping": frozenset({"dict"}),
    "Set": frozenset({"set", "frozenset"}),
    "FrozenSet": frozenset({"frozenset"}),
    "Tuple": frozenset({"tuple"}),
    "Sequence": frozenset({"list", "tuple", "str", "bytes"}),
}  # fmt: skip
_UNCHECKED = frozenset({"Any", "object"})

_NAME_BY_JSON_TYPE: Mapping[type, str] = {
    type(None): "None",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "dict",
}
_NAME_BY_TAG: Mapping[str, str] = {"decimal": "Decimal", "path": "Path", "uuid": "UUID"}
_WIDER: Mapping[str, tuple[str, ...]] = {
    "bool": ("int", "float"),
    "int": ("float",),
    "datetime": ("date",),
}
"""The additional declared types that accept a value of a type."""


def resolve_types(names: Collection[str]) -> frozenset[str]:
    """Return the types that an annotation's names refer to. Return `ANYTHING` for unchecked types."""
    found: set[str] = set()
    for name in names:
        found |= _TYPES_BY_NAME.get(name, {ANYTHING})
    return frozenset(found)


def find_unknown_types(names: Collection[str]) -> list[str]:
    """Return the names that don't refer to a known type."""
    return sorted(name for name in names if name not in _TYPES_BY_NAME and name not in _UNCHECKED)


def infer_type(form: JsonValue) -> str:
    """Return the type of a value in its JSON form, or `ANYTHING` for an instance of another class."""
    if isinstance(form, dict) and TAG in form:
        tag = form[TAG]
        known = isinstance(tag, str) and tag in TAGS and form.keys() == {TAG, VALUE}
        return _NAME_BY_TAG.get(str(tag), str(tag)) if known else ANYTHING
    return _NAME_BY_JSON_TYPE[type(form)]


def matches_type(actual: str, declared: Collection[str]) -> bool:
    """Return whether a value's type matches one of the declared types."""
    if ANYTHING in declared:
        return True
    return actual in declared or any(wider in declared for wider in _WIDER.get(actual, ()))


def format_types(types: Collection[str]) -> str:
    """Return types in the syntax of an annotation: ``list | None``."""
    return " | ".join(sorted(types, key=lambda name: (name == "None", name)))


_CONVERTIBLE_FROM: Mapping[str, frozenset[str]] = {
    "list": frozenset({"tuple", "set", "frozenset"}),
    "set": frozenset({"list", "tuple", "frozenset"}),
    "frozenset": frozenset({"list", "tuple", "set"}),
    "tuple": frozenset({"list", "set", "frozenset"}),
    "int": frozenset({"str", "float", "Decimal"}),
    "float": frozenset({"str", "Decimal"}),
    "str": frozenset({"int", "float", "Decimal", "Path", "UUID", "date", "datetime", "time"}),
    "Decimal": frozenset({"str", "int"}),
    "bool": frozenset({"int", "str", "list", "dict"}),
}
_CONVERSIONS: Mapping[tuple[str, str], str] = {
    ("list", "dict"): "list({}.values()), or [{}]",
    ("dict", "list"): "dict(enumerate({}))",
    ("str", "bytes"): "{}.decode()",
    ("bytes", "str"): "{}.encode()",
    ("str", "list"): "', '.join({})",
    ("str", "dict"): "json.dumps({})",
    ("datetime", "str"): "datetime.fromisoformat({})",
    ("date", "str"): "date.fromisoformat({})",
}
_ONE = frozenset({"str", "int", "float", "bool", "bytes", "Decimal", "datetime", "date"})


def suggest_conversion(actual: str, declared: Collection[str], value: str) -> str | None:
    """Return code that converts a value to a declared type, or None if no usual conversion exists."""
    for wanted in sorted(declared):
        if (way := _CONVERSIONS.get((wanted, actual))) is not None:
            return way.replace("{}", value)
        if actual in _CONVERTIBLE_FROM.get(wanted, ()):
            return f"{wanted}({value})"
        if wanted == "list" and actual in _ONE:
            return f"[{value}]"
    return None


RULES = (
    Rule(
        id="annotations.lower_case_any",
        title="The function any() is used as a type",
        help="Bad: data: any. Good: data: Any, with from typing import Any.",
    ),
    Rule(
        id="annotations.not_imported",
        title="A type of typing isn't imported",
        help="Bad: data: List[int]. Good: data: list[int].",
    ),
)

_BUILTIN_BY_NAME = {
    "any": "object", "Dict": "dict", "FrozenSet": "frozenset", "List": "list", "Set": "set", "Tuple": "tuple",
    "Type": "type",
}  # fmt: skip
"""Built-in replacements for names that would need an import."""
_TYPING = frozenset(typing.__all__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A name with its module-level annotation. `names` lists the annotation's outer types."""

    name: str
    node: ast.AnnAssign
    names: frozenset[str]

    @property
    def types(self) -> frozenset[str]:
        """Return the types that the annotation allows for a value."""
        return resolve_types(self.names)

    @property
    def has_value(self) -> bool:
        """Return whether the statement also assigns a value."""
        return self.node.value is not None

    def shown(self, text: str) -> str:
        """Return the annotation as written in the source, truncated if it is long or on several lines."""
        node = self.node.annotation
        first = get_line(text, node.lineno) or ""
        start = byte_offset_to_column(first, node.col_offset) - 1
        if node.end_lineno != node.lineno:
            return shorten_text(f"{first[start:].strip()} …", 120)
        return shorten_text(first[start : byte_offset_to_column(first, node.end_col_offset or 0) - 1], 120)


def check_names(tree: ast.Module, text: str) -> Iterator[Finding]:
    """Yield findings about names in the module's annotations that are undefined or aren't types.

    Yield nothing if a star import can bind any name.
    """
    bound, top = find_bound_names(tree), find_insertion_line(tree)
    if bound is None:
        return
    for name, node in list_annotated_names(tree):
        names = [
            (found, quoted) for found, quoted in _iter_type_names(node.annotation) if found.id not in bound
        ]
        if names:
            yield from _iter_undefined_name_findings(
                Declaration(name=name, node=node, names=frozenset()), names, text, top
            )


def _iter_undefined_name_findings(
    declaration: Declaration, names: Sequence[tuple[ast.Name, bool]], text: str, top: int
) -> Iterator[Finding]:
    edit = _build_plain_type_edit(names, text)
    for name in dict.fromkeys(node.id for node, _ in names):
        if name == "any":
            message = f"'{declaration.name}' is annotated with any, which is a function, not a type."
            remedy = "Write Any with 'from typing import Any' at the top, or object."
            yield finding_at(declaration, text, "annotations.lower_case_any", message, remedy, edit)
        elif name in _TYPING:
            message = f"'{declaration.name}' is annotated with {name}, which isn't imported."
            statement = f"from typing import {name}"
            plain = _BUILTIN_BY_NAME.get(name)
            remedy = f"Write {plain}." if plain else f"Put at the top: {statement}"
            change = edit if plain else Edit(start_line=top, end_line=top - 1, replacement=statement)
            yield finding_at(declaration, text, "annotations.not_imported", message, remedy, change)


def _build_plain_type_edit(names: Sequence[tuple[ast.Name, bool]], text: str) -> Edit | None:
    """Return the edit that replaces names by built-in types, e.g. `List` by `list`.

    Return None if no name has a replacement, if a name is quoted, or if the names are on several lines.
    """
    nodes = [node for node, _ in names if node.id in _BUILTIN_BY_NAME]
    lines = {node.lineno for node in nodes}
    if len(lines) != 1 or any(quoted for _, quoted in names):
        return None
    [number] = lines
    line = get_line(text, number) or ""
    for node in sorted(nodes, key=lambda node: node.col_offset, reverse=True):
        start = byte_offset_to_column(line, node.col_offset) - 1
        line = f"{line[:start]}{_BUILTIN_BY_NAME[node.id]}{line[start + len(node.id) :]}"
    return Edit(start_line=number, end_line=number, replacement=line)


def _iter_type_names(annotation: ast.expr) -> Iterator[tuple[ast.Name, bool]]:
    """Yield each plain name in an annotation, and whether it is quoted. Skip the contents of `Literal`."""
    pending = [(annotation, False)]
    while pending:
        node, quoted = pending.pop()
        if isinstance(node, ast.Name):
            yield node, quoted
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = _parse_annotation(node.value)
            pending.extend([] if inner is None else [(inner, True)])
        elif not isinstance(node, ast.Attribute):
            pending.extend((child, quoted) for child in reversed(_list_nested_type_expressions(node)))


def _list_nested_type_expressions(node: ast.expr) -> list[ast.expr]:
    """Return the nested expressions that name types."""
    if not isinstance(node, ast.Subscript):
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [node.value, *{"Literal": [], "Annotated": parts[:1]}.get(name, parts)]


def _parse_annotation(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def finding_at(
    declaration: Declaration, text: str, rule: str, message: str, remedy: str | None, edit: Edit | None = None
) -> Finding:
    """Return a finding located at a declaration."""
    line = declaration.node.lineno
    return Finding(
        rule=rule,
        category="annotations",
        message=message,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=remedy,
        edit=edit,
    )


RESULT = "result"
_MAX_READ = 300
_MAX_ALIASES = 1000

ANNOTATION_RULES = (
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
    *RULES,
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
    """Return the module's declarations of the given names, in order. Only the first 300 are used.

    The number is limited because each declaration can require following all aliases of the module.
    """
    aliases = find_annotation_aliases(tree)
    if len(aliases) > _MAX_ALIASES:
        aliases = {}
    found = islice(((name, node) for name, node in list_annotated_names(tree) if name in wanted), _MAX_READ)
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
            yield _build_missing_input_finding(name, inputs[name], text, tree)
    if RESULT not in known:
        yield _build_missing_result_finding(text, tree)
    yield from check_names(tree, text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for declaration in wanted:
        yield from _check_type_names(declaration, text, own)
    yield from _find_conflicts(wanted, text)


def _build_missing_input_finding(name: str, value: object, text: str, tree: ast.Module) -> Finding:
    kind = infer_type(value)  # type: ignore[arg-type]  # it came as JSON
    declaration = f"{name}: {'object' if kind == ANYTHING else kind}"
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


def _build_missing_result_finding(text: str, tree: ast.Module) -> Finding:
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
        suggestion=f"Declare its type at the assignment: result: {kind or 'list'} = …",
        edit=_build_annotation_edit(node, kind, text) if kind and len(assigned) == 1 else None,
    )


def _advise_inner_result(tree: ast.Module) -> tuple[str, str | None]:
    """Return an addition to the message and a hint, if a function assigns a local `result`.

    Otherwise, return an empty string and None.
    """
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
    """Return the edit that annotates an assignment, or None if the assignment doesn't begin its line."""
    line = get_line(text, node.lineno) or ""
    head, equals, rest = line.partition("=")
    if not equals or head.strip() != RESULT:
        return None
    replaced = f"{head.rstrip()}: {kind} ={rest}"
    return Edit(start_line=node.lineno, end_line=node.lineno, replacement=replaced)


def _check_type_names(declaration: Declaration, text: str, own: Collection[str]) -> Iterator[Finding]:
    odd = [name for name in find_unknown_types(declaration.names) if not name.isidentifier()]
    known = {"any", *own}
    other = [n for n in find_unknown_types(declaration.names) if n.isidentifier() and n not in known]
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
            types = format_types(before.types | declaration.types)
            remedy = f"Declare it once: {declaration.name}: {types}"
            yield finding_at(declaration, text, "annotations.conflicting", message, remedy)
