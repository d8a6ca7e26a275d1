"""Determines an extractor's fields from its source, and whether each is a path part or computed.

    return {"year": int(parts[-3])}           year: a part
    return {"start_month": 3 * quarter - 2}   start_month: computed
    result["month"] = MONTHS[parts[-2]]       month: computed

The decision is based on syntax alone; unknown forms count as computed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assayd.model.prompting import ExtractedField
from assayd.static.python.source import parse_source

MAX_FIELDS = 100
NAME_CHARS = 64
MAX_STEPS = 100
"""Maximum steps to follow a value."""

_CONVERTER_NAMES = frozenset({"int", "float", "str", "Path", "PurePath", "PurePosixPath", "list", "tuple"})
_EXTRACTING_METHODS = frozenset({
    "group", "groups", "groupdict", "match", "search", "fullmatch", "findall", "split", "rsplit", "partition",
    "rpartition", "splitext", "basename", "dirname", "strip", "lstrip", "rstrip", "removeprefix",
    "removesuffix", "get",
})  # fmt: skip


@dataclass(slots=True)
class _FunctionBindings:
    """A function's assignments to plain names, and the names that it returns."""

    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    results: set[str] = field(default_factory=set)
    arguments: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    judged: dict[str, bool] = field(default_factory=dict)
    """Whether a name's value is computed, cached so that each name is examined once."""


def find_extracted_fields(text: str, function: str) -> tuple[ExtractedField, ...]:
    """Return the fields of the dict that a function returns, in order, or none for invalid source."""
    tree = parse_source(text).tree
    found = (
        next((n for n in ast.walk(tree) if _is_function_named(n, function)), None)
        if tree is not None
        else None
    )
    if not isinstance(found, ast.FunctionDef):
        return ()
    known = _collect_bindings(found)
    fields: dict[str, bool] = {}
    for name, value in _iter_result_items(found, known):
        if name.isprintable() and 0 < len(name) <= NAME_CHARS and len(fields) < MAX_FIELDS:
            fields[name] = fields.get(name, False) or _is_computed(value, known, 0)
    return tuple(ExtractedField(name=name, computed=computed) for name, computed in fields.items())


def _is_function_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _collect_bindings(function: ast.FunctionDef) -> _FunctionBindings:
    known = _FunctionBindings(arguments={a.arg for a in (*function.args.posonlyargs, *function.args.args)})
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _record_assignment(target, value, known)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                known.values.setdefault(name, []).append(value)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                known.values.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name)):
                known.changed.add(name)
            case ast.For(target=target, iter=value):
                _record_assignment(target, value, known)
            case ast.Return(value=ast.Name(id=name)):
                known.results.add(name)
    return known


def _record_assignment(target: ast.expr, value: ast.expr, known: _FunctionBindings) -> None:
    if isinstance(target, ast.Name):
        known.values.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            _record_assignment(part.value if isinstance(part, ast.Starred) else part, value, known)


def _iter_result_items(function: ast.FunctionDef, known: _FunctionBindings) -> Iterator[tuple[str, ast.expr]]:
    """Yield every key of the returned dict with its value."""
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.expr() as value):
                yield from _iter_constant_items(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in known.results:
                yield from _iter_constant_items(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in known.results:
                yield from _iter_constant_items(value)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key))],
                value=value,
            ) if name in known.results:
                yield key, value
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=args, keywords=more
            ):
                if name in known.results:
                    yield from (item for one in args for item in _iter_constant_items(one))
                    yield from _iter_keyword_items(more)


def _iter_constant_items(value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, one in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, one
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            yield from _iter_keyword_items(keywords)


def _iter_keyword_items(keywords: Sequence[ast.keyword]) -> Iterator[tuple[str, ast.expr]]:
    yield from ((one.arg, one.value) for one in keywords if one.arg is not None)


def _is_computed(value: ast.expr, known: _FunctionBindings, step: int) -> bool:
    """Return whether a value is computed, that is, isn't a part of the argument."""
    if not isinstance(value, ast.Name):
        return _is_computed_expression(value, known, step)
    if value.id not in known.judged:
        # Set before the recursion, because the value's sources may refer to the name again.
        known.judged[value.id] = False
        known.judged[value.id] = _is_computed_expression(value, known, step)
    return known.judged[value.id]


def _is_computed_expression(value: ast.expr, known: _FunctionBindings, step: int) -> bool:
    comes_of = _find_value_sources(value, known) if step <= MAX_STEPS else None
    if comes_of is None:
        return True
    return any(_is_computed(one, known, step + 1) for one in comes_of if not _is_none(one))


def _find_value_sources(value: ast.expr, known: _FunctionBindings) -> Sequence[ast.expr] | None:
    """Return the expressions from which a value is extracted or selected, or None for a computed value."""
    found: Sequence[ast.expr] | None = None
    match value:
        case ast.Name(id=name) if name not in known.changed:
            found = known.values.get(name, [])
        case ast.Attribute(value=inner):
            found = [inner]
        case ast.Subscript(value=inner) if not _is_lookup_table(inner, known):
            found = [inner]
        case ast.Call():
            found = _find_call_sources(value, known)
        case ast.IfExp(body=first, orelse=second):
            found = [first, second]
        case ast.BoolOp(values=values):
            found = values
    return found


def _find_call_sources(call: ast.Call, known: _FunctionBindings) -> Sequence[ast.expr] | None:
    given = [one for one in call.args if not isinstance(one, ast.Constant)]
    match call.func:
        case ast.Name(id=name) if name in _CONVERTER_NAMES:
            return given
        case ast.Attribute(value=ast.Name(id="pathlib"), attr=name) if name in _CONVERTER_NAMES:
            return given
        case ast.Attribute(value=base, attr=method) if method in _EXTRACTING_METHODS:
            return None if method == "get" and _is_lookup_table(base, known) else [base, *given]
        case _:
            return None


def _is_lookup_table(value: ast.expr, known: _FunctionBindings) -> bool:
    """Return whether a value is a lookup table that doesn't depend on the argument."""
    if isinstance(value, ast.Dict):
        return True
    if not isinstance(value, ast.Name) or value.id in known.arguments:
        return False
    given = known.values.get(value.id)
    return given is None or any(isinstance(one, ast.Dict) for one in given)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
