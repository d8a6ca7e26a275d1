"""Text previews of the arrays and tables in a result: their size, types and first rows.

    dataframe, 300 rows × 2 columns
       region      n
       object  int64
    0   north      1
    1   south      2
    … 298 more rows

Guest code controls the result. Therefore, a value that is tagged as a table but has another shape gets no
preview, and only a limited part of a large value is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten

MOST_TABLES = 3
MOST_ROWS = 5
MOST_COLUMNS = 8
CELL_CHARS = 20
_NAME_CHARS = 60
_LOOKED = 20
"""Members of an object or array that are searched for tables."""
_DEPTH = 3
_LEVELS = 4
_READ = 200
"""Characters of a string that a cell reads."""

Rows = Sequence[Sequence[str]]


def preview_of(result: JsonValue) -> str | None:
    """Return a preview of the first tables and arrays in a result; None if it has none."""
    return "\n\n".join(islice(_render_previews(result, "", _DEPTH), MOST_TABLES)) or None


def _render_previews(value: JsonValue, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and "$py" in value:
        if (lines := _render_tagged(value)) is not None:
            yield "\n".join([f"{name.lstrip('.')}: {lines[0]}" if name else lines[0], *lines[1:]])
            return
        value = value.get("value") if value["$py"] == "tuple" else None
    for key, one in _iter_members(value) if depth else ():
        yield from _render_previews(one, shorten(f"{name}{key}", _NAME_CHARS), depth - 1)


def _iter_members(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        yield from ((f".{_render_cell(key)}", one) for key, one in islice(value.items(), _LOOKED))
    elif isinstance(value, list):
        yield from ((f"[{place}]", one) for place, one in enumerate(islice(value, _LOOKED)))


def _render_tagged(tagged: dict[str, JsonValue]) -> list[str] | None:
    held, kind = tagged.get("value"), tagged["$py"]
    if kind == "dataframe" and isinstance(held, dict):
        return _render_frame(held)
    if kind == "series" and isinstance(held, dict):
        return _render_series(held, _render_cell(tagged.get("type")))
    return _render_array(held, _render_cell(tagged.get("type"))) if kind == "ndarray" else None


def _render_frame(held: dict[str, JsonValue]) -> list[str] | None:
    columns, index, rows = held.get("columns"), held.get("index"), held.get("rows")
    if not isinstance(columns, list) or not isinstance(index, list) or not isinstance(rows, list):
        return None
    types = held.get("dtypes")
    heads = [["", *_render_cells(columns)]] + (
        [["", *_render_cells(types)]] if isinstance(types, list) else []
    )
    shown = zip(index[:MOST_ROWS], rows[:MOST_ROWS], strict=False)
    body = [
        [_render_cell(label), *_render_cells(row if isinstance(row, list) else [row])] for label, row in shown
    ]
    size = f"dataframe, {_format_count(len(rows), 'row')} × {_format_count(len(columns), 'column')}"
    return [size, *_align_columns([*heads, *body]), *_render_omitted(len(rows), len(columns))]


def _render_series(held: dict[str, JsonValue], kind: str) -> list[str] | None:
    index, values = held.get("index"), held.get("values")
    if not isinstance(index, list) or not isinstance(values, list):
        return None
    pairs = zip(index[:MOST_ROWS], values[:MOST_ROWS], strict=False)
    body = [[_render_cell(label), _render_cell(value)] for label, value in pairs]
    named = "" if held.get("name") is None else f" {_render_cell(held['name'])}"
    return [
        f"series{named}, {_format_count(len(values), 'value')}, {kind}",
        *_align_columns(body),
        *_render_omitted(len(values), 0),
    ]


def _render_array(held: JsonValue, kind: str) -> list[str]:
    shape = _shape(held)
    while _shape(held)[2:] and isinstance(held, list):
        held = held[0]  # of more than two dimensions: the first plane
    rows: list[JsonValue] = held if isinstance(held, list) else [held]
    if len(shape) < 2:
        rows = [[*rows]]
    body = [_render_cells(row) for row in rows[:MOST_ROWS] if isinstance(row, list)]
    size = " × ".join(map(str, shape)) or "no dimensions"
    wide = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    return [f"ndarray, {size}, {kind}", *_align_columns(body), *_render_omitted(len(rows), wide)]


def _shape(value: JsonValue) -> list[int]:
    """Return the lengths of nested arrays, always descending into the first element."""
    found = []
    while isinstance(value, list):
        found.append(len(value))
        value = value[0] if value else None
    return found


def _align_columns(rows: Rows) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _render_omitted(rows: int, columns: int) -> Iterator[str]:
    more = [
        _format_count(count - most, f"more {name}")
        for count, most, name in ((rows, MOST_ROWS, "row"), (columns, MOST_COLUMNS, "column"))
        if count > most
    ]
    if more:
        yield f"… {', '.join(more)}"


def _format_count(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _render_cells(values: Sequence[JsonValue]) -> list[str]:
    return [_render_cell(value) for value in values[:MOST_COLUMNS]]


def _render_nested(value: list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return an array as text, e.g. the labels of a multi-level index; omit deeper levels."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    parts = ["…" if isinstance(one, list | dict) else _render_cell(one) for one in value[:_LEVELS]]
    return shorten(f"[{', '.join(parts)}{', …' if len(value) > _LEVELS else ''}]", CELL_CHARS)


def _render_cell(value: JsonValue) -> str:
    """Return a value as one line of limited length; abbreviate nested values."""
    if isinstance(value, dict) and "$py" in value:
        held = value.get("value")
        value = held if isinstance(held, str) else f"{_render_cell(value['$py'])} …"
    if isinstance(value, list | dict):
        return _render_nested(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value[:_READ] if isinstance(value, str) else repr(value)
    return shorten(" ".join(text.split()), CELL_CHARS)
