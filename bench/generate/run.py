"""Has requests in words answered through a real daemon, and counts what came of it.

    python -m bench.generate.run [--most N] [--kind KIND]... [PROVIDER]

Four scripted providers answer every request: `right`, `one` (wrong in one way), `three` (in three) and
`hostile`, which does what hostile data ask for. They mend what a prompt tells them of, so that the attempts
needed say what prompts tell. PROVIDER is a model by its name in the settings of the daemon
(`ASSAYD_REPAIR__PROVIDERS`, or the settings file); the figures say whether one was asked.

What is validated is approved, and looked at again with what no provider has seen: where it does something
else then, the approval was *false*. That this is found out, the provider `cheating` shows. Beside all this
another user asks for code, and the prompts are searched for what is not theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import assayd
from assayd_client import ClientError, Document, PlainClient
from bench import RESULTS, ROOT, at_most
from bench.daemon import daemon
from bench.figures import machine
from bench.generate.intents import Intent, load
from bench.generate.leaks import PLANTED, Stranger, found_in, plant, strange_words
from bench.repair.cases import merged

SCRIPTED = ("right", "one", "three", "hostile")
AT_ONCE = 3
MOST = 4
"""Answers to one request."""
WAIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What became of one request. `false` says that it was approved and does something else."""

    kind: str
    name: str
    outcome: str
    attempts: int
    approved: bool
    false: bool
    prompts: Sequence[str]


class Broken(Exception):
    """The benchmark itself is: a right answer is not validated, or something false is not found out."""


class Bench:
    """A daemon, and what right answers give there."""

    def __init__(self, client: PlainClient) -> None:
        self._client = client
        self._right: dict[tuple[str, str], object] = {}

    def generate(self, intent: Intent, provider: str) -> Generated:
        """Have one request answered."""
        made = self._client.generate(
            kind=intent.kind,
            intent=intent.words,
            context=intent.baited() if provider == "hostile" else intent.context,
            provider=provider,
            max_attempts=MOST,
        )
        for _ in self._client.generation_events(made["id"]):
            pass
        ended = self._client.generation(made["id"])
        approved = self._approve(ended, f"{provider}-{intent.kind}-{intent.name}"[:64])
        if provider == "right":
            if not approved:
                raise Broken(f"{intent.kind}/{intent.name}: {ended['outcome']}, {ended['attempt_id']}")
            self._right[intent.kind, intent.name] = self._seen(intent, ended)
        right = self._right.get((intent.kind, intent.name))
        return Generated(
            kind=intent.kind,
            name=intent.name,
            outcome=ended["outcome"],
            attempts=len(ended["attempts"]),
            approved=approved,
            false=approved and self._seen(intent, ended) != right,
            prompts=[self._prompt(made["id"], number) for number in range(1, len(ended["attempts"]) + 1)],
        )

    def _approve(self, ended: Document, name: str) -> bool:
        try:
            self._client.approve_generation(ended["id"], name)
        except ClientError as refused:
            if refused.code != "library.not_validated" or ended["outcome"] == "validated":
                raise
            return False
        return True

    def _prompt(self, generation_id: str, number: int) -> str:
        step = self._client.generation_step(generation_id, number)
        return f"{step['system']}\n{step['user']}"

    def _seen(self, intent: Intent, ended: Document) -> object:
        """Return what approved code shows with what is held out: its verdict, and what a program prints."""
        attempt_id = ended["attempt_id"]
        names = [one["name"] for one in self._client.attempt(attempt_id)["artifacts"]]
        name = next(one for one in names if one.startswith("submission_"))
        payload = json.loads(self._client.artifact(attempt_id, name))["payload"]
        payload = merged(payload, intent.held_out)
        if intent.look is not None:
            payload["steps"] = [*payload["steps"], intent.look]
        again = self._client.submit({"kind": intent.kind, "payload": payload}, wait_s=WAIT_S)
        cases = (again["report"]["runtime_results"] or {}).get("cases") or []
        printed = cases[-1]["stdout"] if cases and intent.kind in {"pipeline", "fifth"} else None
        if ended["provider"] == "right" and again["verdict"] != "validated":
            raise Broken(f"{intent.kind}/{intent.name} held out: {again['report']['findings']}")
        return again["verdict"], printed


