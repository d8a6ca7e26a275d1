from __future__ import annotations

import json

import pytest

from assayd_client.cli.evaluate import TASK_LABEL, _build_submission_line, estimate_pass_at_k
from assayd_client.rewards import BenchmarkTask, HiddenTests


def row(samples: int, passed: int, lost: int = 0) -> dict[str, object]:
    return {"task": "t", "samples": samples, "passed": passed, "mean_score": None, "lost": lost}


@pytest.mark.parametrize(
    ("rows", "k", "estimate"),
    [
        ([row(1, 1), row(1, 0)], 1, 0.5),
        ([row(4, 2)], 1, 0.5),
        ([row(4, 2)], 2, 0.8333),
        ([row(4, 2), row(4, 0)], 2, 0.4167),
        ([row(4, 2, lost=2)], 2, 1.0),
    ],
)
def test_estimate_is_the_mean_over_tasks_without_what_was_lost(
    rows: list[dict[str, object]], k: int, estimate: float
) -> None:
    assert estimate_pass_at_k(rows, k)["estimate"] == estimate


def test_interval_is_within_0_and_1_and_narrows_with_tasks() -> None:
    few, many = (
        estimate_pass_at_k([row(1, 1), row(1, 0)] * 2, 1),
        estimate_pass_at_k([row(1, 1), row(1, 0)] * 50, 1),
    )
    assert 0 <= few["low"] < many["low"] < 0.5 < many["high"] < few["high"] <= 1


def test_tasks_with_too_few_samples_do_not_count() -> None:
    assert estimate_pass_at_k([row(1, 1), row(10, 0)], 10) == {
        "k": 10,
        "tasks": 1,
        "estimate": 0.0,
        "low": 0.0,
        "high": 0.0,
    }
    assert estimate_pass_at_k([row(1, 1)], 10)["estimate"] is None


@pytest.mark.parametrize(
    ("problems", "samples", "options", "said"),
    [
        ("{", "", (), "p.jsonl:1: not valid JSON"),
        ("[]", "", (), "p.jsonl:1: not a JSON object"),
        ("{}", "", (), "p.jsonl:1: a problem needs task_id"),
        ("", '{"task_id": "x", "completion": ""}', (), "s.jsonl:1: no problem has the task_id 'x'"),
        (
            '{"task_id": "x", "entry_point": "f", "test": "t"}',
            '{"task_id": "x"}',
            (),
            "s.jsonl:1: a sample needs a completion or a solution",
        ),
        ("", "", ("--k", "1,x"), "--k 1,x isn't a list of positive integers"),
    ],
)
def test_bad_input_is_named_with_its_line(
    assay, service, tmp_path, capsys, problems: str, samples: str, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "p.jsonl").write_text(problems)
    (tmp_path / "s.jsonl").write_text(samples)
    assert assay("evaluate", str(tmp_path / "p.jsonl"), str(tmp_path / "s.jsonl"), *options) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("task", "labels"), [("HumanEval/12", {TASK_LABEL: "HumanEval/12"}), ("a b", None)])
def test_attempt_is_labelled_with_its_task_if_that_can_be_a_label(
    task: str, labels: dict[str, str] | None
) -> None:
    problem = BenchmarkTask(task_id=task, hidden=HiddenTests(entry_point="f", tests="assert f()"))

    assert json.loads(_build_submission_line(problem, "def f(): return 1", None)).get("labels") == labels
