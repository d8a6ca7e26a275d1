"""A model's answers, judged by hidden tests: `assay evaluate`, and rewards."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from assayd_client.rewards import HiddenTests, score

pytestmark = pytest.mark.engine

FOLDER = Path(__file__).resolve().parents[2] / "examples/evaluate"
TESTS = HiddenTests(entry_point="double", tests=["assert double(2) == 4", "assert double(3) == 6"])


def evaluate(
    daemon, *options: str, problems: str = "problems.jsonl", samples: str = "samples.jsonl"
) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("assay")
    command = [program, "evaluate", problems, samples, *options]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    return subprocess.run(command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False)


def test_samples_of_a_model_come_to_pass_at_k(daemon, tmp_path: Path) -> None:
    done = evaluate(daemon, "--k", "1,2", "--timeout", "5", "--junit", str(tmp_path / "junit.xml"))
    assert done.stdout == (FOLDER / "expected.txt").read_text(), done.stderr
    assert done.returncode == 0
    assert (tmp_path / "junit.xml").read_text().count("<testcase") == 12


def test_every_task_of_ours_validates_its_reference_and_fails_its_wrong_solution(
    daemon, tmp_path: Path
) -> None:
    tasks = [json.loads(line) for line in (FOLDER / "tasks.jsonl").read_text().splitlines()]
    samples = [
        {"task_id": task["task_id"], "solution": task[which]}
        for task in tasks
        for which in ("solution", "wrong")
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    done = evaluate(daemon, "--json", problems="tasks.jsonl", samples=str(tmp_path / "samples.jsonl"))
    rows = json.loads(done.stdout)["tasks"]
    assert len(rows) >= 40
    assert {row["task"]: row["passed"] for row in rows if row["passed"] != 1 or row["lost"]} == {}


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


def example(name: str) -> ModuleType:
    """Load a reward function from its file, like a training framework."""
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIGHT = "Here you are:\n```python\ndef double(x):\n    return 2 * x\n```\n"
HALF = "def double(x): return 4"


def test_reward_of_trl_takes_columns_and_completions_of_both_forms(daemon, monkeypatch) -> None:
    monkeypatch.setenv("ASSAY_SOCKET", str(daemon.socket))
    found = example("trl_reward").hidden_tests(
        prompts=["p", "p"],
        completions=[HALF, [{"role": "assistant", "content": RIGHT}]],
        completion_ids=[[1], [2]],
        tests=[TESTS.tests, "def check(f):\n    assert f(5) == 10\n"],
        entry_point=["double", "double"],
        trainer_state=None,
        log_extra=None,
        log_metric=None,
    )
    assert found == [0.5, 1.0]


def test_reward_of_verl_is_a_number(daemon, monkeypatch) -> None:
    monkeypatch.setenv("ASSAY_SOCKET", str(daemon.socket))
    truth = json.dumps({"entry_point": "double", "tests": list(TESTS.tests)})
    given = {"data_source": "d", "solution_str": HALF, "ground_truth": truth, "extra_info": {"index": 1}}
    assert example("verl_reward").compute_score(**given) == 0.5


def test_reward_of_verifiers_is_awaited_with_all_that_a_rubric_has(daemon, monkeypatch) -> None:
    monkeypatch.setenv("ASSAY_SOCKET", str(daemon.socket))
    info = {"entry_point": "double", "tests": list(TESTS.tests)}
    given = {"prompt": [], "completion": [{"role": "assistant", "content": RIGHT}], "answer": "", "state": {}}
    assert asyncio.run(example("verifiers_rubric").hidden_tests(**given, task="t", info=info)) == 1.0
