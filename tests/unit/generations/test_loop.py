"""What becomes of an answer."""

from __future__ import annotations

import pytest

from assayd.analysis.analyst import Analyst
from assayd.ports.llm import Reply
from assayd.store.access import DatabaseAccess
from support.fakes.generation_bench import ASKED, PEER, Bench, Scripted, last, told

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
    kept = [await bench.generations.step(view, number) for number in (1, 2)]
    assert [one and one.reply.text for one in kept] == answers


async def test_providers_that_write_are_all_but_the_rules(analyst: Analyst, access: DatabaseAccess) -> None:
    assert Bench(analyst, access, Scripted([])).generations.writers == ["scripted"]


async def test_hint_on_an_edited_attempt_goes_on_from_what_was_edited(
    analyst: Analyst, access: DatabaseAccess
) -> None:
    bench = Bench(analyst, access, Scripted(["good", "good too"]))
    async with bench.running() as generations:
        first = await last(generations, (await generations.start(ASKED, PEER)).generation)
        parent = bench.attempts.known[str(first.generation.attempt_id)]
        edited = {**parent.submission, "payload": {"code": "by hand: good"}}
        await bench.attempts.submit("01JTC8ZK5V0000000000000009", edited, parent=parent.attempt)
        attempt = bench.attempts.known["01JTC8ZK5V0000000000000009"].attempt
        await generations.hint(first, "months as numbers", 7, attempt=attempt)
        second = await last(generations, first.generation)
    asked = bench.provider.asked[1].user
    assert "by hand: good" in asked
    assert "'good': path" not in asked
    drafted = bench.attempts.known[told(second)["attempts"][1]["attempt_id"]].attempt
    assert drafted.parent_id == attempt.id
