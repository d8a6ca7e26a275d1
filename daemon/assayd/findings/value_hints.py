"""Suggests the fix for an exception from the values on its line, if they indicate a single cause.

    IndexError      values[i + window], where i + window is 5      but the last index is 4
    TypeError       at = … 12:00:00+00:00; cutoff = … 00:00:00     cutoff has no time zone
    ValueError      int(parts[4]); parts = ('/', '2024', '05.csv') '05.csv' is the last part
    RecursionError  parent = 'a', in a function with a base case   the data contains a cycle

The guest controls the values. They are parsed as literals, and affect only the wording of hints.
"""

from __future__ import annotations

import ast
import re

from assayd.findings.line_hints import integer_of, parse_line
from assayd.findings.source_text import line_at
from assayd.guest_results.record import Raised

_COUNTED = re.compile(r"… (\d{1,12}) in all[\])]$")
_MOST_BACK = 60
"""Maximum number of lines between a recursive call and the `def` of its function."""
_CLOCK = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
_NAIVE = re.compile(_CLOCK)
_AWARE = re.compile(rf"{_CLOCK}[+-]\d\d:\d\d(?::\d\d)?")
_NOT_INTEGER = re.compile(r"invalid literal for int\(\) with base 10: ('[^'\\]{1,80}')")
_DEF = re.compile(r"[ \t]*+(?:async )?def (\w{1,80})\(")


def hint_by_values(record: Raised, error_type: str, text: str) -> str | None:
    """Return the fix that the values indicate; None if they indicate none. Args: `text` is the source."""
    match error_type:
        case "IndexError":
            return _index(record, line_at(text, record.line) or "")
        case "TypeError" if "offset-naive and offset-aware" in record.message:
            return _without_zone(record)
        case "ValueError":
            return _short_path(record)
        case "RecursionError":
            return _endless(record, text)
        case _:
            return None


def _without_zone(record: Raised) -> str | None:
    naive = [name for name, value in record.values if _NAIVE.fullmatch(value)]
    if len(naive) != 1 or not any(_AWARE.fullmatch(value) for _, value in record.values):
        return None
    return f"{naive[0]} has no time zone. Add one: {naive[0]}.replace(tzinfo=timezone.utc)."


def _short_path(record: Raised) -> str | None:
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


def _endless(record: Raised, text: str) -> str | None:
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


def _index(record: Raised, line: str) -> str | None:
    """Return the fix for an index out of range, naming the requested and the last index."""
    values = dict(record.values)
    for node in _subscripts(line):
        index, length = integer_of(node.slice, values), _length(values.get(node.value.id, ""))
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


def _subscripts(line: str) -> list[_Subscript]:
    """Return the subscripts of plain names in a line; empty if the line isn't a complete statement."""
    nodes = (node for node in ast.walk(parse_line(line)) if isinstance(node, ast.Subscript))
    return [node for node in nodes if isinstance(node.value, ast.Name)]  # type: ignore[misc]


def _length(text: str) -> int | None:
    counted = _COUNTED.search(text)
    if counted is not None:
        return int(counted[1])
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return len(value) if isinstance(value, list | tuple | str) else None
