"""Findings at lines of the given files."""

from __future__ import annotations

import pytest

from assayd.findings.source_text import get_snippet
from assayd_client.cli.report import UNKNOWN, SubmissionOrigin

PLAIN = b"import re\n\ndef extract(path):\n    return {}\n"
ANSWER = b"Here it is:\n\n```python\n" + PLAIN + b"```\n"


LONG = "    return {'a': '" + "x" * 300 + "'}"


def finding(
    line: int | None = 4,
    snippet: str | None = "    return {}",
    file: str | None = None,
    column: int | None = None,
) -> dict:
    return {"file": file, "line": line, "snippet": snippet, "column": column}


def origin(text: bytes) -> SubmissionOrigin:
    return SubmissionOrigin(paths={"x.py": "src/x.py"}, texts={"x.py": text})


def test_place_is_file_and_line_and_a_column_if_there_is_one() -> None:
    assert origin(PLAIN).place(finding()) == ("src/x.py:4", 4)
    assert origin(PLAIN).place(finding(column=5)) == ("src/x.py:4:5", 4)


@pytest.mark.parametrize("text", [f"\n\n\n{LONG}\n", f"Here:\n\n{LONG}\r\nmore\n"])
def test_line_of_which_the_report_has_the_beginning_is_found_and_shown_in_full(text: str) -> None:
    found = finding(snippet=get_snippet(LONG, 1))
    assert origin(text.encode()).place(found)[1] == text[: text.index(LONG)].count("\n") + 1
    assert origin(text.encode()).source(found) == [LONG]


def test_line_that_only_begins_alike_is_another() -> None:
    assert origin(f"{LONG[:150]}\n".encode()).locate_finding(finding(snippet=get_snippet(LONG, 1))) == (
        "src/x.py",
        None,
    )


def test_lines_end_in_line_feeds_alone() -> None:
    assert origin("a = '\x0c\u2028'\nreturn {}\n".encode()).locate_finding(finding(line=2)) == ("src/x.py", 2)


def test_file_that_is_not_at_hand_shows_what_the_report_has() -> None:
    assert UNKNOWN.source(finding(snippet="a\nb")) == ["a", "b"]


def test_line_of_an_answer_with_words_around_the_code_is_that_of_the_file() -> None:
    assert origin(ANSWER).place(finding()) == ("src/x.py:7", 7)


def test_line_that_cannot_be_told_apart_is_not_named() -> None:
    twice = b"# words\nreturn {}\nreturn {}\n"
    assert origin(twice).place(finding(line=1)) == ("src/x.py", 1)


def test_finding_without_a_line_has_the_file_alone() -> None:
    assert origin(PLAIN).place(finding(line=None, snippet=None)) == ("src/x.py", None)


@pytest.mark.parametrize("file", ["a/adapter.py", "adapter.py", "adapter"])
def test_of_several_files_the_one_that_is_meant_is_named(file: str) -> None:
    several = SubmissionOrigin(
        paths={"a/adapter.py": "m/a/adapter.py", "t.py": "m/t.py"}, texts={"a/adapter.py": PLAIN, "t.py": b""}
    )
    assert several.place(finding(file=file)) == ("m/a/adapter.py:4", 4)
    assert several.place(finding()) == (None, 4)


def test_step_is_the_file_that_has_the_line_and_not_the_data_beside_it() -> None:
    files = {"sales.csv": b"id,amount\n1,5\n", "sales.sql": b"SELECT 1;\nSELEC 2;\n"}
    both = SubmissionOrigin(paths={name: f"p/{name}" for name in files}, texts=files)
    assert both.place(finding(line=2, snippet="SELEC 2;", file="sales")) == ("p/sales.sql:2", 2)
    assert both.place(finding(line=None, snippet=None, file="sales")) == ("sales", None)


def test_files_that_are_not_at_hand_are_named_as_the_report_has_them() -> None:
    assert UNKNOWN.place(finding(file="adapter.py")) == ("adapter.py:4", 4)
    assert UNKNOWN.place(finding()) == (None, 4)
