"""Has providers repair the broken submissions through a real daemon, and counts what came of it.

    python -m bench.repair.run [--most N] [PROVIDER]...

Without names: `rules`, and `scripted`, a program that replies with what is right. What other providers came
to before stays in the results. A model is measured by the name that it has in the settings of the daemon
(`ASSAYD_REPAIR__PROVIDERS`, or the settings file).

A repair is *false* when its last attempt was validated and does something else than the text that is right:
other results, output or files, with the inputs that it was repaired with or with others, which no provider
sees. That this is found out, the provider `cheating` shows: its texts are validated and wrong. With `--most`,
only so many of each kind are repaired.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import assayd
from assayd_client import Document, PlainClient
from bench import RESULTS, ROOT, at_most
from bench.daemon import daemon
from bench.figures import machine, spread
from bench.repair.cases import Case, load, merged

AT_ONCE = 3
WAIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What became of one broken submission. `fixed_s` is the time from the failure to the last fix."""

    kind: str
    name: str
    category: str
    outcome: str
    true: bool
    fixes: int
    duplicates: int
    took_s: float
    fixed_s: float

    @property
    def false(self) -> bool:
        """Return whether it was called repaired and is not."""
        return self.outcome == "repaired" and not self.true


class Broken(Exception):
    """The benchmark itself is: a text that is right is not validated, or a broken one is."""


class Bench:
    """A daemon and what right texts give there."""

    def __init__(self, client: PlainClient) -> None:
        self._client = client
        self._right: dict[tuple[str, str], tuple[object, object]] = {}

    def learn(self, case: Case) -> None:
        """Note what the right text gives."""
        self._right[case.kind, case.name] = self._looked_at(case, self._validated(case))

    def _validated(self, case: Case) -> Document:
        attempt = self._client.submit(case.submission(case.right), wait_s=WAIT_S)
        if attempt["verdict"] != "validated":
            raise Broken(f"{case.kind}/{case.name}: {attempt['report']['findings']}")
        return attempt

    def repair(self, case: Case, provider: str) -> Repaired:
        """Have one repaired."""
        wanted = {**case.submission(case.broken), "repair": {"provider": provider}}
        attempt = self._client.submit(wanted, wait_s=WAIT_S)
        if attempt["verdict"] != "failed":
            raise Broken(f"{case.kind}/{case.name} is {attempt['verdict']}")
        [repair] = self._client.repairs_of(attempt["id"])["repairs"]
        for _ in self._client.repair_events(repair["id"]):
            pass
        repair = self._client.repair_state(repair["id"])
        fixes = repair["attempts"]
        true = False
        if repair["outcome"] == "repaired":
            last = self._client.attempt(fixes[-1]["attempt_id"])
            true = self._looked_at(case, last) == self._right[case.kind, case.name]
        began = _moment(repair["started_at"])
        last_fix = _moment(fixes[-1]["repaired_at"]) + fixes[-1]["duration_ms"] / 1000 if fixes else began
        return Repaired(
            kind=case.kind,
            name=case.name,
            category=case.category,
            outcome=repair["outcome"],
            true=true,
            fixes=len(fixes),
            duplicates=sum(fix["duplicate"] for fix in fixes),
            took_s=round(_moment(repair["finished_at"]) - began, 3),
            fixed_s=round(last_fix - began, 3),
        )

    def _looked_at(self, case: Case, attempt: Document) -> tuple[object, object]:
        """Return what an attempt shows, and what its text shows with what is held out."""
        submission = self._submission(attempt)
        if attempt["execution"] is None:  # it was read only: its words are what it is
            return " ".join(submission["payload"]["code"].split()), None
        again = {**submission, "payload": merged(submission["payload"], case.held_out)}
        again.pop("repair", None)
        return shown(attempt), shown(self._client.submit({**again, "parent_id": None}, wait_s=WAIT_S))

    def _submission(self, attempt: Document) -> Document:
        name = next(a["name"] for a in attempt["artifacts"] if a["name"].startswith("submission_"))
        document: Document = json.loads(self._client.artifact(attempt["id"], name))
        return document


