"""Splitting a text into tokens by the language's own rules, for any text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.model.finding import Finding
from assayd_fifth.analysis import analyze_program
from assayd_fifth.language import get_language
from assayd_fifth.tokens import ProgramSegment, TokenKind, iter_segments

Check = Callable[..., list[Finding]]


def segments(text: str) -> list[ProgramSegment]:
    return list(iter_segments(text, get_language(), lambda *_, **__: None))


def words(text: str) -> list[str]:
    return [token.word for segment in segments(text) for token in segment.tokens]


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\\ nothing\n( here )\n", "\\", "\ufeff", "\x00\x01"])
def test_nothing_to_check_is_fine(check: Check, text: str) -> None:
    assert check(text) == []


def test_line_ends_of_windows_change_nothing(check: Check) -> None:
    assert check(': f ( n -- n )\r\n  2 * ; \\ twice\r\n5 f . ." five" cr\r\n') == []
    [finding] = check(": g\r\n  2 * ;\r\n: f ( -- ) cr ;\r\n")
    assert (finding.rule, finding.line, finding.column) == ("required.stack_comment", 1, 3)
    assert finding.edit is not None
    assert finding.edit.replacement == ": g ( x1 -- x2 )"


def test_other_letters_are_read_in_strings_and_comments_and_refused_as_words(check: Check) -> None:
    assert check('\\ Grüße\n: hi ( -- ) ." Grüße, 世界 🎉" cr ; ( é )') == []
    assert [f.rule for f in check(": f ( -- ) größe ;")] == ["vocabulary.unknown_word"]
    assert [f.rule for f in check(": f ( n -- n )\u00a02 * ;")] == ["vocabulary.unknown_word"]


def test_cases_are_not_told_apart(check: Check) -> None:
    assert check(": Twice ( n -- n ) DUP + ;\n5 TWICE . CR") == []


def test_words_keep_their_places_in_a_text_of_other_letters(check: Check) -> None:
    [finding] = check('." İß" nonsense')
    assert (finding.line, finding.column) == (1, 8)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ('s" a b" type', ['s"', "type"]),
        ('s" a"type', ['s"', "type"]),
        ('s\\" say \\"hi\\" now" type', ['s\\"', "type"]),
        ('s" \\" type', ['s"', "type"]),
        ('( s" ) dup \\ ( drop', ["dup"]),
        (".( done ) cr", ["cr"]),
        ("char ( emit", ["char", "emit"]),
        ("char \\ emit", ["char", "emit"]),
        (': f [char] " [char] ; emit ;', ["[char]", "[char]", "emit"]),
        ("' dup execute", ["'", "execute"]),
        ("variable x x @", ["variable", "x", "@"]),
        (": v create 0 , ; v x x", ["create", "0", ",", "v", "x", "x"]),
    ],
)
def test_string_and_parsing_words_take_what_follows(text: str, cut: list[str]) -> None:
    assert words(text) == cut


def test_escaped_quotes_stay_in_the_string() -> None:
    [token] = segments('s\\" a\\"b"')[0].tokens
    assert (token.kind, token.text) == (TokenKind.STRING, 'a\\"b')


def test_colon_inside_a_definition_is_a_word_of_it_or_begins_the_next(check: Check) -> None:
    assert check(': fragment2: ( "name" -- )\n  : ;') == []
    [finding] = check(": a ( -- ) cr\n: b ( -- ) cr ;")
    assert (finding.rule, finding.line) == ("vocabulary.definition_open", 1)


@pytest.mark.parametrize(
    "text",
    ["$ff #10 %101 0x1f -5 +7 -$ff 0", "hex ff dead decimal 12", "2 base ! 101 10 base !"],
)
def test_numbers_are_read_in_every_base(check: Check, text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize("text", ["$fg", "%102", "0x", "1.5", "ff", "12a", "$"])
def test_what_only_looks_like_a_number_is_none(check: Check, text: str) -> None:
    assert len(check(text)) == 1


@pytest.mark.parametrize(
    "comment",
    ["( n -- n )", "   ( n -- n )", "\n  ( n -- n )", "\n\n\\ doubles\n( n -- n )", "\\ ( n -- n )\n"],
)
def test_stack_comment_may_stand_behind_blanks_and_lines(check: Check, comment: str) -> None:
    assert check(f": double {comment} 2 * ;") == []


def test_program_is_taken_out_of_fenced_blocks_with_its_lines() -> None:
    answer = "Sure!\n\n```forth\n: f 2 * ;\n```\nAnd `this`:\n```\n: g ( -- ) f ;\n```\n"
    found = analyze_program(answer).findings
    assert [f.rule for f in found["forbidden"]] == ["forbidden.answer_blocks"]
    assert [(f.rule, f.line) for f in found["required"]] == [("required.stack_comment", 4)]
    assert "vocabulary" not in found


_WORDS = (
    ': f|;|( n -- n )|(|)|\\|s" x"|s"|."|if|then|else|begin|while|repeat|until|do|loop|+loop|case|of|endof'
    "|endcase|exit|recurse|>r|r>|dup|2dup|swap|str-reset|str+|str$|raw|0 sql-field|create|does>|variable|'"
    "|[']|postpone|immediate|[|]|literal|require x.fs|include|?dup|\n|\r\n|<td>x|```|é|1|$|5 constant|hex"
    "|execute|included|parse-name|bye|->slot"
)
_FRAGMENTS = st.sampled_from(_WORDS.split("|"))


@given(st.lists(_FRAGMENTS, max_size=30).map(" ".join) | st.text(max_size=60))
def test_no_text_makes_the_checks_raise(text: str) -> None:
    found = analyze_program(text, libraries=("core", "ui")).findings
    for findings in found.values():
        places = [(f.line or 0, f.column or 0) for f in findings]
        assert places == sorted(places)
        assert all(1 <= (f.line or 0) <= text.count("\n") + 1 for f in findings)


_HOSTILE = {
    "comments that are never closed": "( a\n" * 20_000,
    "comments that hang on their brackets": "(a " * 20_000,
    "one such comment, very long": "(" + "a " * 20_000,
    "colons on one line": ": a " + ": " * 20_000,
    "strings that hang on their words": 's"a ' * 20_000,
    "unknown words in one definition": ": a " + " ".join(f"zz{n}" for n in range(5_000)) + " ;",
    "branches over a deep stack": ": a ( -- ) " + "1 " * 5_000 + "dup if " * 5_000 + "then " * 5_000 + ";",
    "loops in loops": ": a ( -- ) " + "10 0 do " * 5_000 + "loop " * 5_000 + ";",
    "a stack comment of thousands": ": a ( " + "x " * 5_000 + "-- ) ; " + "a " * 5_000,
    "a definition that leaves thousands": ": a ( -- ) " + "1 " * 5_000 + "; " + "a " * 5_000,
    "a definition that takes thousands": ": a " + "drop " * 5_000 + "; " + "a " * 5_000,
    "one long line": " " * 500_000,
    "one long name": ": " + "a" * 100_000 + " ( -- ) ;",
    "definitions": "".join(f": w{n} ( -- ) ;\n" for n in range(3_000)),
}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_text_is_read_to_its_end(text: str) -> None:
    """The work per word may not grow with the text; otherwise, these would take minutes."""
    found = analyze_program(text).findings
    assert all(f.line is not None for findings in found.values() for f in findings)


def test_comment_that_hangs_on_its_bracket_is_told_up_to_its_end(check: Check) -> None:
    [finding] = check(": f (n -- n ) 1+ ;\n")
    assert finding.rule == "required.word_spacing"
    assert finding.edit is not None
    assert check(finding.edit.replacement + "\n") == []


def test_effect_beyond_counting_says_nothing(check: Check) -> None:
    names = " ".join(f"n{n}" for n in range(40))
    assert check(f": f ( {names} -- ) 2drop ;\n") == []


def test_string_without_its_space_is_named_in_its_spelling(check: Check) -> None:
    [finding] = check(': greet ( -- addr u ) s"Hello" ;\n')
    assert "'s\"Hello\"' is one unknown word" in finding.message
