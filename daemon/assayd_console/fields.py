"""Derives form fields from a JSON schema, and reads the forms that browsers submit.

A field is a value, a list of lines, or rows with a field per property.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

from assayd.errors import RequestError
from assayd_client import Document

BODY_BYTES = 48 * 2**20
"""Maximum size of a form in bytes: the daemon's largest body, with each byte encoded as three."""
MAX_FIELDS = 1000


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, with the last value of a repeated field.

    Raises: RequestError ``invalid``, if the body isn't a form; ``too_large``, above `BODY_BYTES` bytes.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise RequestError("invalid", "a form must be application/x-www-form-urlencoded")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            raise RequestError("too_large", f"the form exceeds {BODY_BYTES} bytes; submit it with `assay`")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise RequestError("invalid", f"the form can't be read: {error}") from error
    # Browsers send CRLF line endings.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


LONG = frozenset({"code", "content", "stdin"})
"""String properties with several lines."""
UNIT_BY_SUFFIX = {"_s": "seconds", "_ms": "milliseconds", "_mb": "MiB"}
FILE = {"properties": {"name": {"type": "string"}, "content": {"type": "string"}}, "required": ["name"]}
"""The schema of a row for a property that maps names to strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form.

    Attributes:
        name: the form parameter, e.g. ``payload.steps.0.content``.
        form: `text`, `lines`, `json`, `line`, `number`, `choice`, `yes_no` or `rows`.
        rows: the fields of each row if `form` is `rows`; the last row is empty.
    """

    name: str
    form: str
    help: str = ""
    required: bool = False
    value: str = ""
    choices: Sequence[str] = ()
    rows: Sequence[Sequence[FormField]] = ()

    @property
    def label(self) -> str:
        """Return the name of the property, without the path of the field."""
        return self.name.rpartition(".")[2]


def build_fields(schema: Document, typed: Mapping[str, str], at: str = "payload") -> list[FormField]:
    """Return the fields of an object with their values, under the names that `build_typed_values` uses."""
    return [
        _build_field(
            f"{at}.{name}", _FieldInput(name, described, schema), typed, name in schema.get("required", ())
        )
        for name, described in schema["properties"].items()
    ]


def build_typed_values(schema: Document, value: Mapping[str, object], at: str = "payload") -> dict[str, str]:
    """Return the form values that represent an object, keyed by form parameter."""
    typed: dict[str, str] = {}
    for name, part in value.items():
        shape = _FieldInput(name, schema["properties"].get(name, {}), schema)
        place = f"{at}.{name}"
        rows = _to_rows(part) if shape.form == "rows" else None
        if rows is None:
            typed[place] = _format_value(shape.form, part)
        for number, row in enumerate(rows or ()):
            typed |= build_typed_values(shape.row, row, f"{place}.{number}")
    return typed


def parse_form(schema: Document, typed: Mapping[str, str], at: str = "payload") -> dict[str, object]:
    """Return the object that a form describes, without its empty fields.

    Raises: RequestError ``invalid``, with the name of the field.
    """
    value: dict[str, object] = {}
    for name, described in schema["properties"].items():
        shape, place = _FieldInput(name, described, schema), f"{at}.{name}"
        if shape.form == "rows" and place not in typed:
            rows = [
                parse_form(shape.row, typed, f"{place}.{number}")
                for number in _list_row_numbers(place, typed)
            ]
            rows = [row for row in rows if row]
            if rows:
                value[name] = _rows_to_files(rows, place) if shape.of_files else rows
        elif (text := typed.get(place, "")) and (shape.form == "text" or text.strip()):
            value[name] = _parse_value(shape.form, text, place)
    return value


