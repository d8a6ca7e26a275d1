"""Static stages of a submission that isn't recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from assayd.analysis.analyst import Checked
from assayd.analysis.worker import run_stages
from assayd.attempts.static_check import check_static
from assayd.documents.static_check import static_check_document
from assayd.kinds import registry
from assayd.model.report import StageReport
from assayd.model.submission import Submission
from assayd.package_data import share
from assayd.policies import load_policies

KIND = registry.find("extractor")
POLICIES = load_policies([share("policies")])


class Admission:
    """Names the policy of a submission, and completes nothing."""

    async def complete(self, submission: Submission, uid: int) -> Submission:
        return submission

    def policy(self, submission: Submission) -> Any:
        return POLICIES.get(submission.policy)


class HereAnalyst:
    """Checks in this process, and remembers whose turn it was."""

    def __init__(self) -> None:
        self.flows: list[tuple[int, str]] = []

    async def check(self, kind: Any, payload: Any, policy: Any, *, flow: tuple[int, str]) -> Checked:
        self.flows.append(flow)
        return Checked(stages=run_stages(kind, payload, policy), payload=payload)


def submission(code: str) -> Submission:
    payload = KIND.payload.model_validate({"code": code, "sample_paths": ["/a/2024/b.csv"]})
    return Submission(
        kind="extractor", policy="extractor", payload=payload, document=b"", input_digest="d", overrides={}
    )


async def checked(code: str, analyst: HereAnalyst) -> tuple[StageReport, ...]:
    trials: Any = SimpleNamespace(admission=Admission(), analyst=analyst, kinds={"extractor": KIND})
    return await check_static(submission(code), trials, uid=1000)


async def test_refused_import_is_found_in_the_turn_of_its_user_and_nothing_runs() -> None:
    analyst = HereAnalyst()
    code = "import socket\ndef extract(path: str) -> dict:\n    return {'year': 2024}\n"
    document = static_check_document(submission(code), await checked(code, analyst))
    assert [(found.rule, found.line) for found in document.findings] == [("import.not_allowed", 1)]
    assert [hint.rule for hint in document.fix_hints] == ["import.not_allowed"]
    assert {stage.name: stage.status for stage in document.stages}["sandbox"] == "skipped"
    assert analyst.flows == [(1000, "static-check")]


async def test_code_without_a_static_fault_has_no_finding() -> None:
    code = "def extract(path: str) -> dict:\n    return {'year': 1 / 0}\n"
    document = static_check_document(submission(code), await checked(code, HereAnalyst()))
    assert document.findings == []
