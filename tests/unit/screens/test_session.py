from __future__ import annotations

from typing import cast

import pytest

from assayd.errors import RequestError
from assayd.kinds.extractor.validator import ExtractorContext
from assayd_client import PlainClient
from assayd_client.cli.texts import get_submission_texts
from assayd_screens.session import (
    ChainOutcome,
    WizardSession,
    _list_case_fields,
    build_attempt_outcome,
    describe_chain_end,
    list_editable_texts,
    replace_texts,
)

STEPS = [
    {"name": "get", "type": "bash", "content": "cat a"},
    {"name": "get", "type": "sql", "content": "SELECT 1"},
]


@pytest.mark.parametrize(
    "payload",
    [
        {"code": "x = 1", "sample_paths": ["/a"]},
        {"text": ": a ;"},
        {"files": {"a.py": "x", "b.py": "y"}},
        {"files": {"a.py": "x"}, "manifest": {"name": "n"}},
    ],
)
def test_texts_that_were_not_changed_give_the_same_payload(payload: dict[str, object]) -> None:
    assert replace_texts(payload, get_submission_texts({"payload": payload})) == payload


def test_steps_are_edited_added_moved_and_removed_in_one_text() -> None:
    payload = {"steps": STEPS, "inputs": {}}
    [(name, text)] = list_editable_texts(ChainOutcome(submission={"payload": payload})).items()
    assert replace_texts(payload, {name: text})["steps"] == [
        {**step, "content": f"{step['content']}\n"} for step in STEPS
    ]
    edited = text.replace("=== get (bash) ===\ncat a\n", "") + "=== more (bash) ===\nsort a |\n\n  uniq\n"
    changed = replace_texts(payload, {name: edited})
    assert changed["steps"] == [
        {"name": "get", "type": "sql", "content": "SELECT 1\n"},
        {"name": "more", "type": "bash", "content": "sort a |\n\n  uniq\n"},
    ]
    assert changed["inputs"] == {}


@pytest.mark.parametrize(
    "text", ["", "# only help\n", "cat a\n=== get (bash) ===\ncat a\n", "=== a (perl) ===\nx"]
)
def test_steps_without_a_head_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="must begin with a line: === NAME"):
        replace_texts({"steps": STEPS}, {"steps.txt": text})


def test_a_manifest_that_is_no_json_is_refused() -> None:
    payload = {"files": {"a.py": "x"}, "manifest": {"name": "n"}}
    with pytest.raises(RequestError, match=r"manifest\.json isn.t valid JSON"):
        replace_texts(payload, {"a.py": "x", "manifest.json": "{"})


class EditedTwice:
    """Knows an attempt of a generation that was edited twice."""

    def __init__(self, daemon: object) -> None:
        self._parents = {"01C": "01B", "01B": "01A", "01A": None}

    def __enter__(self) -> EditedTwice:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def generations(self, *, limit: int) -> dict[str, object]:
        return {"generations": [{"id": "01G", "attempts": [{"attempt_id": None}, {"attempt_id": "01A"}]}]}

    def attempt(self, attempt_id: str) -> dict[str, object]:
        return {"parent_id": self._parents[attempt_id]}


def test_edited_attempt_belongs_to_the_generation_that_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: reviewing an edited attempt offered neither a hint nor another generation."""
    monkeypatch.setattr("assayd_screens.session.PlainClient", EditedTwice)
    assert WizardSession(None).known("01C").generation_id == "01G"


class CancelledMeanwhile:
    """Knows an attempt that is still judged after its generation has ended."""

    def attempt(self, attempt_id: str, *, wait_s: float = 0.0) -> dict[str, object]:
        state = "finished" if wait_s else "judging"
        return {"id": attempt_id, "state": state, "verdict": "cancelled", "artifacts": []}


def test_an_outcome_is_not_shown_before_its_attempt_has_ended() -> None:
    client = cast("PlainClient", CancelledMeanwhile())
    found = build_attempt_outcome(client, "01A", told="cancelled")
    assert found.attempt is not None
    assert found.attempt["state"] == "finished"


def test_used_up_answers_and_the_last_hint_are_named_at_the_end() -> None:
    ended = {"state": "finished", "outcome": "exhausted", "max_attempts": 3, "detail": None}
    assert describe_chain_end(ended) == "No answer passed (3 of 3 used)"
    assert describe_chain_end(ended, "shorter") == "No answer passed (3 of 3 used). Hint: shorter"
    assert describe_chain_end(ended | {"outcome": "stuck", "detail": "the same"}) == "Ended: stuck: the same"


def test_examples_of_a_kind_have_the_fields_that_its_schema_requires() -> None:
    assert _list_case_fields(ExtractorContext.model_json_schema()) == {
        "name": "string",
        "path": "string",
        "expected": "object",
    }
    assert _list_case_fields({}) == {}
