"""Takes the program out of a model's answer: what stands in fenced blocks, every line where it was.

What is left out becomes an empty line:

    Here you are:           (left out)
    ```forth                (left out)
    : hi ( -- ) ;
    ```                     (left out)

So lines count in a file on the command line. An answer that is put into a submission is reduced to its
program first, and lines count from its beginning.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_MARK = "\ufeff"
"""A byte order mark, which some editors write first."""


def program_of(answer: str) -> str:
    """Return the program; a text without fences is one as it is, but for a byte order mark."""
    text = answer.removeprefix(_MARK)
    if _FENCE.search(text) is None:
        return text
    inside = False
    kept = []
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        kept.append(line if inside and not fence else "")
        inside ^= fence
    return "\n".join(kept)


def program_alone(answer: str) -> str:
    """Return the program of an answer without the empty lines in the place of what was around it."""
    program = program_of(answer)
    return program if program == answer else program.strip("\n") + "\n"
