"""Reads the files that a command line names: as one text, as texts, or as what a payload holds."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import PurePath

from assayd.errors import RequestError
from assayd.ports.command_line import STDIN, FileOptions

SUFFIXES = frozenset({".py", ".md", ".txt"})
"""A file is Python, or an answer as the model gave it."""


def only_text(files: Mapping[str, bytes], *, what: str, also: frozenset[str] = frozenset()) -> str:
    """Return the text of the only file.

    Args:
        files: content by name.
        what: what it is to be, e.g. ``an extractor``.
        also: suffixes that are accepted in addition to `SUFFIXES`.

    Raises: RequestError ``request.files``, with the file at fault.
    """
    if len(files) != 1:
        raise RequestError("request.files", f"{what} must be one file, not {len(files)}", field="files")
    [(name, content)] = files.items()
    if name != STDIN and PurePath(name).suffix not in SUFFIXES | also:
        message = f"{name}: expected one of {', '.join(sorted(SUFFIXES | also))}"
        raise RequestError("request.files", message, field=name)
    return text_of(name, content)


def code_from_files(
    files: Mapping[str, bytes], options: FileOptions, *, field: str = "code"
) -> Mapping[str, object]:
    """Return a payload of one text in a field, and of `--input` beside it.

    Raises: RequestError ``request.files``, ``request.options``.
    """
    if options.sample_paths or options.extra:
        message = "this kind accepts one file and --input, but no --sample-path or --option"
        raise RequestError("request.options", message)
    return {**(options.input or {}), field: only_text(files, what="a submission of this kind")}


def text_of(name: str, content: bytes) -> str:
    """Return the text that a file is. Raises: RequestError ``request.files``."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} isn't UTF-8 text", field=name) from problem


def payload_of(content: bytes) -> object:
    """Return the form in which a payload holds a file: text where it is UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}
