"""Measures the processor time that checks for worthless passes add to a passing attempt; on the OCI engine.

    deploy/dev/oci.sh run python -m bench.slips.cost [--count 40] [--rounds 7] [--only NAME…]

One daemon runs the same submission under profiles with and without the checks, in turns. Of each round, the
differences count, so that a busy machine disturbs both sides alike; printed are their medians and quartiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import ROUGH
from bench.accounting import CONCURRENCY, HERE, look
from bench.daemon import Daemon, daemon, pool_filled
from bench.load import Submission, flood

GOALS_MS = {"second run": 1.0, "all checks": 1.0, "generalization": 3.0}
WARM_UP = 1 if ROUGH else 20
OFF, ON, PLAIN = "off", "on", "plain"
PROFILES = {
    OFF: '[quality]\nseverity = "off"\n',
    ON: "",
    PLAIN: "[quality]\ngeneralization = false\n",
}
"""Profiles: without quality rules, with all, and without paths like the samples."""
_EXTRACTOR = """
import re


def extract(path: str) -> dict:
    found = re.search(r"/data/([^/]+)/([0-9]{4})/Q([1-4])/(.+)$", path)
    if found is None:
        return {}
    client, year, quarter, name = found.groups()
    return {"client": client, "year": int(year), "quarter": int(quarter), "name": name}
"""
_NODE = """
rows: list[dict]
least: float

kept = [row for row in rows if row["total"] >= least]
result: list[dict] = sorted(kept, key=lambda row: row["total"])
"""
_CHANCE = """
import random

rows: list[dict]
least: float
kept = [row for row in rows if row["total"] >= least]
random.Random(7).shuffle(kept)
result: list[dict] = kept
"""
_BASH = (
    "set -euo pipefail\nawk -F, 'NR == 1 || $2 > 3' data/sales.csv > data/large.csv\nwc -l < data/large.csv\n"
)
_SQL = (
    "INSERT INTO totals SELECT status, SUM(total) FROM orders GROUP BY status;\n"
    "UPDATE orders SET total = 0 WHERE status = 'open';\n"
    "SELECT COUNT(*) FROM totals;\n"
)
_SCHEMA = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL, status TEXT);\n"
    "INSERT INTO orders VALUES (1, 20.5, 'paid'), (2, 7, 'open');\n"
    "CREATE TABLE totals (status TEXT, total REAL);\n"
)
_ROWS = {"rows": [{"total": n} for n in range(20)], "least": 3.0}


def _pipeline(kind: str, content: str) -> Submission:
    payload = {
        "files": {"data/sales.csv": "id,amount\n1,5\n2,7\n"},
        "database": {"schema_sql": _SCHEMA},
        "steps": [{"name": "one", "type": kind, "content": content}],
    }
    return {"kind": "pipeline", "payload": payload}


def _module() -> Submission:
    folder = HERE / "examples" / "module" / "weather"
    files = {each.name: each.read_text() for each in folder.iterdir() if each.name != "manifest.json"}
    manifest = json.loads((folder / "manifest.json").read_text())
    return {"kind": "module", "payload": {"manifest": manifest, "files": files}}


def _extractor(paths: Sequence[str]) -> Submission:
    return {"kind": "extractor", "payload": {"code": _EXTRACTOR, "sample_paths": list(paths)}}


SUBMISSIONS: Mapping[str, Submission] = {
    "extractor": _extractor(["/data/ABC/2024/Q1/report.csv", "/data/XYZ/2023/Q3/data.csv"]),
    "extractor, one path": _extractor(["/data/ABC/2024/Q1/report.csv"]),
    "code": {"kind": "code", "payload": {"code": _NODE, "inputs": _ROWS}},
    "code with chance": {"kind": "code", "payload": {"code": _CHANCE, "inputs": _ROWS}},
    "bash step": _pipeline("bash", _BASH),
    "SQL step": _pipeline("sql", _SQL),
    "module": _module(),
}
_BASES = {"extractor": "extractor", "code": "code", "pipeline": "pipeline", "module": "module_validation"}


def write_profiles(folder: Path) -> None:
    """Write each profile for each kind."""
    for kind, base in _BASES.items():
        for name, text in PROFILES.items():
            (folder / f"{kind}-{name}.toml").write_text(f'extends = "{base}"\n{text}', encoding="utf-8")


def spent_ms(target: Daemon, submission: Submission, profile: str, count: int) -> float:
    """Return the processor time in milliseconds for each attempt, of the daemon and all its processes."""
    given = {**submission, "policy": f"{submission['kind']}-{profile}"}
    before = look(target.pid)
    result = asyncio.run(flood(target, given, concurrency=CONCURRENCY, count=count))
    spent = look(target.pid).since(before)
    verdicts = {answer.verdict for answer in result.answers}
    if verdicts != {"validated"}:
        raise RuntimeError(f"attempts ended as {verdicts}; see the daemon's log")
    return (sum(spent.parts.values()) - spent.parts["client"]) / count


def compare(target: Daemon, submission: Submission, *, count: int, rounds: int) -> dict[str, list[float]]:
    """Run the profiles in turns; return what each adds to the one without checks, by round."""
    profiles = (OFF, ON, PLAIN) if submission["kind"] == "extractor" else (OFF, ON)
    for profile in profiles:
        spent_ms(target, submission, profile, WARM_UP)
    asyncio.run(pool_filled(target))
    added: dict[str, list[float]] = {profile: [] for profile in profiles}
    for number in range(rounds):
        order = profiles if number % 2 else profiles[::-1]
        spent = {profile: spent_ms(target, submission, profile, count) for profile in order}
        for profile in profiles:
            added[profile].append(spent[profile] - (spent[OFF] if profile != OFF else 0.0))
    return added


def lines(name: str, added: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a line for each goal."""
    told = [("all checks", added[ON])]
    if PLAIN in added:
        further = [on - plain for on, plain in zip(added[ON], added[PLAIN], strict=True)]
        told = [("second run", added[PLAIN]), ("generalization", further)]
    base = statistics.median(added[OFF])
    return [
        f"cost {name:20} {what:14} {_shown(values)} ms, goal {GOALS_MS[what]:g} ms, of {base:.1f} ms"
        for what, values in told
    ]


def _shown(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else (*values,) * 3
    return f"{middle:+.2f} ({low:+.2f} to {high:+.2f})"


def main(arguments: Sequence[str]) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40, help="attempts of each profile and round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=sorted(SUBMISSIONS))
    given = parser.parse_args(arguments)
    images = os.environ.get("ASSAYD_ENGINE__IMAGES_DIR", str(HERE / ".run" / "images"))
    with tempfile.TemporaryDirectory(prefix="assayd-cost-") as name:
        folder = Path(name)
        (folder / "policies").mkdir()
        write_profiles(folder / "policies")
        settings = {
            "ENGINE__KIND": "oci",
            "ENGINE__IMAGES_DIR": images,
            "POLICY_FOLDERS": json.dumps([str(folder / "policies")]),
        }
        with daemon(folder / "daemon", **settings) as target:
            for title in given.only or SUBMISSIONS:
                added = compare(target, SUBMISSIONS[title], count=given.count, rounds=given.rounds)
                print(*lines(title, added), sep="\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
