"""A generation's HTTP documents while an answer arrives."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import FastAPI

from assayd.model.submission import Peer
from assayd_chains.model import Chain, ChainRound, ChainView, GenerationRequest, Outcome

START = datetime(2026, 5, 4, tzinfo=UTC)
GENERATION = Chain(
    id="01JTC8ZK5V0000000000000001",
    kind="code",
    provider="scripted",
    uid=1000,
    max_attempts=3,
    started_at=START,
    ends_at=START + timedelta(hours=1),
    words=GenerationRequest(peer=Peer(uid=1000, gid=1000, pid=1), policy="code", intent="words"),
    rounds=(ChainRound(),),
)
ENDED = replace(GENERATION, rounds=(ChainRound(outcome=Outcome.PROVIDER_FAILED, finished_at=START),))


class Heard:
    """A generation whose answer arrives in parts, and which then ends."""

    def __init__(self, *heard: str) -> None:
        self._heard = heard

    async def get_generation(self, chain_id: str) -> Chain:
        return GENERATION

    async def list_diffs(self, chain: Chain) -> tuple[str | None, ...]:
        return ()

    async def follow(self, chain_id: str) -> AsyncGenerator[ChainView, None]:
        yield ChainView(chain=GENERATION)
        for text in self._heard:
            yield ChainView(chain=GENERATION, heard=text)
        yield ChainView(chain=ENDED)


def events_of(stream: str) -> list[tuple[str, Any]]:
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in stream.split("\n\n") if block
    ]
    return [(block["event"], json.loads(block["data"])["body"]) for block in blocks if "event" in block]


async def test_answer_is_told_piece_by_piece_and_anew_where_it_begins_again(connect, app: FastAPI) -> None:
    app.state.chains = Heard("def f", "def f():", "other", "")

    answer = await connect().get(f"/v1/generations/{GENERATION.id}/events")

    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events_of(answer.text)
    assert [kind for kind, _ in told] == ["state", "answer", "answer", "answer", "state", "finished"]
    assert [body for kind, body in told if kind == "answer"] == [
        {"text": "def f", "anew": True},
        {"text": "():", "anew": False},
        {"text": "other", "anew": True},
    ]


async def test_answer_of_another_user_is_not_told(connect, app: FastAPI) -> None:
    app.state.chains = Heard("secret")

    answer = await connect(2000).get(f"/v1/generations/{GENERATION.id}/events")

    assert (answer.status_code, "secret" in answer.text) == (404, False)
