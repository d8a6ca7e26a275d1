"""What the bundle of an attempt tells of the repair that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from assayd.model.attempt import Attempt
from assayd.model.repair import Fix, Repair, Strategy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.repairs.chain import diffs_of, repair_attachments

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
CODES = {"A": "one\n", "B": "two\n", "D": "three\n"}


class Attempts:
    """Only what was submitted."""

    def __init__(self, codes: Mapping[str, str]) -> None:
        self._codes = codes

    async def submission(self, attempt_id: str) -> dict[str, object] | None:
        code = self._codes.get(attempt_id)
        return None if code is None else {"payload": {"code": code}}


class Store:
    """Knows one repair."""

    async def of_attempt(self, attempt_id: str) -> list[Repair]:
        return [REPAIR]


def fix(number: int, attempt_id: str | None) -> Fix:
    return Fix(
        number=number,
        strategy=Strategy.FIX,
        asked_at=NOW,
        digest="",
        reason=f"reason {number}",
        passage="code",
        patched_code="",
        duplicate=attempt_id is None,
        attempt_id=attempt_id,
    )


REPAIR = Repair(
    id="R",
    attempt_id="A",
    kind="code",
    provider="p",
    uid=0,
    max_attempts=3,
    started_at=NOW,
    ends_at=NOW,
    fixes=(replace(fix(1, "B"), verdict=Verdict.FAILED), fix(2, None), fix(3, "D")),
)


def attempt(attempt_id: str) -> Attempt:
    return Attempt(
        id=attempt_id,
        kind="code",
        policy="code",
        input_digest="",
        created_at=NOW,
        peer=Peer(uid=0, gid=0, pid=0),
    )


async def attachments(attempt_id: str, verdict: Verdict) -> Mapping[str, bytes]:
    read = Attempts(CODES).submission
    return await repair_attachments(attempt(attempt_id), verdict, store=Store(), read=read)


async def test_each_fix_is_compared_with_the_attempt_before_it() -> None:
    one, duplicate, three = await diffs_of(REPAIR, Attempts(CODES).submission)

    assert duplicate is None
    assert [text.splitlines()[3:] for text in (one, three)] == [["-one", "+two"], ["-two", "+three"]]


async def test_what_is_not_kept_any_more_is_not_compared() -> None:
    assert await diffs_of(REPAIR, Attempts({"D": "three\n"}).submission) == (None, None, None)


@pytest.mark.parametrize(
    ("attempt_id", "verdict", "told", "outcome"),
    [
        ("B", Verdict.FAILED, ["failed"], None),
        ("D", Verdict.VALIDATED, ["failed", None, "validated"], "repaired"),
    ],
)
async def test_bundle_tells_the_chain_up_to_its_attempt(
    attempt_id: str, verdict: Verdict, told: list[str | None], outcome: str | None
) -> None:
    ((name, content),) = (await attachments(attempt_id, verdict)).items()

    repair = json.loads(content)
    assert name == "repair_20260504T120000.000000Z.json"
    assert ([fix["verdict"] for fix in repair["attempts"]], repair["outcome"]) == (told, outcome)
    assert repair["attempts"][-1]["diff"].endswith(f"+{CODES[attempt_id]}")


async def test_bundle_of_the_attempt_that_a_repair_began_with_tells_nothing() -> None:
    assert await attachments("A", Verdict.FAILED) == {}
