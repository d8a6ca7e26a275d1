"""`--fields`: some fields of a document, where they stand in it."""

from __future__ import annotations

from assayd.errors import RequestError
from assayd_client import Document


def select(document: Document, fields: str) -> Document:
    """Return a document with the named fields alone: dotted paths, with commas between.

    A path goes on into each element of a list. What is null above a field stays null.

    Raises: RequestError ``usage``, naming the field that there is not.
    """
    found: Document = {}
    for field in fields.split(","):
        path = field.strip().split(".")
        _merge(found, _taken(document, path, field.strip()))
    return found


def _taken(value: object, path: list[str], field: str) -> object:
    if not path or value is None:
        return value
    if isinstance(value, list):
        return [_taken(each, path, field) for each in value]
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        has = f"{', '.join(value)}" if isinstance(value, dict) else "no fields"
        raise RequestError("usage", f"--fields: there is no {field!r}; at {name!r} there is {has}")
    return {name: _taken(value[name], rest, field)}


def _merge(into: object, more: object) -> object:
    """Put one selection into another of the same document; return the two."""
    if isinstance(into, dict) and isinstance(more, dict):
        for name, value in more.items():
            into[name] = _merge(into[name], value) if name in into else value
        return into
    if isinstance(into, list) and isinstance(more, list):
        return [_merge(a, b) for a, b in zip(into, more, strict=True)]
    return into
