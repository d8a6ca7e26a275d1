"""Has people answer the chains of the benchmark, and records their answers.

    python -m bench.generate.by_hand FOLDER --writer NAME [--state DIR] [--open N]

Starts a daemon and puts prompts into FOLDER as NNN.prompt.txt, a few chains at a time. Write each answer to
FOLDER/NNN.answer.txt; see examples/providers/by_hand.py. At the end the answers are in
bench/generate/answers/NAME.json. Started again with the same DIR (default: FOLDER/.state), it goes on where
it was; recorded answers whose prompt is still the same aren't asked for.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from assayd_client import PlainClient
from bench import ROOT
from bench.daemon import daemon
from bench.generate.chains import Repair, Request, load
from bench.generate.recorded import Recorded, calls_in

ANSWERS = Path(__file__).parent / "answers"
HOURS = 12
OPEN = 8

Chain = Request | Repair


def providers(chains: list[Chain], recorded: Path, calls: Path, folder: Path | None) -> str:
    """Return the setting `repair.providers`: one provider for each chain."""
    calls.mkdir(parents=True)
    program = [sys.executable, "-m", "bench.generate.recorded", str(recorded), str(calls)]
    last = [] if folder is None else [str(folder)]
    environment = {"PYTHONPATH": str(ROOT)}
    return json.dumps(
        {
            one.id: {"type": "command", "argv": [*program, one.id, *last], "environment": environment}
            for one in chains
        }
    )


def recordings(writer: str, state: Path) -> dict[str, list[Recorded]]:
    """Return all answers so far: those in the repository, and those of earlier runs with this state."""
    path = ANSWERS / f"{writer}.json"
    found: dict[str, list[Recorded]] = json.loads(path.read_text()) if path.exists() else {}
    for path in sorted(state.glob("calls/*/*.jsonl")):
        answers: list[Recorded] = [
            {"prompt": one["prompt"], "answer": one["answer"]} for one in calls_in(path)
        ]
        begun = [one["prompt"] for one in found.get(path.stem, [])[: len(answers)]]
        if begun != [one["prompt"] for one in answers]:
            found[path.stem] = answers
    return found


def save(writer: str, state: Path, chains: list[Chain]) -> None:
    """Write the answers into the repository."""
    found = recordings(writer, state)
    ordered = {one.id: found[one.id] for one in sorted(chains, key=lambda one: one.id) if one.id in found}
    ANSWERS.mkdir(exist_ok=True)
    text = json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"
    (ANSWERS / f"{writer}.json").write_text(text, encoding="utf-8")


def ask(folder: Path, writer: str, state: Path, at_once: int) -> None:
    """Run all chains, and keep what was answered."""
    chains = load()
    began = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    state.mkdir(parents=True, exist_ok=True)
    recorded = state / "recorded.json"
    recorded.write_text(json.dumps(recordings(writer, state)), encoding="utf-8")
    with ExitStack() as stack:
        stack.callback(save, writer, state, chains)
        workers = stack.enter_context(
            ThreadPoolExecutor(at_once)
        )  # ends after the daemon, whose end ends them
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assayd-by-hand-")))
        target = stack.enter_context(
            daemon(
                home,
                REPAIR__PROVIDERS=providers(chains, recorded, state / "calls" / began, folder),
                REPAIR__TIMEOUT_S=str(HOURS * 3600),
                REPAIR__AT_ONCE=str(at_once),
                REPAIR__MAX_ATTEMPTS="4",
                POOL__REFILL_CONCURRENCY="1",
            )
        )
        client = stack.enter_context(PlainClient(target.socket))

        def one(chain: Chain) -> None:
            outcome = chain.run(client).outcome
            print(f"{datetime.now():%H:%M:%S} {chain.id}: {outcome}", flush=True)

        list(workers.map(one, chains))
    (folder / "done").touch()


def main() -> None:
    """Ask for all answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="where prompts and answers go")
    parser.add_argument("--writer", required=True, help="who answers: the name of the recording")
    parser.add_argument("--state", type=Path, help="what was answered so far (default: FOLDER/.state)")
    parser.add_argument("--open", type=int, default=OPEN, help="chains that are open at a time")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the daemon is stopped too
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    ask(folder, chosen.writer, (chosen.state or folder / ".state").resolve(), chosen.open)


if __name__ == "__main__":
    main()
