"""Hard numbers that checks and judges keep to. Source: docs/operating/configure.md."""

from __future__ import annotations

SOURCE_BYTES = 2**20
"""One source text, in UTF-8."""
SYNTAX_NODES = 200_000
"""Nodes of one syntax tree."""

MOST_WAIT_S = 600
"""The longest that one request waits for a verdict, in seconds; clients ask again."""

SAMPLE_PATHS = 100
SAMPLE_PATH_CHARS = 4096
APPLIED_PATHS = 1000
"""Paths that one attempt applies an extractor to."""

FINDINGS = 500
"""Findings of one check."""
EDIT_CHARS = SOURCE_BYTES
"""Of all edits of one stage: each repeats whole lines, and hundreds may be of one that is very long."""
EDITED_LINE_CHARS = 4096
"""The longest line that an edit from a run-time failure may change."""
RETRY_FINDINGS = 20
"""Distinct findings that a retry context spells out; the rest is counted."""
RETRY_CONTEXT_BYTES = 32 * 2**10

SNIPPET_CHARS = 200
MESSAGE_CHARS = 1000
TRACEBACK_CHARS = 8000


def shorten(text: str, chars: int = MESSAGE_CHARS) -> str:
    """Cut a text to `chars` characters, with a mark at the cut."""
    return text if len(text) <= chars else text[: chars - 1] + "…"
