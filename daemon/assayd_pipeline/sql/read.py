"""Splits the SQL of a step into tokens and statements, and converts offsets to positions in the text.

A statement ends at a semicolon, except for semicolons in the body of a trigger. The first word determines
the type of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from assayd.findings.source_text import line_number_at
from assayd.model.finding import Edit, Finding, Severity
from assayd.model.text_limits import SNIPPET_CHARS, shorten_text


class SqlTokenKind(StrEnum):
    """The lexical type of a token."""

    WORD = "word"
    """A keyword or a plain name."""
    NAME = "name"
    """A quoted name."""
    TEXT = "text"
    """A string or a blob."""
    NUMBER = "number"
    """A number."""
    PARAMETER = "parameter"
    """A placeholder for a value, such as ``?`` or ``:name``."""
    SIGN = "sign"
    """An operator, a parenthesis, a comma or a semicolon."""


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token. `start` is the token's offset in the text.

    `keyword` is the uppercase text if the token is a sign or can be a keyword; otherwise, it is empty. The
    text is stored because it is read many times per token.
    """

    kind: SqlTokenKind
    text: str
    start: int
    keyword: str

    @property
    def end(self) -> int:
        """Return the offset of the end of the token."""
        return self.start + len(self.text)

    def is_any_of(self, *words: str) -> bool:
        """Return whether the token is one of the given keywords or signs."""
        return self.keyword in words and self.keyword != ""


class InvalidSqlCharacter(ValueError):
    """The error for a character at `place` with which no token of SQLite can begin."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


_NAME_START_CHARS = r"A-Za-z_\x80-\U0010ffff"
_TOKEN = re.compile(
    rf"""
      (?P<blank>   [ \t\n\f\r]++ | --[^\n]*+ | /\*(?s:.*?)(?:\*/|\Z) )
    | (?P<text>    [xX]?'(?:[^']|'')*+' )
    | (?P<name>    "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | \[[^\]]*+\] )
    | (?P<number>  (?: 0[xX][0-9a-fA-F]++ | (?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)? )
                   (?![{_NAME_START_CHARS}0-9$]) )
    | (?P<word>    [{_NAME_START_CHARS}][{_NAME_START_CHARS}0-9$]*+ )
    | (?P<parameter> \?[0-9]*+ | [:@$\#][{_NAME_START_CHARS}0-9$:]++ )
    | (?P<sign>    ->>|->|\|\||<<|>>|<=|>=|<>|==|!=|[-+*/%=<>&|~(),.;] )
    """,
    re.VERBOSE,
)


_KIND_BY_GROUP = {kind.value: kind for kind in SqlTokenKind}


def tokenize(text: str) -> Iterator[SqlToken]:
    """Yield the tokens of SQL.

    Raises: InvalidSqlCharacter, at an invalid token.
    """
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise InvalidSqlCharacter(place, _describe_problem(text, place))
        kind = _KIND_BY_GROUP.get(found.lastgroup or "")
        if kind is not None:
            word = found[0]
            says = (kind is SqlTokenKind.WORD and word.isascii()) or kind is SqlTokenKind.SIGN
            yield SqlToken(kind, word, place, word.upper() if says else "")
        place = found.end()


def _describe_problem(text: str, place: int) -> str:
    quote = text[place]
    if quote in "'\"`[":
        return f"the string that begins with {quote} here never ends"
    if quote.isdigit() or quote == ".":
        return "a number runs into a name"
    return f"the character {quote!a} isn't part of SQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStatement:
    """One statement with a 1-based number. It has at least one token, and no final semicolon."""

    number: int
    tokens: tuple[SqlToken, ...]

    @property
    def verb(self) -> str:
        """Return the first word of the statement in upper case."""
        return self.tokens[0].text.upper()

    @property
    def is_trigger(self) -> bool:
        """Return whether the statement creates a trigger."""
        return _begins_trigger(self.tokens)

    def after(self, *words: str) -> SqlToken | None:
        """Return the token after these words at the statement's start, or None for another start."""
        if len(self.tokens) <= len(words):
            return None
        begins = all(token.is_any_of(word) for token, word in zip(self.tokens, words, strict=False))
        return self.tokens[len(words)] if begins else None


def split(tokens: Iterable[SqlToken]) -> Iterator[SqlStatement]:
    """Split tokens at semicolons outside triggers, and yield the statements that aren't empty."""
    held: list[SqlToken] = []
    number = 0
    for token in tokens:
        if not token.is_any_of(";") or _is_inside_trigger(held):
            held.append(token)
            continue
        if held:
            number += 1
            yield SqlStatement(number=number, tokens=tuple(held))
        held = []
    if held:
        yield SqlStatement(number=number + 1, tokens=tuple(held))


def _is_inside_trigger(held: list[SqlToken]) -> bool:
    """Return whether a semicolon after these tokens is in a trigger's body, which ends with ``; END``."""
    return _begins_trigger(held) and not (held[-1].is_any_of("END") and held[-2].is_any_of(";"))


def _begins_trigger(tokens: tuple[SqlToken, ...] | list[SqlToken]) -> bool:
    if not tokens or not tokens[0].is_any_of("CREATE"):
        return False
    place = 2 if len(tokens) > 1 and tokens[1].is_any_of("TEMP", "TEMPORARY") else 1
    return len(tokens) > place and tokens[place].is_any_of("TRIGGER")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """SQL text and the statements in it.

    `broken` is the position of an invalid token, in which case the list of statements is empty.
    """

    content: str
    statements: tuple[SqlStatement, ...] = ()
    broken: InvalidSqlCharacter | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column for an offset."""
        return line_number_at(self.content, offset), offset - self.content.rfind("\n", 0, offset)

    def finding(
        self,
        rule: str,
        message: str,
        *,
        at: int,
        suggestion: str,
        severity: Severity = Severity.ERROR,
        edit: Edit | None = None,
    ) -> Finding:
        """Build a finding at an offset of this text, with line, column and snippet."""
        line, column = self.place(at)
        end = self.content.find("\n", at)
        shown = self.content[at - column + 1 : end if end >= 0 else None]
        return Finding(
            rule=rule,
            category="syntax" if rule in {"sql.syntax", "sql.empty"} else "sql",
            message=shorten_text(message),
            severity=severity,
            line=line,
            column=column,
            snippet=shorten_text(shown.rstrip(), SNIPPET_CHARS),
            suggestion=suggestion,
            edit=edit,
        )


def split_sql(content: str) -> SqlText:
    """Split SQL into statements. If a token is invalid, the result contains only the error."""
    try:
        return SqlText(content=content, statements=tuple(split(tokenize(content))))
    except InvalidSqlCharacter as problem:
        return SqlText(content=content, broken=problem)
