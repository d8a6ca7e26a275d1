"""The benchmark's provider of recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

from bench.generate import readers
from bench.generate.recorded import Recorded, answer, calls_in, digest_of


def asked(user: str) -> str:
    return json.dumps({"prompt": {"system": "Answer JSON.", "user": user}})


def recorded(user: str, text: str) -> Recorded:
    return {"prompt": digest_of(json.loads(asked(user))), "answer": text}


def test_answers_of_a_chain_are_played_in_order(tmp_path: Path) -> None:
    played = {"a": [recorded("one", "first"), recorded("two", "second")], "b": [recorded("one", "other")]}

    told = [answer("a", asked(user), played, tmp_path, None) for user in ("one", "two")]

    assert told == ["first", "second"]
    assert [call["stale"] for call in calls_in(tmp_path / "a.jsonl")] == [False, False]


def test_answer_to_a_changed_prompt_is_played_as_stale(tmp_path: Path) -> None:
    told = answer("a", asked("one, changed"), {"a": [recorded("one", "first")]}, tmp_path, None)

    [call] = calls_in(tmp_path / "a.jsonl")
    assert told == "first"
    assert call["stale"]
    assert call["text"] == "Answer JSON.\n\none, changed"


def test_call_without_a_recording_has_no_answer(tmp_path: Path) -> None:
    played = {"a": [recorded("one", "first")]}
    answer("a", asked("one"), played, tmp_path, None)

    assert answer("a", asked("two"), played, tmp_path, None) is None
    assert len(calls_in(tmp_path / "a.jsonl")) == 1


def test_person_is_asked_again_if_the_prompt_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "001.answer.txt").write_text("by a person")

    told = answer("a", asked("one, changed"), {"a": [recorded("one", "first")]}, tmp_path, folder)

    [call] = calls_in(tmp_path / "a.jsonl")
    assert told == "by a person"
    assert not call["stale"]


def test_readers_have_ten_questions_for_each_prompt() -> None:
    for kind, (prompt, pairs) in readers.load().items():
        assert len(pairs) == 10, kind
        assert "Answer with one JSON object and nothing else" in prompt
        assert all(asked.endswith("?") and right for asked, right in pairs), kind
