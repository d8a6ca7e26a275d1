"""The report of one attempt in the forms of others: SARIF for editors, JUnit for build servers.

Findings stand at their place in the files that were named on the command line, with certain edits as fixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assayd import __version__
from assayd_client import Document, PlainClient
from assayd_client.cli.origin import Origin
from assayd_client.cli.reports import LEVELS, SARIF_SCHEMA, junit_suite, sarif_rule


def sarif(attempt: Document, origin: Origin, rules: Mapping[str, Document]) -> Document:
    """Return an attempt's findings as SARIF 2.1.0.

    Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    report = attempt["report"] or {}
    findings = report.get("findings") or []
    used = [rules[name] for name in dict.fromkeys(each["rule"] for each in findings) if name in rules]
    driver = {"name": "assayd", "version": __version__, "rules": [sarif_rule(rule) for rule in used]}
    invocation: dict[str, Any] = {"executionSuccessful": attempt["verdict"] in {"validated", "failed"}}
    if attempt["error"] is not None:
        told = f"{attempt['error']['code']}: {attempt['error']['message']}"
        invocation["toolExecutionNotifications"] = [{"level": "error", "message": {"text": told}}]
    hints = report.get("fix_hints") or []
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "properties": {"attempt_id": attempt["id"], "verdict": attempt["verdict"]},
        "results": [_result(finding, hints, origin) for finding in findings],
    }
    return sarif_log([run])


def sarif_log(runs: list[Document]) -> Document:
    """Return runs as one SARIF document."""
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": runs}


def _result(finding: Document, hints: list[Document], origin: Origin) -> Document:
    uri, number = origin.found(finding)
    result: Document = {
        "ruleId": finding["rule"],
        "level": LEVELS[finding["severity"]],
        "message": {"text": finding["message"]},
        "properties": {"suggestion": finding["suggestion"], "layer": finding["layer"]},
    }
    if uri is not None:
        place: Document = {"artifactLocation": {"uri": uri}}
        if number is not None:
            place["region"] = _region(finding, number)
        result["locations"] = [{"physicalLocation": place}]
    moved = None if number is None or finding["line"] is None else number - finding["line"]
    if uri is not None and moved is not None:
        fixes = [_fix(hint["edit"], uri, moved) for hint in hints if _settles(hint, finding)]
        if fixes:
            result["fixes"] = fixes
    return result


def _region(finding: Document, number: int) -> Document:
    region: Document = {"startLine": number}
    if finding["column"] is not None:
        region["startColumn"] = finding["column"]
    if finding["end_line"] is not None and finding["end_line"] > finding["line"]:
        region["endLine"] = number + finding["end_line"] - finding["line"]
    return region


def _settles(hint: Document, finding: Document) -> bool:
    same = all(hint[name] == finding[name] for name in ("rule", "file", "line", "message"))
    return same and hint["edit"] is not None


def _fix(edit: Document, uri: str, moved: int) -> Document:
    first, after = edit["start_line"] + moved, edit["end_line"] + 1 + moved
    text = edit["replacement"]
    replacement = {
        "deletedRegion": {"startLine": first, "startColumn": 1, "endLine": after, "endColumn": 1},
        "insertedContent": {"text": text if not text or text.endswith("\n") else text + "\n"},
    }
    change = {"artifactLocation": {"uri": uri}, "replacements": [replacement]}
    return {"description": {"text": "the change that is certain"}, "artifactChanges": [change]}


def junit(client: PlainClient, attempt: Document) -> str:
    """Return an attempt as JUnit XML: a test case per case, as in its bundle; without any, one for all."""
    names = [each["name"] for each in attempt["artifacts"] or () if each["name"].startswith("junit_")]
    if names:
        return client.artifact(attempt["id"], names[0]).decode()
    return junit_suite([attempt])
