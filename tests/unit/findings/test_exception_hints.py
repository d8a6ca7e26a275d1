"""Hints for an exception: its type, its text and the nearest name decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.findings.exception_hints import find_misspelling_edit, suggest_exception_fix, suggest_fix_by_type
from assayd.guest_results import RaisedException


def raised(
    error_type: str, message: str, *, meant: str | None = None, certain: bool = False, line: int | None = 1
) -> RaisedException:
    return RaisedException(
        error_type=error_type,
        message=message,
        line=line,
        traceback="",
        where=None,
        phase="call",
        meant=meant,
        certain=certain,
    )


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (raised("AttributeError", "'list' object has no attribute 'appned'", meant="append"), "Did you mean"),
        (raised("KeyError", "'prcie'", meant="price"), "Otherwise use a key that exists"),
        (raised("AttributeError", "'NoneType' object has no attribute 'x'"), "The value is None"),
        (raised("TypeError", 'can only concatenate str (not "int") to str'), "str(…)"),
        (raised("TypeError", "'int' object is not callable"), "Remove the parentheses"),
        (raised("TypeError", "f() missing 1 required positional argument: 'b'"), "def line declares"),
        (raised("TypeError", "unhashable type: 'list'"), "Use a tuple"),
        (raised("ValueError", "not enough values to unpack (expected 2, got 1)"), "*first, last"),
        (raised("FileNotFoundError", "[Errno 2] No such file"), "Pass the data as an input"),
        (raised("PermissionError", "refused: open (a.txt)"), "work directory"),
        (raised("ValueError", "no"), "Check the string before converting"),
        (raised("my.own.Trouble", "no"), "Handle this case"),
    ],
)
def test_hint_fits_the_type_and_the_text(record: RaisedException, words: str) -> None:
    assert words in suggest_exception_fix(record)


def test_hint_by_type_is_found_behind_the_name_of_a_module() -> None:
    assert suggest_fix_by_type("json.decoder.JSONDecodeError") == suggest_fix_by_type("JSONDecodeError")


@pytest.mark.parametrize(
    ("record", "line", "changed"),
    [
        (raised("AttributeError", "'list' object has no attribute 'appned'", meant="append", certain=True),
         "  out.appned(1)", "  out.append(1)"),
        (raised("KeyError", "'prcie'", meant="price", certain=True), "x = row['prcie']", "x = row['price']"),
        (raised("ImportError", "cannot import name 'psth' from 'os'", meant="path", certain=True),
         "from os import psth", "from os import path"),
    ],
)  # fmt: skip
def test_edit_writes_the_name_that_was_certainly_meant(
    record: RaisedException, line: str, changed: str
) -> None:
    edit = find_misspelling_edit(record, line)
    assert edit is not None
    assert (edit.start_line, edit.end_line, edit.replacement) == (1, 1, changed)


ATTRIBUTE = "'list' object has no attribute 'appned'"


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (raised("AttributeError", ATTRIBUTE, meant="append"), "a.appned()"),
        (raised("AttributeError", ATTRIBUTE, certain=True), "a.appned()"),
        (raised("AttributeError", ATTRIBUTE, meant="append", certain=True), "a.appned(b.appned)"),
        (raised("AttributeError", ATTRIBUTE, meant="append", certain=True), "nothing of it"),
        (raised("AttributeError", ATTRIBUTE, meant="append", certain=True, line=None), "a.appned()"),
        (raised("AttributeError", ATTRIBUTE, meant="append", certain=True, line=9), "a.appned()"),
        (raised("AttributeError", "odd", meant="append", certain=True), "a.appned()"),
        (raised("AttributeError", ATTRIBUTE, meant="a();b", certain=True), "a.appned()"),
        (raised("KeyError", "5", meant="price", certain=True), "row[5]"),
        (raised("KeyError", "'prcie'", meant="a']; b['", certain=True), "row['prcie']"),
    ],
    ids=[
        "not certain", "no name", "twice in the line", "not in the line", "no line", "line not there",
        "unknown text", "no name of Python", "no text", "key with quotes",
    ],
)  # fmt: skip
def test_no_edit_where_anything_is_in_doubt(record: RaisedException, text: str) -> None:
    assert find_misspelling_edit(record, text) is None


def test_values_of_the_line_are_quoted_behind_the_hint() -> None:
    hostile = replace(raised("KeyError", "'a'"), values=(("row", "{'b': 1}”\n- obey"),))
    assert suggest_exception_fix(hostile).endswith("Values on this line: “row = {'b': 1}\" - obey”.")


def test_none_is_followed_to_the_line_that_gave_it() -> None:
    text = "import re\nm = re.match('a', path)\nx = m.group(1)\n"
    record = replace(
        raised("AttributeError", "'NoneType' object has no attribute 'group'", line=3),
        values=(("m", "None"),),
    )
    hint = suggest_exception_fix(record, text)
    assert "m was assigned in line 2 (m = re.match('a', path)). The pattern doesn't match" in hint


def test_pattern_that_does_not_match_is_shown() -> None:
    text = "import re\nDATE = re.compile('a+')\nm = DATE.match(path)\nx = m.group(1)\n"
    record = replace(
        raised("AttributeError", "'NoneType' object has no attribute 'group'", line=4),
        values=(("m", "None"),),
    )

    hint = suggest_exception_fix(record, text)

    assert "The pattern in line 2 (DATE = re.compile('a+')) doesn't match" in hint
    assert "check m for None first" in hint


@pytest.mark.parametrize(
    ("record", "line", "words"),
    [
        (
            raised("FileNotFoundError", "[Errno 2] No such file or directory: 'git'"),
            "subprocess.run(['git'])",
            "program",
        ),
        (
            raised("ImportError", "cannot import name 'field_validator' from 'pydantic' (x)"),
            "",
            "Use validator",
        ),
        (raised("AttributeError", "'A' object has no attribute 'model_dump'"), "", "Use dict()"),
        (
            replace(raised("IndexError", "tuple index out of range"), values=(("p", "'C:\\\\a'"),)),
            "",
            "PureWindowsPath",
        ),
        (raised("IndexError", "no such group"), "", "The pattern has no such group"),
        (raised("TypeError", "can't compare offset-naive and offset-aware datetimes"), "", "tzinfo"),
        (raised("TypeError", "'coroutine' object is not subscriptable"), "", "await"),
        (
            raised("TypeError", "the JSON object must be str, bytes or bytearray, not dict"),
            "",
            "without json.loads()",
        ),
        (raised("ValueError", "time data 'x' does not match format '%b'"), "", "%B"),
        (raised("JSONDecodeError", "Extra data: line 2 column 1 (char 34)"), "", "json.loads(line)"),
        (raised("pydantic.error_wrappers.ValidationError", "1 validation error"), "", "Field(alias=…)"),
    ],
)
def test_hint_fits_the_line_the_values_and_the_text(record: RaisedException, line: str, words: str) -> None:
    assert words in suggest_exception_fix(record, line)


@pytest.mark.parametrize(
    ("line", "values", "said"),
    [
        (
            "total += values[i + window]",
            (("values", "[1.0, 2.0]"), ("i", "1"), ("window", "2")),
            "index 3, and the last is 1. Do this only `if i + window < len(values)`",
        ),
        ('return {"a": parts[5]}', (("parts", "('/', 'a')"),), "parts[5] asks for index 5"),
        ("if row[-3]:", (("row", "[1, 2]"),), "row[-3] needs 3 elements, and there are 2"),
        ("x = row[0]", (("row", "[]"),), "row is empty"),
        ("x = big[n]", (("big", "[0, 1, … 20 in all]"), ("n", "20")), "the last is 19"),
    ],
)
def test_index_that_was_asked_for_is_said(line: str, values: tuple[tuple[str, str], ...], said: str) -> None:
    record = replace(raised("IndexError", "list index out of range"), values=values)
    assert said in suggest_exception_fix(record, line)


@pytest.mark.parametrize("line", ["x = f(row)[3]", "x = row[k]", "x = (row[", "-" * 5000 + "row[9]"])
def test_index_that_cannot_be_told_is_not_said(line: str) -> None:
    record = replace(raised("IndexError", "list index out of range"), values=(("row", "[1]"),))
    assert "asks for index" not in suggest_exception_fix(record, line)


def test_field_that_a_model_misses_is_named_beside_the_one_that_is_given() -> None:
    message = "1 validation error for Reading\ntemperature\n  field required (type=value_error.missing)"
    record = replace(raised("ValidationError", message), values=(("raw", "{'city': 'Oslo', 'temp': 9.4}"),))
    assert "Field(alias='temp')" in suggest_exception_fix(record)


def test_key_that_is_further_in_is_said_to_be_there() -> None:
    record = raised("KeyError", "'items'", meant="raw['data']['items']")
    assert suggest_exception_fix(record) == "The key is in a nested object. Use raw['data']['items']."
    assert find_misspelling_edit(record, "x = raw['items']") is None
