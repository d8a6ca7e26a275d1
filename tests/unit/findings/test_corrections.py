"""The corrected line in a hint."""

from __future__ import annotations

import pytest

from assayd.findings.source_text import add_correction
from assayd.model.finding import Edit, Finding

TEXT = "SELECT LEFT(name, 2)\nFROM t, ;\n"


def told(hint: str, replacement: str, line: int = 1, last: int = 1) -> str | None:
    edit = Edit(start_line=line, end_line=last, replacement=replacement)
    finding = Finding(rule="sql.syntax", category="syntax", message="x", suggestion=hint, edit=edit)
    return add_correction(finding, TEXT).suggestion


def test_hint_with_a_general_form_gets_the_corrected_line() -> None:
    hint = told("Write `substr(text, 1, count)`.", "SELECT substr(name, 1, 2)")
    assert hint == "Write `substr(text, 1, count)`. Write `SELECT substr(name, 1, 2)`."


def test_removal_gets_the_corrected_line() -> None:
    assert told("Remove the comma.", "FROM t ;", 2, 2) == "Remove the comma. Write `FROM t ;`."


@pytest.mark.parametrize(
    ("hint", "replacement", "last"),
    [
        ("Write `substr(name, 1, 2)`.", "SELECT substr(name, 1, 2)", 1),
        ("Write it.", "a\nb", 1),
        ("Write it.", "SELECT 1", 2),
        ("Write it.", "SELECT '" + "x" * 200 + "'", 1),
    ],
)
def test_hint_that_shows_the_correction_or_has_no_room_stays(hint: str, replacement: str, last: int) -> None:
    assert told(hint, replacement, 1, last) == hint


def test_finding_without_an_edit_stays() -> None:
    finding = Finding(rule="sql.syntax", category="syntax", message="x", suggestion="y")
    assert add_correction(finding, TEXT) is finding
