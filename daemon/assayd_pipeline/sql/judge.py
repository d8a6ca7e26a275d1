"""Checks one statement on its syntax tree, and recognizes commands of the sqlite3 shell.

Checks one statement with rules on its syntax tree.

UPDATE sales SET amount = 0                     sql.update_without_where
DELETE FROM sales -- WHERE id = 1               sql.delete_without_where   (a comment isn't a condition)
WITH x AS (…) DELETE FROM sales                 sql.delete_without_where   (its own level has none)
DELETE FROM sales WHERE 1 = 1                   sql.where_constant         (a warning)
CREATE TABLE sales (id)                         sql.if_not_exists          (with the edit that adds it)
INSERT OR REPLACE INTO sales …                  sql.replace
SELECT load_extension('x')                      sql.function
DELETE FROM a WHERE id IN (SELECT id FROM b)    nothing

Recognizes commands and functions of the sqlite3 shell, and suggests replacements for them.

.mode csv                               sql.dot_command
.import data/x.csv t                    sql.dot_command
SELECT median(x) FROM t                 sql.shell
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from assayd.findings.source_text import get_line
from assayd.model.finding import Edit, Finding, Severity
from assayd_pipeline.sql.read import SqlStatement, SqlText, SqlToken, SqlTokenKind
from assayd_pipeline.sql.rules import MADE, PROVIDED, REACHING_OUT, REFUSED, SHELL_COMMANDS, SHELL_FUNCTIONS

if TYPE_CHECKING:
    from sqlglot import exp

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
    """Return whether a word is followed by the lengths of a column type, as in ``DECIMAL(15, 2)``."""
    inside = following[1:2] if len(following) > 2 and following[2].is_any_of(")") else following[1:4:2]
    return bool(inside) and all(token.kind is SqlTokenKind.NUMBER for token in inside)


def describe_replacement(name: str) -> str:
    """Return a hint with the replacement for a function that accesses data outside the database."""
    found = SHELL_FUNCTIONS.get(name.lower())
    return f"It exists only in the sqlite3 shell. Write instead: {found}." if found else "Remove it."


def check_tree(text: SqlText, statement: SqlStatement, root: exp.Expr) -> Iterator[Finding]:
    """Yield the findings about policy violations in a statement's syntax tree."""
    from sqlglot import exp

    start = statement.tokens[0].start
    for node in root.walk():
        if isinstance(node, exp.Update | exp.Delete):
            yield from _judge_condition(text, start, node)
        elif isinstance(node, exp.Anonymous) and _leaves_database(node):
            message = f"{node.name}() accesses data outside the database."
            yield text.finding("sql.function", message, at=start, suggestion=describe_replacement(node.name))
    if isinstance(root, exp.Create):
        yield from _check_create(text, statement, root)
    if _deletes_on_conflict(statement, root):
        rule, message, suggestion = REFUSED["REPLACE"]
        yield text.finding(rule, f"OR {message}.", at=start, suggestion=suggestion)


def _leaves_database(call: exp.Anonymous) -> bool:
    """Return whether a function loads code or accesses files, except `readfile` below ``data/``."""
    from sqlglot import exp

    name, first = call.name.lower(), next(iter(call.expressions), None)
    outside = isinstance(first, exp.Literal) and not first.name.startswith("data/")
    return name in REACHING_OUT or (name == "readfile" and outside)


def _judge_condition(text: SqlText, start: int, node: exp.Update | exp.Delete) -> Iterator[Finding]:
    verb, where = type(node).__name__.upper(), node.args.get("where")
    if where is None:
        yield text.finding(
            f"sql.{verb.lower()}_without_where",
            f"{verb} without WHERE changes every row.",
            at=start,
            suggestion=f"Select rows: {verb} … WHERE …",
        )
    elif _is_constant(where.this):
        yield text.finding(
            "sql.where_constant",
            f"The WHERE condition of this {verb} is the same for every row.",
            at=start,
            suggestion="Compare a column in the condition.",
            severity=Severity.WARNING,
        )


def _is_constant(condition: exp.Expr) -> bool:
    """Return whether a condition is the same for all rows: no column, or a column compared with itself."""
    from sqlglot import exp

    match condition:
        case exp.Paren():
            return _is_constant(condition.this)
        case exp.Or():
            return _is_constant(condition.left) or _is_constant(condition.right)
        case exp.And():
            return _is_constant(condition.left) and _is_constant(condition.right)
        case exp.EQ() | exp.GTE() | exp.LTE() | exp.Is() if condition.left == condition.right:
            return True
    return condition.find(exp.Column, exp.Query) is None


def _check_create(text: SqlText, statement: SqlStatement, root: exp.Create) -> Iterator[Finding]:
    kind = (root.kind or "").upper()
    place = next((token for token in statement.tokens if token.is_any_of(*MADE)), statement.tokens[0])
    if kind not in MADE:
        suggestion = f"A step can create {', '.join(MADE)}."
        yield text.finding(
            "sql.statement", f"CREATE {kind} isn't allowed.", at=place.start, suggestion=suggestion
        )
    elif not root.args.get("exists"):
        yield text.finding(
            "sql.if_not_exists",
            f"CREATE {kind} needs IF NOT EXISTS.",
            at=statement.tokens[0].start,
            suggestion=f"Write CREATE {kind} IF NOT EXISTS …",
            edit=_build_insertion_edit(text, place.end, " IF NOT EXISTS"),
        )


def _build_insertion_edit(text: SqlText, offset: int, added: str) -> Edit:
    line, column = text.place(offset)
    old = get_line(text.content, line) or ""
    return Edit(start_line=line, end_line=line, replacement=old[: column - 1] + added + old[column - 1 :])


def _deletes_on_conflict(statement: SqlStatement, root: exp.Expr) -> bool:
    """Return whether rows are deleted on conflicts: ``INSERT OR REPLACE``, ``UPDATE OR REPLACE``."""
    update = statement.after("UPDATE", "OR")
    alternative = str(root.args.get("alternative") or "")
    return alternative.upper() == "REPLACE" or (update is not None and update.is_any_of("REPLACE"))