def shown(attempt: Document) -> object:
    """Return what can be seen of an attempt from outside."""
    cases = (attempt["report"]["runtime_results"] or {}).get("cases", [])
    files = {a["name"]: a["sha256"] for a in attempt["artifacts"] if a["name"].startswith("files/")}
    files.pop("files/database.sqlite", None)  # what is in it, is selected
    return (
        attempt["verdict"],
        [(case["name"], case["status"], case["result"], case["stdout"]) for case in cases],
        files,
    )


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def summary(results: Sequence[Repaired]) -> Document:
    """Count: in all, by category and by kind."""
    good = [result for result in results if result.true]
    return {
        **_counts(results),
        "outcomes": dict(sorted(Counter(result.outcome for result in results).items())),
        "fixes_tried": sum(result.fixes for result in results),
        "duplicates": sum(result.duplicates for result in results),
        "failure_to_fix": asdict(spread([result.fixed_s for result in good])) if good else None,
        "failure_to_repaired": asdict(spread([result.took_s for result in good])) if good else None,
        "by_category": _by("category", results),
        "by_kind": _by("kind", results),
        "cases": [asdict(result) for result in results],
    }


def _counts(results: Sequence[Repaired]) -> Document:
    repaired = sum(result.true for result in results)
    return {
        "total": len(results),
        "repaired": repaired,
        "success_rate": round(repaired / len(results), 3),
        "false_repairs": sum(result.false for result in results),
        "first_attempt": sum(result.true and result.fixes == 1 for result in results),
    }


def _by(field: str, results: Iterable[Repaired]) -> Document:
    found: dict[str, list[Repaired]] = {}
    for result in results:
        found.setdefault(getattr(result, field), []).append(result)
    return {name: _counts(some) for name, some in sorted(found.items())}


def _providers(folder: Path, cases: Sequence[Case]) -> str:
    """Configure the scripted providers beside those that are there."""
    prepared = {
        "scripted": [(case.broken, case.right) for case in cases],
        "cheating": [(case.broken, case.cheat) for case in cases if case.cheat is not None],
    }
    providers = json.loads(os.environ.get("ASSAYD_REPAIR__PROVIDERS", "{}"))
    for name, replies in prepared.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(replies), encoding="utf-8")
        argv = [sys.executable, "-m", "bench.repair.program", str(path)]
        providers[name] = {"type": "command", "argv": argv, "environment": {"PYTHONPATH": str(ROOT)}}
    return json.dumps(providers)


def measure(names: Sequence[str], folder: Path, most: int | None) -> Mapping[str, Document]:
    """Run every case, or so many of each kind, with every provider, a few at once."""
    cases = at_most(load(), most)
    with (
        daemon(folder / "daemon", REPAIR__PROVIDERS=_providers(folder, cases)) as target,
        PlainClient(target.socket) as client,
        ThreadPoolExecutor(AT_ONCE) as workers,
    ):
        bench = Bench(client)
        list(workers.map(bench.learn, cases))
        found = {}
        for name in ("cheating", *names):
            chosen = [case for case in cases if name != "cheating" or case.cheat is not None]
            results = list(workers.map(lambda case, by=name: bench.repair(case, by), chosen))
            found[name] = summary(results)
            print(name, json.dumps(_counts(results)), flush=True)
            if name == "cheating" and not all(result.false for result in results):
                raise Broken("a false repair was not found out")
        return found


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", default=["rules", "scripted"])
    parser.add_argument("--most", type=int, help="repair only so many of each kind")
    chosen = parser.parse_args()
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        found = measure(chosen.providers, Path(folder), chosen.most)
    run = {
        "date": began.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 2),
        "load": os.getloadavg()[1],
        "assayd": assayd.__version__,
        "machine": machine(),
    }
    path = RESULTS / "repair.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    document = {**before, **{name: {**told, "run": run} for name, told in found.items()}}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
