"""Splits the SQL of a step into statements, and converts offsets to positions in the text."""

from __future__ import annotations

from dataclasses import dataclass

from assayd.findings.source_text import line_of
from assayd.model.finding import Edit, Finding, Severity
from assayd.model.text_limits import SNIPPET_CHARS, shorten
from assayd_pipeline.sql.statements import SqlStatement, split
from assayd_pipeline.sql.tokens import NotSql, tokenize


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlText:
    """SQL text and the statements in it.

    `broken` is the position of an invalid token; if there is one, the list of statements is empty.
    """

    content: str
    statements: tuple[SqlStatement, ...] = ()
    broken: NotSql | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column for an offset."""
        return line_of(self.content, offset), offset - self.content.rfind("\n", 0, offset)

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
        """Return a finding at a position of this text."""
        line, column = self.place(at)
        end = self.content.find("\n", at)
        shown = self.content[at - column + 1 : end if end >= 0 else None]
        return Finding(
            rule=rule,
            category="syntax" if rule in {"sql.syntax", "sql.empty"} else "sql",
            message=shorten(message),
            severity=severity,
            line=line,
            column=column,
            snippet=shorten(shown.rstrip(), SNIPPET_CHARS),
            suggestion=suggestion,
            edit=edit,
        )


def split_sql(content: str) -> SqlText:
    """Split SQL into statements."""
    try:
        return SqlText(content=content, statements=tuple(split(tokenize(content))))
    except NotSql as problem:
        return SqlText(content=content, broken=problem)
