"""Refuses a request of which very much does not fit its model, before the model is asked.

A model collects every error that it finds, at some microseconds and a kilobyte each, and lets nobody else
run meanwhile: a few megabytes of unknown fields would stop the daemon for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from assayd.errors import RequestError

MOST = 100
"""Misfits up to which the model is asked, and names them well."""
MOST_PLACE_CHARS = 200
"""How much of a wrong key an answer repeats: keys come from outside, and may be megabytes long."""
_PLAIN = (str, int, float, bool)


def place_of(parts: Sequence[object]) -> str:
    """Return the place of a fault in a document, shortened."""
    return ".".join(str(part)[:MOST_PLACE_CHARS] for part in parts)[:MOST_PLACE_CHARS]


def message_of(fault: Mapping[str, Any]) -> str:
    """Return the message of an error of pydantic, without its prefix for errors that our validators raise."""
    return str(fault["msg"]).removeprefix("Value error, ")


def refuse_misfits(model: type[BaseModel], value: object, within: str = "") -> None:
    """See that not very much of a value misfits a model; the model finds the rest.

    Raises: RequestError ``invalid``, naming the first.
    """
    found = list(islice(_misfits(model, value), MOST + 1))
    if len(found) > MOST:
        field = f"{within}{found[0]}"[:MOST_PLACE_CHARS]
        message = f"more than {MOST} fields are unknown or have the wrong type, e.g. {field}"
        raise RequestError("invalid", message, field=field)


def _misfits(kind: Any, value: object) -> Iterator[str]:
    """Name unknown fields of objects, and plain values of another type, as far as annotations tell."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        yield from _misfits_of_union([part for part in parts if part is not NoneType], value)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _misfits_of_model(kind, value)
    elif kind in _PLAIN:
        if not isinstance(value, str if kind is str else _PLAIN):
            yield ""
    elif isinstance(value, dict):
        inner = parts[1] if _is(kind, Mapping) and len(parts) == 2 else None
        for name, member in value.items() if inner is not None else ():
            yield from (f"{name}.{place}" for place in _misfits(inner, member))
    elif isinstance(value, list):
        inner = parts[0] if _is(kind, Sequence) and parts else None
        for number, member in enumerate(value) if inner is not None else ():
            yield from (f"{number}.{place}" for place in _misfits(inner, member))


def _misfits_of_model(model: type[BaseModel], value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield ""
        return
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for name, member in value.items():
        if name not in fields:
            yield str(name)
        else:
            yield from (f"{name}.{place}" for place in _misfits(fields[name], member))


def _misfits_of_union(kinds: Sequence[Any], value: object) -> Iterator[str]:
    """Name what misfits, where it is none of several: the model makes the errors of each."""
    if value is None:
        return
    if len(kinds) == 1:
        yield from _misfits(kinds[0], value)
        return
    fits = [list(islice(_misfits(kind, value), MOST + 1)) for kind in kinds]
    if all(fits):
        yield from max(fits, key=len, default=[])


def _is(kind: Any, wanted: type) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, wanted) and not issubclass(origin, str)
