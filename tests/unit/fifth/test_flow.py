"""Findings about the stack's contents, and similar programs that are correct."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.model.finding import Finding

Check = Callable[..., list[Finding]]

LEGITIMATE = {
    "escaped": ": f ( row$ -- ) 0 sql-field text 2drop ;",
    "escaped by hand": ": f ( row$ -- ) 0 sql-field html-escape raw 2drop ;",
    "literal": ': f ( -- ) s" <hr>" raw ;',
    "number of the database": ": f ( row$ -- ) 0 sql-field s>number? 2drop n>str raw 2drop ;",
    "count": ': f ( -- ) s" a.db" s" SELECT COUNT(*) FROM t" sql-count n>str raw ;',
    "parameter that says nothing": ": f ( html$ -- ) raw ;",
    "buffer of literals": ': f ( -- ) str-reset s" <b>" str+ str$ raw ;',
    "buffer emptied of data": ': f ( row$ -- ) str-reset str+ str$ 2drop str-reset s" x" str+ str$ raw ;',
    "captured page": ": f ( -- ) begin-capture end-capture raw ;",
    "quotes that reach no SQL": ': f ( -- ) s" it\'s" text ;',
    "buffers one in the other": ': f ( -- ) str-reset s" a" str+ s" b" html-escape str+ str$ type ;',
    "string used at once": ": f ( n -- ) n>str type 5 n>str type ;",
    "SQL in the second buffer": ': f ( n -- ) str2-reset s" SELECT " str2+ n>str str2+ s" a.db" sql-exec2 ;',
    "string taken first": ': f ( -- ) str-reset s" a" str+ str$ type str-reset s" b" str+ str$ type ;',
}


@pytest.mark.parametrize("code", LEGITIMATE.values(), ids=LEGITIMATE)
def test_legitimate_use_is_left_alone(check: Check, code: str) -> None:
    told = {"structure.buffer_conflict", "structure.transient_string", "structure.sql_quotes"}
    found = check(code, "core", "template")
    assert [f for f in found if f.is_error or f.rule in told] == []


def test_message_says_where_the_data_came_from_and_how_far_was_looked(check: Check) -> None:
    [finding] = check(": f ( row$ -- )\n  0 sql-field\n  raw 2drop ;", "core")
    assert (finding.rule, finding.line) == ("forbidden.raw_user_data", 3)
    assert "'sql-field' (line 2)" in finding.message
    assert "this one definition" in finding.message


def test_data_through_another_definition_is_lost_to_the_walk(check: Check) -> None:
    code = ": name ( row$ -- row$ name$ ) 0 sql-field ;\n: f ( row$ -- ) name raw 2drop ;"
    assert check(code, "core") == []


def test_strings_outside_of_definitions_are_told_of_once(check: Check) -> None:
    found = check('s" a" s" b" css-rule\ns" c" s" d" css-rule\n', "html")
    assert [(f.rule, f.line) for f in found] == [("structure.transient_string", 1)]


def test_word_that_overwrites_two_open_buffers_is_told_of_the_first_in_the_data(check: Check) -> None:
    [finding] = check(': f ( -- ) str2-reset str-reset s" x" badge-warning ;', "core", "ui")
    assert finding.rule == "structure.buffer_conflict"
    assert "'badge-warning' uses the string buffer" in finding.message


QUERY = """s" SELECT a FROM t WHERE b='x'" """
SQL_THROUGH_WORDS = {
    "literal handed to a word": (
        f': run ( sql$ -- ) 2>r s" a.db" 2r> sql-exec ;\n: f ( -- ) {QUERY} run ;',
        2,
    ),
    "word that leaves it": (f': q ( -- addr u ) {QUERY} ;\n: f ( -- ) s" a.db" q sql-exec ;', 1),
    "two words between": (
        f": in ( db$ sql$ -- ) sql-exec ;\n: run ( sql$ -- ) 2dup in ;\n: f ( -- ) {QUERY} 2dup run ;",
        3,
    ),
    "outside of definitions": (f": in ( db$ sql$ -- ) sql-exec ;\n2dup 2dup {QUERY} in", 2),
}


@pytest.mark.parametrize(("code", "line"), SQL_THROUGH_WORDS.values(), ids=SQL_THROUGH_WORDS)
def test_quotes_that_reach_sql_through_words_of_the_program_are_told(
    check: Check, code: str, line: int
) -> None:
    quoted = [f.line for f in check(code, "core") if f.rule == "structure.sql_quotes"]
    assert quoted == [line]


def test_quotes_are_left_alone_where_no_library_hands_sql_to_a_shell(check: Check) -> None:
    code = """: sql-exec ( db$ sql$ -- ) type type ;
: f ( -- ) s" a.db" s" SELECT * FROM t WHERE a='x'" sql-exec ;
"""
    assert check(code) == []


def test_quotes_beside_the_sql_of_a_word_are_left_alone(check: Check) -> None:
    code = """: run ( label$ sql$ -- ) 2swap type s" a.db" 2swap sql-exec ;
: f ( -- ) s" it's" s" SELECT a FROM t" run ;
"""
    assert check(code, "core") == []
