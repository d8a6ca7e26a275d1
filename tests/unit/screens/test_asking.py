"""The screen that asks for a request, at 80 × 24, and its keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import TextArea

from assayd_client import Refused
from assayd_client.cli.generate import GenerateOptions
from assayd_screens.session import GenerationInput
from support.fakes.played_wizard import (
    PASSED,
    WORDS,
    Played,
    like_the_golden_one,
    picture,
    shown,
    until,
    wizard,
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_words_and_context_are_asked_for_with_what_is_known_filled_in() -> None:
    session = Played(PASSED)
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        like_the_golden_one(pilot, "asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    assert session.done == [("begin", WORDS, {"sample_paths": ["/data/Q1/report.csv"]})]


@pytest.mark.parametrize(
    ("kind", "seen", "unseen"),
    [
        ("pipeline", ("Files and folders", "Database"), ("Sample paths", "Examples", "Inputs", "More")),
        ("fifth", ("Files and folders", "libraries, task_type"), ("Sample paths", "Examples", "Database")),
        ("gone", ("unknown kind 'gone'", "Provider"), ("Sample paths", "Files", "Database", "More")),
    ],
)
async def test_a_kind_is_asked_for_what_it_takes_and_no_more(
    kind: str, seen: tuple[str, ...], unseen: tuple[str, ...]
) -> None:
    none = GenerateOptions(sample_paths=(), files=(), database=None, examples=(), inputs=None, options=())
    asked = GenerationInput(kind=kind, intent=WORDS)
    async with wizard(Played(PASSED), asked=asked, given=none).run_test(size=(80, 40)) as pilot:
        await shown(pilot, "Asking")
        told = picture(pilot)
    assert all(each in told for each in seen)
    assert not any(each in told for each in unseen)


async def test_what_was_given_is_shown_whatever_the_kind_takes() -> None:
    session = Played(PASSED)
    asked = GenerationInput(kind="pipeline", intent=WORDS)
    async with wizard(session, asked=asked).run_test(size=(80, 40)) as pilot:
        await shown(pilot, "Asking")
        assert "/data/Q1/report.csv" in picture(pilot)
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    assert session.done == [("begin", WORDS, {"sample_paths": ["/data/Q1/report.csv"]})]


async def test_what_cannot_be_read_is_said_and_stays() -> None:
    session = Played(PASSED)
    empty = GenerationInput(kind="extractor", intent="")
    async with wizard(session, asked=empty).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert "describe what the code should do" in picture(pilot)
    assert session.done == []


async def test_the_first_field_has_the_focus() -> None:
    session = Played(PASSED)
    async with wizard(session, asked=GenerationInput(kind="extractor", intent="")).run_test(
        size=(80, 24)
    ) as pilot:
        await shown(pilot, "Asking")
        await pilot.press(*"year", "tab")
        assert pilot.app.focused is pilot.app.screen.query_one("#sample_path")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    assert session.done[0][1] == "year"


async def test_what_is_typed_before_the_first_screen_comes_into_its_first_field() -> None:
    session = Played(PASSED)
    session.may_offer.clear()
    async with wizard(session, asked=GenerationInput(kind="extractor", intent="the ")).run_test(
        size=(80, 24)
    ) as pilot:
        await pilot.press(*"year")
        session.may_offer.set()
        await shown(pilot, "Asking")
        await pilot.press(*" only", "ctrl+g")
        await shown(pilot, "Result")
    assert session.done[0][1] == "the year only"


async def test_a_refused_request_keeps_what_was_entered_and_marks_the_field(tmp_path: Path) -> None:
    (tmp_path / "Q1.csv").touch()
    refusal = Refused("invalid", "no such path", status=422, field="context.sample_paths.0")
    session = Played(refusal, PASSED)
    case = '{"name": "one", "path": "Q1.csv", "expected": {}}'
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("tab", "end", "enter", *"*.csv", "tab", *case, "ctrl+g")
        await until(pilot, lambda: "no such path" in picture(pilot))
        like_the_golden_one(pilot, "refused")
        marked = pilot.app.screen.query_one("#sample_path")
        assert pilot.app.focused is marked
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    first, second = session.done
    assert first == second
    assert first[2] == {
        "sample_paths": ["/data/Q1/report.csv", "Q1.csv"],
        "cases": [{"name": "one", "path": "Q1.csv", "expected": {}}],
    }


async def test_a_missing_context_is_asked_for_in_its_first_field() -> None:
    missing = Refused("invalid", "context: supply sample_paths or cases", status=422, field="context")
    async with wizard(Played(missing)).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "supply Sample paths or Examples" in picture(pilot))
        assert pilot.app.focused is pilot.app.screen.query_one("#sample_path")


async def test_keys_that_follow_a_tab_at_once_come_into_the_next_field() -> None:
    session = Played(PASSED)
    async with wizard(session, asked=GenerationInput(kind="extractor", intent="")).run_test(
        size=(80, 24)
    ) as pilot:
        await shown(pilot, "Asking")
        for key in ("a", "tab", "b", "c"):  # without a pause between them, as a terminal sends a burst
            character = None if key == "tab" else key
            pilot.app.post_message(events.Key(key, character))
        await pilot.pause()
        intent, paths = (
            pilot.app.screen.query_one(f"#{name}", TextArea) for name in ("intent", "sample_path")
        )
        assert intent.text == "a"
        assert paths.text.endswith("bc")


async def test_an_example_that_is_no_json_is_marked_in_its_field() -> None:
    async with wizard(Played(PASSED)).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("tab", "tab", *"{no", "ctrl+g")
        await until(pilot, lambda: "correct this" in picture(pilot))
        assert pilot.app.focused is pilot.app.screen.query_one("#example")
        assert picture(pilot).startswith(" Examples: ")


async def test_all_missing_fields_of_examples_are_named_and_typing_goes_on_at_the_end() -> None:
    session = Played(PASSED)
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("tab", "tab", *'{"path": "a"}', "enter", "{", "}", "ctrl+g")
        await until(pilot, lambda: "correct this" in picture(pilot))
        told = picture(pilot).splitlines()[0]
        assert told == " example 1: expected is missing; example 2: name, path, expected are missing"
        await pilot.press("backspace", "backspace", *'{"name": "b", "path": "b", "expected": {}}')
        area = pilot.app.screen.query_one("#example", TextArea)
        area.text = area.text.replace('"a"', '"a", "expected": {}')
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    assert session.done[0][2]["cases"] == [  # type: ignore[index]
        {"name": "a", "path": "a", "expected": {}},
        {"name": "b", "path": "b", "expected": {}},
    ]


async def test_one_of_several_providers_has_to_be_chosen() -> None:
    session = Played(PASSED)
    session.writers = ("first", "second")
    async with wizard(session).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "choose a provider" in picture(pilot))
        assert session.done == []
        await pilot.press("enter", "down", "down", "enter", "ctrl+g")
        await shown(pilot, "Result")
    assert session.provider == "second"


async def test_an_url_that_is_told_of_the_end_is_passed_on() -> None:
    session = Played(PASSED)
    asked = GenerationInput(kind="extractor", intent=WORDS, webhook="https://ci.example/")
    async with wizard(session, asked=asked).run_test(size=(80, 24)) as pilot:
        await shown(pilot, "Asking")
        await pilot.press("ctrl+g")
        await shown(pilot, "Result")
    assert session.webhook == "https://ci.example/"
