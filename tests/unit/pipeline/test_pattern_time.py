"""Patterns on submitted text take little time on any text of the searched length."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from assayd_fifth import foreign_forms
from assayd_fifth import repairs as fifth_repairs
from assayd_pipeline import judging
from assayd_pipeline.errors import ErrorSource, classify_error
from assayd_pipeline.judging import StepText
from assayd_pipeline.shell.parse import mending as shell_repairs
from assayd_pipeline.shell.parse import source as shell_source
from assayd_pipeline.shell.slips import _find_assigned_names
from assayd_pipeline.sql.dialects import MOST_CHARS, explain_rejected, load_foreign_constructs
from assayd_pipeline.worth import iter_ignored_errors
from support.slowness import SLOWER_BY

LINE_S = 0.05 * SLOWER_BY
STATEMENT_S = 0.5 * SLOWER_BY
REPEATED = (
    *" /a1.-'\"|&;:,*({[<>",
    "a.", "a ", "a, ", "'a' ", "a | ", "[: ", "if ", "(a) ", "''", "/*", "\n ", "a\n",
    "jq ", "awk ", "sed: ", "jq: error ", "WHERE ", "CASE ", "ELSE a, ", "GROUP BY ", "ORDER BY a ",
    "SELECT TOP 1 a ;;",
)  # fmt: skip
HEADS = (
    "{", "{ a --", "{: a b", '<a href="a">', "<b>", "<b>a", " end", "a | b", "x |", "case a", "jq '",
    "jq 'a ?", "jq 'a ? b", "jq 'a ? b :", "sed: can't read s", "jq: error: ", "awk: ", "printf: ",
    "a: ", "a", "a ENUM (", "\n GO", "x FROM", "x WITH (", "x FOR", "ADD", "ADD (", "CREATE TABLE a",
    "CASE ELSE a", "SELECT a", "SELECT TOP 1", "SELECT TOP 1 a", "SELECT a WHERE sum(a)",
    "SELECT a GROUP BY a", "TIMESTAMPDIFF(DAY,", "TIMESTAMPDIFF(DAY, a", "ORDER BY", "ORDER BY a",
    "ALTER TABLE a ADD", "a + INTERVAL", "a::b", "DELETE a", "def a (", "/* a", "def a( ) b",
)  # fmt: skip


def texts(size: int) -> Iterator[str]:
    """Return texts of a given size that make careless patterns slow."""
    half = " " * (size // 2 - 3)
    for each in REPEATED:
        yield (each * size)[:size]
    for head in HEADS:
        for each in (" ", "a", "a ", "'a' "):
            yield (head + each * size)[: size - 1] + "\x01"
    yield from (
        f"{{ {half}--{half}",
        f"{{ a {half}--{half}",
        f"jq '{half}?{half}",
        f"sed: can't read s{'/' * size}",
    )
    yield from (f"case {half}|{half}", "CASE " * (size // 30) + "ELSE a, " * (size // 10) + "END")


def slowest(patterns: list[str] | list[re.Pattern[str]], size: int) -> tuple[float, str, str]:
    """Return the longest search, with its pattern and text."""
    worst = (0.0, "", "")
    for pattern in map(re.compile, patterns):
        for text in texts(size):
            began = time.process_time()
            pattern.search(text)
            worst = max(worst, (time.process_time() - began, pattern.pattern, text[:60]))
    return worst


def test_patterns_of_messages_take_little_time() -> None:
    known = judging._load_messages()
    size = judging._LINE_CHARS
    lines = [re.sub(r"\{[1-9]\}", "a", each.at) for each in known if each.at]
    taken, *where = slowest([*(each.find.pattern for each in known), *lines], size)
    assert taken < LINE_S, where


def test_patterns_of_repairs_take_little_time() -> None:
    found = [find for find, _ in fifth_repairs._FORMS]
    taken, *where = slowest(found, fifth_repairs._LINE_CHARS)
    assert taken < LINE_S, where
    rows = (*foreign_forms._ROWS, *foreign_forms._SUSPICIOUS_PATTERNS)
    taken, *where = slowest([each.find for each in rows], foreign_forms._LINE_CHARS)
    assert taken < LINE_S, where
    found = [each for each in vars(shell_repairs).values() if isinstance(each, re.Pattern)]
    taken, *where = slowest(found, shell_repairs._LINE_CHARS)
    assert taken < LINE_S, where


@pytest.mark.slow
def test_patterns_of_statements_take_little_time() -> None:
    found = [re.compile(each.find, re.IGNORECASE) for each in load_foreign_constructs() if each.find]
    taken, *where = slowest(found, MOST_CHARS)
    assert taken < STATEMENT_S, where


@pytest.mark.parametrize(
    "text", ["/*" * 5000, "'" * 9999, "(" * 10_000, "DATE_ADD(a, INTERVAL" + " " * 9000 + ")"]
)
def test_statement_is_explained_in_little_time(text: str) -> None:
    began = time.process_time()
    explain_rejected(text, None)
    assert time.process_time() - began < 2 * SLOWER_BY


@pytest.mark.parametrize(
    "line", [f"let a ={' ' * 20_000}!", f"let a = b{' b' * 10_000} !", f"let a = b{' ' * 20_000}!"]
)
def test_spaced_let_is_read_in_little_time(line: str) -> None:
    began = time.process_time()
    shell_source._SPACED_LET.fullmatch(line)
    assert time.process_time() - began < STATEMENT_S


@pytest.mark.parametrize("text", ["read " * 20_000, "for " * 20_000, "a" * 100_000, ";" * 100_000])
def test_assigned_variables_are_found_in_little_time(text: str) -> None:
    began = time.process_time()
    _find_assigned_names(text)
    assert time.process_time() - began < STATEMENT_S


def test_each_form_of_an_assignment_is_found() -> None:
    text = "a=1 b=2\nfor c in x; do read -r d e; done; f | read g\necho h=i\n"
    assert _find_assigned_names(text) >= set("abcdeg")
    assert "f" not in _find_assigned_names(text)


def test_long_messages_and_lines_are_not_corrected() -> None:
    said = "jq: error: sum/0 is not defined"
    pad = "a" * judging._LINE_CHARS
    assert judging.explain_message(said, "jq sum data/a").edit is not None
    assert judging.explain_message(said, f"jq sum data/{pad}").edit is None
    assert not judging.is_known(f"{pad}: {said}")


def test_message_on_a_long_step_is_explained_in_little_time() -> None:
    content = "\n".join(["jq jq '" + "if " * 90] * 2000)
    began = time.process_time()
    judging.explain_message("jq: error: syntax error", content)
    assert time.process_time() - began < 0.5 * SLOWER_BY


def test_correction_keeps_a_backslash_of_a_message() -> None:
    told = judging.explain_message(r"head: invalid number of lines: 'data/\9'", "head -n data/a\n")
    assert told.edit is None
    said = r"cp: cannot create regular file 'a\9/b': No such file or directory"
    told = judging.explain_message(said, "cp data/a 'a\\9/b'")
    assert told.edit is not None
    assert told.edit.replacement == "mkdir -p a\\9 && cp data/a 'a\\9/b'"


@pytest.mark.slow
def test_many_lines_of_a_step_that_passed_are_read_in_little_time() -> None:
    content = "jq . a\n" + "\n" * 20_000 + "trap " * 4000
    stderr = "\n".join(f"jq: {n} [: " + "[: " * 600 for n in range(500))
    step = StepText(number=1, name="a", program=ErrorSource.BASH, content=content)
    began = time.process_time()
    list(iter_ignored_errors(step, stderr, None))
    classify_error(stderr, program=ErrorSource.BASH)
    assert time.process_time() - began < 6 * SLOWER_BY


@pytest.mark.parametrize(
    ("said", "content", "corrected"),
    [
        (
            "jq: error: syntax error, unexpected INVALID_CHARACTER",
            'jq \'.a | .b > 1 ? "x" : "y"\' data/a',
            'jq \'.a | if .b > 1 then "x" else "y" end\' data/a',
        ),
        (
            "sed: can't read y/a/b/: No such file",
            "sed -e 's/c/d/' 'y/a/b/' x",
            "sed -e 's/c/d/' -e 'y/a/b/' x",
        ),
    ],
)
def test_bounded_patterns_still_correct(said: str, content: str, corrected: str) -> None:
    told = judging.explain_message(said, content)
    assert told.edit is not None
    assert re.sub(" +", " ", told.edit.replacement) == corrected


@pytest.mark.parametrize(
    ("text", "put"),
    [
        ("{ a b -- c }", "( a b -- c )"),
        ("{: a b -- c :}", "( a b -- c )"),
        ("{ a b -- c } a b", "( a b -- c )"),
        ("{ a -- }", "( a --  )"),
        ('<a href="x"> to the page </a>', 's" to the page" s" x" a.'),
        ("<b> bold text </b>", '<b> s" bold text" text </b>'),
    ],
)
def test_bounded_forms_still_correct(text: str, put: str) -> None:
    assert put in [seen.expand(new) for find, new in fifth_repairs._FORMS if (seen := find.search(text))]


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("SELECT a FROM t ORDER BY a, b UNION SELECT a FROM u", "the whole UNION"),
        ("ALTER TABLE t ADD COLUMN a TEXT, ADD COLUMN b TEXT", "one column per statement"),
        ("SELECT TIMESTAMPDIFF(DAY, a, f(b)) FROM t", "julianday(f(b)) - julianday(a)"),
        ("SELECT DATE_ADD(a, INTERVAL 7 DAY) FROM t", "date(value"),
        ("SELECT a::int, f(b)::text FROM t", "CAST"),
    ],
)
def test_bounded_patterns_of_statements_still_explain(statement: str, hint: str) -> None:
    told = explain_rejected(statement, None)
    assert told is not None
    assert hint in told.hint
