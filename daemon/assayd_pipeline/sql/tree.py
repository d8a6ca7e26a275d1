"""Builds the syntax tree of a statement with sqlglot, and rejects trees with unknown node types.

sqlglot supports many dialects and is more lenient than SQLite: it treats unknown words as names or as an
opaque command. Therefore, its input consists of SQLite's own tokens (no comments, no unusual spaces), and
its tree can contain only the node types that are listed in this module.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from assayd_pipeline.sql.read import SqlStatement, SqlToken, SqlTokenKind
from assayd_pipeline.sql.rules import FOREIGN_KEYWORDS

if TYPE_CHECKING:
    from sqlglot import exp


_CONSTRAINT_WORDS = (
    "AS", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "FOREIGN", "GENERATED", "NOT", "NULL", "ON", "PRIMARY",
    "REFERENCES", "UNIQUE",
)  # fmt: skip


def simplify_create(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Yield the tokens of a `CREATE` statement with simplified columns and without table options."""
    end = len(tokens)
    while tokens[end - 1].is_any_of("WITHOUT", "ROWID", "STRICT", ","):
        end -= 1
    opening = _find_columns_start(tokens[:end])
    yield from tokens[:opening]
    yield from _simplify_columns(tokens[opening:end])


def _find_columns_start(tokens: Sequence[SqlToken]) -> int:
    """Return the index of the parenthesis after a table's name, or the end if it has no columns."""
    if not any(token.is_any_of("TABLE") for token in tokens[1:3]):
        return len(tokens)
    for place, token in enumerate(tokens):
        if token.is_any_of("("):
            return place
        if token.is_any_of("AS"):
            break
    return len(tokens)


