"""What becomes of an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.analysis.analyst import Analyst
from assayd.documents import plain
from assayd.store.access import DatabaseAccess
from assayd_chains.documents import generation_document
from assayd_chains.provider import Reply
from support.fakes.generation_bench import ASKED, PEER, Bench, Scripted, last, outcome_of, told

COMPUTES = """\
def extract(path: str) -> dict:
    return {"quarter": int(path[4]), "month": 3 * int(path[4])}
"""
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_what_is_submitted_of_a_chatty_answer_is_its_code_alone(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    code = "def extract(path: str) -> dict:\n    return {'%s': path}\n"
    answers = [f"Here you are:\n\n```python\n{code % word}```\nAs asked.\n" for word in ("a", "good")]
    replies = [Reply(code=answer, reason="as asked", text=answer) for answer in answers]
    bench = Bench(analyst, access, Scripted(replies))
    view = await bench.ended()
    first, second = told(view)["attempts"]
    submitted = [bench.attempts.known[one["attempt_id"]].submission for one in (first, second)]
    assert [one["payload"]["code"] for one in submitted] == [code % "a", code % "good"]  # type: ignore[index]
    assert [one["patched_code"] for one in (first, second)] == [code % "a", code % "good"]
    kept = [await bench.chains.step(view, number) for number in (1, 2)]
    assert [one and one.reply.text for one in kept] == answers


async def test_providers_that_write_are_all_but_the_rules(analyst: Analyst, access: DatabaseAccess) -> None:
    assert Bench(analyst, access, Scripted([])).chains.writers == ["scripted"]


async def test_hint_on_an_edited_attempt_goes_on_from_what_was_edited(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["good", "good too"]))
    async with bench.running() as chains:
        first = await last(chains, await chains.generate(ASKED, PEER))
        parent = bench.attempts.known[str(first.last_attempt_id)]
        edited = {**parent.submission, "payload": {"code": "by hand: good"}}
        await bench.attempts.submit(
            "01JTC8ZK5V0000000000000009", {**edited, "parent_id": parent.attempt.id}, peer=PEER
        )
        attempt = bench.attempts.known["01JTC8ZK5V0000000000000009"].attempt
        await chains.hint(first, "months as numbers", 7, attempt=attempt)
        second = await last(chains, first)
    asked = bench.provider.asked[1].user
    assert "by hand: good" in asked
    assert "'good': path" not in asked
    drafted = bench.attempts.known[told(second)["attempts"][1]["attempt_id"]].attempt
    assert drafted.parent_id == attempt.id


async def test_each_attempt_after_the_first_says_what_it_changed(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["a", "good", "good too"]))
    async with bench.running() as chains:
        first = await last(chains, await chains.generate(ASKED, PEER))
        await chains.hint(first, "more", 7)
        view = await last(chains, first)
        none, fix, hinted = await chains.diffs(view)
    assert none is None
    assert "-    return {'a': path}" in str(fix)
    assert "+    return {'good': path}" in str(fix)
    assert "+    return {'good too': path}" in str(hinted)
    document = plain(generation_document(view, diffs=(none, fix, hinted)))
    assert [one["diff"] for one in document["attempts"]] == [none, fix, hinted]


async def test_rules_are_offered_though_one_answer_was_all_there_may_be(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted([Reply(code=COMPUTES, reason="It computes.")]))
    view = await bench.ended(replace(ASKED, max_attempts=1))
    [repair] = view.repairs
    assert outcome_of(view) == ("exhausted", ["failed"])
    assert repair.fallback is not None
    assert repair.fallback["trigger"] == "computed_fields"
