"""Writes reports in the formats JUnit (for build servers) and SARIF (for editors and code scanning).

Each report is written item by item, so that memory use doesn't depend on the number of items.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO
from xml.sax.saxutils import escape, quoteattr

from assayd import __version__
from assayd_client import Document, PlainClient
from assayd_client.cli.report import SubmissionOrigin

SARIF_LEVELS: Mapping[str, str] = {"error": "error", "warning": "warning", "info": "note"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MALFORMED_LINE_RULE = "line.not_submitted"
"""The rule for a malformed line; a kind's rules are about code."""

_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 can't represent, even escaped."""


class JunitWriter:
    """A writer of a JUnit test suite that contains one test case per item."""

    def __init__(self, file: TextIO, batch: Document) -> None:
        self._file = file
        self._batch = batch

    def __enter__(self) -> Self:
        counts = self._batch["counts"]
        self._file.write('<?xml version="1.0" encoding="utf-8"?>\n')
        self._file.write(
            f"<testsuite name={_quote(self._batch['name'])} tests={_quote(counts['total'])}"
            f" failures={_quote(counts['failed'])} errors={_quote(counts['error'])}"
            f" skipped={_quote(counts['cancelled'] + counts['waiting'])}>\n"
        )
        return self

    def add(self, result: Document) -> None:
        """Write one item of a batch as a test case."""
        attempt, number = result["attempt"], result["line"]
        kind = attempt["kind"] if attempt else "line"
        took_s = (attempt["timings_ms"]["total"] or 0) / 1000 if attempt else 0.0
        head = f"classname={_quote(kind)} name={_quote(_build_item_name(number, attempt))}"
        outcome = "".join(_iter_outcome_elements(result))
        self._file.write(f'<testcase {head} time="{took_s:.6f}">{outcome}</testcase>\n')

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.write("</testsuite>\n")


def _build_item_name(number: int, attempt: Document | None) -> str:
    """Return a name for an item: its line number and labels, or the id of its attempt."""
    if attempt is None:
        return f"line {number}"
    labels = " ".join(f"{key}={value}" for key, value in sorted(attempt["labels"].items()))
    return f"line {number}: {labels or attempt['id']}"


def _iter_outcome_elements(result: Document) -> Iterator[str]:
    verdict, findings = result["verdict"], list(_get_findings(result))
    if verdict == "validated":
        return
    if verdict in {None, "cancelled"}:
        yield "<skipped/>"
        return
    failure = result["error"] or (result["attempt"] or {}).get("error")
    errors = [each for each in findings if each["severity"] == "error"]
    first = failure["message"] if failure else errors[0]["message"] if errors else verdict
    kind = failure["code"] if failure else errors[0]["rule"] if errors else verdict
    tag = "failure" if verdict == "failed" else "error"
    said = ((each, each["message"].replace("\n", "\n    ")) for each in findings)
    text = "\n".join(f"{each['rule']} line {each['line']}: {message}" for each, message in said)
    content = escape(_replace_illegal_characters(text))
    yield f"<{tag} type={_quote(kind)} message={_quote(first)}>{content}</{tag}>"


class SarifWriter:
    """A writer of the findings of all items in SARIF, located at the items' lines in the batch file.

    SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """

    def __init__(self, file: TextIO, source: Path, rules: Sequence[Document]) -> None:
        self._file = file
        self._uri = "stdin" if source == Path("-") else source.as_posix()
        self._rules = {rule["id"]: build_sarif_rule(rule) for rule in rules}
        self._rules[MALFORMED_LINE_RULE] = {
            "id": MALFORMED_LINE_RULE,
            "shortDescription": {"text": "A line can't be submitted"},
        }
        self._empty = True

    def __enter__(self) -> Self:
        driver = {"name": "assayd", "version": __version__, "rules": list(self._rules.values())}
        head = {"$schema": SARIF_SCHEMA, "version": "2.1.0"}
        self._file.write(json.dumps(head)[:-1] + f', "runs": [{{"tool": {json.dumps({"driver": driver})}')
        self._file.write(', "columnKind": "unicodeCodePoints", "results": [')
        return self

    def add(self, result: Document) -> None:
        """Write the error or the findings of one item of a batch."""
        if result["error"] is not None:
            self._write_result(
                _build_sarif_result(
                    self._uri, result, MALFORMED_LINE_RULE, "error", result["error"]["message"]
                )
            )
        for finding in _get_findings(result):
            place = f" (line {finding['line']} of the code)" if finding["line"] is not None else ""
            level = SARIF_LEVELS[finding["severity"]]
            found = _build_sarif_result(self._uri, result, finding["rule"], level, finding["message"] + place)
            found["properties"] |= {
                "line": finding["line"],
                "column": finding["column"],
                "snippet": finding["snippet"],
                "suggestion": finding["suggestion"],
                "layer": finding["layer"],
            }
            self._write_result(found)

    def _write_result(self, found: Document) -> None:
        self._file.write("\n" if self._empty else ",\n")
        self._file.write(json.dumps(found))
        self._empty = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.write("\n]}]}\n")


