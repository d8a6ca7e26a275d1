"""The bundle of an attempt describes the repair that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_chains.attempts import build_attachments as bundle_attachments
from assayd_chains.attempts import list_diffs
from assayd_chains.model import Answer, Chain, ChainRound, Failure, GenerationRequest, Repair, Strategy
from assayd_chains.provider import ProviderStep, Reply

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
CODES = {"A": "one\n", "B": "two\n", "D": "three\n"}


class Attempts:
    """Knows only the submission."""

    def __init__(self, codes: Mapping[str, str]) -> None:
        self._codes = codes

    async def submission(self, attempt_id: str) -> dict[str, object] | None:
        code = self._codes.get(attempt_id)
        return None if code is None else {"payload": {"code": code}}


def step(number: int, text: str) -> ProviderStep:
    reply = Reply(reason="", text=text)
    return ProviderStep(number=number, provider="p", asked_at=NOW, system="", user="", reply=reply)


def answered(strategy: Strategy, number: int, attempt_id: str | None) -> Answer:
    return Answer(
        number=number,
        strategy=strategy,
        asked_at=NOW,
        digest="",
        reason=f"reason {number}",
        passage="code",
        text="",
        duplicate=attempt_id is None,
        attempt_id=attempt_id,
    )


class Store:
    """Knows one repair, one generation whose second answer was a submission, and the answers."""

    def __init__(self, repair: Repair | None, answer: str) -> None:
        self._repair, self._answer = repair, answer

    async def repairs_of(self, attempt_id: str) -> list[Repair]:
        return [self._repair] if self._repair is not None else []

    async def find_generation(self, attempt: Attempt) -> Chain:
        drafts = tuple(answered(Strategy.WRITE, number, name) for number, name in ((1, None), (2, "G")))
        return Chain(
            id="W",
            kind="code",
            provider="p",
            uid=0,
            max_attempts=3,
            started_at=NOW,
            ends_at=NOW,
            words=GenerationRequest(peer=attempt.peer, policy="code", intent="words"),
            rounds=(ChainRound(drafts=drafts),),
        )

    async def step(self, owner_id: str, number: int, *, draft: bool) -> ProviderStep:
        return step(number, f"{owner_id} {number}" if draft else self._answer)


class Jobs:
    """Knows the submissions."""

    async def get(self, attempt_id: str) -> bool | None:
        return True if attempt_id in CODES else None

    async def document(self, attempt_id: str) -> bytes:
        return json.dumps({"payload": {"code": CODES[attempt_id]}}).encode()


def fix(number: int, attempt_id: str | None) -> Answer:
    return answered(Strategy.FIX, number, attempt_id)


REPAIR = Repair(
    id="R",
    kind="code",
    provider="p",
    uid=0,
    max_attempts=3,
    ends_at=NOW,
    failure=Failure(attempt_id="A", at=NOW),
    fixes=(replace(fix(1, "B"), verdict=Verdict.FAILED), fix(2, None), fix(3, "D")),
)


def attempt(attempt_id: str, **more: Any) -> Attempt:
    return Attempt(
        id=attempt_id,
        kind="code",
        policy="code",
        input_digest="",
        created_at=NOW,
        peer=Peer(uid=0, gid=0, pid=0),
        **more,
    )


async def attachments(
    one: Attempt, verdict: Verdict, *, repair: Repair | None = REPAIR, answer: str = ""
) -> Mapping[str, bytes]:
    return await bundle_attachments(one, verdict, store=Store(repair, answer), jobs=Jobs())  # type: ignore[arg-type]  # only what is asked


async def test_each_fix_is_compared_with_the_attempt_before_it() -> None:
    one, duplicate, three = await list_diffs("A", REPAIR.fixes, Attempts(CODES).submission)

    assert duplicate is None
    assert [text.splitlines()[3:] for text in (one, three)] == [["-one", "+two"], ["-two", "+three"]]


async def test_what_is_not_kept_any_more_is_not_compared() -> None:
    assert await list_diffs("A", REPAIR.fixes, Attempts({"D": "three\n"}).submission) == (None, None, None)


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
    ((name, content),) = (await attachments(attempt(attempt_id, parent_id="A"), verdict)).items()

    repair = json.loads(content)
    assert name == "repair_20260504T120000.000000Z.json"
    assert ([fix["verdict"] for fix in repair["attempts"]], repair["outcome"]) == (told, outcome)
    assert repair["attempts"][-1]["diff"].endswith(f"+{CODES[attempt_id]}")


async def test_bundle_of_the_attempt_that_a_repair_began_with_tells_nothing() -> None:
    assert await attachments(attempt("A"), Verdict.FAILED) == {}


async def test_bundle_of_a_fix_holds_its_answer_as_it_came() -> None:
    held = await attachments(attempt("B", parent_id="A"), Verdict.FAILED, answer="Here:\n```python\n")
    assert held["answer_20260504T120000.000000Z.txt"] == b"Here:\n```python\n"


async def test_bundle_of_what_was_written_from_words_holds_its_answer_as_it_came() -> None:
    held = await attachments(attempt("G", intent="words"), Verdict.VALIDATED, repair=None)
    assert held == {"answer_20260504T120000.000000Z.txt": b"W 2"}


async def test_attempt_with_words_that_nobody_generated_holds_no_answer() -> None:
    assert await attachments(attempt("H", intent="words"), Verdict.VALIDATED, repair=None) == {}
