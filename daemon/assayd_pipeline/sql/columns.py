"""Simplifies `CREATE TABLE` statements for sqlglot by removing parts of columns that no rule needs.

a UNSIGNED BIG INT              a TEXT              SQLite takes any words for a type
a GENERATED ALWAYS AS (b)       a TEXT GENERATED …  and none
a TEXT UNIQUE ON CONFLICT FAIL  a TEXT UNIQUE
) WITHOUT ROWID, STRICT         )
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd_pipeline.sql.tokens import SqlToken, SqlTokenKind

_CONSTRAINTS = (
    "AS", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "FOREIGN", "GENERATED", "NOT", "NULL", "ON", "PRIMARY",
    "REFERENCES", "UNIQUE",
)  # fmt: skip


def simplify_create(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Yield the tokens of a `CREATE` statement with simplified columns and without table options."""
    end = len(tokens)
    while tokens[end - 1].says("WITHOUT", "ROWID", "STRICT", ","):
        end -= 1
    opening = _find_columns_start(tokens[:end])
    yield from tokens[:opening]
    yield from _simplify_columns(tokens[opening:end])


def _find_columns_start(tokens: Sequence[SqlToken]) -> int:
    """Return the index of the parenthesis after a table's name, or the end if it has no columns."""
    if not any(token.says("TABLE") for token in tokens[1:3]):
        return len(tokens)
    for place, token in enumerate(tokens):
        if token.says("("):
            return place
        if token.says("AS"):
            break
    return len(tokens)


def _simplify_columns(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    depth = place = 0
    begins = False
    while place < len(tokens):
        token = tokens[place]
        if begins and depth == 1 and not token.says(*_CONSTRAINTS):
            after = _find_type_end(tokens, place + 1)
            yield token
            yield SqlToken(SqlTokenKind.WORD, "TEXT", tokens[min(place + 1, len(tokens) - 1)].start, "TEXT")
            place, begins = after, False
            continue
        depth += token.says("(") - token.says(")")
        begins = token.says("(", ",")
        if depth and token.says("ON") and place + 2 < len(tokens) and tokens[place + 1].says("CONFLICT"):
            place += 3
            continue
        if not token.says("AUTOINCREMENT"):
            yield token
        place += 1


def _find_type_end(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the index after a type's words and lengths: ``DECIMAL (10, 2)``."""
    while place < len(tokens) and tokens[place].kind in {
        SqlTokenKind.WORD,
        SqlTokenKind.NAME,
        SqlTokenKind.TEXT,
    }:
        if tokens[place].says(*_CONSTRAINTS):
            return place
        place += 1
    if place < len(tokens) and tokens[place].says("("):
        while place < len(tokens) and not tokens[place].says(")"):
            place += 1
        place += 1
    return place
