"""Submits the broken submissions to a daemon, and writes what somebody sees who has only report and code.

    python -m bench.hints.run SOCKET FOLDER [NAME]…

A text per case: what was submitted, the report as `assay show` prints it, and the retry context. What is
wrong and what would help is left out: that is in `cases/`, for afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assayd_client import Document, PlainClient

CASES = Path(__file__).parent / "cases"
ASSAY = (sys.executable, "-c", "import sys; from assayd_client.cli import main; sys.exit(main())")
COLUMNS = "110"
WAIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One broken submission, what is wrong with it, and what a report has to lead to."""

    kind: str
    name: str
    fault: str
    remedy: str
    submission: Document


def load() -> list[Case]:
    """Read all of them, kind by kind."""
    return [case for path in sorted(CASES.glob("*.toml")) for case in _cases(path)]


def _cases(path: Path) -> Iterator[Case]:
    for told in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
        code = {"code": told["code"]} if "code" in told else {}
        yield Case(
            kind=path.stem,
            name=told["name"],
            fault=told["fault"],
            remedy=told["remedy"],
            submission={
                "kind": path.stem,
                "payload": code | told.get("payload", {}),
                "overrides": told.get("overrides", {}),
            },
        )


def look(case: Case, client: PlainClient, socket: Path) -> tuple[str, str]:
    """Submit one; return its verdict and the text for a reader."""
    attempt = client.submit(case.submission, wait_s=WAIT_S)
    report = attempt["report"] or {}
    shown = _shown(attempt["id"], socket)
    told = json.dumps(report.get("retry_context"), indent=1, ensure_ascii=False)
    parts = {"Submitted": submitted(case.submission), "Report": shown, "Retry context": told}
    return attempt["verdict"], "\n".join(f"=== {title}\n{text}\n" for title, text in parts.items())


def _shown(attempt: str, socket: Path) -> str:
    line = (*ASSAY, "--socket", str(socket), "show", attempt)
    environment = {**os.environ, "COLUMNS": COLUMNS}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def submitted(submission: Document) -> str:
    """Return what was submitted, texts with their line numbers."""
    payload: Any = submission["payload"]
    return "\n".join(f"{name}: {_printed(value)}" for name, value in payload.items())


def _printed(value: Any, depth: int = 1) -> str:
    match value:
        case str() if "\n" in value:
            return "".join(f"\n{number:4} | {line}" for number, line in enumerate(value.splitlines(), 1))
        case dict() | list():
            pairs = value.items() if isinstance(value, dict) else enumerate(value, 1)
            return "".join(f"\n{'  ' * depth}{name}: {_printed(part, depth + 1)}" for name, part in pairs)
        case _:
            return json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str]) -> None:
    """Write the texts, and print each verdict; a case that is not failed is no broken submission."""
    socket, folder, names = Path(arguments[0]), Path(arguments[1]), set(arguments[2:])
    folder.mkdir(parents=True, exist_ok=True)
    with PlainClient(socket) as client:
        for case in load():
            if names and case.name not in names:
                continue
            verdict, text = look(case, client, socket)
            (folder / f"{case.kind}-{case.name}.txt").write_text(text, encoding="utf-8")
            print(f"{verdict:10} {case.kind}/{case.name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
