"""The trial of a submission that has passed: where its results are decoded."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from assayd.attempts.attempt_run import Job
from assayd.attempts.conclusion import LARGE_BYTES
from assayd.attempts.lifecycle import LocalExecution
from assayd.model.merge import Ran
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement
from assayd.model.run import Cause, Outcome, RunEnd, RunResult, UnitResult

POLICY = ExecutionPolicy(name="x")
OK = Outcome(cause=Cause.COMPLETED)


@pytest.mark.parametrize(("size", "elsewhere"), [(10, False), (LARGE_BYTES + 1, True)])
async def test_a_large_result_is_decoded_in_a_thread(size: int, elsewhere: bool) -> None:
    threads: list[threading.Thread] = []
    validator = Mock()
    validator.plan_trial.side_effect = lambda *_: threads.append(threading.current_thread())
    validator.judge_trial.side_effect = lambda *_: threads.append(threading.current_thread()) or {}
    job = SimpleNamespace(validator=validator, policy=POLICY, limits=None)
    unit = UnitResult(name="test_a.py", wait_status=0, outcome=OK, results=(b"x" * size,))
    result = RunResult(units=(unit,), end=RunEnd.FINISHED, outcome=OK)
    ran = Ran(result=result, judgement=Judgement(stage_findings={}))

    execution = LocalExecution(**dict.fromkeys(_PORTS, Mock()), daemon_id="d", generation="g")
    await execution._tried(cast("Job", job), Mock(), ran)

    assert [one is not threading.current_thread() for one in threads] == [elsewhere, elsewhere]


_PORTS = ("analyst", "sandbox", "jobs", "conclusion", "verdicts", "clock", "slots")
