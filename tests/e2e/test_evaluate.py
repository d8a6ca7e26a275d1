"""Answers of a model, judged by hidden tests: `assay evaluate`, and rewards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assayd_client.rewards import HiddenTests, score
from support.engines.oci import needs_oci

pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize("daemon", [pytest.param("oci", marks=needs_oci)], indirect=True),
]

FOLDER = Path(__file__).resolve().parents[2] / "examples/evaluate"
TESTS = HiddenTests(entry_point="double", tests=["assert double(2) == 4", "assert double(3) == 6"])


def evaluate(daemon, *options: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("assay")
    command = [program, "evaluate", "problems.jsonl", "samples.jsonl", *options]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    return subprocess.run(command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False)


def test_samples_of_a_model_come_to_pass_at_k(daemon, tmp_path: Path) -> None:
    done = evaluate(daemon, "--k", "1,2", "--timeout", "5", "--junit", str(tmp_path / "junit.xml"))
    assert done.stdout == (FOLDER / "expected.txt").read_text(), done.stderr
    assert done.returncode == 0
    assert (tmp_path / "junit.xml").read_text().count("<testcase") == 12


def test_same_command_again_judges_nothing_twice(daemon) -> None:
    first, again = (json.loads(evaluate(daemon, "--timeout", "5", "--json").stdout) for _ in range(2))
    assert first == again
    with daemon.client() as client:
        assert client.batch(first["batch"])["counts"]["total"] == 12


def test_rewards_are_shares_of_passed_tests_in_order(daemon) -> None:
    answers = [
        "def double(x): return 2 * x",
        "def double(x): return 4",
        "import os; os._exit(0)",
        "no code (",
    ]
    found = score([*answers, answers[0]], TESTS, daemon=daemon.socket)
    assert found == [1.0, 0.5, 0.0, 0.0, 1.0]
    assert found.lost == 0


def test_all_or_nothing_gives_no_share(daemon) -> None:
    found = score(
        ["```python\ndef double(x): return 4\n```"], TESTS, all_or_nothing=True, daemon=daemon.socket
    )
    assert found == [0.0]