class _FieldInput:
    """The type of form input for a property of a schema."""

    def __init__(self, name: str, described: Document, schema: Document) -> None:
        self._defs = schema.get("$defs", {})
        self.described = self._resolve_schema(described)
        self.choices: Sequence[str] = self.described.get("enum", ())
        items = self._resolve_schema(self.described.get("items", {}))
        self.of_files = _has_string_items(self.described)
        self.row: Document = FILE if self.of_files else {**items, "$defs": self._defs}
        self.form = self._choose_input(name, items)

    def _resolve_schema(self, described: Document) -> Document:
        """Return a schema with its reference resolved, and without null as an alternative."""
        options = [each for each in described.get("anyOf", ()) if each.get("type") != "null"]
        if len(options) == 1:
            return {**described, **self._resolve_schema(options[0])}
        named = described.get("$ref", "").rpartition("/")[2]
        return {**described, **self._defs[named]} if named in self._defs else described

    def _choose_input(self, name: str, items: Document) -> str:
        kind = self.described.get("type")
        if self.choices or kind == "boolean":
            self.choices = self.choices or ("true", "false")
            return "choice" if kind != "boolean" else "yes_no"
        if kind == "string":
            return "text" if name in LONG else "line"
        if kind == "array" and items.get("type") == "string":
            return "lines"
        if self.of_files or (kind == "array" and items.get("properties")):
            return "rows"
        return "number" if kind in {"number", "integer"} else "json"


def _has_string_items(described: Document) -> bool:
    if described.get("type") != "object":
        return False
    values = [described.get("additionalProperties"), *described.get("patternProperties", {}).values()]
    found = [each for each in values if isinstance(each, dict)]
    return any({"type": "string"} in (each, *each.get("anyOf", ())) for each in found)


def _build_field(place: str, shape: _FieldInput, typed: Mapping[str, str], required: bool) -> FormField:
    described = shape.described
    as_json = shape.form == "rows" and place in typed
    rows: list[list[FormField]] = []
    if shape.form == "rows" and not as_json:
        numbers = _list_row_numbers(place, typed)
        numbers.append(max(numbers, default=-1) + 1)
        rows = [build_fields(shape.row, typed, f"{place}.{number}") for number in numbers]
    return FormField(
        name=place,
        form="json" if as_json else shape.form,
        help=" ".join(_iter_help_sentences(place, shape.form, described)),
        required=required,
        value=typed.get(place, ""),
        choices=("", *shape.choices) if shape.choices else (),
        rows=rows,
    )


def _iter_help_sentences(place: str, form: str, described: Document) -> Iterator[str]:
    if said := described.get("description", ""):
        yield said
    elif form == "number" and (unit := UNIT_BY_SUFFIX.get(place[place.rfind("_") :])):
        yield f"In {unit}."
    default = described.get("default")
    if default not in (None, "", [], {}):
        yield f"Default: {default if isinstance(default, str) else json.dumps(default)}."
    if form in {"lines", "json"}:
        yield "One per line." if form == "lines" else "As JSON."


def _to_rows(value: object) -> Sequence[Mapping[str, object]] | None:
    """Convert a value to rows, or return None if rows can't represent it, e.g. a file that isn't text."""
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return [{"name": name, "content": text} for name, text in value.items()]
    return value if isinstance(value, list) else None


def _list_row_numbers(place: str, typed: Mapping[str, str]) -> list[int]:
    """Return the sorted numbers of the rows that a form contains for a field."""
    begin = f"{place}."
    found = {name[len(begin) :].partition(".")[0] for name in typed if name.startswith(begin)}
    return sorted(int(number) for number in found if number.isascii() and number.isdigit())


def _rows_to_files(rows: Sequence[Mapping[str, object]], place: str) -> dict[str, object]:
    if not all("name" in row for row in rows):
        raise RequestError("invalid", "a file has no name", field=place)
    files = {str(row["name"]): row.get("content", "") for row in rows}
    if len(files) < len(rows):
        raise RequestError("invalid", "two files have the same name", field=place)
    return files


def _format_value(form: str, value: object) -> str:
    if value is None:
        return ""
    if form == "lines" and isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, str) and form in {"text", "line", "choice"}:
        return value
    return json.dumps(value, indent=2, ensure_ascii=False)


def _parse_value(form: str, text: str, place: str) -> object:
    if form == "lines":
        return [line for line in text.splitlines() if line.strip()]
    if form in {"text", "line", "choice"}:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        what = "a number" if form == "number" else "valid JSON"
        raise RequestError("invalid", f"{place} isn't {what}: {error}", field=place) from error
