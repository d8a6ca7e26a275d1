"""Plays the recorded answers through a real daemon, and counts what they lead to.

    python -m bench.generate.replay [--most N] [WRITER]...

Prints by writer, group and kind: chains that ended validated, those validated with the first answer, the
answers until then, bytes and tokens of their prompts. A chain is *right* if its code does the same as the
right one with inputs that no writer saw. Recordings whose prompt has changed since are played anyway, counted
as stale, and named. Writes bench/results/answers.json.

Tokens are counted with the vocabulary o200k_base if the package bpe-openai is installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import assayd
from assayd_client import Document, PlainClient
from bench import RESULTS
from bench.daemon import daemon
from bench.figures import machine
from bench.generate.by_hand import ANSWERS, Chain, providers
from bench.generate.chains import load
from bench.generate.recorded import Call, calls_in

AT_ONCE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One chain that was played, with the calls that it took."""

    chain: Chain
    outcome: str
    right: bool
    calls: Sequence[Call]

    @property
    def validated(self) -> bool:
        """Return whether it ended with code that was validated."""
        return self.outcome == "validated"


def play(writer: str, most: int | None) -> list[Played]:
    """Play the answers of one writer, to so many chains at most."""
    recorded = ANSWERS / f"{writer}.json"
    answered = json.loads(recorded.read_text(encoding="utf-8"))
    chains = [one for one in load() if one.id in answered][:most]
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assayd-replay-")))
        calls = home / "calls"
        settings = {
            "REPAIR__PROVIDERS": providers(chains, recorded, calls, None),
            "REPAIR__AT_ONCE": str(AT_ONCE),
            "REPAIR__MAX_ATTEMPTS": "4",
        }
        target = stack.enter_context(daemon(home / "daemon", **settings))
        client = stack.enter_context(PlainClient(target.socket))
        workers = stack.enter_context(ThreadPoolExecutor(AT_ONCE))

        def one(chain: Chain) -> Played:
            ended = chain.run(client)
            right = ended.attempt_id is not None and chain.is_right(client, ended.attempt_id)
            made = calls_in(calls / f"{chain.id}.jsonl")
            return Played(chain=chain, outcome=ended.outcome, right=right, calls=made)

        return list(workers.map(one, chains))


def counter() -> Callable[[str], int] | None:
    """Return what counts tokens, or None if the package isn't installed."""
    try:
        encoding = importlib.import_module("bpe_openai").get_encoding("o200k_base")
    except ImportError:
        return None
    return lambda text: len(encoding.encode_ordinary(text))


def figures(played: Sequence[Played], tokens: Callable[[str], int] | None) -> Document:
    """Count what a number of chains led to."""
    good = [one for one in played if one.validated]
    needed = Counter(len(one.calls) for one in good)
    sizes = [sum(len(call["text"].encode()) for call in one.calls) for one in played]
    calls = [call for one in played for call in one.calls]
    return {
        "chains": len(played),
        "validated": len(good),
        "right": sum(one.right for one in good),
        "first_answer": needed[1],
        "within_three": sum(needed[count] for count in (1, 2, 3)),
        "answers_until_validated": {str(count): needed[count] for count in sorted(needed)},
        "prompt_bytes": {"median": median(sizes), "max": max(sizes), "sum": sum(sizes)},
        "tokens_in": sum(tokens(call["text"]) for call in calls) if tokens else None,
        "tokens_out": sum(tokens(call["answer"]) for call in calls) if tokens else None,
        "stale": sum(call["stale"] for call in calls),
    }


def grouped(played: Sequence[Played]) -> dict[tuple[str, str], list[Played]]:
    """Return the chains by group and kind, with a last line for each group and one for all."""
    groups = sorted({one.chain.group for one in played}, reverse=True)
    found: dict[tuple[str, str], list[Played]] = {}
    for group in groups:
        of_group = [one for one in played if one.chain.group == group]
        for kind in sorted({one.chain.kind for one in of_group}):
            found[group, kind] = [one for one in of_group if one.chain.kind == kind]
        found[group, "all"] = of_group
    return {**found, ("all", "all"): list(played)}


def table(rows: Iterable[tuple[str, str, str, Document]]) -> str:
    """Return figures as a table."""
    lines = [
        f"{'writer':9} {'group':8} {'kind':10} chains  first answer  within 3  validated  right  "
        f"answers  prompt bytes per chain  tokens in/out  stale"
    ]
    for writer, group, kind, told in rows:
        count = told["chains"]
        needed = told["answers_until_validated"]
        answers = " ".join(f"{n}:{times}" for n, times in needed.items())
        sizes, (tokens_in, tokens_out) = told["prompt_bytes"], (told["tokens_in"], told["tokens_out"])
        spent = "not counted" if tokens_in is None else f"{tokens_in}/{tokens_out}"
        lines.append(
            f"{writer:9} {group:8} {kind:10} {count:6}  {told['first_answer'] / count:11.0%}   "
            f"{told['within_three'] / count:7.0%}  {told['validated']:9}  {told['right']:5}  {answers:14}"
            f"  {sizes['median']:7.0f} (max {sizes['max']})  {spent}  {told['stale']}"
        )
    return "\n".join(lines)


def main() -> int:
    """Play, print and write the figures."""
    parser = argparse.ArgumentParser()
    recorded = sorted(path.stem for path in ANSWERS.glob("*.json"))
    parser.add_argument("writers", nargs="*", metavar="WRITER", default=recorded, help="default: all")
    parser.add_argument("--most", type=int, help="play only so many chains of each writer")
    chosen = parser.parse_args()
    began, tokens = datetime.now(UTC), counter()
    document: Document = {"writers": {}}
    rows: list[tuple[str, str, str, Document]] = []
    for writer in chosen.writers:
        played = play(writer, chosen.most)
        told = {key: figures(some, tokens) for key, some in grouped(played).items()}
        rows += [(writer, group, kind, one) for (group, kind), one in told.items()]
        document["writers"][writer] = {
            "figures": {f"{group}/{kind}": one for (group, kind), one in told.items()},
            "stale": sorted(one.chain.id for one in played if any(call["stale"] for call in one.calls)),
            "not_at_first": {
                one.chain.id: {"outcome": one.outcome, "answers": len(one.calls)}
                for one in played
                if not (one.validated and len(one.calls) == 1)
            },
            "validated_and_wrong": sorted(one.chain.id for one in played if one.validated and not one.right),
        }
    print(table(rows))
    document["run"] = {
        "date": began.isoformat(timespec="seconds"),
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 2),
        "load": os.getloadavg()[1],
        "assayd": assayd.__version__,
        "machine": machine(),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "answers.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
