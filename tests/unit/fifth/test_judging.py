"""gforth's errors as findings."""

from __future__ import annotations

import pytest

from assayd_fifth.judging import build_error_finding, iter_prelude_findings
from assayd_fifth.language import get_language

CODE = ": a ( -- )\n  drop ;\n\na\n"


def said(line: int, message: str, source: str = "  >>>a<<<", file: str = "assayd/program.fs") -> str:
    head = "in file included from *OS command line*:-1\n"
    return f"{head}{file}:{line}: {message}\n{source}\nBacktrace:\n$7F4C throw \n"


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("Undefined word", "fifth.undefined_word"),
        ("Stack underflow", "fifth.stack_underflow"),
        ("Return stack overflow", "fifth.stack_overflow"),
        ("Dictionary overflow", "fifth.memory_overflow"),
        ("unstructured ", "fifth.not_compiled"),
        ("Interpreting a compile-only word", "fifth.not_compiled"),
        ("Invalid memory address", "fifth.invalid_address"),
        ("Division by zero", "fifth.division_by_zero"),
        ("error -77 ", "fifth.uncaught_throw"),
        ("No such file or directory", "fifth.uncaught_throw"),
        ("Aborted", "fifth.aborted"),
        ("no such account", "fifth.aborted"),
        ("", "fifth.aborted"),
    ],
)
def test_message_of_gforth_is_a_finding_at_its_line(message: str, rule: str) -> None:
    finding = build_error_finding(said(4, message), CODE, get_language())
    assert finding is not None
    assert (finding.rule, finding.line, finding.snippet) == (rule, 4, "a")
    assert finding.is_error
    assert finding.suggestion


def test_error_in_another_file_has_no_line_of_the_program() -> None:
    finding = build_error_finding(
        said(2, "Undefined word", "x >>>y<<<", "~+/helpers.fs"), CODE, get_language()
    )
    assert finding is not None
    assert (finding.line, finding.snippet) == (None, None)
    assert "'y'" in finding.message


def test_number_of_an_undefined_word_that_the_program_throws_is_a_throw() -> None:
    finding = build_error_finding(said(4, "Undefined word", "-13 >>>throw<<<"), CODE, get_language())
    assert finding is not None
    assert finding.rule == "fifth.uncaught_throw"


@pytest.mark.parametrize("line", [0, 9, 9_999_999])
def test_line_that_the_program_has_not_got_is_not_believed(line: int) -> None:
    finding = build_error_finding(said(line, "Undefined word"), CODE, get_language())
    assert finding is not None
    assert finding.line is None


def test_last_error_counts_and_silence_is_none() -> None:
    finding = build_error_finding(said(1, "Aborted") + said(2, "Stack underflow"), CODE, get_language())
    assert finding is not None
    assert finding.rule == "fifth.stack_underflow"
    assert build_error_finding("what else a program may print: 1: 2\n", CODE, get_language()) is None


def test_notes_of_the_prelude_are_warnings() -> None:
    stderr = "assayd: library-unavailable core.fs\nassayd: unheard-of x\nassayd: no-programs ls\n"
    found = list(iter_prelude_findings(stderr, get_language()))
    assert [f.rule for f in found] == ["fifth.library_unavailable", "fifth.needs_programs"]
    assert not any(f.is_error for f in found)
    assert "core.fs" in found[0].message
