"""Suggests remedies for a step that failed without a message, timed out, or needs a missing file.

    (status 1, and nothing written)     grep in line 2 ends with 1 when no line matches: …

For a step without output, the advice names the commands that use exit code 1 as a normal result.
`messages.py` explains error messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from assayd.did_you_mean import find_close_names

_ANSWERS: Mapping[str, str] = {
    "grep": "exits with 1 if no line matches: write { grep … || true; } if that is fine",
    "egrep": "exits with 1 if no line matches: write { egrep … || true; } if that is fine",
    "fgrep": "exits with 1 if no line matches: write { fgrep … || true; } if that is fine",
    "diff": "exits with 1 if the files differ: append || true if that is fine",
    "cmp": "exits with 1 if the files differ: append || true if that is fine",
    "expr": "exits with 1 if the result is 0 or empty: write $((…))",
    "let": "exits with 1 if the result is 0: write x=$((…))",
    "test": "exits with 1 if the condition is false: check the compared values",
    "[": "exits with 1 if the condition is false: check the compared values",
    "[[": "exits with 1 if the condition is false: check the compared values",
    "((": "exits with 1 if the result is 0: write x=$((…)), or append || true",
}
_ANSWERING = re.compile(
    r"(?:^|[|;&({`]|\b(?:then|do|else)\b)\s*(grep|egrep|fgrep|diff|cmp|expr|let|test|\[\[?|\(\()(?=\s|\w)"
)
_MAX_NAMED = 3
_LOOPS = re.compile(r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*(while|until)\b")
_WAITS = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*(?:while !|until)\s+(?:\[\[?|test) -[efs] [\"']?([\w./*$-]{1,80})"
)


def suggest_for_silent_failure(content: str) -> tuple[str, int | None]:
    """Return the advice for a bash step that failed without output, with the likely line if known."""
    named = [
        (number, found[1])
        for number, line in enumerate(content.split("\n"), 1)
        if not line.lstrip().startswith("#")
        for found in _ANSWERING.finditer(line)
    ]
    if (field := _find_awk_field(content)) is not None:
        line, name = field
        words = f"${name} in line {line} is an awk field, not the shell variable: "
        return (
            f"The step printed no error. {words}awk -v {name}=\"${name}\" '… {name} …', without a $.",
            line,
        )
    if not named:
        return (
            "The step printed no error. Add set -x to trace its commands, or find the one that can fail.",
            None,
        )
    shown = "; ".join(f"{name} in line {number} {_ANSWERS[name]}" for number, name in named[:_MAX_NAMED])
    return f"The step printed no error. {shown}.", named[0][0] if len(named) == 1 else None


def _find_awk_field(content: str) -> tuple[int, str] | None:
    """Return the line and name of a shell variable that a single-quoted awk program uses like a field."""
    lines = content.split("\n")[:_MAX_LINES]
    names = {found[1] for line in lines if (found := _ASSIGNED.match(line)) is not None}
    for number, line in enumerate(lines, 1):
        quoted = line[:_MAX_CHARS].split("'")[1::2] if re.search(r"\bg?awk\b", line) else []
        for name in (found for part in quoted for found in re.findall(r"\$([A-Za-z_]\w*)", part)):
            if name in names and f"-v {name}=" not in line:
                return number, name
    return None


def explain_exit_status(content: str, status: int | None) -> str:
    """Return a sentence with the lines that end a bash step with this status, or an empty string."""
    exits = re.compile(rf"\bexit {status}\b")
    lines = [n for n, line in enumerate(content.split("\n"), 1) if status and exits.search(line)]
    shown = ", ".join(map(str, lines[:_MAX_NAMED]))
    return f" Line {shown} ends the step with exit {status}." if lines else ""


_ASSIGNED = re.compile(r"\s*(?:local |export |readonly )?([A-Za-z_]\w*)=")
_MAX_LINES = 2000
_MAX_CHARS = 1000


def find_endless_loops(content: str) -> list[int]:
    """Return the lines of a bash step that contain potentially endless loops."""
    return [number for number, line in enumerate(content.split("\n"), 1) if _LOOPS.search(line)]


def suggest_for_waiting_loop(content: str) -> tuple[str, int] | None:
    """Return advice about a bash loop that waits for a file, and its line, or None if no loop waits."""
    for number, line in enumerate(content.split("\n"), 1):
        if (found := _WAITS.search(line[:_MAX_CHARS])) is not None:
            words = f"Remove the loop on line {number}: no other process runs that could create `{found[1]}`."
            return words, number
    return None


def suggest_similar_path(message: str, others: Sequence[str]) -> str | None:
    """Return a suggestion of a path in other texts that resembles the missing path, or None."""
    found = _PATH.search(message)
    if found is None:
        return None
    named = {path for text in others for path in _PATH.findall(text[:_MAX_READ])} - {found[0]}
    near = find_close_names(found[0], sorted(named))
    return f"Did you mean {near[0]}? No step creates {found[0]}, and it isn't submitted." if near else None


def suggest_submitted_files(message: str, files: Iterable[str]) -> str | None:
    """Return advice with the missing file and the submitted files, or None if no file is named."""
    found = _MISSING.search(message)
    if found is None:
        return None
    known = ", ".join(sorted(files)[:_MOST_FILES]) or "none"
    return f"`{found[1]}` doesn't exist. Correct its name, or create it before this line. Submitted: {known}."


_MISSING = re.compile(r"['‘: ]([\w./*-]{1,100})['’]?(?: for reading)?: No such file or directory")
_MOST_FILES = 6


def find_steps_with_path(message: str, texts: Sequence[str]) -> list[int]:
    """Return the numbers of the steps that contain the path which a message reports as missing."""
    found = _PATH.search(message)
    if found is None:
        return []
    return [number for number, text in enumerate(texts, 1) if found[0] in _PATH.findall(text[:_MAX_READ])]


_PATH = re.compile(r"\b(?:data|tmp|logs)/[\w./-]{1,200}\w")
_MAX_READ = 100_000
