from __future__ import annotations

import ast
from copy import deepcopy

import pytest

from assayd.kinds.code.inputs import check_inputs, find_missing_names
from assayd.kinds.code.types import infer_type, matches_type
from assayd.model.finding import Finding
from assayd.model.submission import JsonValue


def judge(code: str, inputs: dict[str, JsonValue], *requires: str) -> list[Finding]:
    return list(check_inputs(code, ast.parse(code), inputs, requires))


def tagged(tag: str, value: JsonValue) -> JsonValue:
    return {"$py": tag, "value": value}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("list", []),
        ("list[dict[str, int]]", [1]),
        ("dict", {"$ref": "#"}),
        ("int", True),
        ("float", 1),
        ("float", True),
        ("float", tagged("float", "nan")),
        ("str | None", None),
        ("'int | str'", "a"),
        ("set", tagged("set", [1])),
        ("tuple", tagged("tuple", [])),
        ("bytes", tagged("bytes", "")),
        ("dict", tagged("dict", [[1, 2]])),
        ("Decimal", tagged("decimal", "1.5")),
        ("date", tagged("datetime", "2024-01-01")),
        ("Sequence", tagged("tuple", [])),
        ("object", 1),
        ("Frame", 1),
    ],
)
def test_value_of_the_declared_type_passes(annotation: str, value: JsonValue) -> None:
    assert judge(f"data: {annotation}\nresult: int = 1", {"data": value}) == []


@pytest.mark.parametrize(
    ("annotation", "value", "actual"),
    [
        ("list", {}, "dict"),
        ("list", tagged("tuple", []), "tuple"),
        ("dict", [], "list"),
        ("int", 1.0, "float"),
        ("int", "1", "str"),
        ("bool", 1, "int"),
        ("str", 1, "int"),
        ("str | None", 1, "int"),
        ("list", None, "None"),
        ("set", [], "list"),
        ("datetime", "2024-01-01", "str"),
        ("datetime", tagged("date", "2024-01-01"), "date"),
        ("float", tagged("decimal", "1"), "Decimal"),
    ],
)
def test_value_of_another_type_is_found_with_both_ways_out(
    annotation: str, value: JsonValue, actual: str
) -> None:
    [finding] = judge(f"x = 1\ndata: {annotation}\nresult: int = 1", {"data": value})
    assert (finding.rule, finding.line) == ("inputs.type", 2)
    assert finding.message == f"The input 'data' is declared as {annotation}, but its value is {actual}."
    assert finding.suggestion is not None
    assert "data: " in finding.suggestion


def test_suggestion_names_the_usual_conversion() -> None:
    [finding] = judge("data: list\nresult: int = 1", {"data": tagged("set", [])})
    assert finding.suggestion == (
        "Declare the actual type: data: set, and convert it in the code: list(data). Or pass list."
    )


@pytest.mark.parametrize("name", ["my-data", "1st", "class", "result", "__name__", "", "\ufb01", "a b"])
def test_name_that_no_variable_can_have_is_refused(name: str) -> None:
    [finding] = judge("result: int = 1", {name: 1})
    assert finding.rule == "inputs.name"


@pytest.mark.parametrize(
    "value", [tagged("set", "ab"), [tagged("object", "Foo")], {"a": tagged("datetime", "x")}, {"$py": 1}]
)
def test_tag_that_cannot_be_read_is_refused(value: JsonValue) -> None:
    [finding] = judge("data: object\nresult: int = 1", {"data": value})
    assert finding.rule == "inputs.encoding"


def test_values_are_left_as_they_were() -> None:
    given: dict[str, JsonValue] = {"data": [{"a": tagged("set", [1])}]}
    before = deepcopy(given)
    assert judge("data: list\nresult: int = 1", given) == []
    assert given == before


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("data: list = [1]\nresult: int = 1", "inputs.overwritten"),
        ("data: list\ncount: int\nresult: int = 1", "inputs.not_given"),
    ],
)
def test_what_is_odd_is_a_warning(code: str, rule: str) -> None:
    [finding] = judge(code, {"data": []})
    assert (finding.rule, finding.severity) == (rule, "warning")


@pytest.mark.parametrize("later", ["count = 1", "for count in []: pass", "def count(): pass", "import count"])
def test_declared_name_that_gets_a_value_later_is_not_awaited(later: str) -> None:
    assert find_missing_names(ast.parse(f"count: int\n{later}\nresult: int = 1"), {}) == ()


def test_required_modules_are_held_against_the_image() -> None:
    findings = judge("result: int = 1", {}, "json", "xml.etree", "pandas", "tkinter")
    assert [finding.rule for finding in findings] == ["inputs.requires"] * 2
    assert "Use csv, statistics" in str(findings[0].suggestion)


def test_form_of_an_instance_of_another_class_fits_only_what_is_not_checked() -> None:
    form = infer_type({"$py": "object", "value": "Foo"})
    assert (matches_type(form, {"str", "dict"}), matches_type(form, {"anything"})) == (False, True)
