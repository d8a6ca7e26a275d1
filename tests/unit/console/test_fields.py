"""Form fields from a schema, and the typed values from a form."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assayd.errors import RequestError
from assayd.kinds import registry
from assayd_console.fields import build_fields, build_typed_values, parse_form

SCHEMA = {
    "$defs": {
        "Mode": {"enum": ["exact", "float"], "type": "string"},
        "Case": {
            "properties": {
                "name": {"type": "string"},
                "mode": {"$ref": "#/$defs/Mode", "default": "exact"},
                "expected": {},
            }
        },
    },
    "properties": {
        "files": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        },
        "cases": {"type": "array", "items": {"$ref": "#/$defs/Case"}},
        "timeout_s": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 5},
    },
}


@pytest.mark.parametrize("kind", registry.list_own_kinds())
def test_samples_of_each_kind_are_typed_and_read_again(kind: str) -> None:
    validator = registry.load_own_validator(kind)
    schema = validator.payload.model_json_schema()

    for sample in validator.samples:
        typed = build_typed_values(schema, sample.payload)
        assert _without_empty(parse_form(schema, typed)) == _without_empty(sample.payload)


def _without_empty(payload: Mapping[str, object]) -> dict[str, object]:
    return {name: part for name, part in payload.items() if part not in ("", [], {}, None)}


def test_files_and_cases_are_rows_with_an_empty_one_at_the_end() -> None:
    value = {"files": {"a.py": "x = 1\n"}, "cases": [{"name": "one", "expected": [1]}]}
    files, cases, timeout = build_fields(SCHEMA, build_typed_values(SCHEMA, value))

    assert [[field.value for field in row] for row in files.rows] == [["a.py", "x = 1\n"], ["", ""]]
    assert [[field.form for field in row] for row in cases.rows] == [["line", "choice", "json"]] * 2
    assert cases.rows[0][1].choices == ("", "exact", "float")
    assert (timeout.form, timeout.help) == ("number", "In seconds. Default: 5.")


def test_files_that_are_not_text_are_typed_as_json() -> None:
    value = {"files": {"a.bin": {"base64": "AA=="}}}
    typed = build_typed_values(SCHEMA, value)

    assert build_fields(SCHEMA, typed)[0].form == "json"
    assert parse_form(SCHEMA, typed) == value


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"payload.timeout_s": "soon"}, "payload.timeout_s"),
        ({"payload.cases.0.expected": "{"}, "payload.cases.0.expected"),
        ({"payload.files.0.content": "x"}, "payload.files"),
        ({"payload.files.0.name": "a", "payload.files.1.name": "a"}, "payload.files"),
    ],
)
def test_field_that_cannot_be_read_is_named(typed: dict[str, str], field: str) -> None:
    with pytest.raises(RequestError) as refusal:
        parse_form(SCHEMA, typed)

    assert refusal.value.field == field


def test_refused_field_of_a_row_keeps_what_was_typed() -> None:
    typed = {"payload.cases.0.name": "one", "payload.cases.0.expected": "{"}
    cases = build_fields(SCHEMA, typed)[1]

    assert [field.value for field in cases.rows[0]] == ["one", "", "{"]
