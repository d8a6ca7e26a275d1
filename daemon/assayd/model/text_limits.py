"""Fixed limits of checks and judgements. Source: docs/operating/configure.md."""

from __future__ import annotations

SOURCE_BYTES = 2**20
"""The maximum size of one source text in UTF-8, in bytes."""
MAX_SYNTAX_NODES = 200_000
"""The maximum number of nodes of one syntax tree."""

MAX_WAIT_S = 600
"""The maximum number of seconds for which one request waits for a verdict. Clients repeat it."""

SAMPLE_PATHS = 100
SAMPLE_PATH_CHARS = 4096
MAX_APPLIED_PATHS = 1000
"""The maximum number of paths to which one attempt applies an extractor."""

FINDINGS = 500
"""The maximum number of findings of one check."""
MAX_EDIT_CHARS = SOURCE_BYTES
"""The maximum number of characters of all edits of a stage. Each edit repeats whole lines, and hundreds of
edits may repeat one long line.
"""
MAX_EDITED_LINE_CHARS = 4096
"""The maximum length of a line that an edit for a run-time failure can change."""
MAX_RETRY_FINDINGS = 20
"""The maximum number of distinct findings that a retry context describes. It only counts the others."""
MAX_RETRY_CONTEXT_BYTES = 32 * 2**10

SNIPPET_CHARS = 200
MESSAGE_CHARS = 1000
MAX_TRACEBACK_CHARS = 8000


def shorten_text(text: str, chars: int = MESSAGE_CHARS) -> str:
    """Return a string, truncated to `chars` characters with a mark at the end if it is longer."""
    return text if len(text) <= chars else text[: chars - 1] + "…"
