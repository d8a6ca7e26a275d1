"""Real error texts of bash, its tools and SQLite from the image, and their classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd_pipeline.errors import ADVICE, ErrorClass, ErrorSource, classify_error

BASH = {
    ErrorClass.FILE_NOT_FOUND: [
        "cat: nope.txt: No such file or directory",
        "/usr/bin/bash: line 5: nope.txt: No such file or directory",
        "cat: /sandbox: Is a directory",
        "cp: cannot stat 'nope': No such file or directory",
        "head: cannot open 'nope' for reading: No such file or directory",
        "sort: cannot read: nope: No such file or directory",
        "sed: can't read nope: No such file or directory",
        "awk: fatal: cannot open file `nope' for reading: No such file or directory",
        "/usr/bin/bash: line 1: cd: nowhere: No such file or directory",
        "sort: read failed: /sandbox: Is a directory",
    ],
    ErrorClass.COMMAND_NOT_FOUND: ["/usr/bin/bash: line 6: frob: command not found"],
    ErrorClass.PERMISSION_DENIED: [
        "/usr/bin/bash: line 7: /etc/x: Read-only file system",
        "cp: cannot create regular file '/etc/p2': Read-only file system",
        "/usr/bin/bash: line 1: /etc/passwd: Permission denied",
        "/usr/bin/bash: line 1: r: readonly variable",
    ],
    ErrorClass.SYNTAX_ERROR: [
        "/usr/bin/bash: -c: line 2: syntax error: unexpected end of file",
        "/usr/bin/bash: -c: line 1: unexpected EOF while looking for matching `\"'",
        "/usr/bin/bash: -c: line 1: syntax error near unexpected token `fi'",
        "/usr/bin/bash: -c: line 1: unexpected argument `]]' to conditional binary operator",
        '/usr/bin/bash: line 1: ((: 1+: syntax error: operand expected (error token is "+")',
        "/usr/bin/bash: line 1: ${a.b}: bad substitution",
        "/usr/bin/bash: line 1: read: `1x': not a valid identifier",
        "/usr/bin/bash: line 1: [: missing `]'",
        "/usr/bin/bash: line 2: nope2: unbound variable",
        "/usr/bin/bash: line 1: declare: -Z: invalid option",
        "awk: cmd. line:1: {print $1\nawk: cmd. line:1:          ^ unexpected newline or end of string",
        "awk: cmd. line:1: BEGIN { print substr( }\nawk: cmd. line:1:        ^ syntax error",
        "sed: -e expression #1, char 3: unterminated `s' command",
        "sed: -e expression #1, char 1: unknown command: `k'",
        "grep: Invalid regular expression",
        "grep: Unmatched ( or \\(",
        "sort: invalid number at field start: invalid count at start of 'z'",
        "cut: invalid field value 'z'",
        "head: invalid number of lines: 'z'",
        "cp: missing destination file operand after 'a'",
        "cat: unrecognized option '--foo'",
    ],
    ErrorClass.DATA_VALIDATION: [
        "/usr/bin/bash: line 1: printf: abc: invalid number",
        "/usr/bin/bash: line 1: test: a: integer expression expected",
        "awk: cmd. line:1: error: division by zero attempted",
        "/usr/bin/bash: line 9: 1/0: division by 0 (error token is \"0\")",
        '/usr/bin/bash: line 1: 08: value too great for base (error token is "08")',
    ],
    ErrorClass.TIMEOUT: [
        "execution timeout",
        "curl: (28) Failed to connect to x.example port 443 after 5000 ms: Connection timed out",
    ],
    ErrorClass.UNKNOWN: [
        "",
        "something went wrong",
        "curl: (6) Could not resolve host: x.example",
        "/usr/bin/bash: line 1: printf: write error: No space left on device",
    ],
}  # fmt: skip

SQL = {
    ErrorClass.DATA_VALIDATION: [
        "UNIQUE constraint failed: t.a",
        "NOT NULL constraint failed: t.b",
        "CHECK constraint failed: d>0",
        "FOREIGN KEY constraint failed",
        "datatype mismatch",
        "cannot store TEXT value in INTEGER column s.a",
        "malformed JSON",
        "integer overflow",
        "file is not a database",
    ],
    ErrorClass.SYNTAX_ERROR: [
        "incomplete input",
        'unrecognized token: "\'abc"',
        'near "frm": syntax error',
        "misuse of aggregate function sum()",
        "You can only execute one statement at a time.",
    ],
    ErrorClass.TABLE_MISSING: [
        "no such table: nope",
        "no such table: main.nope",
        'relation "nope" does not exist',
        "table nope does not exist",
    ],
    ErrorClass.SCHEMA_MISMATCH: [
        "no such column: nope",
        'no such column: "zz"',
        "table t has no column named nope",
        "table t has 4 columns but 2 values were supplied",
        "1 values for 2 columns",
        "table t already exists",
        "duplicate column name: b",
        "ambiguous column name: a",
        "SELECTs to the left and right of UNION do not have the same number of result columns",
        "sub-select returns 2 columns - expected 1",
        "no such function: nofunc",
        "cannot modify v because it is a view",
    ],
    ErrorClass.FILE_NOT_FOUND: ["unable to open database file", "unable to open database: /nope/x"],
    ErrorClass.PERMISSION_DENIED: [
        "not authorized",
        "access to t.a is prohibited",
        "attempt to write a readonly database",
    ],
    ErrorClass.TIMEOUT: ["interrupted", "database is locked"],
    ErrorClass.UNKNOWN: ["", "database or disk is full", "authorizer malfunction"],
}

CASES = [
    (program, error_class, text)
    for program, table in ((ErrorSource.BASH, BASH), (ErrorSource.SQL, SQL))
    for error_class, texts in table.items()
    for text in texts
]


@pytest.mark.parametrize(("program", "error_class", "text"), CASES)
def test_real_text_gets_its_class(program: ErrorSource, error_class: ErrorClass, text: str) -> None:
    found = classify_error(text, program=program)
    assert found.error_class is error_class
    assert found.advice == ADVICE[error_class]
    assert (found.line is None) == (error_class is ErrorClass.UNKNOWN)


def test_every_class_has_advice() -> None:
    assert set(ADVICE) == set(ErrorClass)


def test_first_line_that_says_something_decides() -> None:
    text = "progress 1\ncat: a.csv: No such file or directory\nawk: cmd. line:1: ^ syntax error\n"
    found = classify_error(text, program=ErrorSource.BASH)
    assert (found.error_class, found.line) == (
        ErrorClass.FILE_NOT_FOUND,
        "cat: a.csv: No such file or directory",
    )


def test_deadline_is_the_class_whatever_was_written() -> None:
    found = classify_error("cat: a: No such file or directory", program=ErrorSource.BASH, timed_out=True)
    assert found.error_class is ErrorClass.TIMEOUT


@given(st.text(), st.sampled_from(ErrorSource))
def test_any_text_has_a_class(text: str, program: ErrorSource) -> None:
    assert classify_error(text, program=program).error_class in ErrorClass
