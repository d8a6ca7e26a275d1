"""Solutions are forked from memory that has never held a test."""

from __future__ import annotations

import json
from pathlib import Path

from support.guests.guest_runner import guest_runner

HEAP = Path(__file__).parents[2] / "escape/solution/cheats/looking/heap.py"
SECRET = "hidden-4711"
TESTS = f"def check(candidate):\n    assert candidate([1]) == -1, '{SECRET}'\n"
COMMON = {"text": TESTS, "texts": [], "context": "", "entry_point": "total", "names": [], "modules": [], "trusted": False}  # fmt: skip


def printed_by_solution(work: Path, *, read_before: bytes) -> bytes:
    """Run the tests twice after the runner has read something; return the second solution's output."""
    with guest_runner(work) as runner:
        runner.begin(mode="observe", hidden_tests=True, max_processes=8)
        if read_before:
            runner.file("kept", read_before)
        solution = {"code": HEAP.read_text(), "context": "", "entry_point": "total"}
        runner.send("solution", json.dumps(solution).encode())
        runner.send("common", json.dumps(COMMON).encode())
        runner.run("tests", {"do": "check"}, more=True)
        return runner.run("tests", {"do": "check"}).output("stdout")


def test_solution_finds_nothing_of_its_tests_in_memory(tmp_path: Path) -> None:
    assert printed_by_solution(tmp_path, read_before=b"") == b""


def test_solution_would_find_what_the_runner_reads_before_the_nursery(tmp_path: Path) -> None:
    assert SECRET.encode() in printed_by_solution(tmp_path, read_before=SECRET.encode())
