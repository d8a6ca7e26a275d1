"""Recognizes commands and functions of the sqlite3 shell, and suggests replacements for them.

.mode csv                               sql.dot_command
.import data/x.csv t                    sql.dot_command
SELECT median(x) FROM t                 sql.shell
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from assayd.model.finding import Finding
from assayd_pipeline.sql.read import SqlStatement, SqlText, SqlToken, SqlTokenKind
from assayd_pipeline.sql.rules import PROVIDED, REACHING_OUT, SHELL_COMMANDS, SHELL_FUNCTIONS

_COMMAND = re.compile(r"\.([a-z]+)\b")
_LEAVE = "Remove it: rows are already printed with column names and tabs."


def find_shell_commands(text: SqlText) -> Iterator[Finding]:
    """Yield findings about sqlite3 shell commands, which begin with a dot at a statement's start.

    A position is a statement's start if only comments and shell commands precede it since the last
    semicolon.
    """
    begins, offset = True, 0
    for line in text.content.split("\n"):
        if begins and (found := _COMMAND.match(line)):
            name = found[1][:20]
            message = f".{name} is a command of the sqlite3 shell, not SQL."
            yield text.finding(
                "sql.dot_command", message, at=offset, suggestion=SHELL_COMMANDS.get(name, _LEAVE)
            )
        offset += len(line) + 1
        told = line.strip()
        if told and not told.startswith(("--", ".", "*", "/*")):
            begins = told.endswith((";", "*/"))


def find_shell_functions(text: SqlText, statement: SqlStatement) -> Iterator[Finding]:
    """Yield findings about calls of functions that exist only in the sqlite3 shell."""
    for place, (token, following) in enumerate(pairwise(statement.tokens)):
        name = token.text.lower()
        if name == "decimal" and _is_column_type(statement.tokens[place + 1 : place + 5]):
            continue
        if (
            token.kind is SqlTokenKind.WORD
            and following.is_any_of("(")
            and name in SHELL_FUNCTIONS.keys() - REACHING_OUT - PROVIDED
        ):
            message = f"{name}() exists only in the sqlite3 shell, not in SQLite."
            suggestion = f"Write instead: {SHELL_FUNCTIONS[name]}."
            yield text.finding("sql.shell", message, at=token.start, suggestion=suggestion)


def _is_column_type(following: Sequence[SqlToken]) -> bool:
    """Return whether the lengths of a column type follow, as in ``price DECIMAL(15, 2)``."""
    inside = following[1:2] if len(following) > 2 and following[2].is_any_of(")") else following[1:4:2]
    return bool(inside) and all(token.kind is SqlTokenKind.NUMBER for token in inside)


def describe_replacement(name: str) -> str:
    """Return the replacement for a function that accesses data outside the database."""
    found = SHELL_FUNCTIONS.get(name.lower())
    return f"It exists only in the sqlite3 shell. Write instead: {found}." if found else "Remove it."
