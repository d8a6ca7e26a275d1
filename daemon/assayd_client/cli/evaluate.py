"""Implements `assay evaluate`, which judges samples of a model with hidden tests and prints pass@k."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from assayd.errors import RequestError
from assayd_client import Document
from assayd_client.cli.batch import BatchOutputs, follow_batch, write_files
from assayd_client.cli.options import EXIT_ERROR, open_client
from assayd_client.cli.submitting import LABEL
from assayd_client.cli.terminal import get_stdout, print_json, print_table
from assayd_client.rewards import BenchmarkTask, parse_problem

TASK_LABEL = "task"
"""The label that contains the task of an attempt, by which the console groups attempts."""
Z = 1.96
"""Half the width of the interval that contains 95 % of a standard normal distribution."""


def evaluate(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    problems: Annotated[Path, typer.Argument(help="Tasks with their tests, one JSON object per line.")],
    samples: Annotated[Path, typer.Argument(help="A model's answers, one JSON object per line.")],
    k: Annotated[
        str, typer.Option("--k", metavar="K,…", help="Report pass@k for these values of k, e.g. 1,10.")
    ] = "1",
    timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0.001, help="Stop each test after this many seconds.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name the batch. Default: derived from the files' contents."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Evaluate at most this many samples at once.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="F", help="Write a JUnit report with one case per sample.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as a JSON object.")] = False,
) -> None:
    """Score model answers with hidden tests and print pass@k; rerun to resume after an interruption."""
    chosen = _parse_k_values(k)
    tasks = {problem.task_id: problem for problem in _read_problems(problems)}
    answers = list(_read_samples(samples, tasks))
    lines = [_build_submission_line(tasks[task], code, timeout) for task, code in answers]
    made_up = f"evaluate-{hashlib.sha256(b''.join(lines)).hexdigest()[:16]}"
    with open_client(context) as client:
        batch = client.send_batch(lines, name=name or made_up, concurrency=concurrency)
        batch = follow_batch(client, batch)
        write_files(client, batch, samples, BatchOutputs(junit=junit))
        rows = _build_task_rows([task for task, _ in answers], client.batch_results(batch["id"]))
    figures = {
        "batch": batch["name"],
        "tasks": rows,
        "pass_at": [estimate_pass_at_k(rows, each) for each in chosen],
    }
    if as_json:
        print_json(figures)
    else:
        _print_scores(figures)
    if any(row["lost"] for row in rows):
        raise typer.Exit(EXIT_ERROR)


def estimate_pass_at_k(rows: Sequence[Document], k: int) -> Document:
    """Return the unbiased estimate of pass@k with a 95 % interval, over tasks with at least k samples.

    Without such tasks, the estimate and the interval are None. Source: 1 - C(n - c, k) / C(n, k) for n
    samples of which c pass; the interval applies to the mean over tasks.
    """
    counted = [(row["samples"] - row["lost"], row["passed"]) for row in rows]
    of = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in counted if n >= k]
    if not of:
        return {"k": k, "tasks": 0, "estimate": None, "low": None, "high": None}
    mean = sum(of) / len(of)
    spread = math.sqrt(sum((each - mean) ** 2 for each in of) / max(len(of) - 1, 1) / len(of))
    low, high = max(mean - Z * spread, 0.0), min(mean + Z * spread, 1.0)
    return {
        "k": k,
        "tasks": len(of),
        "estimate": round(mean, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def _build_task_rows(tasks: Sequence[str], results: Iterator[Document]) -> list[Document]:
    """Return a row for each task, with its mean score and its numbers of samples by result."""
    found: defaultdict[str, list[tuple[str | None, float]]] = defaultdict(list)
    for result in results:
        report = (result["attempt"] or {}).get("report") or {}
        found[tasks[result["line"] - 1]].append((result["verdict"], report.get("score") or 0.0))
    return [_build_task_row(task, judged) for task, judged in found.items()]


def _build_task_row(task: str, judged: Sequence[tuple[str | None, float]]) -> Document:
    scores = [score for verdict, score in judged if verdict in {"validated", "failed"}]
    return {
        "task": task,
        "samples": len(judged),
        "passed": sum(verdict == "validated" for verdict, _ in judged),
        "mean_score": round(sum(scores) / len(scores), 4) if scores else None,
        "lost": len(judged) - len(scores),
    }


def _print_scores(figures: Document) -> None:
    heads = ("task", "samples", "passed", "mean score", "not judged")
    rows = [[str(row[name]) for name in row] for row in figures["tasks"]]
    print_table(get_stdout(), heads, rows)
    for found in figures["pass_at"]:
        shown = "no task has enough samples"
        if found["estimate"] is not None:
            interval = f"95 % interval {found['low']:.3f} to {found['high']:.3f}"
            shown = f"{found['estimate']:.3f}  ({interval}, {found['tasks']} tasks)"
        print(f"pass@{found['k']} {shown}")


def _parse_k_values(text: str) -> list[int]:
    """Return the values of k on the command line. Raises: RequestError ``usage``."""
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise RequestError("usage", f"--k {text} isn't a list of positive integers, such as 1,10")
    return [int(part) for part in parts]


def _read_problems(path: Path) -> Iterator[BenchmarkTask]:
    for number, task in _read_objects(path):
        try:
            yield parse_problem(task)
        except RequestError as problem:
            raise RequestError(problem.code, f"{path}:{number}: {problem.message}") from problem


def _read_samples(path: Path, tasks: dict[str, BenchmarkTask]) -> Iterator[tuple[str, str]]:
    """Yield the task and the code of every sample. Raises: RequestError ``sample.form``."""
    for number, sample in _read_objects(path):
        task = str(sample.get("task_id", ""))
        if task not in tasks:
            raise RequestError("sample.form", f"{path}:{number}: no problem has the task_id {task!r}")
        if "completion" not in sample and "solution" not in sample:
            raise RequestError("sample.form", f"{path}:{number}: a sample needs a completion or a solution")
        yield task, tasks[task].build_code(sample)


def _read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the JSON object of each line.

    Raises: RequestError ``file.unreadable``, ``line.form``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("file.unreadable", f"{path}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError as error:
                raise RequestError("line.form", f"{path}:{number}: not valid JSON: {error}") from error
            if not isinstance(found, dict):
                raise RequestError("line.form", f"{path}:{number}: not a JSON object")
            yield number, found


def _build_submission_line(problem: BenchmarkTask, code: str, timeout_s: float | None) -> bytes:
    submission = problem.hidden.submission(code, timeout_s=timeout_s)
    if LABEL.fullmatch(problem.task_id):
        submission["labels"] = {TASK_LABEL: problem.task_id}
    return json.dumps(submission).encode() + b"\n"
