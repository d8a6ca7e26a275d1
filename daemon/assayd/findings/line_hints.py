"""Derives an exception's fix from the expression on its line: a slice, a split, an operand or a json call.

    x, y, z = parts[2:4]                  The slice `[2:4]` gives at most 2 values for 3 names. …
    region, name = stem.split("_")        … Write `stem.rsplit('_', 1)`. …
    total = item["price"] + item["qty"]   `item['qty']` is the string '2'. Write `int(item['qty'])`.
    json.load(sys.stdin)                  … Write `[json.loads(line) for line in sys.stdin]`.

The submitted code controls lines and values. They only affect the wording of hints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from assayd.guest_results.record import Raised

_MOST_CHARS = 200
_UNPACKED = re.compile(r"(not enough|too many) values to unpack \(expected (\d{1,4})[,)]")
_WITH_STRING = re.compile(
    r"unsupported operand type\(s\) for \S+: '(?:int|float|str)' and '(?:int|float|str)'$"
)
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?\d{1,40}\.\d{1,40}")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def hint_by_expression(record: Raised, error_type: str, line: str) -> str | None:
    """Return the fix; None if it can't be derived from the line."""
    match error_type:
        case "ValueError" if (found := _UNPACKED.match(record.message)) is not None:
            return _unpacking(parse_line(line), int(found[2]), is_short=found[1] == "not enough")
        case "TypeError" if _WITH_STRING.match(record.message):
            return _string_operand(parse_line(line), dict(record.values))
        case "JSONDecodeError" if record.message.startswith("Extra data: line 2 column 1 "):
            return _json_lines(parse_line(line))
        case _:
            return None


def parse_line(line: str) -> ast.Module:
    """Return the tree of a line, even if it opens a block; empty if the line isn't a complete statement."""
    text = line.strip()[:_MOST_CHARS]
    for tried in (text, f"{text} pass", f"{text.removeprefix('el')} pass"):
        try:
            return ast.parse(tried)
        except _UNREADABLE:
            continue
    return ast.Module(body=[], type_ignores=[])


def integer_of(node: ast.expr | None, values: Mapping[str, str]) -> int | None:
    """Return the value of an integer expression of constants, names with a value, sums and differences."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            text = values.get(name, "")
            return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = integer_of(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            one, other = integer_of(left, values), integer_of(right, values)
            if one is None or other is None:
                return None
            return one + other if isinstance(sign, ast.Add) else one - other
        case _:
            return None


def _unpacking(tree: ast.Module, names: int, *, is_short: bool) -> str | None:
    match tree.body:
        case [ast.Assign(targets=[ast.Tuple(elts=targets)], value=value)] if len(targets) == names:
            if any(isinstance(target, ast.Starred) for target in targets):
                return None
        case _:
            return None
    match value:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(step=None) as bounds):
            return _slice(name, bounds, names)
        case ast.Call(
            func=ast.Attribute(value=of, attr="split"), args=[ast.Constant() as separator], keywords=[]
        ) if not is_short:
            limited = f"{ast.unparse(of)}.rsplit({ast.unparse(separator)}, {names - 1})"
            return f"The string has more than {names} parts. Write `{limited}`: the first name gets the rest."
        case _:
            return None


def _slice(name: str, bounds: ast.Slice, names: int) -> str | None:
    """Return the fix for a slice with constant bounds that has too few or too many elements."""
    low = 0 if bounds.lower is None else integer_of(bounds.lower, {})
    high = integer_of(bounds.upper, {})
    shown = f"[{ast.unparse(bounds)}]"
    if low is None or (bounds.upper is not None and high is None):
        return None
    if high is None:
        if low >= 0:
            return None
        size, wider = -low, f"[{-names}:]"
    elif (low < 0) != (high < 0):
        return None
    else:
        first = "" if bounds.lower is None else low
        size = high - low
        wider = f"[{first}:{low + names}]" if low >= 0 else f"[{high - names}:{high}]"
    if size == names:
        return f"`{name}` is shorter than the slice `{shown}` expects. Check `len({name})` before this line."
    values = f"{max(size, 0)} value{'s' * (size != 1)}"
    return f"The slice `{shown}` gives at most {values} for {names} names. Write `{name}{wider}`."


def _string_operand(tree: ast.Module, values: Mapping[str, str]) -> str | None:
    """Return the fix if exactly one operand of the line is a string that contains a number."""
    strings = {
        ast.unparse(node): found
        for node in _operands(tree)
        if isinstance(found := _value_of(node, values), str)
    }
    if len(strings) != 1:
        return None
    [(shown, found)] = strings.items()
    kind = "int" if _INTEGER.fullmatch(found) else "float" if _DECIMAL.fullmatch(found) else None
    return None if kind is None else f"`{shown}` is the string {found!r}. Write `{kind}({shown})`."


def _operands(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, ast.AugAssign):
            yield from (node.target, node.value)


def _value_of(node: ast.expr, values: Mapping[str, str]) -> object:
    """Return the value of a name, or of the name's item with a constant key; None if it is unknown."""
    try:
        match node:
            case ast.Name(id=name):
                return ast.literal_eval(values[name])
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                return ast.literal_eval(values[name])[key]
    except (*_UNREADABLE, TypeError, LookupError):
        return None
    return None


def _json_lines(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="json"), attr="load" | "loads" as name), args=[source]
            ):
                lines = _lines_of(source, is_file=name == "load")
                return (
                    f"The input has one JSON value per line. Write `[json.loads(line) for line in {lines}]`."
                )
    return None


def _lines_of(source: ast.expr, *, is_file: bool) -> str:
    match source:
        case ast.Call(func=ast.Attribute(value=of, attr="read"), args=[]):
            return ast.unparse(of)
        case _:
            return f"{ast.unparse(source)}{'' if is_file else '.splitlines()'}"
