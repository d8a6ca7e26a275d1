"""What a gateway reads of the report that a node brings."""

from __future__ import annotations

import pytest

from assayd.errors import RequestError
from assayd_cluster.gateway.verdicts import _cases

CASE = {
    "name": "/data/a.csv",
    "status": "passed",
    "cause": "completed",
    "result": {"year": 2024},
    "error_type": None,
    "message": None,
    "traceback": None,
    "file": None,
    "line": None,
    "stdout": "",
    "stderr": "",
    "duration_ms": 1500.0,
    "exit_code": 0,
}


def test_case_of_a_newer_node_is_read_without_what_is_not_known_here() -> None:
    [case] = _cases({"runtime_results": {"cases": [{**CASE, "mood": "new"}]}})
    assert (case.name, case.duration_s) == ("/data/a.csv", 1.5)


@pytest.mark.parametrize("lacking", ["name", "status", "duration_ms"])
def test_case_that_lacks_what_every_case_has_is_refused(lacking: str) -> None:
    case = {name: value for name, value in CASE.items() if name != lacking}
    with pytest.raises(RequestError, match="a case is none"):
        _cases({"runtime_results": {"cases": [case]}})
