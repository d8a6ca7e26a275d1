"""Finds the line of SQL at the end of which a quote or a parenthesis is missing.

    SELECT count(*                    sql.syntax      edit: SELECT count(*)
    FROM t
    SELECT * FROM t WHERE a = 'x      sql.syntax      edit: … WHERE a = 'x'
    ORDER BY b

SQLite reports the position at which it stops, which can be many lines after the mistake. The end of every
line is tried; if closing at exactly one line makes the text valid, this line contains the mistake.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from assayd.findings.source_text import line_number_at
from assayd.model.finding import Edit
from assayd_pipeline.sql.read import SqlStatement, SqlToken

Reads = Callable[[str], bool]
"""Returns whether a whole text can be parsed."""
_MOST_TRIED = 12


def find_parenthesis_edit(content: str, statement: SqlStatement, reads: Reads) -> Edit | None:
    """Return the edit that closes a parenthesis at the end of a line, if this works for only one line."""
    opened = find_unclosed_parenthesis(statement)
    if opened is None:
        return None
    tokens = [token for token in statement.tokens if token.start > opened.start]
    ends = [place for place, sign in enumerate(content) if sign == "\n"]
    last = {bisect_left(ends, token.start): token for token in tokens if not token.is_any_of(",", ";")}
    places = list(last.values())[:_MOST_TRIED]
    return _find_only_insertion([(content, token.end, ")") for token in places], reads)


def find_unclosed_parenthesis(statement: SqlStatement) -> SqlToken | None:
    """Return the innermost parenthesis that a statement leaves open, or None."""
    open_: list[SqlToken] = []
    for token in statement.tokens:
        if token.is_any_of("("):
            open_.append(token)
        elif token.is_any_of(")"):
            if not open_:
                return None
            open_.pop()
    return open_[-1] if open_ else None


def find_quote_edit(content: str, quote: str, reads: Reads) -> Edit | None:
    """Return the edit that closes a string at the end of its first line."""
    places = [(content, place, quote) for place in find_open_string_lines(content, quote)[:_MOST_TRIED]]
    return _find_only_insertion(places, reads) if "\n" in content.rstrip() else None


def find_doubled_quote_edit(content: str, reads: Reads) -> Edit | None:
    """Return the edit that doubles a quote between two letters within a string: ``'O''Neil'``."""
    places = [found.start() for found in _BETWEEN_LETTERS.finditer(content)]
    return _find_only_insertion([(content, place, "'") for place in places[:_MOST_TRIED]], reads)


_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])")


def find_open_string_lines(content: str, quote: str) -> Sequence[int]:
    """Return the end offsets of the lines on which a multi-line string begins."""
    return tuple(_find_open_string_lines(content, quote))


def _find_open_string_lines(content: str, quote: str) -> Iterator[int]:
    inside, start = False, 0
    for line in content.split("\n"):
        code = line if inside else line.partition("--")[0]
        if code.count(quote) % 2:
            inside = not inside
            if inside:
                yield start + len(line.rstrip().rstrip(",;"))
        start += len(line) + 1


def _find_only_insertion(places: Sequence[tuple[str, int, str]], reads: Reads) -> Edit | None:
    """Return the only insertion that makes the text valid; None if there are several or none."""
    good = []
    for content, place, sign in places:
        changed = content[:place] + sign + content[place:]
        if reads(changed):
            good.append((content, place, changed))
    if len(good) != 1:
        return None
    [(content, place, changed)] = good
    line = line_number_at(content, place)
    lines = changed.split("\n")
    if sign == ")" and content[place:].startswith("\n\n") and not lines[line].strip():
        # If the sign was alone on its line, an empty line remains.
        return Edit(start_line=line + 1, end_line=line + 1, replacement=sign)
    return Edit(start_line=line, end_line=line, replacement=changed.split("\n")[line - 1])
