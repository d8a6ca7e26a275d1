"""Reads the one file of Python that a command line names, for kinds that are one text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from assayd.errors import RequestError
from assayd.ports.validator import STDIN

SUFFIXES = frozenset({".py", ".md", ".txt"})
"""A file is Python, or an answer as the model gave it."""


def only_text(files: Mapping[str, bytes], *, what: str) -> str:
    """Return the text of the only file.

    Args:
        files: content by name.
        what: what it is to be, e.g. ``an extractor``.

    Raises: RequestError ``request.files``, with the file at fault.
    """
    if len(files) != 1:
        raise RequestError("request.files", f"{what} is one file, not {len(files)}", field="files")
    [(name, content)] = files.items()
    if name != STDIN and PurePath(name).suffix not in SUFFIXES:
        message = f"{name}: expected one of {', '.join(sorted(SUFFIXES))}"
        raise RequestError("request.files", message, field=name)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} is not UTF-8 text", field=name) from problem
