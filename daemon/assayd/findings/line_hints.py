"""Derives an exception's fix from the expression on its line, or from the values on it.

The expression is a slice, a split, an operand or a json call:

    x, y, z = parts[2:4]                  The slice `[2:4]` gives at most 2 values for 3 names. …
    region, name = stem.split("_")        … Write `stem.rsplit('_', 1)`. …
    total = item["price"] + item["qty"]   `item['qty']` is the string '2'. Write `int(item['qty'])`.
    json.load(sys.stdin)                  … Write `[json.loads(line) for line in sys.stdin]`.

The values must indicate a single cause:

    IndexError      values[i + window], where i + window is 5      but the last index is 4
    TypeError       at = … 12:00:00+00:00; cutoff = … 00:00:00     cutoff has no time zone
    ValueError      int(parts[4]); parts = ('/', '2024', '05.csv') '05.csv' is the last part
    RecursionError  parent = 'a', in a function with a base case   the data contains a cycle

The submitted code controls lines and values. Values are parsed as literals. Both only affect the wording of
hints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from assayd.findings.source_text import get_line
from assayd.guest_results.record import RaisedException

_MOST_CHARS = 200
_UNPACKED = re.compile(r"(not enough|too many) values to unpack \(expected (\d{1,4})[,)]")
_WITH_STRING = re.compile(
    r"unsupported operand type\(s\) for \S+: '(?:int|float|str)' and '(?:int|float|str)'$"
)
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?\d{1,40}\.\d{1,40}")
_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError)


def suggest_fix_by_expression(record: RaisedException, error_type: str, line: str) -> str | None:
    """Return the fix; None if it can't be derived from the line."""
    match error_type:
        case "ValueError" if (found := _UNPACKED.match(record.message)) is not None:
            return _suggest_unpacking_fix(parse_line(line), int(found[2]), is_short=found[1] == "not enough")
        case "TypeError" if _WITH_STRING.match(record.message):
            return _suggest_operand_fix(parse_line(line), dict(record.values))
        case "JSONDecodeError" if record.message.startswith("Extra data: line 2 column 1 "):
            return _suggest_json_lines_fix(parse_line(line))
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


def evaluate_integer(node: ast.expr | None, values: Mapping[str, str]) -> int | None:
    """Return the value of an integer expression of constants, names with a value, sums and differences."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            text = values.get(name, "")
            return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = evaluate_integer(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            one, other = evaluate_integer(left, values), evaluate_integer(right, values)
            if one is None or other is None:
                return None
            return one + other if isinstance(sign, ast.Add) else one - other
        case _:
            return None


def _suggest_unpacking_fix(tree: ast.Module, names: int, *, is_short: bool) -> str | None:
    match tree.body:
        case [ast.Assign(targets=[ast.Tuple(elts=targets)], value=value)] if len(targets) == names:
            if any(isinstance(target, ast.Starred) for target in targets):
                return None
        case _:
            return None
    match value:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(step=None) as bounds):
            return _suggest_slice_fix(name, bounds, names)
        case ast.Call(
            func=ast.Attribute(value=of, attr="split"), args=[ast.Constant() as separator], keywords=[]
        ) if not is_short:
            limited = f"{ast.unparse(of)}.rsplit({ast.unparse(separator)}, {names - 1})"
            return f"The string has more than {names} parts. Write `{limited}`: the first name gets the rest."
        case _:
            return None


def _suggest_slice_fix(name: str, bounds: ast.Slice, names: int) -> str | None:
    """Return the fix for a slice with constant bounds that has too few or too many elements."""
    low = 0 if bounds.lower is None else evaluate_integer(bounds.lower, {})
    high = evaluate_integer(bounds.upper, {})
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


def _suggest_operand_fix(tree: ast.Module, values: Mapping[str, str]) -> str | None:
    """Return the fix if exactly one operand of the line is a string that contains a number."""
    strings = {
        ast.unparse(node): found
        for node in _iter_operands(tree)
        if isinstance(found := _lookup_value(node, values), str)
    }
    if len(strings) != 1:
        return None
    [(shown, found)] = strings.items()
    kind = "int" if _INTEGER.fullmatch(found) else "float" if _DECIMAL.fullmatch(found) else None
    return None if kind is None else f"`{shown}` is the string {found!r}. Write `{kind}({shown})`."


def _iter_operands(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, ast.AugAssign):
            yield from (node.target, node.value)


def _lookup_value(node: ast.expr, values: Mapping[str, str]) -> object:
    """Return the value of a name, or of the name's item with a constant key; None if it is unknown."""
    try:
        match node:
            case ast.Name(id=name):
                return ast.literal_eval(values[name])
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                return ast.literal_eval(values[name])[key]
    except (*_UNREADABLE, LookupError):
        return None
    return None


def _suggest_json_lines_fix(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="json"), attr="load" | "loads" as name), args=[source]
            ):
                lines = _lines_expression(source, is_file=name == "load")
                return (
                    f"The input has one JSON value per line. Write `[json.loads(line) for line in {lines}]`."
                )
    return None


