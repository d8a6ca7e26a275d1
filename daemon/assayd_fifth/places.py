"""Converts faults that the checks report into findings with line, column, snippet and hint."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from assayd.model.finding import Edit, Finding, Severity
from assayd.model.text_limits import FINDINGS, SNIPPET_CHARS, shorten_text
from assayd_fifth.rules import FifthRule, FifthRules
from assayd_fifth.tokens import Token

Change = tuple[int, int, str]
"""A part of the source, from one offset to another, and its replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultReport:
    rule: FifthRule
    start: int
    names: Mapping[str, object]
    edit: Change | None
    severity: Severity


class FindingCollector:
    """A collector of the faults that the checks report about one program."""

    def __init__(self, text: str, rules: FifthRules) -> None:
        self._text = text
        self._rules = rules
        self._told: list[_FaultReport] = []
        self._lines = [0, *[match.end() for match in re.finditer("\n", text)]]

    def __call__(
        self,
        rule: str,
        start: int,
        *,
        edit: Change | None = None,
        at: Token | None = None,
        severity: Severity | None = None,
        **names: object,
    ) -> None:
        """Report a rule at an offset. If the rule has a replacement, `at` is the token to replace."""
        known = self._rules.by_id[rule]
        if at is not None and known.replace is not None:
            edit = (at.start, at.start + len(at.word), known.replace)
        self._told.append(
            _FaultReport(rule=known, start=start, names=names, edit=edit, severity=severity or known.severity)
        )

    def line_number_at(self, start: int) -> int:
        """Return the 1-based line number of an offset."""
        return bisect_right(self._lines, start)

    def get_line_offset(self, line: int) -> int:
        """Return the offset of the start of a line."""
        return self._lines[line - 1]

    def findings(self) -> dict[str, tuple[Finding, ...]]:
        """Return the findings of each stage without duplicates, sorted by position.

        At most `FINDINGS` per stage are kept.
        """
        found: dict[str, list[Finding]] = {}
        seen: set[tuple[object, ...]] = set()
        for told in sorted(self._told, key=lambda each: each.start):
            key = (
                told.rule.id,
                told.names.get("word"),
                None if told.rule.once else self.line_number_at(told.start),
            )
            stage = found.setdefault(told.rule.stage, [])
            if key not in seen and len(stage) < FINDINGS:
                seen.add(key)
                stage.append(self._build_finding(told))
        return {stage: tuple(findings) for stage, findings in found.items()}

    def _build_finding(self, told: _FaultReport) -> Finding:
        line = self.line_number_at(told.start)
        names = {key: self._format_name(value) for key, value in told.names.items()}
        if "problem" in names and "line" in names:
            # Replaced literally: a value quotes the submission, so it must never be a format string.
            names["problem"] = names["problem"].replace("{line}", names["line"])
        suggestion = told.rule.suggestion.format_map(names) if told.rule.suggestion else None
        return Finding(
            rule=told.rule.id,
            category=told.rule.type,
            message=shorten_text(told.rule.message.format_map(names)),
            severity=told.severity,
            line=line,
            column=told.start - self._lines[line - 1] + 1,
            snippet=shorten_text(self._get_line(line).rstrip(), SNIPPET_CHARS),
            suggestion=shorten_text(suggestion) if suggestion else None,
            edit=self._build_edit(told.edit, line) if told.edit else None,
        )

    def _format_name(self, value: object) -> str:
        if isinstance(value, Token):
            return str(self.line_number_at(value.start))
        return shorten_text(str(value), SNIPPET_CHARS)

    def _get_line(self, line: int) -> str:
        end = self._lines[line] - 1 if line < len(self._lines) else len(self._text)
        return self._text[self._lines[line - 1] : end]

    def _build_edit(self, change: Change, line: int) -> Edit | None:
        """Return a change as an edit of whole lines, or None if it affects other lines than the finding's."""
        start, end, replacement = change
        first = self._lines[line - 1]
        text = self._get_line(line)
        if not first <= start <= end <= first + len(text):
            return None
        new = text[: start - first] + replacement + text[end - first :]
        return Edit(start_line=line, end_line=line, replacement=new.removesuffix("\r"))


def downgrade_errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with every error downgraded to a warning."""
    return tuple(replace(f, severity=Severity.WARNING) if f.is_error else f for f in findings)