def _simplify_columns(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    depth = place = 0
    begins = False
    while place < len(tokens):
        token = tokens[place]
        if begins and depth == 1 and not token.is_any_of(*_CONSTRAINT_WORDS):
            after = _find_type_end(tokens, place + 1)
            yield token
            yield SqlToken(SqlTokenKind.WORD, "TEXT", tokens[min(place + 1, len(tokens) - 1)].start, "TEXT")
            place, begins = after, False
            continue
        depth += token.is_any_of("(") - token.is_any_of(")")
        begins = token.is_any_of("(", ",")
        if (
            depth
            and token.is_any_of("ON")
            and place + 2 < len(tokens)
            and tokens[place + 1].is_any_of("CONFLICT")
        ):
            place += 3
            continue
        if not token.is_any_of("AUTOINCREMENT"):
            yield token
        place += 1


def _find_type_end(tokens: Sequence[SqlToken], place: int) -> int:
    """Return the index after a type's words and lengths: ``DECIMAL (10, 2)``."""
    while place < len(tokens) and tokens[place].kind in {
        SqlTokenKind.WORD,
        SqlTokenKind.NAME,
        SqlTokenKind.TEXT,
    }:
        if tokens[place].is_any_of(*_CONSTRAINT_WORDS):
            return place
        place += 1
    if place < len(tokens) and tokens[place].is_any_of("("):
        while place < len(tokens) and not tokens[place].is_any_of(")"):
            place += 1
        place += 1
    return place


MAX_BRACKETS = 64
"""Maximum nesting depth of brackets; SQLite's limit is about a hundred."""

MAX_TOKENS = 100_000
"""Maximum number of tokens to parse into a tree, which takes sqlglot up to three seconds."""

_ROOTS_BY_VERB = {
    "CREATE": ("Create",),
    "DELETE": ("Delete",),
    "INSERT": ("Insert",),
    "SELECT": ("Select", "Union", "Except", "Intersect"),
    "UPDATE": ("Update",),
    "VALUES": ("Values", "Union", "Except", "Intersect"),
    "WITH": ("Select", "Union", "Except", "Intersect", "Insert", "Update", "Delete"),
}
PARSED_VERBS = frozenset(_ROOTS_BY_VERB)
"""The first words of statements that are judged by their tree."""

_ALLOWED_NODES = frozenset(
    {
        "Alias", "AutoIncrementColumnConstraint", "Between", "Boolean", "CTE",
        "CheckColumnConstraint", "CollateColumnConstraint", "Column", "ColumnConstraint",
        "ColumnDef", "ComputedColumnConstraint", "Constraint", "Create", "DataType",
        "DataTypeParam", "DefaultColumnConstraint", "Delete", "Distinct", "Except", "Filter",
        "ForeignKey", "From", "Group", "Having", "HexString", "Identifier", "In", "Index",
        "IndexParameters", "Insert", "Intersect", "JSONKeyValue", "JSONPath", "JSONPathKey",
        "JSONPathRoot", "JSONPathSubscript", "Join", "Limit", "Literal", "NotNullColumnConstraint",
        "Null", "Offset", "OnConflict", "Order", "Ordered", "PrimaryKey",
        "PrimaryKeyColumnConstraint", "Properties", "Reference", "Returning", "Schema", "Select",
        "Star", "Subquery", "Table", "TableAlias", "TemporaryProperty", "Tuple", "Union",
        "UniqueColumnConstraint", "Update", "Values", "Var", "Where", "Window", "WindowSpec",
        "With",
    }
)  # fmt: skip
"""Kinds of nodes that a statement can have, in addition to operators and functions."""

_FOREIGN_WORDS = frozenset(
    {
        "ANTI", "ANY", "ASOF", "DESCRIBE", "DIV", "FETCH", "GRANT", "ILIKE", "INTERVAL", "LATERAL", "LOCK",
        "OVERLAPS", "QUALIFY", "REVOKE", "RLIKE", "SEMI", "TABLESAMPLE", "UNCACHE", "XOR",
    }
)  # fmt: skip
"""Words with a meaning in other dialects, which are names like any other to SQLite."""


class UnparsableStatement(Exception):
    """The error for a statement without a tree. `syntax` is False if the SQL is valid but unsupported here.

    `instead` is the required replacement for a token, if the replacement is certain.
    """

    def __init__(
        self,
        message: str,
        *,
        at: SqlToken,
        syntax: bool = False,
        suggestion: str = "",
        instead: tuple[SqlToken, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.at = at
        self.syntax = syntax
        self.suggestion = suggestion
        self.instead = instead


@dataclass(frozen=True, slots=True, kw_only=True)
class _RewrittenStatement:
    """A statement that was rewritten for sqlglot, with the new position of each token."""

    text: str
    tokens: tuple[tuple[int, SqlToken], ...]

    def token_at(self, place: int) -> SqlToken:
        """Return the token at a position in the rewritten statement, or the last token before it."""
        found = self.tokens[0][1]
        for start, token in self.tokens:
            if start > place:
                break
            found = token
        return found


def count_tokens(statements: Sequence[SqlStatement]) -> int:
    """Return the number of tokens to parse, without similar rows of literals, or 0 below the limit."""
    if sum(len(statement.tokens) for statement in statements) <= MAX_TOKENS:
        return 0
    return sum(
        1
        for statement in statements
        if statement.verb in PARSED_VERBS
        for _ in _drop_irrelevant_tokens(statement)
    )


def parse_statement(statement: SqlStatement) -> exp.Expr:
    """Return the tree of a statement that begins with one of `PARSED_VERBS`.

    Raises: UnparsableStatement, if the statement is invalid, nested too deeply or unsupported.
    """
    _check_depth(statement)
    root = _parse_either(statement)
    names = _ROOTS_BY_VERB[statement.verb]
    if type(root).__name__ not in names:
        _parse_query(statement)
        raise UnparsableStatement(f"this {statement.verb} isn't supported", at=statement.tokens[0])
    for node in root.walk():
        if not _is_known_node(node):
            message = f"{_describe_node(type(node).__name__)} isn't supported here"
            others = [one for one in statement.tokens if one.text.upper() in FOREIGN_KEYWORDS]
            said = dict.fromkeys(FOREIGN_KEYWORDS[one.text.upper()] for one in others)
            suggestion = f"This is SQLite: {'; '.join(said)}." if said else ""
            raise UnparsableStatement(message, at=[*others, statement.tokens[0]][0], suggestion=suggestion)
    return root


def _parse_either(statement: SqlStatement) -> exp.Expr:
    """Parse a statement. If this fails, replace commas in `FROM` with `JOIN`: ``FROM a, b ON …``.

    Raises: UnparsableStatement, if neither form can be parsed.
    """
    try:
        return _parse_with_sqlglot(_rewrite_statement(statement))
    except UnparsableStatement as problem:
        joined = replace_commas_by_join(statement.tokens)
        if joined == statement.tokens or not problem.syntax:
            raise
        try:
            return _parse_with_sqlglot(_rewrite_statement(replace(statement, tokens=joined)))
        except UnparsableStatement:
            raise problem from None


def replace_commas_by_join(tokens: tuple[SqlToken, ...]) -> tuple[SqlToken, ...]:
    """Return the tokens with each comma between the tables of a `FROM` replaced by `JOIN`."""
    depth, tables = 0, set[int]()
    found: list[SqlToken] = []
    for token in tokens:
        if token.is_any_of("FROM"):
            tables.add(depth)
        elif token.is_any_of(
            "WHERE", "GROUP", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "HAVING"
        ):
            tables.discard(depth)
        elif token.is_any_of("("):
            depth += 1
        elif token.is_any_of(")"):
            tables.discard(depth)
            depth -= 1
        joins = token.is_any_of(",") and depth in tables
        found.append(replace(token, kind=SqlTokenKind.WORD, text="JOIN") if joins else token)
    return tuple(found)


def _parse_query(statement: SqlStatement) -> None:
    """Parse the query in a `CREATE … AS`, if any, separately to locate faults.

    Raises: UnparsableStatement, if the query can't be parsed.
    """
    tokens = statement.tokens
    for place, (token, following) in enumerate(pairwise(tokens)):
        if token.is_any_of("AS") and following.is_any_of("SELECT", "WITH", "VALUES"):
            parse_statement(replace(statement, tokens=tokens[place + 1 :]))
            return


def _parse_with_sqlglot(written: _RewrittenStatement) -> exp.Expr:
    import sqlglot  # takes a fifth of a second, and only workers need it

    logging.getLogger("sqlglot").disabled = True  # it would log submitted text
    try:
        roots = sqlglot.parse(written.text, read="sqlite", error_level=sqlglot.ErrorLevel.IMMEDIATE)
    except sqlglot.ParseError as problem:
        detail = problem.errors[0] if problem.errors else {}
        token = written.token_at(int(detail.get("col", 1)) - len(str(detail.get("highlight", ""))))
        raise UnparsableStatement(f'near "{token.text[:60]}": syntax error', at=token, syntax=True) from None
    except sqlglot.errors.SqlglotError as problem:
        message = f"it can't be read ({type(problem).__name__})"
        raise UnparsableStatement(message, at=written.tokens[0][1], syntax=True) from None
    except RecursionError:
        raise UnparsableStatement("it is nested too deeply to read", at=written.tokens[0][1]) from None
    if len(roots) != 1 or roots[0] is None:
        raise UnparsableStatement("it isn't a single statement", at=written.tokens[0][1])
    return roots[0]


def _check_depth(statement: SqlStatement) -> None:
    depth = 0
    for token in statement.tokens:
        if token.is_any_of("("):
            depth += 1
            if depth > MAX_BRACKETS:
                raise UnparsableStatement(
                    f"parentheses are nested more than {MAX_BRACKETS} levels deep", at=token
                )
        elif token.is_any_of(")"):
            depth -= 1


def _is_known_node(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Func | exp.Binary | exp.Unary) or type(node).__name__ in _ALLOWED_NODES


def _describe_node(name: str) -> str:
    """Return the name of a node's type as words: ``LockProperty`` becomes ``lock property``."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def _rewrite_statement(statement: SqlStatement) -> _RewrittenStatement:
    """Return the tokens as text, without parts that sqlglot can't parse and that no rule needs."""
    pieces: list[str] = []
    places: list[tuple[int, SqlToken]] = []
    place = 0
    for token in _drop_irrelevant_tokens(statement):
        # sqlglot would read f(x -> y) as a function of x
        text = "||" if token.is_any_of("->", "->>") else _neutralize_token(token)
        places.append((place, token))
        pieces.append(text)
        place += len(text) + 1
    return _RewrittenStatement(text=" ".join(pieces), tokens=tuple(places))


def _neutralize_token(token: SqlToken) -> str:
    """Return a token in a form to which sqlglot and SQLite give the same meaning.

    This is needed for names, because sqlglot doesn't support doubled quotes in names, and would split a
    name at a space that SQLite doesn't treat as whitespace.
    """
    if token.kind is SqlTokenKind.NAME:
        return '"' + token.text[1:-1].replace('"', "_") + '"'
    if token.kind is SqlTokenKind.WORD and (token.text.upper() in _FOREIGN_WORDS or not token.text.isascii()):
        return f'"{token.text}"'
    return token.text


def _drop_irrelevant_tokens(statement: SqlStatement) -> Iterator[SqlToken]:
    """Yield the tokens of a statement without those that no rule needs, such as ``OR IGNORE``."""
    tokens = statement.tokens
    if statement.verb == "UPDATE" and len(tokens) > 3 and tokens[1].is_any_of("OR"):
        yield tokens[0]
        yield from tokens[3:]
    elif statement.verb == "CREATE":
        yield from simplify_create(tokens)
    else:
        yield from _drop_similar_rows(tokens)


def _drop_similar_rows(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Yield the tokens without rows of literals that have as many values as the row before.

    VALUES (1, 'a'), (2, 'b'), (3)    ->    VALUES (1, 'a'), (3)
    """
    place, depth, values, width = 0, 0, False, -1
    while place < len(tokens):
        token = tokens[place]
        if depth == 0 and token.is_any_of("VALUES"):
            values, width = True, -1
        elif depth == 0 and values and token.is_any_of(","):
            end, found = _measure_literal_row(tokens, place + 1)
            if end and found == width:
                place = end
                continue
            width = found
        elif depth == 0 and values and token.is_any_of("(") and width < 0:
            _, width = _measure_literal_row(tokens, place)
        depth += token.is_any_of("(") - token.is_any_of(")")
        yield token
        place += 1


def _measure_literal_row(tokens: Sequence[SqlToken], start: int) -> tuple[int, int]:
    """Return the end of a row of literals and their number, or zeros for any other row."""
    if start >= len(tokens) or not tokens[start].is_any_of("("):
        return 0, 0
    held, expects = 0, True
    for place in range(start + 1, len(tokens)):
        token = tokens[place]
        if expects:
            if token.kind not in {SqlTokenKind.NUMBER, SqlTokenKind.TEXT} and not token.is_any_of("NULL"):
                return 0, 0
            held += 1
        elif token.is_any_of(")"):
            return place + 1, held
        elif not token.is_any_of(","):
            return 0, 0
        expects = not expects
    return 0, 0
