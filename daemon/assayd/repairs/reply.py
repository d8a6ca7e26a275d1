"""Reads a model's reply: strict JSON {code | files | steps, reason}, wherever in the text it stands.

The older names `patched_code` and `fix_reason` are read as well.

The reply is a stranger's text: it is sized, taken apart without running anything, and refused when it is not
exactly one answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from assayd.errors import ProviderError

MAX_REPLY_CHARS = 2 * 2**20
MAX_REASON_CHARS = 2000
MOST_STARTS = 50
"""How many braces are tried as the beginning of the object."""

_MARK = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What a model proposes: `code`, `files` by name, or `steps`."""

    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Mapping[str, object], ...] = ()
    reason: str


def read_reply(text: str) -> Patch:
    """Return the patch that a reply holds: as plain JSON, in a fence, or among prose.

    Raises: ProviderError ``provider.reply`` (retryable) when there is none.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _refused("is too long")
    for candidate in _candidates(text):
        if (patch := _patch(candidate)) is not None:
            return patch
    raise _refused('holds no JSON object with "code", "files" or "steps", and "reason"')


def _candidates(text: str) -> Iterator[object]:
    """Return every JSON object that the text may mean, the likeliest first."""
    decoder = json.JSONDecoder()
    for place in (text.strip(), *_fenced(text)):
        try:
            yield json.loads(place)
        except (ValueError, RecursionError):
            continue
    start = text.find("{")
    for _ in range(MOST_STARTS):
        if start < 0:
            return
        with suppress(ValueError, RecursionError):
            yield decoder.raw_decode(text, start)[0]
        start = text.find("{", start + 1)


def _fenced(text: str) -> Iterator[str]:
    """Return what stands in fences, in one walk over the lines; one that is never closed holds nothing."""
    inside: list[str] | None = None
    for line in text.split("\n"):
        info = line[len(_MARK) :].rstrip(" \t") if line.startswith(_MARK) else None
        if inside is None:
            if info is not None and (not info or (info.isascii() and info.isalpha())):
                inside = []
        elif info == "":
            yield "\n".join(inside).strip()
            inside = None
        else:
            inside.append(line)


def _patch(candidate: object) -> Patch | None:
    """Return what an object proposes: code, else files, else steps; keys that are not known are ignored."""
    if not isinstance(candidate, dict):
        return None
    reason = candidate.get("reason", candidate.get("fix_reason", ""))
    code = candidate.get("code", candidate.get("patched_code", ""))
    files, steps = candidate.get("files", {}), candidate.get("steps", [])
    if not (isinstance(reason, str) and isinstance(code, str) and _are_files(files) and _are_steps(steps)):
        return None
    if not (code.strip() or files or steps) or not _can_be_written(candidate):
        return None
    reason = "".join(c if c.isprintable() else " " for c in reason)
    return Patch(code=code, files=files, steps=tuple(steps), reason=reason[:MAX_REASON_CHARS])


def _are_files(files: object) -> bool:
    return isinstance(files, dict) and all(isinstance(text, str) for text in files.values())


def _are_steps(steps: object) -> bool:
    return isinstance(steps, list) and all(isinstance(step, dict) for step in steps)


def _can_be_written(value: object) -> bool:
    """Return whether all texts of a value are Unicode: lone surrogates are none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _refused(why: str) -> ProviderError:
    return ProviderError("provider.reply", f"the reply {why}", retryable=True)
