"""Each screen at 80 × 24, and its keys; `ASSAY_GOLDEN=write` updates the golden files."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest
from textual.pilot import Pilot

from assayd_screens.result import AcceptedRules
from assayd_screens.wizard import WizardResult
from support.fakes.played_wizard import (
    FAILED,
    PASSED,
    WORDS,
    Played,
    event,
    like_the_golden_one,
    outcome,
    picture,
    shown,
    until,
    wizard,
)

DRAWING = Path(__file__).parents[3] / "docs" / "wizard.svg"


def like_the_drawing(pilot: Pilot[WizardResult]) -> None:
    """Check that README's drawing shows this screen, apart from fonts."""
    if os.environ.get("ASSAY_GOLDEN") == "write":
        svg = pilot.app.export_screenshot(title="assay generate extractor", simplify=True)
        DRAWING.write_text(re.sub(r"@font-face \{[^}]*\}\s*|<!--[^>]*-->\s*", "", svg))
    drawn = html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", DRAWING.read_text())))
    words = picture(pilot).split()
    assert [word for word in words if word not in drawn.replace("\xa0", " ")] == []
    assert "http" not in DRAWING.read_text().replace("http://www.w3.org/", "")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_answers_stages_and_units_are_seen_as_they_come() -> None:
    session = Played(PASSED)
    session.may_end.clear()
    answer = {
        "number": 1,
        "attempt_id": "01A",
        "verdict": "failed",
        "duplicate": False,
        "original_error": "",
        "fix_reason": "a guess",
    }
    under_way = answer | {"number": 2, "attempt_id": "01B", "verdict": None, "fix_reason": "better"}
    session.told = [event("attempt", {"attempts": [answer, under_way]})]
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "3/5 paths" in picture(pilot) and "line 3" in picture(pilot))
        lines = picture(pilot).splitlines()
        assert lines[0].startswith(" Generating  attempt 2 of 3")
        assert lines[1] == " 1. failed: line 3: what is wrong in 01A"
        assert lines[2] == "    reason: a guess"
        assert lines[3].split() == ["└─", "syntax", "✓", "1.0ms"]
        await pilot.press("escape")
        await shown(pilot, "Result")
    assert session.done[-1] == ("cancel", "01G")


async def test_an_answer_is_seen_while_it_comes() -> None:
    session = Played(PASSED)
    session.may_end.clear()
    code = r'{"code": "def extract(path: str) -> dict:\n    return {}'
    session.told = [
        event("answer", {"text": "an earlier call", "anew": True}),
        event("answer", {"text": code[:20], "anew": True}),
        event("answer", {"text": code[20:] + "\x1b[31m" + "x" * 200, "anew": False}),
    ]
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "return {}" in picture(pilot))
        lines = picture(pilot).splitlines()
        assert lines[1:3] == [" ▸ receiving an answer", '   {"code": "def extract(path: str) -> dict:']
        assert lines[3].startswith("       return {}\\x1b[31mxxx")
        assert lines[3].endswith("x…")
        await pilot.press("escape")
        await shown(pilot, "Result")


