"""The scripted provider: answers from recorded texts, and mends what a prompt tells it of, nothing else.

    python -m bench.generate.program RECORDED.json ASKED < REQUEST

RECORDED has an entry for each request in words: `answers`, given one after the other, or `first` with `mend`,
a list of [right, wrong, told]: where `wrong` stands in the passage and the prompt says `told` of what failed,
it becomes `right`. Each request is kept below ASKED, with the environment that came with it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FAILURE = "\nFAILURE\n"
AFTER = ("\nHINT FROM THE USER\n", "\nTASK\n")


def answer(recorded: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is recorded for a request."""
    repairs = bool(asked["passage"]["name"])
    if "answers" in recorded:
        answers = recorded["answers"]
        return answers[min(asked["attempt"] if repairs else 0, len(answers) - 1)]
    if not repairs:
        return recorded["first"]
    text, told = asked["passage"]["text"], told_of(asked)
    for right, wrong, sign in recorded["mend"]:
        if sign in told and (wrong not in right or right not in text):
            text = text.replace(wrong, right, 1)
    return {"code": text, "reason": "Mended what the prompt names."}


def told_of(asked: dict[str, Any]) -> str:
    """Return what a prompt says of the failure, with the rules of its findings."""
    failure = asked["prompt"]["user"].partition(FAILURE)[2]
    for end in AFTER:
        failure = failure.partition(end)[0]
    return failure + "\n" + "\n".join(one["rule"] for one in asked["findings"])


def main() -> None:
    """Answer one request."""
    asked = json.load(sys.stdin)
    kept = {"asked": asked, "environment": dict(os.environ)}
    Path(sys.argv[2], f"{os.getpid()}-{os.urandom(8).hex()}.json").write_text(json.dumps(kept))
    recorded = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))[asked["intent"]]
    print(json.dumps(answer(recorded, asked)))


if __name__ == "__main__":
    main()
