"""Judging a submission that has passed: where its results are decoded."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from assayd.attempts.conclusion import LARGE_BYTES, ConclusionWriter
from assayd.attempts.execution import Job
from assayd.attempts.lifecycle import LocalExecution
from assayd.model.merge import JudgedRun
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement
from assayd.model.run import Cause, RunEndReason, RunOutcome, RunResult, UnitResult
from support.stores.stored_attempts import Make

POLICY = ExecutionPolicy(name="x")
OK = RunOutcome(cause=Cause.COMPLETED)


@pytest.mark.parametrize(("size", "elsewhere"), [(10, False), (LARGE_BYTES + 1, True)])
async def test_a_large_result_is_decoded_in_a_thread(size: int, elsewhere: bool) -> None:
    threads: list[threading.Thread] = []
    validator = Mock()
    validator.plan_trial.side_effect = lambda *_: threads.append(threading.current_thread())
    validator.judge_trial.side_effect = lambda *_: threads.append(threading.current_thread()) or {}
    job = SimpleNamespace(validator=validator, policy=POLICY, limits=None, attempt=Make().attempt())
    unit = UnitResult(name="test_a.py", wait_status=0, outcome=OK, results=(b"x" * size,))
    result = RunResult(units=(unit,), end=RunEndReason.FINISHED, outcome=OK)
    ran = JudgedRun(result=result, judgement=Judgement(stage_findings={}))

    parts = {**dict.fromkeys(_PORTS, Mock()), "conclusion": ConclusionWriter(artifacts=Mock(), clock=Mock())}
    execution = LocalExecution(**parts, daemon_id="d", generation="g")
    await execution._add_trial_findings(cast("Job", job), Mock(), ran)

    assert [one is not threading.current_thread() for one in threads] == [elsewhere, elsewhere]


async def test_large_results_are_worked_on_one_at_a_time() -> None:
    """Regression: several threads together kept the event loop waiting for the interpreter lock."""
    conclusion, running, most = ConclusionWriter(artifacts=Mock(), clock=Mock()), 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.01)
        running -= 1

    attempts = map(Make().attempt, range(1, 6))
    await asyncio.gather(*(conclusion.call_in_thread(each, work) for each in attempts))

    assert most == 1


_PORTS = ("run_static_stages", "sandbox", "jobs", "conclusion", "clock", "slots")