async def test_a_validated_result_shows_code_and_previews_and_is_approved_under_a_name() -> None:
    session = Played(PASSED)
    app = wizard(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        like_the_golden_one(pilot, "validated")
        like_the_drawing(pilot)
        await pilot.press("enter")
        await shown(pilot, "Line")
        like_the_golden_one(pilot, "name")
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    assert session.done[-1] == ("approve", "months")
    assert (app.return_value.code, app.return_value.approved) == (0, "months@1")  # type: ignore[union-attr]


async def test_a_refused_name_is_said_as_plain_text() -> None:
    session = Played(PASSED)
    async with wizard(session, name="taken").run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        await pilot.press("enter")
        await shown(pilot, "Line")
        await pilot.press("enter")
        await until(pilot, lambda: "[@click=app.exit]now[/]" in picture(pilot))
        assert pilot.app.return_value is None


async def test_a_failed_result_shows_the_error_and_cannot_be_approved() -> None:
    session = Played(FAILED, PASSED)
    app = wizard(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        like_the_golden_one(pilot, "failed")
        await pilot.press("enter", "h")
        await shown(pilot, "Line")
        await pilot.press(*"more", "enter")
        await until(pilot, lambda: session.outcomes == [] and "Passed" in picture(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: app.return_value is not None)
    assert [each[0] for each in session.done] == ["begin", "hint"]
    assert session.done[-1] == ("hint", "more")


async def test_round_after_a_hint_is_counted_separately_and_shows_the_hint() -> None:
    session = Played(FAILED, PASSED)
    session.before = 3
    answer = {
        "attempt_id": None,
        "verdict": "failed",
        "duplicate": False,
        "original_error": "wrong",
        "fix_reason": "a guess",
    }
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        session.told = [event("attempt", {"attempts": [answer | {"number": n} for n in (1, 2, 3)]})]
        session.may_end.clear()
        await pilot.press("h")
        await shown(pilot, "Line")
        await pilot.press(*"shorter", "enter")
        await until(pilot, lambda: "3. failed" in picture(pilot))
        lines = picture(pilot).splitlines()
        session.may_end.set()
        await shown(pilot, "Result")
    assert lines[0].startswith(" Generating  attempt 1 of 3 since the hint")
    assert lines[1] == " Hint: shorter"


async def test_regenerate_asks_for_the_same_again() -> None:
    session = Played(FAILED, PASSED)
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        await pilot.press("r")
        await until(pilot, lambda: "Passed" in picture(pilot))
    assert session.done[0] == session.done[1]


def offer() -> tuple[str, dict[str, object]]:
    applied = {"paths": 1, "complete": 1, "shown": []}
    fallback = {"trigger": "timeout", "reason": "It ran too long.", "rules": "extract:\n", "notes": {}}
    return "01R", fallback | {"applied": applied, "accepted_at": None}


async def test_rules_that_are_offered_are_accepted_under_a_name() -> None:
    session = Played(outcome("failed_at_run", offer=offer()))
    Path("months.yaml").touch()
    app = wizard(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        await pilot.press("y")
        await shown(pilot, "Line")
        await pilot.press("enter")
        await until(pilot, lambda: "months.yaml already exists" in picture(pilot))
        assert session.done[-1][0] == "begin"
        await pilot.press("end", "2", "enter")
        await until(pilot, lambda: app.return_value is not None)
    assert session.done[-1] == ("accept", "01R")
    ended = app.return_value
    assert ended is not None
    assert (ended.code, ended.approved) == (0, None)
    assert ended.rules == AcceptedRules(name="months2", text="rules", path=Path("months2.yaml"))


async def test_an_attempt_is_reviewed_without_asking() -> None:
    session = Played(FAILED)
    app = wizard(session, asked=None, given=None, reviewed="01A")
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Result")
        await pilot.press("escape")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value.code == 1  # type: ignore[union-attr]


async def test_an_attempt_that_was_submitted_by_hand_cannot_be_asked_for_again() -> None:
    session = Played(outcome("failed_at_run"))
    async with wizard(session, asked=None, given=None, reviewed="01A").run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Result")
        assert "Regenerate" not in picture(pilot)


async def test_a_reviewed_attempt_of_a_generation_can_be_asked_for_again() -> None:
    session = Played(FAILED, PASSED)
    async with wizard(session, asked=None, given=None, reviewed="01A").run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Result")
        await pilot.press("r")
        await until(pilot, lambda: "Passed" in picture(pilot))
    assert session.done == [("again", "01G")]


async def test_a_pass_is_not_lost_by_asking_again() -> None:
    session = Played(PASSED, FAILED)
    app = wizard(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        assert "Earlier pass" not in picture(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "Failed at" in picture(pilot))
        await pilot.press("b")
        await until(pilot, lambda: "Passed" in picture(pilot))
        await pilot.press("enter")
        await shown(pilot, "Line")
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
    assert session.done[-1] == ("approve", "months")


async def test_a_name_is_proposed_by_the_words() -> None:
    named = outcome("validated", submission=PASSED.submission | {"intent": WORDS})  # type: ignore[operator]
    async with wizard(Played(named), name="").run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        await pilot.press("enter")
        await shown(pilot, "Line")
        assert "quarter_folder_start_end" in picture(pilot)


async def test_no_text_of_code_acts_on_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07 [@click=app.exit]x[/] \u202e"
    submission = {"kind": "extractor", "payload": {"files": {f"{hostile}.py": hostile}}}
    session = Played(outcome("validated", submission=submission, diff=hostile, told=hostile))
    async with wizard(session).run_test(size=(80, 200)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        drawn = picture(pilot)
    assert not set("\x1b\x07\u202e") & set(drawn)
    assert drawn.count("[@click=app.exit]x[/]") == 4


async def test_escape_leaves_a_filled_form_only_when_pressed_twice() -> None:
    app = wizard(Played(PASSED))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press(*"and", "escape")
        await until(pilot, lambda: "Press esc again to leave" in picture(pilot))
        assert app.return_value is None
        await pilot.press("escape")
        await until(pilot, lambda: app.return_value is not None)


async def test_escape_leaves_a_form_that_was_not_changed_at_once() -> None:
    app = wizard(Played(PASSED))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("escape")
        await until(pilot, lambda: app.return_value is not None)


async def test_escape_leaves_a_typed_hint_only_when_pressed_twice() -> None:
    app = wizard(Played(FAILED))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        await pilot.press("h")
        await shown(pilot, "Line")
        await pilot.press(*"more", "escape")
        await until(pilot, lambda: "Press esc again to lose" in picture(pilot))
        await pilot.press("escape")
        await shown(pilot, "Result")


async def test_answer_to_a_hint_that_changes_nothing_is_called_the_same() -> None:
    async with wizard(Played(PASSED, PASSED)).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
        assert "the same as before" not in picture(pilot)
        await pilot.press("h")
        await shown(pilot, "Line")
        await pilot.press(*"more", "enter")
        await until(pilot, lambda: "The code is the same as before." in picture(pilot))
