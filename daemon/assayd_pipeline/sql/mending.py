"""Finds the small change that corrects SQL with a syntax error, such as a missing quote or parenthesis.

    SELECT a, b, FROM t                       sql.syntax    edit: SELECT a, b FROM t
    CREATE TABLE … (a INT, b INT,)            sql.syntax    edit: … (a INT, b INT)
    INTEGER PRIMARY KEY AUTO_INCREMENT        sql.syntax    edit: … AUTOINCREMENT
    GRUOP BY region                           sql.syntax    edit: GROUP BY region
    ```sql … ```                              sql.syntax    edit: …

A keyword is corrected only if one letter is wrong or two letters are swapped, and if no other word of the
statement can be the misspelled one.

Finds the line of SQL at the end of which a quote or a parenthesis is missing.

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
from itertools import islice

from assayd.findings.source_text import line_number_at
from assayd.model.finding import Edit
from assayd.static.python.safe_fixes import build_edit, extract_fenced_text
from assayd_pipeline.sql.read import SqlStatement, SqlToken, SqlTokenKind
from assayd_pipeline.sql.tree import UnparsableStatement

_SQL_KEYWORDS = frozenset(
    {
        "BETWEEN", "CASE", "COLUMN", "CREATE", "DELETE", "DISTINCT", "EXISTS", "FROM", "GROUP", "HAVING",
        "INDEX", "INNER", "INSERT", "INTO", "JOIN", "LEFT", "LIMIT", "NULL", "ORDER", "PRIMARY", "SELECT",
        "TABLE", "UNION", "UNIQUE", "UPDATE", "VALUES", "WHERE", "WITH",
    }
)  # fmt: skip
_MAX_WORDS_TRIED = 8

Reads = Callable[[str], bool]
"""A function that returns whether a complete text can be parsed."""
_MAX_LINES_TRIED = 12
_QUOTE_IN_WORD_REGEX = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])")


def find_syntax_edit(content: str, statement: SqlStatement | None, reads: Reads) -> Edit | None:
    """Return the edit for SQL that can't be parsed, or None unless exactly one edit works."""
    inside = extract_fenced_text(content)
    if inside is not None:
        return build_edit(content, inside) if reads(inside) else None
    if statement is None:
        return None
    tried = list(islice(_respell_keywords(content, statement), _MAX_WORDS_TRIED + 1))
    good = [text for text in tried[:_MAX_WORDS_TRIED] if reads(text)]
    return build_edit(content, good[0]) if len(good) == 1 and len(tried) <= _MAX_WORDS_TRIED else None


def find_respelled_word(content: str, edit: Edit) -> str | None:
    """Return the keyword that a one-line edit corrects, or None if the edit makes a different change."""
    if edit.start_line != edit.end_line:
        return None
    before = content.split("\n")[edit.start_line - 1].split()
    after = edit.replacement.split()
    changed = [
        new for old, new in zip(before, after, strict=False) if old != new and len(before) == len(after)
    ]
    word = changed[0].strip("(),;").upper() if len(changed) == 1 else ""
    return word if word in _SQL_KEYWORDS else None


def find_stray_token(statement: SqlStatement) -> UnparsableStatement | None:
    """Return the error for a final comma or a word of another database, or None if there is neither."""
    for before, token, after in zip(
        statement.tokens, statement.tokens[1:], (*statement.tokens[2:], None), strict=False
    ):
        if token.is_any_of(",") and after is not None and after.is_any_of(")", "FROM"):
            return _build_syntax_error(after, "Remove the comma before it.", (token, ""))
        if before.is_any_of("KEY") and token.is_any_of("AUTO_INCREMENT"):
            return _build_syntax_error(token, "Write AUTOINCREMENT.", (token, "AUTOINCREMENT"))
    return None


def _build_syntax_error(
    token: SqlToken, suggestion: str, instead: tuple[SqlToken, str]
) -> UnparsableStatement:
    message = f'near "{token.text}": syntax error'
    return UnparsableStatement(message, at=token, syntax=True, suggestion=suggestion, instead=instead)


def build_replace_token_edit(content: str, token: SqlToken, new: str) -> Edit | None:
    """Return the edit that replaces a token with another text, or None if nothing changes."""
    return build_edit(content, content[: token.start] + new + content[token.end :])


def _respell_keywords(content: str, statement: SqlStatement) -> Iterator[str]:
    for token in statement.tokens:
        word = token.text.upper()
        if token.kind is SqlTokenKind.WORD and word not in _SQL_KEYWORDS and word.isascii():
            for keyword in sorted(_SQL_KEYWORDS):
                if is_misspelling(word, keyword):
                    new = keyword if token.text.isupper() else keyword.lower()
                    yield content[: token.start] + new + content[token.end :]


def is_misspelling(word: str, keyword: str) -> bool:
    """Return whether a word differs from a keyword by one letter or by two swapped letters."""
    if abs(len(word) - len(keyword)) > 1 or word[0] != keyword[0]:
        return False
    head = next((n for n, (a, b) in enumerate(zip(word, keyword, strict=False)) if a != b), len(word))
    rest, meant = word[head:], keyword[head:]
    if len(word) == len(keyword):
        return rest[1:] == meant[1:] or (rest[:2] == meant[1::-1] and rest[2:] == meant[2:])
    return rest[1:] == meant if len(word) > len(keyword) else rest == meant[1:]


def find_parenthesis_edit(content: str, statement: SqlStatement, reads: Reads) -> Edit | None:
    """Return the edit that closes a parenthesis at the end of a line, or None unless exactly one works."""
    opened = find_unclosed_parenthesis(statement)
    if opened is None:
        return None
    tokens = [token for token in statement.tokens if token.start > opened.start]
    ends = [place for place, sign in enumerate(content) if sign == "\n"]
    last = {bisect_left(ends, token.start): token for token in tokens if not token.is_any_of(",", ";")}
    places = list(last.values())[:_MAX_LINES_TRIED]
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
    """Return the edit that closes a string at the end of its first line.

    Return None for a single line, or unless exactly one edit works.
    """
    places = [(content, place, quote) for place in find_open_string_lines(content, quote)[:_MAX_LINES_TRIED]]
    return _find_only_insertion(places, reads) if "\n" in content.rstrip() else None


def find_doubled_quote_edit(content: str, reads: Reads) -> Edit | None:
    """Return the edit that doubles a quote between two letters within a string: ``'O''Neil'``.

    Return None unless exactly one such edit works.
    """
    places = [found.start() for found in _QUOTE_IN_WORD_REGEX.finditer(content)]
    return _find_only_insertion([(content, place, "'") for place in places[:_MAX_LINES_TRIED]], reads)


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
    """Return the only insertion that makes the text valid, or None if there are several or none."""
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
