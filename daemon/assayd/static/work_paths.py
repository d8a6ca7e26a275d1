r"""Checks the relative paths in a submission, which name files to stage and outputs to collect.

Both kinds of paths must be relative to the work directory, and normalized so that each location has only
one spelling:

    /etc/passwd, C:\data.csv          path.invalid   not relative
    ../secret, a/./b, a//b, a/        path.invalid   not normalized
    a with a/b                        path.clash     a file can't be a folder too
    101 files                         path.too_many
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Iterator
from glob import escape
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import shorten_text


def _check_base64(text: str) -> str:
    try:
        base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("isn't valid base64") from None
    return text


Base64Text = Annotated[str, AfterValidator(_check_base64)]


class Encoded(BaseModel):
    """A file whose content isn't text and is therefore encoded as base64."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    base64: Base64Text


FileContent = str | Encoded


HEAD_BYTES = 4095
"""Bytes of a file's head; a multiple of 3, so that its base64 can be decoded separately."""


def decode_head(given: FileContent) -> bytes:
    """Return the first `HEAD_BYTES` bytes of a file, or more bytes if its text isn't ASCII."""
    if isinstance(given, Encoded):
        return base64.b64decode(given.base64[: HEAD_BYTES // 3 * 4])
    return given[:HEAD_BYTES].encode("utf-8")


def decode_content(given: FileContent) -> bytes:
    """Return a file's content as bytes."""
    return base64.b64decode(given.base64) if isinstance(given, Encoded) else given.encode("utf-8")


MAX_PATHS = 100
"""Maximum files to stage, and outputs to collect. Source: docs/operating/configure.md."""
_MAX_PARTS = 12
_MAX_BYTES = 512
_MAX_NAME_BYTES = 255
_MAX_COLLECTED_CHARS = 16_384
"""Maximum characters of all outputs, as escaped in the header of one frame."""

RULES = (
    Rule(
        id="path.invalid",
        title="A path isn't plain and relative",
        help="Bad: ../data.csv, /tmp/out.csv. Good: data/in.csv.",
    ),
    Rule(id="path.clash", title="A path is both file and folder", help="Bad: out and out/a.csv."),
    Rule(id="path.too_many", title="Too many paths", help=f"At most {MAX_PATHS} are allowed."),
)


def check_paths(paths: Collection[str], *, field: str) -> Iterator[Finding]:
    """Yield the findings for the paths in one payload field.

    If there are more than `MAX_PATHS`, report only that.
    """
    if len(paths) > MAX_PATHS:
        message = f"{field} names {len(paths)} paths; {MAX_PATHS} are allowed."
        yield _build_path_finding("path.too_many", message, "Use fewer paths; combine small files.")
        return
    for path in paths:
        wrong = next(((what, remedy) for judge, what, remedy in _PATH_FAULTS if judge(path)), None)
        if wrong is not None:
            yield _build_path_finding(
                "path.invalid", f"{field}: {_to_ascii_path(path)} {wrong[0]}.", wrong[1]
            )
    yield from _iter_clash_findings(paths, field)
    if len(json.dumps([escape(path) for path in paths])) > _MAX_COLLECTED_CHARS and field == "collect":
        yield _build_path_finding(
            "path.too_many", "The paths of collect are too long in total.", "Use shorter names."
        )


_Judge = Callable[[str], bool]
_PATH_FAULTS: tuple[tuple[_Judge, str, str], ...] = (
    (lambda path: not path, "is empty", "Give every file a name."),
    (
        lambda path: path.startswith("/") or path[1:3] == ":\\",
        "isn't relative",
        "Write it relative to the start directory.",
    ),
    (
        lambda path: any(part in {"", ".", ".."} for part in path.split("/")),
        "isn't normalized",
        "Remove '.', '..', double slashes and a trailing slash.",
    ),
    (
        lambda path: not path.isprintable() or "\\" in path,
        "has characters that aren't allowed",
        "Use letters, digits, '-', '_', '.' and '/'.",
    ),
    (
        lambda path: path.count("/") >= _MAX_PARTS or len(path.encode()) > _MAX_BYTES,
        "is too long",
        f"Use at most {_MAX_PARTS} parts and {_MAX_BYTES} bytes.",
    ),
    (
        lambda path: any(len(part.encode()) > _MAX_NAME_BYTES for part in path.split("/")),
        "has a name that is too long",
        f"Use names of at most {_MAX_NAME_BYTES} bytes.",
    ),
)
"""Possible faults of a path, in checking order: test, message, suggestion."""


def _iter_clash_findings(paths: Collection[str], field: str) -> Iterator[Finding]:
    known = set(paths)
    for path in paths:
        parts = path.split("/")
        folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
        for folder in folders:
            if folder in known:
                below = _to_ascii_path(path)
                message = f"{field}: {_to_ascii_path(folder)} is a file and also a folder of {below}."
                yield _build_path_finding("path.clash", message, "Rename one of them.")


def _to_ascii_path(path: str) -> str:
    return ascii(shorten_text(path, 120))


def _build_path_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="paths", message=message, suggestion=suggestion)
