"""What had failed before a fix, a line per finding."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assayd_client.cli.terminal import shorten

LINE_CHARS = 200
NUMBERED = re.compile(r"\d+\. ")


def failed_lines(context: str) -> Iterator[str]:
    """Return the findings of a retry context, each in a line; its first line if it has no list of them."""
    found = [text for text in context.splitlines() if NUMBERED.match(text)] or context.splitlines()[:1]
    if len(found) == 1:
        yield f"failed: {shorten(NUMBERED.sub('', found[0], count=1), LINE_CHARS)}"
        return
    yield "failed:"
    yield from (f"  {shorten(text, LINE_CHARS)}" for text in found)
