"""The position of findings beside the source."""

from __future__ import annotations

import pytest

from assayd.findings.source_text import get_snippet as snippet_of
from assayd_console.rendering import LINE_CHARS, MAX_SHOWN_TEXT_CHARS, MOST_LINES, build_sources


def finding(
    line: int | None, *, file: str | None = None, severity: str = "error", snippet: str = ""
) -> dict[str, object]:
    return {"line": line, "file": file, "severity": severity, "snippet": snippet, "rule": "r", "message": "m"}


def test_finding_stands_at_its_line_with_the_worst_severity_of_that_line() -> None:
    found = [finding(2, severity="info"), finding(2)]
    [source], elsewhere = build_sources({"code": "a\nb\nc\n"}, found)

    assert [(line.number, line.severity, len(line.findings)) for line in source.lines] == [
        (1, "", 0),
        (2, "error", 2),
        (3, "", 0),
    ]
    assert elsewhere == []


def test_line_of_cleaned_code_is_found_in_the_answer_around_it() -> None:
    [source], _ = build_sources(
        {"code": "Here it is:\n```\nimport os\n```"}, [finding(1, snippet="import os")]
    )

    assert [line.number for line in source.lines if line.findings] == [3]


@pytest.mark.parametrize("line", [None, 0, 9])
def test_finding_without_a_line_of_the_text_is_not_lost(line: int | None) -> None:
    [source], _ = build_sources({"code": "a"}, [finding(line)])

    assert len(source.findings) == 1


def test_finding_on_a_long_line_stands_at_it() -> None:
    line = "x" * 300
    [source], _ = build_sources({"code": f"Here:\n{line}"}, [finding(1, snippet=snippet_of(line, 1) or "")])
    assert [bool(each.findings) for each in source.lines] == [False, True]


def test_finding_of_no_text_is_told_apart() -> None:
    files = {"a.py": "x", "b.py": "y"}
    texts, elsewhere = build_sources({"files": files}, [finding(1, file="b.py"), finding(None)])

    assert [len(text.lines[0].findings) for text in texts] == [0, 1]
    assert len(elsewhere) == 1


def test_long_text_is_shown_around_its_findings_alone() -> None:
    code = "\n".join(map(str, range(1, 3 * MOST_LINES)))
    [source], _ = build_sources({"code": code}, [finding(900)])

    numbers = [line.number for line in source.lines]
    assert 900 in numbers
    assert len(numbers) < 60
    assert sum(number == 0 for number in numbers) == 2


def test_steps_are_texts_by_their_names() -> None:
    payload = {"steps": [{"name": "load", "content": "ls"}, {"name": "sum", "content": "SELECT 1"}]}
    texts, _ = build_sources(payload, [finding(1, file="sum")])

    assert [(text.name, len(text.lines[0].findings)) for text in texts] == [("load", 0), ("sum", 1)]


def test_long_lines_are_left_out_beyond_what_a_text_may_take_but_for_those_with_findings() -> None:
    code = "\n".join(["\u00ad" * LINE_CHARS] * MOST_LINES)
    [source], _ = build_sources({"code": code}, [finding(MOST_LINES)])
    assert sum(len(line.text) for line in source.lines if line.number) <= MAX_SHOWN_TEXT_CHARS + LINE_CHARS
    assert source.lines[-1].number == MOST_LINES
    assert [line.text for line in source.lines if not line.number] == ["367 lines without findings"]
