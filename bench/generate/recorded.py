"""The provider that plays recorded answers, and asks a person for those that don't exist.

    python -m bench.generate.recorded RECORDED.json CALLS CHAIN [FOLDER] < REQUEST

RECORDED.json has the answers of each chain in order, each with the digest of the prompt that it answers.
CALLS/CHAIN.jsonl gets a line for each call. With FOLDER, a prompt that has no answer, or has changed since it
was answered, goes to a person (examples/providers/by_hand.py). Without, the recorded answer is played anyway
and marked as stale; if there is none, the program fails.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from bench import ROOT

BY_HAND = ROOT / "examples/providers/by_hand.py"
DIGEST_CHARS = 16


class Recorded(TypedDict):
    """One answer, and the digest of its prompt."""

    prompt: str
    answer: str


class Call(Recorded):
    """One call of the provider. `stale` says that the answer was given to another prompt."""

    text: str
    stale: bool


Recordings = Mapping[str, Sequence[Recorded]]


def answer(chain: str, request: str, recordings: Recordings, calls: Path, folder: Path | None) -> str | None:
    """Return the answer to a request of a chain, or None if there is none; note the call."""
    asked = json.loads(request)
    path = calls / f"{chain}.jsonl"
    number, digest = len(calls_in(path)), digest_of(asked)
    recorded = recordings.get(chain, ())[number : number + 1]
    fresh = [one for one in recorded if one["prompt"] == digest]
    text = next((one["answer"] for one in fresh or recorded), None)
    if folder is not None and not fresh:
        text = _by_hand(request, folder)
    if text is not None:
        stale = folder is None and not fresh
        call = Call(prompt=digest, text=prompt_of(asked), answer=text, stale=stale)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")
    return text


def digest_of(asked: Mapping[str, Any]) -> str:
    """Return the digest of a request's prompt."""
    return hashlib.sha256(prompt_of(asked).encode()).hexdigest()[:DIGEST_CHARS]


def prompt_of(asked: Mapping[str, Any]) -> str:
    """Return the prompt of a request: what the system says, then what the user says."""
    prompt = asked["prompt"]
    return f"{prompt['system']}\n\n{prompt['user']}"


def calls_in(path: Path) -> list[Call]:
    """Return the calls of a chain so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _by_hand(request: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(BY_HAND), str(folder)], input=request, capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> int:
    """Answer one request."""
    recorded, calls, chain, *folder = sys.argv[1:]
    recordings = json.loads(Path(recorded).read_text(encoding="utf-8"))
    place = Path(folder[0]) if folder else None
    text = answer(chain, sys.stdin.read(), recordings, Path(calls), place)
    if text is None:
        print(f"no answer is recorded for this call of {chain}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
