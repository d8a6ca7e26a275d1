"""Converts the files of a command line to one text, several texts, or payload members."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import PurePath

from assayd.errors import RequestError
from assayd.ports.command_line import STDIN, FileOptions

SUFFIXES = frozenset({".py", ".md", ".txt"})
"""Suffixes of a Python file or a model's raw answer."""


def single_file_text(files: Mapping[str, bytes], *, what: str, also: frozenset[str] = frozenset()) -> str:
    """Return the text of the only file on the command line.

    Args:
        files: the contents of the files by name.
        what: the expected file as described in the error message, e.g. ``an extractor``.
        also: additional suffixes to accept.

    Raises: RequestError ``request.files``, which names the file at fault.
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
    """Return a payload with the file's text in one field and with the members that `--input` supplies.

    Raises: RequestError ``request.files``, ``request.options``.
    """
    if options.sample_paths or options.extra:
        message = "this kind accepts one file and --input, but no --sample-path or --option"
        raise RequestError("request.options", message)
    return {**(options.input or {}), field: single_file_text(files, what="a submission of this kind")}


def text_of(name: str, content: bytes) -> str:
    """Return the content of a file as text. Raises: RequestError ``request.files``."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} isn't UTF-8 text", field=name) from problem


def to_payload(content: bytes) -> object:
    """Return a file's content as a payload value: a string if the content is UTF-8, base64 otherwise."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}
