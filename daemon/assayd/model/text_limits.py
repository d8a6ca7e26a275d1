"""Fixed limits of checks and judgements. Source: docs/operating/configure.md."""

from __future__ import annotations

SOURCE_BYTES = 2**20
"""Bytes of one source text, in UTF-8."""
SYNTAX_NODES = 200_000
"""Nodes of one syntax tree."""

MAX_WAIT_S = 600
"""Seconds that one request waits for a verdict; clients repeat the request."""

SAMPLE_PATHS = 100
SAMPLE_PATH_CHARS = 4096
APPLIED_PATHS = 1000
"""Paths that one attempt applies an extractor to."""

FINDINGS = 500
"""Findings of one check."""
EDIT_CHARS = SOURCE_BYTES
"""Characters of all edits of a stage: each edit repeats whole lines, and hundreds may repeat one long
line.
"""
EDITED_LINE_CHARS = 4096
"""Characters of the longest line that an edit for a run-time failure can change."""
RETRY_FINDINGS = 20
"""Distinct findings that a retry context describes; further ones are only counted."""
RETRY_CONTEXT_BYTES = 32 * 2**10

SNIPPET_CHARS = 200
MESSAGE_CHARS = 1000
TRACEBACK_CHARS = 8000


def shorten_text(text: str, chars: int = MESSAGE_CHARS) -> str:
    """Truncate a string to `chars` characters, with a mark at the cut."""
    return text if len(text) <= chars else text[: chars - 1] + "…"
