"""How large the parts of a payload may be: which parts, its kind says; how much, the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from assayd.documents.strict_json import canonical
from assayd.errors import RequestError

if TYPE_CHECKING:  # the client reads documents without these
    from assayd.kind import Cap, Kind

MAX_SOURCE_BYTES = 2**20
"""The size of one source text; analysis is bounded by it."""

_NAME_CHARS = 200
"""How much of a name is told."""

Part = tuple[str, object]
"""Where a part is, dotted, and what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadCaps:
    """How large the parts of a payload may be; each field is the value of a `Cap`."""

    source_bytes: int = MAX_SOURCE_BYTES
    inputs_bytes: int = 12 * 2**20
    sample_paths: int = 100
    steps: int = 100


def refuse_large_parts(validator: Kind, payload: Mapping[str, object], caps: PayloadCaps) -> None:
    """See that no part of a payload is over its cap.

    Raises: RequestError ``too_large``, with the part's path.
    """
    from assayd.kind import Cap

    if validator.bounded is not None:
        bounded = validator.bounded.items()
        parts = [(part, cap) for path, cap in bounded for part in _parts(("payload", payload), path)]
    else:
        parts = [(part, Cap.SOURCE) for part in _leaves(("payload", payload))]
    for (field, value), cap in parts:
        excess = _excess(value, cap, getattr(caps, cap.value))
        if excess:
            raise RequestError("too_large", f"{field} {excess}", field=field)


def _excess(value: object, cap: Cap, most: int) -> str:
    """Return what is too much; empty for what is not, or has another form, which the model will refuse."""
    from assayd.kind import Cap

    match cap:
        case Cap.SOURCE:
            large = isinstance(value, str) and (len(value) > most or len(value.encode()) > most)
            return f"is larger than {most} bytes" if large else ""
        case Cap.INPUTS:
            return f"is larger than {most} bytes" if len(canonical(value)) > most else ""
        case Cap.SAMPLE_PATHS | Cap.STEPS:
            return f"has more than {most} entries" if isinstance(value, list) and len(value) > most else ""
    assert_never(cap)


def _parts(whole: Part, path: str) -> list[Part]:
    """Return every part at a path; none where the payload has another form."""
    parts = [whole]
    for name in path.split("."):
        parts = [inner for part in parts for key, inner in _inner(part) if name in {"*", key}]
    return parts


def _leaves(whole: Part) -> Iterator[Part]:
    """Return every text at any depth, and every key, which is one too."""
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        if isinstance(part[1], str):
            yield part
        if isinstance(part[1], dict):
            yield from ((part[0], key) for key in part[1])
        waiting.extend(inner for _, inner in _inner(part))


def _inner(part: Part) -> list[tuple[str, Part]]:
    """Return what is directly in a part, by key."""
    field, value = part
    if isinstance(value, dict):
        return [(name, (f"{field}.{name[:_NAME_CHARS]}", inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [(str(number), (f"{field}.{number}", inner)) for number, inner in enumerate(value)]
    return []
