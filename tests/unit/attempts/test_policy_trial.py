"""A trial waits for its turn as its caller, whoever sent the attempts."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel

from assayd.analysis.analyst import Checked, Flow
from assayd.attempts.policy_trial import PolicyTrials
from assayd.kinds import registry
from assayd.model.attempt import Attempt
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import Page, Query
from assayd.model.submission import Peer, Submission
from assayd.package_data import share
from assayd.policies import load_policies
from support.stores.stored_attempts import Make

NODE = {"code": "result: int = 1", "inputs": {}}
OPERATOR = Peer(uid=5, gid=5, pid=1)


class Stored:
    """One finished attempt of another user, with its submission."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    async def list(self, query: Query) -> Page:
        return Page(attempts=(self.attempt,), next_cursor=None)

    async def document(self, attempt_id: str) -> bytes:
        return b""

    async def read(self, document: bytes) -> Submission:
        payload = registry.find("code").payload.model_validate(NODE)
        return Submission(
            kind="code", policy="code", payload=payload, document=document, input_digest="d", overrides={}
        )


class Flows:
    """Passes everything, and remembers whose turn it was."""

    def __init__(self) -> None:
        self.flows: list[Flow] = []

    async def check(
        self, kind: object, payload: BaseModel, policy: ExecutionPolicy, *, flow: Flow
    ) -> Checked:
        self.flows.append(flow)
        return Checked(stages=(), payload=payload)


async def test_trial_of_another_users_attempts_uses_the_callers_turn(make: Make) -> None:
    policies, stored, analyst = (
        load_policies([share("policies")]),
        cast("Any", Stored(make.finished())),
        Flows(),
    )
    trials = PolicyTrials(
        jobs=stored,
        admission=stored,
        analyst=cast("Any", analyst),
        kinds={"code": registry.find("code")},
        policies=policies,
        wait=cast("Any", None),
        documents=cast("Any", None),
    )
    *_, last = [trial async for trial in trials.run(policies.get("code"), Query(), OPERATOR)]

    assert (last.tried, last.left_out, last.complete) == (1, 0, True)
    assert analyst.flows == [(OPERATOR.uid, "policy-trial")]
