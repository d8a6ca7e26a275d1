"""Finds the edit for SQL with a syntax error, if a single small change corrects the error.

    SELECT a, b, FROM t                       sql.syntax    edit: SELECT a, b FROM t
    CREATE TABLE … (a INT, b INT,)            sql.syntax    edit: … (a INT, b INT)
    INTEGER PRIMARY KEY AUTO_INCREMENT        sql.syntax    edit: … AUTOINCREMENT
    GRUOP BY region                           sql.syntax    edit: GROUP BY region
    ```sql … ```                              sql.syntax    edit: …

A keyword is corrected only if one letter is wrong or two letters are swapped, and if no other word of the
statement can be the misspelled one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from assayd.model.finding import Edit
from assayd.static.python.safe_fixes import build_edit, extract_fenced_text
from assayd_pipeline.sql.read import SqlStatement, SqlToken, SqlTokenKind
from assayd_pipeline.sql.tree import UnparsableStatement

_KEYWORDS = frozenset(
    {
        "BETWEEN", "CASE", "COLUMN", "CREATE", "DELETE", "DISTINCT", "EXISTS", "FROM", "GROUP", "HAVING",
        "INDEX", "INNER", "INSERT", "INTO", "JOIN", "LEFT", "LIMIT", "NULL", "ORDER", "PRIMARY", "SELECT",
        "TABLE", "UNION", "UNIQUE", "UPDATE", "VALUES", "WHERE", "WITH",
    }
)  # fmt: skip
_MOST_TRIED = 8

Reads = Callable[[str], bool]
"""Returns whether a whole text can be read."""


def find_syntax_edit(content: str, statement: SqlStatement | None, reads: Reads) -> Edit | None:
    """Return the edit for SQL that can't be parsed; None if several edits would work."""
    inside = extract_fenced_text(content)
    if inside is not None:
        return build_edit(content, inside) if reads(inside) else None
    if statement is None:
        return None
    tried = list(islice(_respell_keywords(content, statement), _MOST_TRIED + 1))
    good = [text for text in tried[:_MOST_TRIED] if reads(text)]
    return build_edit(content, good[0]) if len(good) == 1 and len(tried) <= _MOST_TRIED else None


def find_respelled_word(content: str, edit: Edit) -> str | None:
    """Return the keyword that a one-line edit corrects; None if the edit makes a different change."""
    if edit.start_line != edit.end_line:
        return None
    before = content.split("\n")[edit.start_line - 1].split()
    after = edit.replacement.split()
    changed = [
        new for old, new in zip(before, after, strict=False) if old != new and len(before) == len(after)
    ]
    word = changed[0].strip("(),;").upper() if len(changed) == 1 else ""
    return word if word in _KEYWORDS else None


def find_stray_token(statement: SqlStatement) -> UnparsableStatement | None:
    """Return the error for a token that SQLite rejects: a final comma, or a word of another database."""
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
    """Return the edit that replaces a token with another text."""
    return build_edit(content, content[: token.start] + new + content[token.end :])


def _respell_keywords(content: str, statement: SqlStatement) -> Iterator[str]:
    for token in statement.tokens:
        word = token.text.upper()
        if token.kind is SqlTokenKind.WORD and word not in _KEYWORDS and word.isascii():
            for keyword in sorted(_KEYWORDS):
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