def _lines_expression(source: ast.expr, *, is_file: bool) -> str:
    match source:
        case ast.Call(func=ast.Attribute(value=of, attr="read"), args=[]):
            return ast.unparse(of)
        case _:
            return f"{ast.unparse(source)}{'' if is_file else '.splitlines()'}"


_COUNTED = re.compile(r"… (\d{1,12}) in all[\])]$")
_MOST_BACK = 60
"""Maximum number of lines between a recursive call and the `def` of its function."""
_CLOCK = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
_NAIVE = re.compile(_CLOCK)
_AWARE = re.compile(rf"{_CLOCK}[+-]\d\d:\d\d(?::\d\d)?")
_NOT_INTEGER = re.compile(r"invalid literal for int\(\) with base 10: ('[^'\\]{1,80}')")
_DEF = re.compile(r"[ \t]*+(?:async )?def (\w{1,80})\(")


def suggest_fix_by_values(record: RaisedException, error_type: str, text: str) -> str | None:
    """Return the fix that the values indicate; None if they indicate none. Args: `text` is the source."""
    match error_type:
        case "IndexError":
            return _suggest_index_fix(record, get_line(text, record.line) or "")
        case "TypeError" if "offset-naive and offset-aware" in record.message:
            return _without_zone(record)
        case "ValueError":
            return _suggest_path_fix(record)
        case "RecursionError":
            return _suggest_recursion_fix(record, text)
        case _:
            return None


def _without_zone(record: RaisedException) -> str | None:
    naive = [name for name, value in record.values if _NAIVE.fullmatch(value)]
    if len(naive) != 1 or not any(_AWARE.fullmatch(value) for _, value in record.values):
        return None
    return f"{naive[0]} has no time zone. Add one: {naive[0]}.replace(tzinfo=timezone.utc)."


def _suggest_path_fix(record: RaisedException) -> str | None:
    """Return the fix if a string that isn't a number is a file name at the end of a split path."""
    found = _NOT_INTEGER.fullmatch(record.message)
    if found is None or "." not in found[1] or not found[1].isprintable():
        return None
    for name, value in record.values:
        if value[:1] in {"(", "["} and value[:-1].endswith(f", {found[1]}"):
            return (
                f"{found[1]} is the last part: this path has fewer parts than the line expects. "
                f"Check len({name}) first, or count from the end; {name}[-1] is the file name."
            )
    return None


def _suggest_recursion_fix(record: RaisedException, text: str) -> str | None:
    """Return the fix if the function has a base case, i.e. a `return` without a recursive call."""
    if record.line is None:
        return None
    lines = text.split("\n", record.line)[max(record.line - _MOST_BACK, 0) : record.line - 1]
    returns: list[str] = []
    for line in reversed(lines):
        if (found := _DEF.match(line)) is not None:
            if not any(f"{found[1]}(" not in each for each in returns):
                return None
            break
        if line.lstrip().startswith("return") or " return " in line:
            returns.append(line)
    else:
        return None
    if any(re.fullmatch(r"-?\d+(?:\.\d+)?", value) for _, value in record.values):
        return "The base case is never reached. Change the call so that each value comes closer to it."
    return (
        "The base case is never reached. If the data contains a cycle, track visited items in a set and "
        "return when one repeats; otherwise make each call's argument smaller."
    )


def _suggest_index_fix(record: RaisedException, line: str) -> str | None:
    """Return the fix for an index out of range, naming the requested and the last index."""
    values = dict(record.values)
    for node in _find_subscripts(line):
        index, length = evaluate_integer(node.slice, values), _length(values.get(node.value.id, ""))
        if index is not None and length is not None and not -length <= index < length:
            name = node.value.id
            if not length:
                return f"{name} is empty. Check that before indexing."
            if index < 0:
                needs = f"{ast.unparse(node)} needs {-index} elements, and there are {length}"
                return f"{needs}. Check len({name}) first."
            return (
                f"{ast.unparse(node)} asks for index {index}, and the last is {length - 1}. Do this only "
                f"`if {ast.unparse(node.slice)} < len({name})`, or change the range."
            )
    return None


class _Subscript(ast.Subscript):
    value: ast.Name


def _find_subscripts(line: str) -> list[_Subscript]:
    """Return the subscripts of plain names in a line; empty if the line isn't a complete statement."""
    nodes = (node for node in ast.walk(parse_line(line)) if isinstance(node, ast.Subscript))
    return [node for node in nodes if isinstance(node.value, ast.Name)]  # type: ignore[misc]


def _length(text: str) -> int | None:
    counted = _COUNTED.search(text)
    if counted is not None:
        return int(counted[1])
    try:
        value = ast.literal_eval(text)
    except _UNREADABLE:
        return None
    return len(value) if isinstance(value, list | tuple | str) else None
