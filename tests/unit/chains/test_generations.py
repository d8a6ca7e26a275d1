"""From a request to a verdict: in-memory attempts, real analysis workers and stores, a scripted provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assayd.analysis.analyst import Analyst
from assayd.errors import ProviderError, RequestError
from assayd.store.access import DatabaseAccess
from assayd_chains.chains import ChainLimits
from assayd_chains.model import ChainRound
from assayd_chains.provider import FixRequest, Reply
from support.fakes.generation_bench import (
    ASKED,
    PEER,
    WORDS,
    Bench,
    Scripted,
    last,
    outcome_of,
    told,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_provider_that_errs_twice_comes_to_a_validated_attempt(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["a", "b", "good"]))
    view = await bench.ended(replace(ASKED, webhook="https://ci.example/"))
    assert outcome_of(view) == ("validated", ["failed", "failed", "validated"])
    document = told(view)
    assert document["webhook"] == "https://ci.example/"
    assert [one["number"] for one in document["attempts"]] == [1, 2, 3]
    assert document["attempt_id"] == document["attempts"][2]["attempt_id"]
    subject = bench.attempts.known[document["attempt_id"]]
    assert subject.submission["intent"] == WORDS
    assert subject.attempt.parent_id == document["attempts"][1]["attempt_id"]


async def test_request_says_what_is_wanted_and_each_step_is_kept(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["a", "good"]))
    view = await bench.ended()
    first, second = bench.provider.asked
    for wanted in (WORDS, "def extract(path: str) -> dict", "/a/Q1/x.csv", "Import only:"):
        assert wanted in first.user
    assert first.system.endswith('{"code": "<the whole text>", "reason": "<what it does>"}')
    assert (first.passage.language, second.passage.language) == ("python", "python")
    assert WORDS in second.user
    steps = [await bench.chains.step(view, number) for number in (1, 2, 3)]
    assert [step and (step.number, step.user) for step in steps] == [(1, first.user), (2, second.user), None]


async def test_budget_is_one_over_drafts_and_fixes(analyst: Analyst, access: DatabaseAccess) -> None:
    broken = Reply(files={"a.py": "x"}, reason="files")
    bench = Bench(analyst, access, Scripted([broken, "a", "b", "good"]))
    view = await bench.ended()
    assert outcome_of(view) == ("exhausted", [None, "failed", "failed"])
    assert "doesn't accept answers in the form files" in told(view)["attempts"][0]["original_error"]
    assert "doesn't accept answers in the form files" in bench.provider.asked[1].user


async def test_answers_that_never_fit_use_it_up(analyst: Analyst, access: DatabaseAccess) -> None:
    view = await Bench(analyst, access, Scripted([Reply(files={"a.py": "x"}, reason="")] * 4)).ended()
    assert outcome_of(view) == ("exhausted", [None] * 3)
    assert not view.repairs


async def test_operator_is_told_of_a_generation_without_any_submission(
    analyst: Analyst, access: DatabaseAccess, tmp_path: Path
) -> None:
    """Regression: operators were told of repairs only, and no repair had started."""
    bench = Bench(analyst, access, Scripted([ProviderError("provider.refused", "no")]))
    told_to = ("/bin/sh", "-c", f"cat > {tmp_path}/alert")
    bench.new_parts(ChainLimits(on_exhausted=told_to))
    view = await bench.ended()
    alert = json.loads((tmp_path / "alert").read_text())
    assert (alert["repair"], alert["report"]) == (None, None)
    assert (alert["generation"]["id"], alert["generation"]["outcome"]) == (view.id, "provider_failed")


async def test_provider_that_gives_nothing_ends_it(analyst: Analyst, access: DatabaseAccess) -> None:
    view = await Bench(analyst, access, Scripted([ProviderError("provider.refused", "no")])).ended()
    assert (outcome_of(view), told(view)["detail"]) == (("provider_failed", []), "provider.refused: no")


async def test_generation_goes_on_after_a_crash_and_asks_nothing_twice(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["a", "b"]))
    async with bench.running() as chains:  # ended while the third answer is waited for
        started = await chains.start_generation(ASKED, PEER)
        await bench.provider.waits.wait()

    bench.provider = Scripted(["good"])
    bench.new_parts()
    async with bench.running() as chains:
        await chains.recover_unfinished()
        view = await last(chains, started)
    assert outcome_of(view) == ("validated", ["failed", "failed", "validated"])
    assert len(bench.provider.asked) == 1


async def test_answer_that_is_on_record_is_used_after_a_kill_before_its_attempt(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["good"]))
    bench.attempts.gate.clear()
    async with bench.running() as chains:  # ended between the answer and the verdict
        started = await chains.start_generation(ASKED, PEER)
        async for view in chains.follow(started.id):
            if view.chain.drafts:
                break
    assert await bench.store.step(started.id, 1, draft=True) is not None

    stored = await bench.store.get_generation(started.id)
    assert stored is not None  # saved as if the draft had not been recorded either
    await bench.store.save(stored.replace_last_round(ChainRound()))
    bench.attempts.gate.set()
    bench.provider = Scripted([])
    bench.new_parts()
    async with bench.running() as chains:
        await chains.recover_unfinished()
        view = await last(chains, started)
    assert outcome_of(view) == ("validated", ["validated"])
    assert not bench.provider.asked


async def test_hint_on_what_is_validated_asks_again_with_a_full_budget(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["good", "x", "good too"]))
    async with bench.running() as chains:
        first = await last(chains, await chains.start_generation(ASKED, PEER))
        await chains.hint(first, "months as numbers", 8)
        second = await last(chains, first)
    assert outcome_of(second) == ("validated", ["validated", "failed", "validated"])
    assert all(told in bench.provider.asked[1].user for told in ("months as numbers", "'good': path"))
    document = told(second)
    assert [(hint["uid"], hint["hint"]) for hint in document["hints"]] == [(8, "months as numbers")]
    ids = [one["attempt_id"] for one in document["attempts"]]
    assert bench.attempts.known[ids[1]].attempt.parent_id == ids[0]


async def test_hint_on_what_failed_shows_its_failure(analyst: Analyst, access: DatabaseAccess) -> None:
    bench = Bench(analyst, access, Scripted(["a", "b", "c", "good"]))
    async with bench.running() as chains:
        first = await last(chains, await chains.start_generation(ASKED, PEER))
        await last(chains, await chains.hint(first, "h", 8))
    assert " failed\n" in bench.provider.asked[3].user.partition("FAILURE OF THE CODE SO FAR")[2]


async def test_cancelled_generation_ends_with_what_it_has_under_way(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["a"]))
    async with bench.running() as chains:
        started = await chains.start_generation(ASKED, PEER)
        await bench.provider.waits.wait()
        view = await chains.get_generation(started.id)
        assert view is not None
        with pytest.raises(RequestError, match="still running"):
            await chains.hint(view, "h", 7)
        await chains.cancel(view)
        ended = await last(chains, started)
        assert ended.outcome == "cancelled"
        with pytest.raises(RequestError, match="has ended"):
            await chains.cancel(ended)
    assert bench.attempts.cancelled


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"kind": "poem"}, "kind.unknown", "kind"),
        ({"provider": "rules"}, "generation.provider", "provider"),
        ({"provider": "gone"}, "generation.provider", "provider"),
        ({"policy": "gone"}, "policy.unknown", "policy"),
        ({"context": {"inputs": {}}}, "invalid", "context.inputs"),
        ({"context": {}}, "invalid", "context"),
        ({"context": {"sample_paths": [""]}}, "invalid", "context.sample_paths.0"),
        ({"webhook": "https://unlisted.example/"}, "webhook.not_allowed", "webhook"),
    ],
)
async def test_request_that_cannot_be_met_is_refused(
    analyst: Analyst, access: DatabaseAccess, change: dict[str, Any], code: str, field: str
) -> None:
    bench = Bench(analyst, access, Scripted([]))
    async with bench.running() as chains:
        with pytest.raises(RequestError) as refused:
            await chains.start_generation(replace(ASKED, **change), PEER)
    assert (refused.value.code, refused.value.field) == (code, field)


class Streaming(Scripted):
    """A provider whose answers are streamed and end when it is released."""

    def __init__(self, answers: Iterable[str | Reply | Exception]) -> None:
        super().__init__(answers)
        self.may_end = asyncio.Semaphore(0)

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        for piece in ('{"code": ', '"\x1b[31mx"'):
            request.heard(piece)
        await self.may_end.acquire()
        return await super().fix(request, timeout_s=timeout_s)


async def test_answer_is_heard_while_it_comes_of_a_draft_and_of_a_fix(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    provider = Streaming(["a", "good"])
    bench = Bench(analyst, access, provider)
    heard: list[str] = []
    async with bench.running() as chains:
        started = await chains.start_generation(ASKED, PEER)
        course = chains._courses[started.id]
        for _ in range(2):
            while not course.view.heard:
                await asyncio.sleep(0)
            heard.append(course.view.heard)
            provider.may_end.release()
            while course.view.heard:
                await asyncio.sleep(0)
        ended = [view async for view in chains.follow(started.id)][-1]
    assert heard == ['{"code": "\N{REPLACEMENT CHARACTER}[31mx"'] * 2
    assert (ended.heard, ended.chain.outcome) == ("", "validated")
