"""Tries the cheats of tests/escape/solution in one process with their tests, and as solutions.

    deploy/dev/oci.sh run python -m bench.cheats      # writes bench/results/cheats.json and docs/cheats.svg
    python -m bench.cheats --draw                     # draws again what was measured

One process is how most judges run hidden tests: solution and tests in one file, and exit code 0 is a pass.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from bench import PAGES, RESULTS, ROOT
from bench.daemon import Daemon
from bench.hidden_tests import oci_daemon, send
from bench.load import Submission

FOLDER = ROOT / "tests/escape/solution/cheats"
FIGURES = RESULTS / "cheats.json"
PICTURE = PAGES / "cheats.svg"
CALLS = {"check.py": "check(total)", "classes.py": "unittest.main()"}
"""What runs the tests of each file when they are in one file with the solution."""
SEEN = "SEEN"
WAYS: Mapping[str, str] = {
    "one process": "one process, exit code 0 is a pass",
    "solution": "kind solution",
}
COLORS = {"one process": "#c2410c", "solution": "#15803d"}
_TIMEOUT_S = 2.0

Tried = dict[str, dict[str, dict[str, bool]]]
"""Whether a cheat passed, and saw a test, by cheat and way."""


def submissions(code: str, way: str) -> list[Submission]:
    """Return a solution with each of the two test files, to be judged in one way or the other."""
    found: list[Submission] = []
    for name, call in CALLS.items():
        tests = (FOLDER / name).read_text(encoding="utf-8")
        if way == "solution":
            payload = {"code": code, "entry_point": "total", "tests": tests}
        else:
            payload = {"code": f"{code}\n{tests}\n{call}\n"}
        kind = "solution" if way == "solution" else "script"
        limits = {"resources": {"unit_timeout_s": _TIMEOUT_S}}
        found.append({"kind": kind, "payload": payload, "overrides": limits})
    return found


def measure(target: Daemon, most: int | None = None) -> Tried:
    """Try every cheat, or so many of each family, in both ways."""
    families = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    paths = [path for family in families for path in sorted(family.glob("*.py"))[:most]]
    cheats = {f"{path.parent.name}/{path.stem}": path.read_text() for path in paths}
    tried: Tried = {name: {} for name in cheats}
    for way in WAYS:
        sent = [one for code in cheats.values() for one in submissions(code, way)]
        attempts = asyncio.run(send(target, sent))
        for number, name in enumerate(cheats):
            pair = attempts[len(CALLS) * number : len(CALLS) * (number + 1)]
            tried[name][way] = {"passed": any(map(_passed, pair)), "saw": any(map(_saw, pair))}
    return tried


def _passed(attempt: Mapping[str, object]) -> bool:
    report = attempt["report"]
    score = report["score"] if isinstance(report, dict) else None
    return attempt["verdict"] == "validated" or bool(score)


def _saw(attempt: Mapping[str, object]) -> bool:
    execution = attempt["execution"]
    return isinstance(execution, dict) and SEEN in str(execution["stdout"])


def counts(tried: Tried, way: str, families: Sequence[str]) -> list[int]:
    """Return how many cheats of each family passed or saw a test."""
    return [
        sum(any(ways[way].values()) for name, ways in tried.items() if name.startswith(f"{family}/"))
        for family in families
    ]


def draw(tried: Tried, target: Path) -> None:
    """Draw a bar per family and way; all bars of a family together are behind them."""
    families = sorted({name.partition("/")[0] for name in tried}, reverse=True)
    sizes = [sum(name.startswith(f"{family}/") for name in tried) for family in families]
    figure, axes = plt.subplots(figsize=(8, 5))
    places = range(len(families))
    axes.barh(places, sizes, height=0.8, color="#e5e7eb", label="cheats")
    for offset, (way, label) in zip((0.2, -0.2), WAYS.items(), strict=True):
        found = counts(tried, way, families)
        bars = axes.barh(
            [place + offset for place in places],
            found,
            height=0.35,
            color=COLORS[way],
            label=f"worked: {label}",
        )
        axes.bar_label(bars, padding=3, fontsize=8)
    axes.set_yticks(places, families)
    axes.set_xlabel("cheats that passed a test or saw one")
    figure.legend(loc="upper center", ncol=3, fontsize=8, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    mpl.rcParams["svg.hashsalt"] = "assayd"
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    """Measure, unless only to draw, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    parser.add_argument("--most", type=int, help="try only so many of each family")
    arguments = parser.parse_args()
    if not arguments.draw:
        with oci_daemon() as target:
            tried = measure(target, arguments.most)
        FIGURES.write_text(json.dumps(tried, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    tried = json.loads(FIGURES.read_text(encoding="utf-8"))
    draw(tried, PICTURE)
    for way in WAYS:
        passed = sum(ways[way]["passed"] for ways in tried.values())
        saw = sum(ways[way]["saw"] for ways in tried.values())
        print(f"{way}: of {len(tried)} cheats {passed} passed a test and {saw} saw one")


if __name__ == "__main__":
    main()
