"""The page of models' mistakes, and attempts with many cases, with a scripted daemon."""

from __future__ import annotations

import pytest

from assayd_console.pages.attempts import MAX_SHOWN_CASES, select_cases
from unit.console.test_pages import HOSTILE, logged_in

WEEK = {
    "kind": "code",
    "provider": HOSTILE,
    "week": "2026-05-04",
    "generations": 5,
    "validated": 4,
    "validated_at_once": 3,
    "answers_to_pass": 1.25,
    "repairs": 7,
    "repaired": 6,
    "hinted": 2,
    "hinted_repaired": 1,
    "rules": [{"rule": "sandbox.raised", "attempts": 9, "answered": 8, "cleared": 4}],
}
ANSWERS = {"since": "2026-04-13T00:00:00.000000Z", "complete": False, "weeks": [WEEK]}


async def test_page_counts_answers_by_week_kind_and_provider() -> None:
    async with logged_in({"/v1/answers": ANSWERS}) as (client, _):
        shown = (await client.get("/trends/answers?weeks=26&kind=code")).text

    for text in ("4 / 5", "3 / 5", "1.25", "6 / 7", "1 / 2", "sandbox.raised", "4 / 8", "Only the newest"):
        assert text in shown
    assert "<script>alert" not in shown


@pytest.mark.parametrize("query", ["weeks=9999", "weeks=x&kind=<b>", ""])
async def test_unknown_filters_show_the_default(query: str) -> None:
    async with logged_in({"/v1/answers": {**ANSWERS, "weeks": []}}) as (client, _):
        shown = await client.get(f"/trends/answers?{query}")

    assert shown.status_code == 200
    assert "No generation or repair has ended" in shown.text


def test_of_many_cases_those_that_failed_are_shown_first() -> None:
    cases = [{"status": "failed" if number == 900 else "passed", "name": number} for number in range(1000)]

    shown = select_cases(cases)

    assert len(shown) == MAX_SHOWN_CASES
    assert [case["name"] for case in shown[:3]] == [900, 0, 1]
