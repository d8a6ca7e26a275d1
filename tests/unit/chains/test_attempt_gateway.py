"""Attempts as a repair sees them: temporary errors are waited out, permanent ones are reported."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from assayd.byte_budget import LARGE_BYTES, ByteBudget
from assayd.errors import RequestError
from assayd.model.attempt import State
from assayd.model.submission import Peer
from assayd_chains.attempts import FOREIGN_POLL_S, DaemonAttempts

FULL = RequestError("queue.full", "the queue is full; try again later", retryable=True)
TOO_LARGE = RequestError("too_large", "the submission is too large")
PEER = Peer(pid=1, uid=2, gid=3)


class Desk:
    """Replaces admission, scheduler and store: refuses a few times, and knows an attempt's states."""

    def __init__(self, *refusals: RequestError, states: tuple[State, ...] = ()) -> None:
        self._refusals = list(refusals)
        self._states = list(states)
        self.accepted: list[bytes] = []
        self.slept: list[float] = []
        self.budget = ByteBudget(2**20)
        self.text = b"{}"

    async def submit_document(self, document: bytes, origin: object) -> None:
        if self._refusals:
            raise self._refusals.pop(0)
        self.accepted.append(document)

    async def read_submission_in_turn(self, document: bytes, uid: int) -> object:
        return json.loads(document)

    def policy(self, submission: object) -> object:
        return "policy of", submission

    async def wait(self, attempt_id: str, timeout_s: float) -> None:
        """Raise the error for an attempt of an earlier run of the daemon."""

    async def get(self, attempt_id: str) -> object:
        return SimpleNamespace(id=attempt_id, peer=PEER, state=self._states.pop(0))

    async def document(self, attempt_id: str) -> bytes:
        return self.text

    async def document_size(self, attempt_id: str) -> int:
        return len(self.text)

    async def documents(self, attempt: object) -> tuple[bytes, bytes]:
        return b"{}", b"{}"

    async def sleep(self, time_s: float) -> None:
        self.slept.append(time_s)

    def gateway(self) -> DaemonAttempts:
        return DaemonAttempts(
            admission=self, scheduler=self, jobs=self, documents=self.documents, sleep=self.sleep
        )


async def test_refusal_that_passes_is_waited_out() -> None:
    desk = Desk(FULL, FULL)
    await desk.gateway().submit("a", {"kind": "code"}, peer=PEER)
    assert [json.loads(document) for document in desk.accepted] == [{"kind": "code"}]
    assert len(desk.slept) == 2


async def test_refusal_that_stays_is_raised_at_once() -> None:
    desk = Desk(TOO_LARGE)
    with pytest.raises(RequestError, match="too large"):
        await desk.gateway().submit("a", {}, peer=PEER)
    assert desk.slept == []


async def test_attempt_that_nobody_carries_out_is_looked_at_now_and_then() -> None:
    desk = Desk(states=(State.QUEUED, State.QUEUED, State.FINISHED))
    subject = await desk.gateway().finished("a")
    assert subject.attempt.id == "a"
    assert desk.slept == [FOREIGN_POLL_S, FOREIGN_POLL_S]


async def test_policy_of_a_submission_is_the_one_that_admission_would_run_it_under() -> None:
    desk = Desk()
    submission = {"kind": "code", "policy": "code", "overrides": {"resources": {"unit_timeout_s": 2}}}
    assert await desk.gateway().policy(submission, peer=PEER) == ("policy of", submission)


@pytest.mark.slow
async def test_large_submission_is_fetched_only_at_its_owners_turn() -> None:
    desk = Desk(states=(State.FINISHED,))
    desk.text = b'{"kind": "code"}' + b" " * LARGE_BYTES
    async with desk.budget.reading(LARGE_BYTES + 1, 7):
        reading = asyncio.create_task(desk.gateway().submission("a"))
        await asyncio.sleep(0)
        desk.text = b'{"kind": "code", "of": "its turn"}' + b" " * LARGE_BYTES
    assert await reading == {"kind": "code", "of": "its turn"}
