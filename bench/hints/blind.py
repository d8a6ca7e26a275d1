"""Sets our messages beside those of the tools that people use, for readers who don't know which is which.

    python -m bench.hints.blind draw SOCKET FOLDER [--each N] [--seed N]
    python -m bench.hints.blind score FOLDER ANSWERS…

`draw` submits N random slips of each language and writes `pairs.md`: the code, and two messages A and B in
random order. The other message is Ruff's, or the interpreter's if Ruff finds nothing (Python); ShellCheck's
or bash's (bash); that of SQLite's shell (SQL). Names of rules and tools are removed from
both. A slip that either has no message about is replaced by another. `key.json` says which message is ours.

`score` reads answers, a line `NUMBER A`, `NUMBER B` or `NUMBER tie` per pair, and counts them.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from assayd_client import PlainClient
from bench.slips import python_slips
from bench.slips.sources import examples
from bench.slips.tables import Entry, slips

RUFF = (str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--select", "E9,F", "--quiet")
MOST_FINDINGS = 2
MOST_LINES = 6
WAIT_S = 120
CALLS = """
import json, runpy, sys
given = json.load(open(sys.argv[2]))
space = runpy.run_path(sys.argv[1], init_globals=given.get("inputs", {}))
for path in given.get("sample_paths", ()):
    space["extract"](path)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A slip, and what gets a tool's message about it: an empty text if the tool has none."""

    language: str
    kind: str
    text: str
    payload: Mapping[str, Any]
    other: Callable[[Path], str]


def python_cases(chance: random.Random) -> list[Drawn]:
    """Return slips in the examples that are correct."""
    found = []
    for source in examples():
        if source.language == "python" and source.kind in {"extractor", "code"}:
            for slip in python_slips.slips(source.text, None, chance):
                payload = source.put(slip.text)
                found.append(
                    Drawn(
                        language="python",
                        kind=source.kind,
                        text=slip.text,
                        payload=payload,
                        other=partial(said_by_python, text=slip.text, payload=payload),
                    )
                )
    return found


def table_cases(table: str) -> list[Drawn]:
    """Return the slips of a table."""
    other = {"bash": said_by_bash, "sql": said_by_sqlite}[table]
    return [
        Drawn(
            language=table,
            kind=entry.kind,
            text=entry.text,
            payload=entry.put(entry.text),
            other=partial(other, entry=entry),
        )
        for entry in slips(table)
    ]


def said_by_python(folder: Path, text: str, payload: Mapping[str, Any]) -> str:
    """Return what Ruff says; where it says nothing, the end of the traceback."""
    (folder / "code.py").write_text(text)
    (folder / "call.py").write_text(CALLS)
    (folder / "given.json").write_text(json.dumps(dict(payload), default=str))
    checked = output(folder, [*RUFF, "--output-format", "concise", "code.py"])
    if checked:
        return first_lines(re.sub(r"code\.py:(\d+):(\d+): (\w+ )?", r"line \1: ", checked), MOST_FINDINGS)
    return traceback_end(
        output(folder, [sys.executable, "-I", "call.py", "code.py", "given.json"]), "code.py"
    )


def said_by_bash(folder: Path, entry: Entry) -> str:
    """Return what ShellCheck says of errors and warnings; where it says nothing, what bash does."""
    lay(folder, entry.put(entry.text)["files"])
    (folder / "step.sh").write_text(entry.text.lstrip("\n"))
    checked = output(folder, ["shellcheck", "-s", "bash", "-f", "gcc", "-S", "warning", "step.sh"])
    if checked:
        named = re.sub(r"step\.sh:(\d+):\d+: \w+: (.*?) \[SC\d+\]", r"line \1: \2", checked)
        return first_lines(named, MOST_FINDINGS)
    return first_lines(
        output(folder, ["bash", "step.sh"], errors_only=True).replace("step.sh: ", ""), MOST_LINES
    )


def said_by_sqlite(folder: Path, entry: Entry) -> str:
    """Return SQLite's error."""
    database = sqlite3.connect(folder / "data.db")
    try:
        database.executescript(entry.put("")["database"]["schema_sql"])
        database.commit()
    finally:
        database.close()
    (folder / "step.sql").write_text(entry.text)
    return first_lines(
        output(folder, ["sqlite3", "-bail", "data.db", ".read step.sql"], errors_only=True), MOST_LINES
    )


