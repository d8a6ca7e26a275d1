"""Which policies go with which kinds; when stored submissions are read."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assayd.attempts.admission import Admission, AttemptOrigin, require_image
from assayd.byte_budget import LARGE_BYTES, ByteBudget
from assayd.documents import read_submission
from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.model.policy import ExecutionPolicy
from assayd.model.submission import Peer, Submission


@pytest.mark.parametrize(("kind", "image"), [("pipeline", "science"), ("fifth", "shell")])
def test_policy_with_another_image_is_refused_for_a_kind_that_needs_its_own(kind: str, image: str) -> None:
    with pytest.raises(RequestError) as raised:
        require_image(registry.find_validator(kind), ExecutionPolicy(name="mine", image=image))

    assert (raised.value.code, raised.value.field) == ("policy.image", "policy")
    assert f"policy 'mine' runs in image {image}, but kind {kind} needs " in raised.value.message


@pytest.mark.parametrize(
    ("kind", "image"),
    [("code", "science"), ("script", "shell"), ("extractor", "x"), ("fifth", None), ("pipeline", "shell")],
)
def test_kind_that_runs_anywhere_and_the_kinds_own_image_are_taken(kind: str, image: str | None) -> None:
    policy = ExecutionPolicy(name="mine", image=image)

    require_image(registry.find_validator(kind), policy)
    assert policy.image == image


class Records:
    """Adds the steps of a pipeline to every submission."""

    async def complete(self, submission: Submission, uid: int, **_: bool) -> dict[str, object]:
        return {"steps": [{"name": "list", "type": "bash", "content": "ls data"}]}


def admission_with(budget: ByteBudget) -> Admission:
    names = "jobs conclusion policies clock ids webhooks repair_requests acceptance caps quota"
    parts: dict[str, Any] = dict.fromkeys(names.split())
    scheduler = cast("Any", SimpleNamespace(budget=budget))
    return Admission(
        **parts, records={"pipeline": Records()}, kinds=registry.load_own_validators(), scheduler=scheduler
    )


@pytest.mark.slow
async def test_large_stored_submission_is_fetched_only_at_its_users_turn() -> None:
    budget, fetched = ByteBudget(2**20), asyncio.Event()

    async def fetch() -> bytes:
        fetched.set()
        return b"{}"

    origin = AttemptOrigin(peer=Peer(uid=1, gid=1, pid=1))
    async with asyncio.TaskGroup() as tasks:
        async with budget.reading(LARGE_BYTES + 1, 2):
            replay = tasks.create_task(admission_with(budget).submit_stored(LARGE_BYTES + 1, fetch, origin))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not fetched.is_set()
        await fetched.wait()
        replay.cancel()


async def test_large_submission_gets_its_steps_at_its_users_turn() -> None:
    named = {"pipeline_id": "01J" + "0" * 23, "files": {"data/a": "1" * 100_000}}
    text = json.dumps({"kind": "pipeline", "payload": named}).encode()
    submission = read_submission(text, registry.load_own_validators())
    budget = ByteBudget(2**20)
    async with asyncio.TaskGroup() as tasks, budget.wait_to_parse(2):
        completing = tasks.create_task(admission_with(budget).complete(submission, 1))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not completing.done()
    assert [step.name for step in cast("Any", completing.result().payload).steps] == ["list"]
