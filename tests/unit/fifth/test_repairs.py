"""The single change of a program that reduces its errors."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from assayd.did_you_mean import find_close_names
from assayd.model.finding import Finding
from assayd_fifth import analysis
from assayd_fifth.analysis import analyze_program
from support.slowness import SLOWER_BY


def found(code: str) -> list[Finding]:
    return [one for each in analyze_program(code).findings.values() for one in each]


def applied(code: str, finding: Finding) -> str:
    assert finding.edit is not None
    lines = code.split("\n")
    lines[finding.edit.start_line - 1 : finding.edit.end_line] = finding.edit.replacement.split("\n")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("code", "rule", "new"),
    [
        (": f ( n -- n ) 2 *\n3 f .", "vocabulary.definition_open", ": f ( n -- n ) 2 * ;\n3 f ."),
        (": f ( n -- n 2 * ;\n3 f .", "vocabulary.comment_open", ": f ( n -- n ) 2 * ;\n3 f ."),
        ('s" hello type', "vocabulary.string_open", 's" hello" type'),
        (": f ( n -- ) if 1 . ;", "structure.unbalanced", ": f ( n -- ) if 1 . then ;"),
        (": f ( -- ) 5 0 do i . next ;", "vocabulary.imagined_syntax", ": f ( -- ) 5 0 do i . loop ;"),
        (": f ( n -- ) dup 0 > while 1- repeat drop ;", "structure.unbalanced",
         ": f ( n -- ) begin dup 0 > while 1- repeat drop ;"),
        ("5 0 do i . loop", "structure.compile_only", ": main ( -- ) 5 0 do i . loop ; main"),
        (": f ( a b -- flag ) != ;", "vocabulary.imagined_syntax", ": f ( a b -- flag ) <> ;"),
        (": f ( n -- n ) g ;\n: g ( n -- n ) 1+ ;", "vocabulary.forward_reference",
         ": g ( n -- n ) 1+ ;\n: f ( n -- n ) g ;"),
        ("constant limit 5", "structure.stack_underflow", "5 constant limit"),
        ('"hello" type', "vocabulary.literal", 's" hello" type'),
        (": f ( n -- ) 2 . s\" a\" str+ str$ type ;", "vocabulary.library_not_loaded", None),
        ("1,000 .", "vocabulary.literal", "1000 ."),
    ],
)  # fmt: skip
def test_one_change_makes_the_program_better(code: str, rule: str, new: str | None) -> None:
    told = found(code)
    finding = next(one for one in told if one.rule == rule)
    if new is not None:
        assert applied(code, finding) == new
        assert not any(one.is_error for one in found(new))


@pytest.mark.parametrize(
    "code",
    [
        ": f ( -- ) 5 0 do i . next ;",
        ": f ( n -- ) begin dup while dup . 1- wend drop ;",
        ": f ( n -- ) case 1 of 2 . endof end ;",
        "5 0 do i . next",
    ],
)
def test_correction_never_turns_an_error_into_a_warning(code: str) -> None:
    assert any(one.is_error for one in found(code))


def test_finding_that_followed_from_the_fault_is_gone() -> None:
    told = found(": double ( n -- n ) 2 *\n3 double .")
    assert [one.rule for one in told] == ["vocabulary.definition_open"]


@pytest.mark.parametrize(
    ("code", "new"),
    [
        ('s" hello" .', 's" hello" type'),
        (": f ( -- ) 0 5 do i . loop ;", ": f ( -- ) 5 0 do i . loop ;"),
        ("variable n\nn 5 !", "variable n\n5 n !"),
        ('s" a\\n" type', 's\\" a\\n" type'),
    ],
)
def test_form_that_means_something_else_is_a_warning(code: str, new: str) -> None:
    finding = next(one for one in found(code) if one.rule == "structure.suspicious")
    assert not finding.is_error
    assert applied(code, finding) == new


@pytest.mark.parametrize(
    "code",
    [
        ": f ( -- ) 5 0 do i . loop ;\nf",
        's" hello" type 5 .',
        "variable n\n5 n !\nn @ .",
        's\\" a\\n" type',
        ": a ( -- n ) 1 ; : b ( -- n ) a ;\nb .",
        ": f ( n -- ) 5 ?do i . loop ;",
    ],
)
def test_sound_program_has_no_finding(code: str) -> None:
    assert found(code) == []


@pytest.mark.parametrize("word", ["{line}", "{line}{nope}", "{}{line}", "{line:>999999999}{line}"])
def test_word_that_looks_like_a_placeholder_is_quoted_as_it_is(word: str) -> None:
    found = [one for stage in analyze_program(f": go ( -- ) {word} ;\n").findings.values() for one in stage]
    assert f"Word '{word}' does not exist in Fifth." in [one.message for one in found]


@pytest.mark.slow
def test_program_of_many_faults_and_unknown_words_is_repaired_in_little_time() -> None:
    text = "".join(f": w{number} ( n -- ) if 1 xyz{number} then else ;\n" for number in range(500))
    began = time.process_time()
    analyze_program(text[:19_900])

    assert time.process_time() - began < 5 * SLOWER_BY


def test_near_words_are_remembered_only_during_an_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker that kept them would run out of memory on the program of another user.
    searched: list[str] = []

    def search(word: str, known: Sequence[str], most: int) -> list[str]:
        searched.append(word)
        return find_close_names(word, known, most)

    monkeypatch.setattr(analysis, "find_close_names", search)
    for _ in range(2):
        analyze_program(": go ( n -- n ) dupp ;\n")
    assert searched == ["dupp"] * 2