def lay(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder, and make the folders that steps write to."""
    (folder / "tmp").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def output(folder: Path, line: Sequence[str], *, errors_only: bool = False) -> str:
    """Run a tool in a folder; return what it prints, or only its standard error."""
    done = subprocess.run(
        line, cwd=folder, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    printed = done.stderr if errors_only else done.stdout + done.stderr
    return printed.replace(f"{folder}/", "").strip()


def traceback_end(printed: str, file: str) -> str:
    """Return the last place in a file that a traceback names, and the exception."""
    lines = printed.splitlines()
    places = [at for at, text in enumerate(lines) if f'"{file}"' in text]
    if not places:
        return ""
    return "\n".join(
        text.strip() for text in [lines[places[-1]].replace(f'File "{file}", ', ""), *lines[-1:]]
    )


def first_lines(text: str, most: int) -> str:
    """Return the first lines."""
    return "\n".join(text.splitlines()[:most])


def ours(client: PlainClient, drawn: Drawn) -> str:
    """Submit, and return the first errors (or warnings) with their hints."""
    attempt = client.submit({"kind": drawn.kind, "payload": dict(drawn.payload)}, wait_s=WAIT_S)
    found = [one for one in attempt["report"]["findings"] if one["severity"] != "info"]
    found.sort(key=lambda one: one["severity"] != "error")
    told = []
    for one in found[:MOST_FINDINGS]:
        place = f"line {one['line']}: " if one["line"] else ""
        message = one["message"].removeprefix("Step 1 (one): ")
        told.append("\n".join(filter(None, (f"{place}{message}", one["suggestion"]))))
    return "\n".join(told)


def draw(client: PlainClient, folder: Path, each: int, seed: int) -> None:
    """Write pairs and their key."""
    chance = random.Random(seed)
    pools = {
        "python": python_cases(chance),
        **{name: table_cases(name) for name in ("bash", "sql")},
    }
    pairs: list[tuple[Drawn, str, str]] = []
    for language, pool in pools.items():
        chance.shuffle(pool)
        pairs += islice(both(client, pool), each)
        print(language, len(pairs), flush=True)
    chance.shuffle(pairs)
    key, text = {}, []
    for number, (drawn, our, other) in enumerate(pairs, 1):
        first = chance.random() < 0.5
        key[str(number)] = {"ours": "A" if first else "B", "language": drawn.language}
        numbered = "\n".join(
            f"{at:3} {line}" for at, line in enumerate(drawn.text.strip("\n").splitlines(), 1)
        )
        a, b = (our, other) if first else (other, our)
        text.append(f"## {number}\n\n```\n{numbered}\n```\n\nA:\n```\n{a}\n```\nB:\n```\n{b}\n```\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.md").write_text("\n".join(text))
    (folder / "key.json").write_text(json.dumps(key, indent=1))


def both(client: PlainClient, pool: Sequence[Drawn]) -> Iterator[tuple[Drawn, str, str]]:
    """Return the slips about which both have a message."""
    for drawn in pool:
        with tempfile.TemporaryDirectory() as place:
            other = drawn.other(Path(place))
        our = ours(client, drawn) if other else ""
        if our:
            yield drawn, our, other


def score(folder: Path, answers: Sequence[Path]) -> None:
    """Print how often each reader chose ours, by language."""
    key = json.loads((folder / "key.json").read_text())
    for path in answers:
        counted: Counter[tuple[str, str]] = Counter()
        for number, choice in re.findall(r"^(\d+)\W+(A|B|tie)\b", path.read_text(), re.MULTILINE):
            told = key[number]
            outcome = "tie" if choice == "tie" else "win" if choice == told["ours"] else "loss"
            counted[outcome, told["language"]] += 1
            counted[outcome, "all"] += 1
        for language in sorted({language for _, language in counted}):
            wins, ties, losses = (counted[outcome, language] for outcome in ("win", "tie", "loss"))
            share = 100 * (wins + ties) / (wins + ties + losses)
            print(
                f"{path.name} {language}: {wins} won, {ties} ties, {losses} lost ({share:.0f} % won or tied)"
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("socket", type=Path)
    drawing.add_argument("folder", type=Path)
    drawing.add_argument("--each", type=int, default=20)
    drawing.add_argument("--seed", type=int, default=1)
    scoring = verbs.add_parser("score")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("answers", type=Path, nargs="+")
    given = parser.parse_args()
    if given.verb == "score":
        score(given.folder, given.answers)
        return
    with PlainClient(given.socket) as client:
        draw(client, given.folder, given.each, given.seed)


if __name__ == "__main__":
    main()
