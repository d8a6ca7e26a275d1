from __future__ import annotations

from typing import cast

import pytest

from assayd.errors import RequestError
from assayd_client import PlainClient
from assayd_client.cli.generate import texts_of
from assayd_client.cli.screens.session import outcome_of_attempt, with_texts

STEPS = [
    {"name": "get", "type": "bash", "content": "cat a"},
    {"name": "get", "type": "sql", "content": "SELECT 1"},
]


@pytest.mark.parametrize(
    "payload",
    [
        {"code": "x = 1", "sample_paths": ["/a"]},
        {"text": ": a ;"},
        {"steps": STEPS, "database": {"schema_sql": ""}},
        {"files": {"a.py": "x", "b.py": "y"}},
        {"files": {"a.py": "x"}, "manifest": {"name": "n"}},
    ],
)
def test_texts_that_were_not_changed_give_the_same_payload(payload: dict[str, object]) -> None:
    assert with_texts(payload, texts_of({"payload": payload})) == payload


def test_each_changed_text_comes_to_its_place() -> None:
    payload = {"steps": STEPS, "inputs": {}}
    texts = {name: f"{text} -- changed" for name, text in texts_of({"payload": payload}).items()}
    changed = with_texts(payload, texts)
    assert [step["content"] for step in changed["steps"]] == ["cat a -- changed", "SELECT 1 -- changed"]
    assert changed["inputs"] == {}


def test_a_manifest_that_is_no_json_is_refused() -> None:
    payload = {"files": {"a.py": "x"}, "manifest": {"name": "n"}}
    with pytest.raises(RequestError, match=r"manifest\.json isn.t valid JSON"):
        with_texts(payload, {"a.py": "x", "manifest.json": "{"})


class CancelledMeanwhile:
    """Knows an attempt that is still being judged when its generation has ended."""

    def attempt(self, attempt_id: str, *, wait_s: float = 0.0) -> dict[str, object]:
        state = "finished" if wait_s else "judging"
        return {"id": attempt_id, "state": state, "verdict": "cancelled", "artifacts": []}


def test_an_outcome_is_not_shown_before_its_attempt_has_ended() -> None:
    client = cast("PlainClient", CancelledMeanwhile())
    found = outcome_of_attempt(client, "01A", told="cancelled")
    assert found.attempt is not None
    assert found.attempt["state"] == "finished"
