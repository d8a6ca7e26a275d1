"""Says which index of a sequence was asked for, by the values that the failing line had.

    total += values[i + window]        values[i + window] asks for index 5 of 5 (the last is 4)

The values are the guest's word; they are read as literals, and only whole numbers are added and taken away.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from assayd.guest_results.record import Raised

_COUNTED = re.compile(r"… (\d{1,12}) in all[\])]$")
_MOST_CHARS = 200


def asked_index(record: Raised, line: str) -> str | None:
    """Return which index was asked for beyond which end; None where that cannot be told."""
    values = dict(record.values)
    for node in _subscripts(line):
        index, length = _number(node.slice, values), _length(values.get(node.value.id, ""))
        if index is not None and length is not None and not -length <= index < length:
            return f"{ast.unparse(node)} asks for index {index}, and there are {length} elements, from 0 on"
    return None


class _Subscript(ast.Subscript):
    value: ast.Name


def _subscripts(line: str) -> list[_Subscript]:
    """Return the subscripts of plain names in a line; none where it is no statement by itself."""
    text = line.strip()[:_MOST_CHARS]
    for tried in (text, f"{text} pass", f"{text.removeprefix('el')} pass"):
        try:
            tree = ast.parse(tried)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Subscript))
        return [node for node in nodes if isinstance(node.value, ast.Name)]  # type: ignore[misc]
    return []


def _number(node: ast.expr, values: Mapping[str, str]) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            text = values.get(name, "")
            return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            one, other = _number(left, values), _number(right, values)
            if one is None or other is None:
                return None
            return one + other if isinstance(sign, ast.Add) else one - other
        case _:
            return None


def _length(text: str) -> int | None:
    counted = _COUNTED.search(text)
    if counted is not None:
        return int(counted[1])
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return len(value) if isinstance(value, list | tuple | str) else None
