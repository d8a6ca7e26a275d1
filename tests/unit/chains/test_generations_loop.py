"""The processing of an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.analysis.analyst import Analyst
from assayd.documents import to_plain
from assayd.store.access import DatabaseAccess
from assayd_chains.documents import to_generation_document
from assayd_chains.model import ReplyCost
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
        first = await last(chains, await chains.start_generation(ASKED, PEER))
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
        first = await last(chains, await chains.start_generation(ASKED, PEER))
        await chains.hint(first, "more", 7)
        view = await last(chains, first)
        none, fix, hinted = await chains.list_diffs(view)
    assert none is None
    assert "-    return {'a': path}" in str(fix)
    assert "+    return {'good': path}" in str(fix)
    assert "+    return {'good too': path}" in str(hinted)
    document = to_plain(to_generation_document(view, diffs=(none, fix, hinted)))
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


async def test_question_ends_the_round_and_a_hint_answers_it(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    question = Reply(reason="", question="Months as numbers, or as names?", text="{}")
    bench = Bench(analyst, access, Scripted([question, "good"]), questions=True)
    async with bench.running() as chains:
        first = await last(chains, await chains.start_generation(ASKED, PEER))
        await chains.hint(first, "as numbers", 7)
        second = await last(chains, first)
    asked = told(first)
    assert (asked["outcome"], asked["detail"]) == ("question", "Months as numbers, or as names?")
    assert [(one["form"], one["verdict"]) for one in asked["attempts"]] == [("question", None)]
    assert '{"question": "<one question>"}' in bench.provider.asked[0].system
    assert "choose the plainest reading" not in bench.provider.asked[0].system
    prompt = bench.provider.asked[1].user
    assert prompt.index("Months as numbers, or as names?") < prompt.index("as numbers\n⟦end")
    assert outcome_of(second) == ("validated", [None, "validated"])
    kept = await bench.chains.step(second, 1)
    assert kept is not None
    assert kept.reply.question == "Months as numbers, or as names?"


async def test_prompt_invites_no_question_by_default(analyst: Analyst, access: DatabaseAccess) -> None:
    bench = Bench(analyst, access, Scripted(["good"]))
    await bench.ended()
    assert "question" not in bench.provider.asked[0].system
    assert not bench.provider.asked[0].questions


async def test_generation_sums_the_tokens_of_its_answers(analyst: Analyst, access: DatabaseAccess) -> None:
    code = "def extract(path: str) -> dict:\n    return {'%s': path}\n"
    replies = [
        Reply(code=code % word, reason="", usage=ReplyCost(input_tokens=size, output_tokens=2))
        for word, size in (("a", 10), ("good", 20))
    ]
    document = told(await Bench(analyst, access, Scripted(replies)).ended())
    assert (document["input_tokens"], document["output_tokens"]) == (30, 4)


async def test_generation_without_counted_tokens_has_none(analyst: Analyst, access: DatabaseAccess) -> None:
    document = told(await Bench(analyst, access, Scripted(["good"])).ended())
    assert (document["input_tokens"], document["output_tokens"]) == (None, None)
