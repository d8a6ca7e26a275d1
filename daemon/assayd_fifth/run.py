"""Reads what gforth says when a program ends badly, and what our prelude says when a sandbox cannot go on.

What stands on standard error is the word of a process that the submission controls. It only words a failure
that the exit status has shown, or says why a run that ended well says little: a program could as well have
ended by `bye`.

    program.fs:3: Undefined word        fifth.undefined_word
    assayd: library-unavailable x.fs    fifth.library_unavailable
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from assayd.findings.source_text import snippet
from assayd.model.finding import Finding, Layer
from assayd.model.text_limits import shorten
from assayd_fifth.language import Language
from assayd_fifth.rules import FifthRule

PROGRAM_FILE = "assayd/program.fs"

_SAID = re.compile(
    r"^(?P<file>[^\n:]{1,300}):(?P<line>\d{1,7}): (?P<said>[^\n]*)\n(?P<source>[^\n]*)", re.MULTILINE
)
_OPENED, _CLOSED = ">>>", "<<<"
_NOTES = {
    "library-unavailable": "fifth.library_unavailable",
    "no-programs": "fifth.needs_programs",
}
_NOTE = re.compile(r"^assayd: (?P<what>[a-z-]+) (?P<said>[^\n]*)$", re.MULTILINE)


def error_finding(stderr: str, code: str, about: Language) -> Finding | None:
    """Return the finding for the error that ended the program; None when gforth has not said one."""
    errors = list(_SAID.finditer(stderr))
    if not errors:
        return None
    error = errors[-1]
    said = error["said"].strip()
    rule = next(rule for rule in about.rules.run.values() if any(p.fullmatch(said) for p in rule.matches))
    token = _token(error["source"])
    if token.lower() == "throw" and rule.id == "fifth.undefined_word":
        rule = about.rules.run["fifth.uncaught_throw"]  # -13 throw says the same as a word that is not there
    line = int(error["line"]) if error["file"].endswith(PROGRAM_FILE) else None
    found = _finding(rule, said=said or "aborted", token=token)
    return found if line is None else _placed(found, line, code)


def _token(source: str) -> str:
    """Return what gforth marks as ``>>>token<<<`` in a line; empty when it marks nothing."""
    _, opened, rest = source.partition(_OPENED)
    token, closed, _ = rest.partition(_CLOSED)
    return token if opened and closed else ""


def notes(stderr: str, about: Language) -> Iterator[Finding]:
    """Return the findings for what the prelude has said."""
    for note in _NOTE.finditer(stderr):
        if note["what"] in _NOTES:
            yield _finding(about.rules.run[_NOTES[note["what"]]], said=note["said"], token="")


def _finding(rule: FifthRule, *, said: str, token: str) -> Finding:
    return Finding(
        rule=rule.id,
        category=rule.type,
        message=shorten(rule.message.format(said=shorten(said, 200), token=shorten(token, 100)), 400),
        severity=rule.severity,
        layer=Layer.RUNTIME,
        suggestion=rule.suggestion,
    )


def _placed(found: Finding, line: int, code: str) -> Finding:
    """Add the place; a line that the program does not have is not believed."""
    text = snippet(code, line)
    return found if text is None else replace(found, line=line, snippet=text)