def render_junit_suite(attempts: Sequence[Document]) -> str:
    """Return a JUnit XML suite with one test case for each attempt."""
    cases = [_render_junit_case(attempt) for attempt in attempts]
    counts = {tag: sum(f"<{tag}" in case for case in cases) for tag in ("failure", "error", "skipped")}
    head = f'<testsuite name="assayd" tests="{len(cases)}" failures="{counts["failure"]}"'
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{head} errors="{counts["error"]}"'
        f' skipped="{counts["skipped"]}">\n{"".join(cases)}</testsuite>\n'
    )


def _render_junit_case(attempt: Document) -> str:
    outcome = "".join(
        _iter_outcome_elements({"verdict": attempt["verdict"], "error": None, "attempt": attempt})
    )
    kind, name = _quote(attempt["kind"]), _quote(f"{attempt['kind']} {attempt['id']}")
    took_s = (attempt["timings_ms"]["total"] or 0) / 1000
    return f'<testcase classname={kind} name={name} time="{took_s:.6f}">{outcome}</testcase>\n'


def _get_findings(result: Document) -> Sequence[Document]:
    attempt = result["attempt"]
    found: Sequence[Document] = attempt["report"]["findings"] if attempt and attempt["report"] else ()
    return found


def build_sarif_rule(rule: Document) -> Document:
    """Return a kind's rule as a SARIF reporting descriptor."""
    return {
        "id": rule["id"],
        "shortDescription": {"text": rule["title"]},
        "help": {"text": rule["help"] or rule["title"]},
        "defaultConfiguration": {"level": SARIF_LEVELS[rule["severity"]]},
    }


def _build_sarif_result(uri: str, result: Document, rule: str, level: str, message: str) -> Document:
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": result["line"]}}
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"assaydInput/v1": f"{result['input_digest']}:{rule}"},
        "properties": {"attempt_id": result["attempt_id"]},
    }


def _quote(value: object) -> str:
    return quoteattr(_replace_illegal_characters(str(value)))


def _replace_illegal_characters(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


def build_sarif(attempt: Document, origin: SubmissionOrigin, rules: Mapping[str, Document]) -> Document:
    """Return an attempt's findings as SARIF 2.1.0.

    Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    report = attempt["report"] or {}
    findings = report.get("findings") or []
    used = [rules[name] for name in dict.fromkeys(each["rule"] for each in findings) if name in rules]
    driver = {"name": "assayd", "version": __version__, "rules": [build_sarif_rule(rule) for rule in used]}
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
        "results": [_build_finding_result(finding, hints, origin) for finding in findings],
    }
    return build_sarif_log([run])


def build_sarif_log(runs: list[Document]) -> Document:
    """Return a SARIF log that contains these runs."""
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": runs}


def _build_finding_result(finding: Document, hints: list[Document], origin: SubmissionOrigin) -> Document:
    uri, number = origin.locate_finding(finding)
    result: Document = {
        "ruleId": finding["rule"],
        "level": SARIF_LEVELS[finding["severity"]],
        "message": {"text": finding["message"]},
        "properties": {"suggestion": finding["suggestion"], "layer": finding["layer"]},
    }
    if uri is not None:
        place: Document = {"artifactLocation": {"uri": uri}}
        if number is not None:
            place["region"] = _build_region(finding, number)
        result["locations"] = [{"physicalLocation": place}]
    moved = None if number is None or finding["line"] is None else number - finding["line"]
    if uri is not None and moved is not None:
        fixes = [_build_sarif_fix(hint["edit"], uri, moved) for hint in hints if _is_edit_for(hint, finding)]
        if fixes:
            result["fixes"] = fixes
    return result


def _build_region(finding: Document, number: int) -> Document:
    region: Document = {"startLine": number}
    if finding["column"] is not None:
        region["startColumn"] = finding["column"]
    if finding["end_line"] is not None and finding["end_line"] > finding["line"]:
        region["endLine"] = number + finding["end_line"] - finding["line"]
    return region


def _is_edit_for(hint: Document, finding: Document) -> bool:
    same = all(hint[name] == finding[name] for name in ("rule", "file", "line", "message"))
    return same and hint["edit"] is not None


def _build_sarif_fix(edit: Document, uri: str, moved: int) -> Document:
    first, after = edit["start_line"] + moved, edit["end_line"] + 1 + moved
    text = edit["replacement"]
    replacement = {
        "deletedRegion": {"startLine": first, "startColumn": 1, "endLine": after, "endColumn": 1},
        "insertedContent": {"text": text if not text or text.endswith("\n") else text + "\n"},
    }
    change = {"artifactLocation": {"uri": uri}, "replacements": [replacement]}
    return {"description": {"text": "the safe edit"}, "artifactChanges": [change]}


def render_junit(client: PlainClient, attempt: Document) -> str:
    """Return an attempt as JUnit XML, with a test case for each case in its bundle.

    Without a JUnit file in the bundle, the attempt is a single test case.
    """
    names = [each["name"] for each in attempt["artifacts"] or () if each["name"].startswith("junit_")]
    if names:
        return client.artifact(attempt["id"], names[0]).decode()
    return render_junit_suite([attempt])
