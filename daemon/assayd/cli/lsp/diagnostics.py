"""Makes diagnostics and quick fixes of a finished attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from assayd.cli.origin import Origin
from assayd.cli.terminal import plain
from assayd.client import Document

SOURCE = "assayd"
SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
MESSAGE_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A diagnostic in a file, and the edits that settle it for certain."""

    path: Path
    diagnostic: Any
    edits: tuple[Any, ...] = ()


def found_in(attempt: Document, origin: Origin, main: Path) -> list[Found]:
    """Return what an attempt found; what has no place of its own stands on the first line of `main`."""
    report = attempt["report"] or {}
    hints = report.get("fix_hints") or []
    made = [_found(finding, hints, origin, main) for finding in report.get("findings") or []]
    if attempt["error"] is not None:
        made.append(trouble(main, f"{attempt['error']['code']}: {attempt['error']['message']}"))
    return made


def trouble(path: Path, said: str) -> Found:
    """Return what tells of our own trouble: it says nothing of the code."""
    diagnostic = types.Diagnostic(
        range=_lines(0, 0),
        message=plain(said)[:MESSAGE_CHARS],
        severity=types.DiagnosticSeverity.Information,
        source=SOURCE,
    )
    return Found(path=path, diagnostic=diagnostic)


def _found(finding: Document, hints: Sequence[Document], origin: Origin, main: Path) -> Found:
    name, number = origin.found(finding)
    path = Path(name) if name is not None and Path(name).is_absolute() else main
    lines = _text_of(path, origin).splitlines()
    said = finding["message"].replace("\n", "\n    ") + (
        f"\n{finding['suggestion']}" if finding["suggestion"] else ""
    )
    diagnostic = types.Diagnostic(
        range=_range(finding, number, lines),
        message=plain(said)[:MESSAGE_CHARS],
        severity=SEVERITIES[finding["severity"]],
        code=finding["rule"],
        source=SOURCE,
    )
    if number is None or finding["line"] is None:
        return Found(path=path, diagnostic=diagnostic)
    moved = number - finding["line"]
    edits = [_edit(hint["edit"], moved) for hint in hints if hint["edit"] and _same(hint, finding)]
    return Found(path=path, diagnostic=diagnostic, edits=tuple(edits))


def _same(hint: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    return all(hint[name] == finding[name] for name in ("rule", "file", "line", "message"))


def _text_of(path: Path, origin: Origin) -> str:
    names = [name for name, shown in origin.paths.items() if shown == str(path)]
    return origin.texts[names[0]].decode("utf-8", "replace") if names else ""


def _range(finding: Document, number: int | None, lines: Sequence[str]) -> Any:
    """Return where a finding stands: from its column, else from the first letter, to the end of its lines."""
    if number is None or number > len(lines):
        return _lines(0, 0)
    first = number - 1
    last = min(first + max(0, (finding["end_line"] or finding["line"]) - finding["line"]), len(lines) - 1)
    text = lines[first]
    begin = finding["column"] - 1 if finding["column"] else len(text) - len(text.lstrip())
    return types.Range(
        start=types.Position(first, utf16(text[:begin])),
        end=types.Position(last, max(utf16(lines[last]), utf16(text[:begin]) + (first == last))),
    )


def utf16(text: str) -> int:
    """Return the length of a text as editors count: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _lines(first: int, after: int) -> Any:
    return types.Range(start=types.Position(first, 0), end=types.Position(after, 0))


def _edit(edit: Document, moved: int) -> Any:
    text = edit["replacement"]
    whole = text if not text or text.endswith("\n") else text + "\n"
    return types.TextEdit(
        range=_lines(edit["start_line"] - 1 + moved, edit["end_line"] + moved), new_text=whole
    )
