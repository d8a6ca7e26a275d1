"""Lines in the syntax of other languages."""

from __future__ import annotations

import pytest

from assayd.model.finding import Finding
from assayd_fifth.analysis import analyze_program


def found(text: str) -> list[Finding]:
    """Return the findings of a program in the order of their lines."""
    stages = analyze_program(text).findings.values()
    return sorted((one for stage in stages for one in stage), key=lambda one: one.line or 0)


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("# doubles a number\n: d ( n -- n ) 2 * ;\n3 d .", "\\ doubles a number"),
        ("-- doubles a number\n: d ( n -- n ) 2 * ;\n3 d .", "\\ doubles a number"),
        ("/* doubles a number */\n: d ( n -- n ) 2 * ;\n3 d .", "( doubles a number )"),
        (":d ( n -- n ) 2 * ;\n3 d .", ": d ( n -- n ) 2 * ;"),
        ("def d ( n -- n ) 2 * ;\n3 d .", ": d ( n -- n ) 2 * ;"),
        ("constant limit = 25\nlimit .", "25 constant limit"),
        ("variable n = 5\nn @ .", "variable n 5 n !"),
        ("variable n\nn = 5\nn @ .", "5 n !"),
        ("variable n\n5 -> n\nn @ .", "5 n !"),
        ("variable n\nn += 5\nn @ .", "5 n +!"),
        (': hi ( -- ) print "Hello" ;\nhi', ': hi ( -- ) ." Hello" ;'),
        (": d ( n -> n ) 2 * ;\n3 d .", ": d ( n -- n ) 2 * ;"),
    ],
)
def test_line_is_written_in_fifth_and_nothing_follows_from_it(text: str, corrected: str) -> None:
    [finding] = found(text)
    assert finding.rule == "vocabulary.foreign_form"
    assert finding.edit is not None
    assert finding.edit.replacement == corrected


def test_address_of_a_variable_is_a_warning() -> None:
    [finding] = found("variable total\n5 total !\ntotal 2 + .")
    assert (finding.rule, finding.line, finding.is_error) == ("structure.variable_address", 3, False)
    assert (
        found("variable total\n5 total !\ntotal @ 2 + .\nvariable list 9 cells allot\n1 list 2 cells + !")
        == []
    )


def test_line_that_means_something_stays() -> None:
    assert found(": digits ( n -- addr u ) 0 <# # #s #> ;\n12 digits type") == []


def test_value_behind_the_name_of_a_variable_is_a_warning_and_one_that_is_stored_is_none() -> None:
    [finding] = found("variable n 5\nn @ .")
    assert finding.edit is not None
    assert (finding.edit.replacement, finding.is_error) == ("variable n 5 n !", False)
    assert found("variable n 5 n !\nn @ .") == []


@pytest.mark.parametrize(
    ("word", "hint"),
    [("gt", "Write `>`. Write `: f ( a b -- flag ) > ;`."), ("lte", "Write: > not")],
)
def test_comparison_of_another_language_is_told_in_fifth(word: str, hint: str) -> None:
    [finding] = found(f": f ( a b -- flag ) {word} ;\n1 2 f .")
    assert (finding.rule, finding.suggestion) == ("vocabulary.imagined_syntax", hint)


@pytest.mark.parametrize(
    ("text", "rule", "corrected"),
    [
        (": double ( n -- n ) 2 * ;\n3 double.", "required.word_spacing", "3 double ."),
        ("5 variable n\nn @ .", "structure.suspicious", "variable n 5 n !"),
        (": star ( -- ) char * emit ;\nstar", "structure.suspicious", ": star ( -- ) [char] * emit ;"),
        (": f ( n -- n ) dpu * ;\n2 f .", "vocabulary.unknown_word", ": f ( n -- n ) dup * ;"),
    ],
)
def test_slip_of_the_hand_is_corrected(text: str, rule: str, corrected: str) -> None:
    [finding] = [one for one in found(text) if one.rule == rule]
    assert finding.edit is not None
    assert finding.edit.replacement == corrected


def test_char_that_is_compiled_by_hand_is_fine() -> None:
    assert found(": star ( -- c ) [ char * ] literal ;\nstar emit") == []
