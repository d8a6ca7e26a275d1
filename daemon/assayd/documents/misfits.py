"""Rejects requests with very many validation errors before pydantic reads them.

pydantic collects all errors, each of which costs a few microseconds and a kilobyte, and blocks the event
loop until it has finished. A few megabytes of unknown fields would therefore block the daemon for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from assayd.errors import RequestError

MOST = 100
"""Errors up to which pydantic validates the value and reports them in detail."""
MOST_PLACE_CHARS = 200
"""Characters of a wrong key that a response repeats: callers choose keys, which may be megabytes long."""
_PLAIN = (str, int, float, bool)


def place_of(parts: Sequence[object]) -> str:
    """Return the dotted path of an error in a document; shorten a long path."""
    return ".".join(str(part)[:MOST_PLACE_CHARS] for part in parts)[:MOST_PLACE_CHARS]


def message_of(fault: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error without the prefix that custom validators add."""
    return str(fault["msg"]).removeprefix("Value error, ")


def refuse_many_errors(model: type[BaseModel], value: object, within: str = "") -> None:
    """Check that a value has at most `MOST` errors against a model; pydantic then reports these errors.

    Raises: RequestError ``invalid``, with the first error, if there are more.
    """
    found = list(islice(_error_paths(model, value), MOST + 1))
    if len(found) > MOST:
        field = f"{within}{found[0]}"[:MOST_PLACE_CHARS]
        message = f"more than {MOST} fields are unknown or have the wrong type, e.g. {field}"
        raise RequestError("invalid", message, field=field)


def _error_paths(kind: Any, value: object) -> Iterator[str]:
    """Yield the paths of unknown fields and of scalars whose type differs from the annotation."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        yield from _union_error_paths([part for part in parts if part is not NoneType], value)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _model_error_paths(kind, value)
    elif kind in _PLAIN:
        if not isinstance(value, str if kind is str else _PLAIN):
            yield ""
    elif isinstance(value, dict):
        inner = parts[1] if _is_subclass(kind, Mapping) and len(parts) == 2 else None
        for name, member in value.items() if inner is not None else ():
            yield from (f"{name}.{place}" for place in _error_paths(inner, member))
    elif isinstance(value, list):
        inner = parts[0] if _is_subclass(kind, Sequence) and parts else None
        for number, member in enumerate(value) if inner is not None else ():
            yield from (f"{number}.{place}" for place in _error_paths(inner, member))


def _model_error_paths(model: type[BaseModel], value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield ""
        return
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for name, member in value.items():
        if name not in fields:
            yield str(name)
        else:
            yield from (f"{name}.{place}" for place in _error_paths(fields[name], member))


def _union_error_paths(kinds: Sequence[Any], value: object) -> Iterator[str]:
    """Yield the error paths of a value against a union, if the value matches none of its types.

    pydantic would report the errors against every type of the union.
    """
    if value is None:
        return
    if len(kinds) == 1:
        yield from _error_paths(kinds[0], value)
        return
    fits = [list(islice(_error_paths(kind, value), MOST + 1)) for kind in kinds]
    if all(fits):
        yield from max(fits, key=len, default=[])


def _is_subclass(kind: Any, wanted: type) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, wanted) and not issubclass(origin, str)
