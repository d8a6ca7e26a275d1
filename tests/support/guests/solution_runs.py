"""Runs a solution's tests in a guest runner, without a container."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from assayd.kinds.solution.payload import PreparedSolution, SolutionPayload
from assayd.kinds.solution.validator import validator
from assayd.model.run import Limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.guests.guest_runner import Seen, guest_runner

LIMITS = Limits(timeout_s=20, unit_timeout_s=10, memory_bytes=2**28, max_processes=8)
POLICY = load_policies([get_shared_data_path("policies")]).get("solution")


def prepared(code: str, tests: object, entry_point: str = "f", **more: object) -> PreparedSolution:
    """Return a payload as the plan needs it."""
    fields = {"cases": tests} if isinstance(tests, list) and isinstance(tests[0], dict) else {"tests": tests}
    document = {"code": code, "entry_point": entry_point, "reveal": "all", **fields, **more}
    return validator.prepare(SolutionPayload.model_validate_json(json.dumps(document)))


def run_tests(work: Path, payload: PreparedSolution, deadline_s: float = 10.0) -> dict[str, Seen]:
    """Run every test; return the messages about each test, by name."""
    spec = validator.plan(payload, POLICY, LIMITS)
    assert spec.paired is not None
    with guest_runner(work) as runner:
        runner.begin(mode="observe", hidden_tests=True, max_processes=8)
        runner.send("solution", _json(spec.paired.solution))
        runner.send("common", _json(spec.paired.tests))
        left = len(spec.units)
        return {
            unit.name: runner.run("tests", unit.arguments, deadline_s=deadline_s, more=number < left - 1)
            for number, unit in enumerate(spec.units)
        }


def passed(seen: Mapping[str, Seen]) -> list[str]:
    """Return the names of the tests that passed."""
    return [
        name
        for name, one in seen.items()
        if one.end["wait_status"] == 0 and one.record["status"] == "returned"
    ]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
