"""What the abstract interpretation decides and ignores, as listed in the documentation."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assayd.model.finding import Finding

Check = Callable[..., list[Finding]]

DECIDED = {
    "both branches end the same": ": f ( n -- n ) dup if 1+ else 1- then ;",
    "a branch that exits does not count": ": f ( n -- n ) dup 0= if drop 1 exit then 2 * ;",
    "two ways out of a loop": ": f ( n -- ) begin dup while dup 5 = if drop exit then 1- repeat drop ;",
    "several while in a loop": ": f ( n -- ) begin dup while dup 9 < while 1+ repeat else then drop ;",
    "flag that ?dup leaves on one way": ": f ( n -- ) ?dup if . then ;",
    "loop on what ?dup leaves": ": f ( n -- ) begin ?dup while 1- repeat ;",
    "counted loops in each other": ": f ( n -- n ) 0 swap 0 ?do 3 0 do i j + + loop loop ;",
    "unloop before exit": ": f ( -- n ) 10 0 do i 5 = if i unloop exit then loop 0 ;",
    "cases": ': f ( n -- addr u ) case 1 of s" a" endof 2 of s" b" endof >r s" c" r> endcase ;',
    "recursion by the stack comment": ": f ( n -- n ) dup 2 < if exit then 1- recurse 1+ ;",
    "return stack": ": f ( a b c -- c a b ) >r 2>r r@ drop 2r> r> -rot ;",
    "string of two cells": ": f ( text$ n -- ) 0 ?do 2dup type loop 2drop ;",
    "a name that nobody knows may be a string": ": f ( title -- ) type ; : g ( title -- ) . ;",
    "computed while compiling": ": f ( -- n ) [ 2 3 + ] literal ;",
    "endless loop": ": f ( -- ) begin 1 . again ;",
    "aborting way": ": f ( n -- n ) dup 0< if abort then ;",
}

QUIET = {
    "execute": ": f ( n xt -- n ) execute swap drop drop drop ;",
    "deferred word": "defer g : f ( n -- ) g drop drop ;",
    "pictured numbers of either kind": ": f ( n -- addr u ) <# #s #> ; : g ( n -- addr u ) 0 <# #s #> ;",
    "macro": ": m ( -- ) postpone if ; immediate : f ( n -- ) m 1 . then ;",
    "comment that cannot be counted": ": f ( i*x xt -- j*x ) execute ; : g ( n -- ) f drop drop drop ;",
    "library word that is known to leave something": ': f ( addr u -- ) s" a" has-prefix? drop 2drop ;',
}


@pytest.mark.parametrize("code", DECIDED.values(), ids=DECIDED)
def test_sound_code_is_left_alone(check: Check, code: str) -> None:
    assert check(code) == []


@pytest.mark.parametrize("code", QUIET.values(), ids=QUIET)
def test_what_nobody_can_know_is_not_judged(check: Check, code: str) -> None:
    told = {"structure.library_defect", "vocabulary.library_fails"}
    assert [f for f in check(code, "pkg") if f.rule not in told] == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (": f ( a b -- n ) over + ;", "vocabulary.wrong_signature"),
        (": f ( addr u -- ) nl type type ;", "structure.stack_underflow"),
        (": f ( n -- ) nl ;", "structure.stack_effect"),
        (": f ( n -- ) begin nl dup repeat ;", "structure.unbalanced"),
    ],
)
def test_effects_of_the_engine_are_certain_and_those_of_libraries_are_not(
    check: Check, code: str, rule: str
) -> None:
    [finding] = check(code, "html")
    assert finding.rule == rule
    assert finding.is_error == (rule.startswith("vocabulary") or rule == "structure.unbalanced")


def test_word_whose_comment_contradicts_its_body_does_not_spread(check: Check) -> None:
    code = ": bad ( n -- n n ) 2 * ;\n: f ( -- ) 1 bad + . ;\n: g ( -- ) 1 bad . . ;"
    assert [(f.rule, f.line) for f in check(code)] == [("vocabulary.wrong_signature", 1)]


def test_defining_words_of_the_program_take_a_name_and_make_words(check: Check) -> None:
    code = ': table: ( n "name" -- ) create cells allot does> swap cells + ;\n4 table: t\n0 t @ .\nt'
    assert [(f.rule, f.line) for f in check(code)] == [("structure.stack_underflow", 4)]


def test_newest_definition_of_a_word_counts(check: Check) -> None:
    joins = ': s+ ( a$ b$ -- addr u ) 2drop ;\n: f ( -- addr u ) s" a" s" b" s+ ;\n'
    assert check(joins + ": dup ( -- ) ;\n: g ( -- ) dup ;") == []


def test_words_of_submitted_files_are_known_by_their_stack_comments(check: Check) -> None:
    files = {"lib/own.fs": ": pair ( -- a b ) 1 2 ;\n3 constant three\n", "other.fs": "require lib/own.fs"}
    assert check("require other.fs\n: f ( -- n ) pair + three + ;", files=files) == []
    [finding] = check("require ./lib/own.fs\n: f ( -- n ) pair ;", files=files)
    assert finding.rule == "structure.stack_effect"


def test_unknown_words_behind_an_unknown_file_are_warnings(check: Check) -> None:
    found = check("require helpers.fs\n: f ( -- ) help ;\n")
    assert [(f.rule, f.is_error) for f in found] == [
        ("vocabulary.file_unknown", False),
        ("vocabulary.unknown_word", False),
    ]


@pytest.mark.parametrize(
    "load", ["require ~/fifth/lib/html.fs", "use lib:html.fs", "require ./html.fs", "REQUIRE html.fs"]
)
def test_library_is_known_by_its_name_wherever_it_lies(check: Check, load: str) -> None:
    first = ": required ( addr u -- ) included ;\nrequire lib/core.fs\nrequire lib/pkg.fs\n"
    assert check(f"{first}{load}\n: f ( -- ) str-reset <p> </p> ;") == []


@pytest.mark.parametrize(
    ("code", "missing", "line"),
    [
        ("require ~/.fifth/lib/pkg.fs\nuse lib:core.fs\n", "file-exists? and required", 1),
        ("require ~/fifth/lib/core.fs\nrequire ~/fifth/lib/pkg.fs\n", "uses required", 2),
    ],
)
def test_library_in_whose_middle_the_engine_stops_is_refused(
    check: Check, code: str, missing: str, line: int
) -> None:
    [finding] = check(code)
    assert (finding.rule, finding.line, finding.is_error) == ("vocabulary.library_fails", line, True)
    assert missing in finding.message


REDEFINED = {
    "word that took a name": ": char ( n -- ) emit ;\n65 char\n",
    "word that made words": ": value ( addr -- n ) @ ;\nvariable x\nx value .\n",
    "word that loaded files": ": use ( n -- ) . ;\n3 use\n",
    "word of control flow": ": if ( n -- ) . ;\n: f ( -- ) 3 if ;\n",
    "word of the return stack": ": r> ( -- n ) 3 ;\n: f ( -- n ) r> ;\n",
    "another effect": ": dup ( a b -- a b a b ) over over ;\n: f ( -- ) 1 2 dup . . . . ;\n",
}


@pytest.mark.parametrize("code", REDEFINED.values(), ids=REDEFINED)
def test_standard_word_that_the_program_defines_anew_does_what_its_definition_says(
    check: Check, code: str
) -> None:
    assert check(code) == []


def test_blank_before_a_tag_is_missed_and_certain_to_mend(check: Check) -> None:
    [finding] = check(': f ( -- ) s" a" text</li> ;', "html")
    assert finding.rule == "required.word_spacing"
    assert finding.edit is not None
    assert finding.edit.replacement == ': f ( -- ) s" a" text </li> ;'


def test_word_that_gives_another_number_than_it_takes_is_named_with_what_to_write(check: Check) -> None:
    [finding] = check(": f ( n -- ) n>str type ;")
    assert (finding.rule, finding.is_error) == ("structure.library_defect", False)
    assert "<# #s swap sign #>" in finding.message
    [unknown] = check(": f ( n -- ) to-string type ;")
    assert "n>str" not in str(unknown.suggestion)


@pytest.mark.slow
def test_many_definitions_are_read_in_time_that_grows_with_their_number(check: Check) -> None:
    """Regression: each definition searched all earlier words, so a text at the limit took half a minute."""

    def took_s(count: int) -> float:
        began = time.process_time()
        assert check("".join(f": w{number} ( -- n ) 1 ;\n" for number in range(count))) == []
        return time.process_time() - began

    assert took_s(20_000) < 25 * took_s(2_000), "ten times as many"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (": f ( n -- ) >r ;\n", "Write `r>` before `;`, then `drop` if the item isn't a result"),
        (": f ( n -- ) 0 >r if exit then r> drop ;\n", "Write `r>` before `exit`"),
        (": f ( n -- ) 10 0 do i over = if drop exit then loop drop ;\n", "Write `unloop` before `exit`."),
        (": f ( a b -- ) 2>r ;\n", "each 2>r with one 2r>"),
    ],
)
def test_items_left_on_the_return_stack_are_taken_back_before_the_end(
    check: Check, text: str, words: str
) -> None:
    found = [each for each in check(text) if each.rule == "structure.return_stack"]
    assert words in str(found[0].suggestion)
    assert found[0].message.startswith("Items are still on the return stack at ")
