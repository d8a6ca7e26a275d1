"""Asks a reader for the fix of each broken submission, from the messages and hints alone.

    python -m bench.hints.action draw SOCKET FOLDER [--seed N] [--only NAME…]
    python -m bench.hints.action score FOLDER JUDGED…

`draw` submits the sixty cases of `cases/` and writes three files. `sheet.md` has the errors and warnings of
each with the quoted line and the hint: a reader writes `NUMBER FIX` per case. `key.md` has code, fault and
remedy of each: a judge compares the reader's fixes with it, and writes `NUMBER right` or `NUMBER wrong` per
case. `key.json` has the names. Draw on a quiet machine: time limits on a busy one blame the machine.

`score` counts what each judge wrote.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from assayd_client import Document, PlainClient
from bench.hints.run import WAIT_S, Case, load, submitted

TRIES = 3
INTRODUCTION = """\
Each case is a checker's report about code of which you see a line at most. Write one line per case: its
number, and the change that you would make to the code, as exactly as the report allows.
"""


def told(report: Document) -> str:
    """Return errors and warnings with line, quoted line and hint."""
    texts = []
    for found in report["findings"]:
        if found["severity"] != "info":
            line = f"line {found['line']}: " if found["line"] else ""
            quoted = [f"    {text}" for text in (found["snippet"] or "").splitlines()]
            hint = [f"hint: {found['suggestion']}"] if found["suggestion"] else []
            texts.append("\n".join([f"{found['severity']}: {line}{found['message']}", *quoted, *hint]))
    return "\n\n".join(texts)


def refused(client: PlainClient, case: Case) -> Document:
    """Submit a case, again after an internal error; return the last attempt."""
    for _ in range(TRIES):
        attempt = client.submit(case.submission, wait_s=WAIT_S)
        if attempt["verdict"] != "error":
            break
    return attempt


def draw(client: PlainClient, folder: Path, cases: list[Case], seed: int) -> None:
    """Write the sheet and its keys. Exits if a case isn't refused."""
    random.Random(seed).shuffle(cases)
    sheet, key, names = [INTRODUCTION], [], dict[str, str]()
    for number, case in enumerate(cases, 1):
        attempt = refused(client, case)
        if attempt["verdict"] != "failed":
            sys.exit(f"{case.kind}/{case.name} is {attempt['verdict']}, expected failed")
        sheet.append(f"## {number} ({case.kind})\n\n```\n{told(attempt['report'])}\n```\n")
        code = submitted(case.submission)
        key.append(f"## {number}\n\n```\n{code}\n```\n\nFault: {case.fault}\n\nRemedy: {case.remedy}\n")
        names[str(number)] = f"{case.kind}/{case.name}"
        print(number, names[str(number)], flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sheet.md").write_text("\n".join(sheet))
    (folder / "key.md").write_text("\n".join(key))
    (folder / "key.json").write_text(json.dumps(names, indent=1))


def score(folder: Path, judged: Sequence[Path]) -> None:
    """Print how many fixes of each reader are right, and the names of the others."""
    names = json.loads((folder / "key.json").read_text())
    for path in judged:
        given = dict(re.findall(r"^\W*(\d+)\W+(right|wrong)\b", path.read_text(), re.MULTILINE))
        if given.keys() != names.keys():
            sys.exit(f"{path}: expected `right` or `wrong` for each of {len(names)} cases, got {len(given)}")
        wrong = [names[number] for number, said in given.items() if said == "wrong"]
        print(f"{path.name}: {len(given) - len(wrong)} of {len(given)} right")
        print("".join(f"  wrong: {name}\n" for name in wrong), end="")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("socket", type=Path)
    drawing.add_argument("folder", type=Path)
    drawing.add_argument("--seed", type=int, default=1)
    drawing.add_argument("--only", nargs="*", help="names of cases")
    scoring = verbs.add_parser("score")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("judged", type=Path, nargs="+")
    given = parser.parse_args()
    if given.verb == "score":
        score(given.folder, given.judged)
        return
    cases = [case for case in load() if given.only is None or case.name in given.only]
    with PlainClient(given.socket) as client:
        draw(client, given.folder, cases, given.seed)


if __name__ == "__main__":
    main()
