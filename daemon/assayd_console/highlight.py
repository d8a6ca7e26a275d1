"""Colors source code line by line: keywords, strings, comments and numbers of Python, bash and SQL.

The module splits hostile text with a regular expression that runs in linear time, and the pieces remain
plain text. It contains no complete grammar, because the syntax that the languages share is enough for
reading.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from markupsafe import Markup

from assayd_console.shown import marked

BASH = "case|do|done|elif|esac|fi|function|then|until|local"
SQL = (
    "AND|AS|BY|CASE|CONFLICT|CREATE|DELETE|DO|DROP|ELSE|END|EXISTS|FROM|GROUP|HAVING|IF|IN|INDEX|INSERT|INTO|"
    "IS|JOIN|KEY|LEFT|LIMIT|NOT|NULL|ON|OR|ORDER|PRIMARY|SELECT|SET|TABLE|THEN|UNION|UNIQUE|UPDATE|USING|"
    "VALUES|VIEW|WHEN|WHERE|WITH"
)
KEYWORDS = frozenset({*keyword.kwlist, *BASH.split("|"), *SQL.split("|")})
TOKEN = re.compile(
    r"(?P<triple>\"{3}|'{3})"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
    r"|(?P<comment>(?<!\S)(?:\#|--\s).*)"
    r"|(?P<number>\b[0-9][0-9A-Za-z_.]*)"
    r"|(?P<word>[A-Za-z_][0-9A-Za-z_]*)"
)


def colored(line: str, opened: str = "") -> Markup:
    """Return a line with an HTML element around each keyword, string, comment and number.

    Args:
        line: the line to color.
        opened: the triple quotes of a string that began on an earlier line, or an empty string.
    """
    pieces = [
        Markup('<span class="t-{}">{}</span>').format(kind, marked(text)) if kind else marked(text)
        for kind, text, _ in _pieces(line, opened)
    ]
    return Markup("").join(pieces)


def opened_after(line: str, opened: str) -> str:
    """Return the triple quotes of a string that continues after a line, or an empty string."""
    *_, (_, _, after) = [("", "", opened), *_pieces(line, opened)]
    return after


def _pieces(line: str, opened: str) -> Iterator[tuple[str, str, str]]:
    """Yield each piece of a line: its kind or an empty string, its text, and any open triple quotes."""
    done = place = 0
    if opened:
        end, opened = _end(line, 0, opened)
        yield "string", line[:end], opened
        done = place = end
    while (match := TOKEN.search(line, place)) is not None:
        kind, (begin, place) = str(match.lastgroup), match.span()
        if kind == "word" and match[0] not in KEYWORDS:
            continue
        if begin > done:
            yield "", line[done:begin], ""
        if kind == "triple":
            kind, (place, opened) = "string", _end(line, place, match[0])
        yield kind, line[begin:place], opened
        done = place
    if done < len(line):
        yield "", line[done:], ""


def _end(line: str, begin: int, quotes: str) -> tuple[int, str]:
    """Return the end of a triple-quoted string in a line, and its quotes if the string continues."""
    close = line.find(quotes, begin)
    return (len(line), quotes) if close < 0 else (close + len(quotes), "")
