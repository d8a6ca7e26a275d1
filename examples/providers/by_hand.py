#!/usr/bin/env python3
"""A model provider that is a person: each prompt becomes a file, and its answer is read from a file.

    [repair.providers.by_hand]
    type = "command"
    argv = ["/usr/bin/python3", "/etc/assayd/by_hand.py", "/var/tmp/prompts"]

FOLDER/001.prompt.txt is the text that a model would read, FOLDER/001.request.json the request as it came.
Write the answer to FOLDER/001.answer.txt. All three files are then moved to FOLDER/answered. The program
waits until the daemon ends it: raise `repair.timeout_s` to the time that you need.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

POLL_S = 0.5
PARTS = ("prompt.txt", "request.json", "answer.txt")
ANSWERED = "answered"


def main() -> int:
    """Put a request into the folder and print the answer to it."""
    if len(sys.argv) != 2:
        print(f"usage: {Path(sys.argv[0]).name} FOLDER < REQUEST", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    sys.stdout.write(answer(folder, sys.stdin.read()))
    return 0


def answer(folder: Path, request: str) -> str:
    """Return the answer to a request. Blocks until a person has written it."""
    (folder / ANSWERED).mkdir(parents=True, exist_ok=True)
    number = open_number(folder, request) or new_number(folder, request)
    text = awaited(folder, number)
    for part in PARTS:
        path = folder / f"{number}.{part}"
        with suppress(FileNotFoundError):  # the same request was answered twice at once
            path.rename(folder / ANSWERED / path.name)
    return text


def open_number(folder: Path, request: str) -> str | None:
    """Return the number under which this request is still open: its program was ended, and it came again."""
    for path in sorted(folder.glob("[0-9]*.request.json")):
        if text_of(path) == request:
            return path.name.partition(".")[0]
    return None


def new_number(folder: Path, request: str) -> str:
    """Put a request into the folder under the next free number."""
    taken = [path.name for place in (folder, folder / ANSWERED) for path in place.glob("[0-9]*.request.json")]
    count = max((int(name.partition(".")[0]) for name in taken), default=0)
    while True:
        count += 1
        number = f"{count:03}"
        try:
            with (folder / f"{number}.request.json").open("x", encoding="utf-8") as file:
                file.write(request)
        except FileExistsError:  # another program was faster
            continue
        whole = folder / f"{number}.prompt.part"
        whole.write_text(readable(request), encoding="utf-8")
        whole.rename(folder / f"{number}.prompt.txt")
        return number


def readable(request: str) -> str:
    """Return the text that a model would read: the system prompt, then the user prompt."""
    prompt = json.loads(request)["prompt"]
    return f"{prompt['system']}\n\n{prompt['user']}"


def awaited(folder: Path, number: str) -> str:
    """Return the answer when it has been written: it isn't empty, and half a second later it is the same."""
    before = ""
    while True:
        for place in (folder, folder / ANSWERED):
            text = text_of(place / f"{number}.answer.txt")
            if text.strip() and text == before:
                return text
            if text:
                before = text
                break
        time.sleep(POLL_S)


def text_of(path: Path) -> str:
    """Return the text of a file; "" if it doesn't exist (any more)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
