from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assayd.documents import to_plain
from assayd.documents.execution import MOST_LISTED, VOLATILE_FIELDS, replay_diff
from assayd.model.attempt import Attempt, Failure
from assayd.model.report import Verdict
from assayd.model.submission import Peer

CONTRACT = Path(__file__).resolve().parents[3] / "docs/result-contract.md"
ATTEMPT = Attempt(
    id="01",
    kind="code",
    policy="code",
    input_digest="d",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    peer=Peer(uid=1, gid=1, pid=1),
    verdict=Verdict.VALIDATED,
    cause="completed",
)


def documents(**report: Any) -> dict[str, Any]:
    return {"report": {"status": "VALIDATED", **report}, "execution": None}


def diff(before: dict[str, Any], after: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return to_plain(replay_diff(ATTEMPT, replace(ATTEMPT, **changes), before, after))


def test_volatile_fields_are_passed_over() -> None:
    before = {
        "report": {"attempt_id": "a", "stages": [{"name": "s", "duration_ms": 1, "findings": [1]}]},
        "execution": {
            "cpu_ms": 1,
            "container": {"id": "x", "image": "i"},
            "resource_usage": {"oom_kills": 0},
        },
    }
    after = {
        "report": {"attempt_id": "b", "stages": [{"name": "s", "duration_ms": 2, "findings": [2]}]},
        "execution": {
            "cpu_ms": 2,
            "container": {"id": "y", "image": "i"},
            "resource_usage": {"oom_kills": 3},
        },
    }
    assert diff(before, after)["same"]


def test_every_other_difference_is_told_with_its_place() -> None:
    before = documents(findings=[{"rule": "a"}, {"rule": "b"}], confidence=1, limits={"x": 1})
    after = documents(findings=[{"rule": "a"}], confidence=1.0, limits={"y": 1})
    found = diff(before, after, verdict=Verdict.ERROR, error=Failure(code="lost", message="m"))
    assert {each["field"]: (each["before"], each["after"]) for each in found["differences"]} == {
        "verdict": ("validated", "error"),
        "error": (None, {"code": "lost", "message": "m"}),
        "report.findings.1": ({"rule": "b"}, None),
        "report.confidence": (1, 1.0),
        "report.limits.x": (1, None),
        "report.limits.y": (None, 1),
    }
    assert found["verdict"] == {"before": "validated", "after": "error"}


def test_differences_are_capped_in_number_and_size() -> None:
    many = diff(documents(values=list(range(500))), documents(values=list(range(1, 501))))
    assert (len(many["differences"]), many["more"]) == (MOST_LISTED, 500 - MOST_LISTED)
    (large,) = diff(documents(text="x" * 9000), documents(text="y"))["differences"]
    assert (large["before"], large["after"]) == ("(9002 bytes)", "y")


SECTIONS = {"report": "Report", "report.runtime_results.cases": "Case", "execution": "Execution"}


@pytest.mark.parametrize("place", SECTIONS)
def test_what_is_passed_over_is_what_the_contract_marks_as_volatile(place: str) -> None:
    assert VOLATILE_FIELDS[place] == set(marked(SECTIONS[place]))


def marked(section: str) -> Iterator[str]:
    """Return the fields of a section's table that are marked V as a whole."""
    text = re.search(rf"^##+ {section}\n(.*?)(?=^##|\Z)", CONTRACT.read_text(), re.MULTILINE | re.DOTALL)
    assert text is not None
    for row in re.findall(r"^\| (.*?) \| V \|", text[1], re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)
