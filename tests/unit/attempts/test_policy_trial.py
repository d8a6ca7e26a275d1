"""A trial waits for its caller's turn, no matter who submitted the attempts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from pydantic import BaseModel

from assayd.analysis.analyst import CheckedSubmission, Flow
from assayd.analysis.worker import run_stages
from assayd.attempts.policy_trial import AT_ONCE, MAX_LARGE_CHECKS, PolicyTrialRunner, run_static_check
from assayd.byte_budget import LARGE_BYTES, ByteBudget
from assayd.documents.reports import build_static_check_document
from assayd.kinds import registry
from assayd.model.attempt import Attempt
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptPage, AttemptQuery
from assayd.model.report import StageReport
from assayd.model.submission import Peer, Submission
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.stores.stored_attempts import Make

NODE = {"code": "result: int = 1", "inputs": {}}
OPERATOR = Peer(uid=5, gid=5, pid=1)


class Stored:
    """Finished attempts of another user with one submission."""

    def __init__(self, *attempts: Attempt, text: bytes = b"") -> None:
        self.attempts, self.text = attempts, text
        self.fetched = 0
        self.budget = ByteBudget(2**20)

    async def list(self, query: AttemptQuery) -> AttemptPage:
        return AttemptPage(attempts=self.attempts, next_cursor=None)

    async def document(self, attempt_id: str) -> bytes:
        self.fetched += 1
        return self.text

    async def document_size(self, attempt_id: str) -> int:
        return len(self.text)

    async def read_submission_in_turn(self, document: bytes, uid: int) -> Submission:
        payload = registry.find_validator("code").payload.model_validate(NODE)
        return Submission(
            kind="code", policy="code", payload=payload, document=document, input_digest="d", overrides={}
        )


class Flows:
    """Lets everything through, and records the users in turn."""

    def __init__(self) -> None:
        self.flows: list[Flow] = []

    async def stages(
        self, kind: object, payload: BaseModel, policy: ExecutionPolicy, *, flow: Flow
    ) -> tuple[StageReport, ...]:
        self.flows.append(flow)
        return ()


def trials_of(stored: Any, analyst: Any) -> PolicyTrialRunner:
    return PolicyTrialRunner(
        jobs=stored,
        admission=stored,
        analyst=analyst,
        kinds={"code": registry.find_validator("code")},
        policies=load_policies([get_shared_data_path("policies")]),
        wait=cast("Any", None),
        documents=cast("Any", None),
    )


async def test_trial_of_another_users_attempts_uses_the_callers_turn(make: Make) -> None:
    analyst = Flows()
    trials = trials_of(Stored(make.finished()), analyst)
    *_, last = [trial async for trial in trials.run(trials.policies.get("code"), AttemptQuery(), OPERATOR)]

    assert (last.tried, last.left_out, last.complete) == (1, 0, True)
    assert analyst.flows == [(OPERATOR.uid, "policy-trial")]


class CountingAnalyst(Flows):
    """Remembers how many submissions were fetched and not yet checked."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self.stored = stored
        self.checked = self.most = 0

    async def stages(
        self, kind: object, payload: BaseModel, policy: ExecutionPolicy, *, flow: Flow
    ) -> tuple[StageReport, ...]:
        self.most = max(self.most, self.stored.fetched - self.checked)
        await asyncio.sleep(0)
        self.checked += 1
        return ()


async def test_trial_of_large_submissions_keeps_few_of_them_in_memory(make: Make) -> None:
    stored = Stored(*(make.finished() for _ in range(AT_ONCE)), text=b" " * (LARGE_BYTES + 1))
    analyst = CountingAnalyst(stored)
    trials = trials_of(stored, analyst)
    *_, last = [trial async for trial in trials.run(trials.policies.get("code"), AttemptQuery(), OPERATOR)]

    assert last.tried == AT_ONCE
    assert analyst.most == MAX_LARGE_CHECKS


async def test_trial_counts_each_attempt_once_when_several_wait_together(make: Make) -> None:
    trials = trials_of(Stored(*(make.finished() for _ in range(AT_ONCE + 1))), Flows())
    steps = [trial.tried async for trial in trials.run(trials.policies.get("code"), AttemptQuery(), OPERATOR)]

    assert steps[-1] == AT_ONCE + 1


KIND = registry.find_validator("extractor")
POLICIES = load_policies([get_shared_data_path("policies")])


class Admission:
    """Returns the policy of a submission, and completes nothing."""

    async def complete(self, submission: Submission, uid: int) -> Submission:
        return submission

    def policy(self, submission: Submission) -> Any:
        return POLICIES.get(submission.policy)


class HereAnalyst:
    """Checks in this process, and records the users in turn."""

    def __init__(self) -> None:
        self.flows: list[tuple[int, str]] = []

    async def check(
        self, kind: Any, payload: Any, policy: Any, *, flow: tuple[int, str]
    ) -> CheckedSubmission:
        self.flows.append(flow)
        return CheckedSubmission(stages=run_stages(kind, payload, policy), payload=payload)


def submission(code: str) -> Submission:
    payload = KIND.payload.model_validate({"code": code, "sample_paths": ["/a/2024/b.csv"]})
    return Submission(
        kind="extractor", policy="extractor", payload=payload, document=b"", input_digest="d", overrides={}
    )


async def checked(code: str, analyst: HereAnalyst) -> tuple[StageReport, ...]:
    trials: Any = SimpleNamespace(admission=Admission(), analyst=analyst, kinds={"extractor": KIND})
    return await run_static_check(submission(code), trials, uid=1000)


async def test_refused_import_is_found_in_the_turn_of_its_user_and_nothing_runs() -> None:
    analyst = HereAnalyst()
    code = "import socket\ndef extract(path: str) -> dict:\n    return {'year': 2024}\n"
    document = build_static_check_document(submission(code), await checked(code, analyst))
    assert [(found.rule, found.line) for found in document.findings] == [("import.not_allowed", 1)]
    assert [hint.rule for hint in document.fix_hints] == ["import.not_allowed"]
    assert {stage.name: stage.status for stage in document.stages}["sandbox"] == "skipped"
    assert analyst.flows == [(1000, "static-check")]


async def test_code_without_a_static_fault_has_no_finding() -> None:
    code = "def extract(path: str) -> dict:\n    return {'year': 1 / 0}\n"
    document = build_static_check_document(submission(code), await checked(code, HereAnalyst()))
    assert document.findings == []
