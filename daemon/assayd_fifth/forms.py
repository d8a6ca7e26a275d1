"""Implements the option `--yaml`, which reports on a Fifth program in a format for prompting tools."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import yaml

from assayd_client import Document
from assayd_client.cli.kinds import AttemptView

_VERDICT_STATUSES = {"validated": "PASS", "failed": "FAIL"}
_WORD_KEY_BY_TYPE = {"forbidden_pattern": "pattern"}
"""The keys for a finding's word, by the finding's type. The key for other types is `word`."""


class _BlockStyleDumper(yaml.SafeDumper):
    """A YAML dumper that writes multi-line strings as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockStyleDumper.add_representer(str, _represent_text)


def print_yaml(shown: AttemptView) -> None:
    """Print a finished attempt with the submitted code as YAML, in ASCII on a terminal."""
    print(format_yaml(shown.attempt, shown.submission(), ascii_only=sys.stdout.isatty()), end="")


def format_yaml(attempt: Document, submission: Document, *, ascii_only: bool) -> str:
    """Return a finished attempt with the submitted code as YAML, optionally in ASCII for a terminal."""
    result = {"validation_result": _build_result(attempt, submission["payload"]["code"])}
    return yaml.dump(
        result, Dumper=_BlockStyleDumper, sort_keys=False, allow_unicode=not ascii_only, width=110
    )


def _build_result(attempt: Document, code: str) -> Document:
    report, verdict = attempt["report"], attempt["verdict"]
    if report is None or verdict not in _VERDICT_STATUSES:
        return {"status": verdict.upper(), "error": attempt["error"]}
    hints = {(hint["rule"], hint["line"], hint["message"]): hint for hint in report["fix_hints"]}
    found = [(finding["severity"], _build_fault_entry(finding, hints)) for finding in report["findings"]]
    warnings = [entry for severity, entry in found if severity == "warning"]
    feedback = report["feedback"] or {}
    result: Document = {"status": _VERDICT_STATUSES[verdict]}
    if verdict == "validated":
        result |= {"code": code, "notes": feedback.get("notes", [])}
        if warnings:
            result["warnings"] = warnings
        return result | {"confidence": report["confidence"]}
    result["errors"] = [entry for severity, entry in found if severity == "error"]
    result["warnings"] = warnings
    return result | {"retry_context": _build_retry_context(feedback)}


def _build_fault_entry(finding: Document, hints: Mapping[tuple[str, int | None, str], Document]) -> Document:
    """Return one error or warning, without fields whose value is unknown."""
    hint = hints.get((finding["rule"], finding["line"], finding["message"]), {})
    entry = {
        "type": finding["category"],
        _WORD_KEY_BY_TYPE.get(finding["category"], "word"): _find_word(finding),
        "line": finding["line"],
        "column": finding["column"],
        "code_snippet": finding["snippet"],
        "explanation": finding["message"],
        "fix_suggestion": finding["suggestion"],
        "edit": hint.get("edit"),
    }
    return {key: value for key, value in entry.items() if value is not None}


def _find_word(finding: Document) -> str | None:
    """Return the word at a finding's position, or None if the finding has no position."""
    if finding["snippet"] is None or finding["column"] is None:
        return None
    words: Sequence[str] = finding["snippet"][finding["column"] - 1 :].split()
    return words[0] if words else None


def _build_retry_context(feedback: Document) -> Document:
    return {
        "add_emphasis": feedback.get("add_emphasis", []),
        "condenser_feedback": {"expand_sections": feedback.get("expand_sections", [])},
        "lens_feedback": {"warnings": feedback.get("lens_warnings", [])},
        "priority_fixes": dict(enumerate(feedback.get("priority_fixes", []), 1)),
    }