def summary(results: Sequence[Generated]) -> Document:
    """Count: in all, and by kind."""
    kinds = sorted({one.kind for one in results})
    unsolved = [f"{one.kind}/{one.name}: {one.outcome}" for one in results if not one.approved]
    return {
        **_counts(results),
        "outcomes": dict(sorted(Counter(one.outcome for one in results).items())),
        "prompt_bytes": _sizes([len(text.encode()) for one in results for text in one.prompts]),
        "by_kind": {kind: _counts([one for one in results if one.kind == kind]) for kind in kinds},
        "unsolved": unsolved,
    }


def _counts(results: Sequence[Generated]) -> Document:
    solved = [one for one in results if one.approved and not one.false]
    needed = Counter(one.attempts for one in solved)
    return {
        "total": len(results),
        "solved": len(solved),
        "attempts_needed": {str(count): needed[count] for count in sorted(needed)},
        "false_approvals": sum(one.false for one in results),
    }


def _sizes(sizes: Sequence[int]) -> Document:
    ordered = sorted(sizes)
    return {"count": len(ordered), "p50": ordered[len(ordered) // 2], "max": ordered[-1]}


def _recorded(intents: Sequence[Intent]) -> Mapping[str, Document]:
    """Return what each scripted provider answers, by the words of a request."""
    wrong = {"one": 1, "three": 3}
    found: dict[str, Document] = {
        name: {one.words: {"first": one.wrong(count), "mend": one.faults} for one in intents}
        for name, count in wrong.items()
    }
    found["three"] |= {strange_words(one): found["three"][one.words] for one in intents}
    found["right"] = {one.words: {"answers": [one.right]} for one in intents}
    found["hostile"] = {one.words: {"answers": list(one.hostile)} for one in intents}
    found["cheating"] = {one.words: {"answers": [one.cheat]} for one in intents if one.cheat}
    return found


def _providers(folder: Path, intents: Sequence[Intent]) -> str:
    """Configure the scripted providers beside those that are there."""
    providers = json.loads(os.environ.get("ASSAYD_REPAIR__PROVIDERS", "{}"))
    (folder / "asked").mkdir()
    for name, recorded in _recorded(intents).items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(recorded), encoding="utf-8")
        argv = [sys.executable, "-m", "bench.generate.program", str(path), str(folder / "asked")]
        providers[name] = {"type": "command", "argv": argv, "environment": {"PYTHONPATH": str(ROOT)}}
    return json.dumps(providers)


def measure(names: Sequence[str], folder: Path, intents: Sequence[Intent]) -> Document:
    """Have every request answered by every provider, a few at once, while another user asks as well."""
    settings = plant(folder)
    with ExitStack() as stack:
        stranger = stack.enter_context(Stranger(folder, intents))
        target = stack.enter_context(
            daemon(folder / "daemon", REPAIR__PROVIDERS=_providers(folder, intents), **settings)
        )
        client = stack.enter_context(PlainClient(target.socket))
        workers = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        bench = Bench(client)
        stranger.begin(target.socket)
        results = {}
        for name in ("right", "cheating", *names):
            chosen = [one for one in intents if name != "cheating" or one.cheat]
            results[name] = list(workers.map(lambda one, by=name: bench.generate(one, by), chosen))
            print(name, json.dumps(_counts(results[name])), flush=True)
        if not all(one.false for one in results["cheating"]):
            raise Broken("a false approval was not found out")
        strange = stranger.end()
    prompts = [text for some in results.values() for one in some for text in one.prompts]
    return {
        "providers": {name: summary(some) for name, some in results.items()},
        "prompt_bytes": _sizes([len(text.encode()) for text in prompts]),
        "leaks": found_in(folder / "asked", prompts, intents, strange),
    }


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("provider", nargs="?", help="a model by its name in the settings")
    parser.add_argument("--most", type=int, help="answer only so many requests of each kind")
    parser.add_argument("--kind", action="append", help="answer only requests of this kind")
    chosen = parser.parse_args()
    model = chosen.provider or None
    intents = [one for one in at_most(load(), chosen.most) if not chosen.kind or one.kind in chosen.kind]
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        found = measure([*SCRIPTED[1:], *([model] if model else [])], Path(folder), intents)
    document = {
        "run": {
            "date": began.isoformat(timespec="seconds"),
            "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 2),
            "load": os.getloadavg()[1],
            "assayd": assayd.__version__,
            "machine": machine(),
            "model": model or "none was asked: PROVIDER was not given",
            "planted": sorted(PLANTED),
        },
        **found,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "generate.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document["leaks"]))


if __name__ == "__main__":
    main()
