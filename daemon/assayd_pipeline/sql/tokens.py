"""Splits SQL into tokens in the same way as SQLite, and drops comments and whitespace.

The rules are those of SQLite's own tokenizer (https://sqlite.org/src/file/src/tokenize.c): comments don't
nest, only five characters are whitespace, and every non-ASCII character belongs to a name.

    /* /* */ DELETE FROM t; -- */    DELETE is a statement here: the comment has ended
    'it''s; DROP TABLE t'            one string
    a WHERE                     one name: to SQLite, a no-break space isn't white space
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class SqlTokenKind(StrEnum):
    """The type of a token."""

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
    """One token; `start` is the token's offset in the text.

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

    def says(self, *words: str) -> bool:
        """Return whether the token is one of the given keywords or signs."""
        return self.keyword in words and self.keyword != ""


class NotSql(ValueError):
    """The error for a character at `place` with which no token of SQLite can begin."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


_NAME_START = r"A-Za-z_\x80-\U0010ffff"
_TOKEN = re.compile(
    rf"""
      (?P<blank>   [ \t\n\f\r]++ | --[^\n]*+ | /\*(?s:.*?)(?:\*/|\Z) )
    | (?P<text>    [xX]?'(?:[^']|'')*+' )
    | (?P<name>    "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | \[[^\]]*+\] )
    | (?P<number>  (?: 0[xX][0-9a-fA-F]++ | (?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)? )
                   (?![{_NAME_START}0-9$]) )
    | (?P<word>    [{_NAME_START}][{_NAME_START}0-9$]*+ )
    | (?P<parameter> \?[0-9]*+ | [:@$\#][{_NAME_START}0-9$:]++ )
    | (?P<sign>    ->>|->|\|\||<<|>>|<=|>=|<>|==|!=|[-+*/%=<>&|~(),.;] )
    """,
    re.VERBOSE,
)


_KINDS = {kind.value: kind for kind in SqlTokenKind}


def tokenize(text: str) -> Iterator[SqlToken]:
    """Yield the tokens of SQL.

    Raises: NotSql, at an invalid token.
    """
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise NotSql(place, _describe_problem(text, place))
        kind = _KINDS.get(found.lastgroup or "")
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
