from __future__ import annotations

import ast

import pytest

from assayd.kinds.code.types import check_annotations, find_declarations
from assayd.model.finding import Edit, Finding


def judge(code: str, **inputs: object) -> list[Finding]:
    return list(check_annotations(code, ast.parse(code), inputs))


def applied(code: str, edit: Edit | None) -> str:
    """Return the text after an edit."""
    assert edit is not None
    lines = code.split("\n")
    lines[edit.start_line - 1 : edit.end_line] = [edit.replacement]
    return "\n".join(lines)


GOOD = "data: list[dict]\nresult: dict = {}"


@pytest.mark.parametrize(
    "code",
    [
        GOOD,
        "data: 'list | None'\nresult: int = 1",
        "from typing import List, Optional\ndata: Optional[List[int]]\nresult: int = 1",
        "import typing as t\ndata: t.List[t.Any]\nresult: int = 1",
        "from typing import *\ndata: List[Any]\nresult: int = 1",
        "from typing import Literal\ndata: Literal['any', 'List']\nresult: int = 1",
        "Row = dict[str, int]\ndata: list[Row]\nresult: Row = {}",
        "if True:\n    data: list\n    result: int = 1\nelse:\n    result: int = 2",
        "data: (\n    list\n)\nresult: int = 1",
    ],
)
def test_declared_inputs_and_result_pass(code: str) -> None:
    assert [finding for finding in judge(code, data=[]) if finding.is_error] == []


def test_types_are_read_by_their_outer_part() -> None:
    code = (
        "from typing import Any, Optional\na: list[dict[str, Any]]\nb: Optional[int]\nc: 'int | str'\nd: Any"
    )
    read = {declaration.name: declaration.types for declaration in find_declarations(ast.parse(code), "abcd")}
    assert read == {
        "a": {"list"},
        "b": {"int", "None"},
        "c": {"int", "str"},
        "d": {"anything"},
    }


@pytest.mark.parametrize(
    ("code", "inputs", "rule", "line"),
    [
        ("result: int = 1", {"data": []}, "annotations.missing_input", 1),
        ("def f():\n    data: list = []\nresult: int = 1", {"data": []}, "annotations.missing_input", 1),
        ("class A:\n    data: list\nresult: int = 1", {"data": []}, "annotations.missing_input", 1),
        ("self = 1\nself.data: list\nresult: int = 1", {"data": []}, "annotations.missing_input", 1),
        ("print(1)", {}, "annotations.missing_result", None),
        ("x = 1\nresult = x", {}, "annotations.missing_result", 2),
        ("def f():\n    result: int = 1", {}, "annotations.missing_result", None),
        ("if x:\n    result: int = 1\nelse:\n    result: str = ''", {}, "annotations.conflicting", 4),
        ("result: any = 1", {}, "annotations.lower_case_any", 1),
        ("result: 'dict[str, any]' = {}", {}, "annotations.lower_case_any", 1),
        ("result: List = []", {}, "annotations.not_imported", 1),
        ("result: Union[int, str] = 1", {}, "annotations.not_imported", 1),
        ("x: Any\nresult: int = 1", {}, "annotations.not_imported", 1),
        ("result: [int] = []", {}, "annotations.unreadable", 1),
        ("result: int or None = 1", {}, "annotations.unreadable", 1),
        ("result: 'not a type' = 1", {}, "annotations.unreadable", 1),
    ],
)
def test_what_is_not_declared_as_it_must_be_is_found(
    code: str, inputs: dict[str, object], rule: str, line: int | None
) -> None:
    [finding] = judge(code, **inputs)
    assert (finding.rule, finding.line, finding.is_error) == (rule, line, True)
    assert finding.suggestion


def test_type_that_is_not_known_is_said_to_be_unchecked() -> None:
    [finding] = judge("import numpy as np\ndata: np.ndarray\nresult: int = 1", data=[])
    assert (finding.rule, finding.is_error) == ("annotations.unchecked", False)


@pytest.mark.parametrize(
    ("code", "inputs", "edited"),
    [
        ("result: int = data", {"data": {}}, "data: dict\nresult: int = data"),
        (
            '"""Doc."""\nfrom __future__ import annotations\nresult: int = 1',
            {"at": {"$py": "datetime", "value": "2024-01-01"}},
            '"""Doc."""\nfrom __future__ import annotations\nat: datetime\nresult: int = 1',
        ),
        ("result = [1]  # one", {}, "result: list = [1]  # one"),
        ("result = sorted(x)", {}, "result: list = sorted(x)"),
        (
            "é: dict[str, List[any]] = {}\nresult: int = 1",
            {},
            "é: dict[str, list[object]] = {}\nresult: int = 1",
        ),
        ("result: Optional[int] = 1", {}, "from typing import Optional\nresult: Optional[int] = 1"),
    ],
)
def test_edit_makes_the_code_pass(code: str, inputs: dict[str, object], edited: str) -> None:
    findings = judge(code, **inputs)
    assert applied(code, findings[0].edit) == edited
    assert judge(edited, **inputs) == []


@pytest.mark.parametrize(
    "code", ["result = x", "result = 1\nresult = 'a'", "if 1: result = 1", "a = result = 1", "(result) = 1"]
)
def test_no_edit_is_offered_where_it_is_not_certain(code: str) -> None:
    [finding] = judge(code)
    assert finding.edit is None


def test_annotation_nested_deeper_than_python_calls_is_judged() -> None:
    assert judge(f"result: {' | '.join(['int'] * 1500)} = 1") == []


def test_module_of_very_many_aliases_is_judged_without_them() -> None:
    aliases = "\n".join(f"A{number} = A{number + 1} | A{number + 1}" for number in range(2000))
    [finding] = judge(f"{aliases}\nresult: A0 = 1")
    assert finding.rule == "annotations.unchecked"


def test_result_of_a_function_is_handed_to_the_module() -> None:
    code = "data: list\ndef main(data) -> dict:\n    result = {}\n    return result\n"
    [finding] = judge(code, data=[])
    assert finding.rule == "annotations.missing_result"
    assert finding.suggestion == "Add at the end, at module level: result: dict = main(data)"
