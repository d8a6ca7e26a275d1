"""Computes the edit for a script that cannot be read, where one word in one place is all that is missing.

    if [ -s x ]; then … (to the end)      fi at the end     (when all lines after it are indented deeper)
    while read -r x; do … (to the end)    done at the end
    if [ -s x ]                           if [ -s x ]; then (when the test ends the line)
    ```bash … ```                         …

What comes of it is read again: an edit is given only when it is bash then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from assayd.model.finding import Edit
from assayd.static.python.safe_fixes import edit_between, inside_fences
from assayd.static.shell.parse import reader

_OPENED = re.compile(r"'(if|for|while|until|case)' (?:statement|clause) must (?:end|be closed) with '(\w+)'")
_TEST_ALONE = re.compile(r"[ \t]*(?:if|elif)\b[^;#]*\]\]?[ \t]*;?")


def mended(text: str, message: str, line: int) -> Edit | None:
    """Return the edit for a complaint of the parser about a line, or None."""
    for candidate in _candidates(text, message, line):
        if reader.read(candidate).tree is not None:
            return edit_between(text, candidate)
    return None


def unfenced(text: str) -> Edit | None:
    """Return the edit that leaves out the fences around a script: to bash they are commands, not an error."""
    inside = inside_fences(text)
    if inside is None or reader.read(inside).tree is None:
        return None
    return edit_between(text, inside)


def _candidates(text: str, message: str, line: int) -> Iterator[str]:
    inside = inside_fences(text)
    if inside is not None:
        yield inside
        return
    opened = _OPENED.search(message)
    if opened is not None:
        yield from _closed(text, line, opened[2])
    elif "'fi' can only be used to end an 'if'" in message or "must be followed by 'then'" in message:
        yield from _with_then(text)


def _closed(text: str, line: int, closer: str) -> Iterator[str]:
    """Close what was opened on a line at the end, when everything after it is indented deeper."""
    lines = text.rstrip("\n").split("\n")
    indent = _indent(lines[line - 1])
    inner = [each for each in lines[line:] if each.strip()]
    middle = {"else", "elif"} if closer == "fi" else set()
    deeper = [each for each in inner if each.split()[0].rstrip(";") not in middle or _indent(each) != indent]
    if inner and all(len(_indent(each)) > len(indent) for each in deeper):
        yield "\n".join((*lines, f"{indent}{closer}", ""))


def _with_then(text: str) -> Iterator[str]:
    """Put `then` behind the one test that ends its line and is followed by none."""
    lines = text.split("\n")
    alone = [
        n
        for n, each in enumerate(lines[:-1])
        if _TEST_ALONE.fullmatch(each) and not re.match(r"\s*(?:then\b|&&|\|\|)", lines[n + 1])
    ]
    if len(alone) == 1:
        [n] = alone
        lines[n] = lines[n].rstrip().removesuffix(";") + "; then"
        yield "\n".join(lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
