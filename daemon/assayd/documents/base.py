"""JSON on the wire: its parsing within limits, its canonical form, and the base class of all documents.

A document is a frozen model that can serialize and describe itself. If a value of the model has exactly the
fields of its document, the value itself is the document (`model.document`).

The daemon builds documents with `from_value`, without validation, because its values are correct, and
because guest text in them may contain lone surrogates, which pydantic rejects. Clients validate the
documents that they read.

`reject_excess_errors` rejects requests with very many validation errors before pydantic reads them. pydantic
collects all errors, each of which costs a few microseconds and a kilobyte, and blocks the event loop until
it has finished. A few megabytes of unknown fields would therefore block the daemon for seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from itertools import islice
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from assayd.errors import AssaydError, RequestError
from assayd.model.document import DOCUMENT
from assayd.model.json_reader import (
    JsonError,
    JsonLimits,
    JsonTooLargeError,
    count_containers,
    parse_strictly,
    reject_large,
)
from assayd.model.submission import JsonValue

MAX_DEPTH = 64
"""Maximum nesting depth of arrays and objects."""
MAX_NUMBER_CHARS = 400
"""Maximum characters of a number: more than any double or reasonable integer needs."""
MAX_CONTAINERS = 200_000
"""Maximum arrays and objects per text: an empty one takes three bytes of text but at least 64 in memory."""
MAX_VALUES = 200_000
"""Maximum values per text, counted by commas. Parsing more would block the event loop too long."""
_LIMITS = JsonLimits(
    depth=MAX_DEPTH, containers=MAX_CONTAINERS, values=MAX_VALUES, number_chars=MAX_NUMBER_CHARS
)

_SCALAR_TYPES = frozenset({int, float, bool, type(None)})
_PIECE_VALUES = 20_000
"""The approximate number of values and string parts per write, because serializing takes many times their
memory.
"""
_MEMBERS_PER_GROUP = 1000
_TEXT_PIECE_CHARS = 2**18


@cache
def _build_member_reader(kind: Any) -> Callable[[object], dict[str, object]] | None:
    """Return a function that reads the members of a document class, or None if the class isn't one."""
    if issubclass(kind, BaseModel):
        return vars
    if getattr(kind, "__pydantic_config__", None) is not DOCUMENT:
        return None
    names = tuple(kind.__dataclass_fields__)
    values = attrgetter(*names)
    return lambda value: dict(zip(names, values(value), strict=True))


def get_document_members(value: Any) -> dict[str, object] | None:
    """Return the members of a document by name, or None if the value isn't a document."""
    read = _build_member_reader(type(value))  # type: ignore[arg-type]  # every class is hashable
    return None if read is None else read(value)


def _require_members(document: object) -> dict[str, object]:
    members = get_document_members(document)
    if members is None:
        raise TypeError(f"{type(document).__name__} isn't JSON")
    return members


_CANONICAL_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_require_members
)
_COMPACT_ENCODER = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_require_members
)


def parse_json(text: bytes, *, most_values: int = MAX_VALUES) -> JsonValue:
    """Parse a JSON text strictly.

    Raises:
        RequestError: ``malformed``, with the position or the key of the error; ``too_large``, before
            parsing, if there are more containers than `MAX_CONTAINERS` or more values than `most_values`.
    """
    try:
        return parse_strictly(text, replace(_LIMITS, values=most_values))
    except JsonError as error:
        raise _to_request_error(error) from error


def read_bytes(text: bytes) -> int:
    """Estimate the bytes of memory that a parsed text takes in addition to the text itself."""
    return len(text) + 64 * count_containers(text) + 32 * text.count(b",")


def canonical(value: object) -> bytes:
    """Serialize JSON in canonical form: UTF-8 with sorted keys and without spaces.

    Values of requests are preserved exactly. Guest text may contain lone surrogates, which UTF-8 can't
    encode; each is replaced with a question mark.
    """
    written = BytesIO()
    _write(value, written)
    return written.getvalue()


def serialize_compact(value: object) -> bytes:
    """Serialize a value as UTF-8 JSON, without sorting the keys."""
    return _COMPACT_ENCODER.encode(value).encode("utf-8", "replace")


def serialize_with_raw_members(document: BaseModel, texts: Mapping[str, bytes]) -> bytes:
    """Serialize a document like `serialize_compact`; `texts` contains members that are already JSON text."""
    parts: list[bytes] = []
    others: dict[str, object] = {}
    for name, value in (*vars(document).items(), ("", None)):
        text = texts.get(name)
        if others and (text is not None or not name):
            parts.append(serialize_compact(others)[1:-1])
            others = {}
        if text is not None:
            parts.append(b'"%b":%b' % (name.encode(), text))
        else:
            others[name] = value
    return b"{" + b",".join(parts) + b"}"


def _write(value: object, to: BytesIO) -> None:
    """Serialize JSON in canonical form. Write large parts piece by piece."""
    if (members := get_document_members(value)) is not None:
        value = members
    if _estimate_size(value) < _PIECE_VALUES:
        to.write(_encode(value))
    elif isinstance(value, str):
        to.write(b'"')
        to.writelines(
            _encode(value[at : at + _TEXT_PIECE_CHARS])[1:-1]
            for at in range(0, len(value), _TEXT_PIECE_CHARS)
        )
        to.write(b'"')
    elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
        _write_object(value, to)
    elif isinstance(value, list | tuple):
        _write_array(value, to)
    else:
        to.write(_encode(value))


def _write_object(members: dict[str, object], to: BytesIO) -> None:
    between, names = b"{", sorted(members)
    for at in range(0, len(names), _MEMBERS_PER_GROUP):
        group = {name: members[name] for name in names[at : at + _MEMBERS_PER_GROUP]}
        if _estimate_size(group) < _PIECE_VALUES:
            to.write(between + _encode(group)[1:-1])
            between = b","
            continue
        for name, member in group.items():
            to.write(between + _encode(name) + b":")
            between = b","
            _write(member, to)
    to.write(b"}")


def _write_array(members: Sequence[object], to: BytesIO) -> None:
    between = b"["
    for at in range(0, len(members), _MEMBERS_PER_GROUP):
        group = members[at : at + _MEMBERS_PER_GROUP]
        if _estimate_size(group) < _PIECE_VALUES:
            to.write(between + _encode(group)[1:-1])
            between = b","
            continue
        for member in group:
            to.write(between)
            between = b","
            _write(member, to)
    to.write(b"]")


def _encode(value: object) -> bytes:
    return _CANONICAL_ENCODER.encode(value).encode("utf-8", "replace")


def _estimate_size(value: object) -> int:
    """Return an estimate of the size of the output, up to the size of one piece."""
    weight, waiting = 1, [value]
    for each in waiting:  # The list grows during the loop.
        kind = each.__class__  # Common types are recognized by their class alone, without a call.
        if kind in _SCALAR_TYPES:
            continue
        if kind is str or isinstance(each, str):
            weight += len(each) // 16  # type: ignore[arg-type]  # `kind` says so as well
        elif kind is dict or isinstance(each, dict):
            weight += len(each)  # type: ignore[arg-type]
            if weight < _PIECE_VALUES:  # A long value counts by its length, without its members.
                weight += len("".join(map(str, each))) // 16  # type: ignore[call-overload]
                waiting.extend(each.values())  # type: ignore[attr-defined]
        elif isinstance(each, list | tuple):
            weight += len(each)
            if weight < _PIECE_VALUES and not _SCALAR_TYPES.issuperset(map(type, each)):
                waiting.extend(each)
        elif (members := get_document_members(each)) is not None:
            waiting.append(members)
        if weight >= _PIECE_VALUES:
            break
    return weight


def digest(text: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def reject_excess_values(text: bytes, *, most_values: int = MAX_VALUES) -> None:
    """Reject JSON with too many values before memory is allocated. Raises: RequestError ``too_large``."""
    try:
        reject_large(text, replace(_LIMITS, values=most_values))
    except JsonTooLargeError as error:
        raise _to_request_error(error) from error


def _to_request_error(error: JsonError) -> RequestError:
    code = "too_large" if isinstance(error, JsonTooLargeError) else "malformed"
    return RequestError(code, str(error), field=error.field)


MOST = 100
"""The maximum number of errors for which pydantic validates a value and reports the errors in detail."""
MAX_ERROR_PATH_CHARS = 200
"""The maximum number of a wrong key's characters in a response. Callers choose keys, which may be megabytes
long.
"""
_PLAIN_JSON_TYPES = (str, int, float, bool)


def format_error_path(parts: Sequence[object]) -> str:
    """Return the dotted path of an error in a document. Shorten a long path."""
    return ".".join(str(part)[:MAX_ERROR_PATH_CHARS] for part in parts)[:MAX_ERROR_PATH_CHARS]


def message_of(fault: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error without the prefix that custom validators add."""
    return str(fault["msg"]).removeprefix("Value error, ")


def reject_excess_errors(model: type[BaseModel], value: object, within: str = "") -> None:
    """Check that a value has at most `MOST` errors against a model, which pydantic then reports.

    Raises: RequestError ``invalid``, with the first error, if there are more.
    """
    found = list(islice(_iter_error_paths(model, value), MOST + 1))
    if len(found) > MOST:
        field = f"{within}{found[0]}"[:MAX_ERROR_PATH_CHARS]
        message = f"more than {MOST} fields are unknown or have the wrong type, e.g. {field}"
        raise RequestError("invalid", message, field=field)


def _iter_error_paths(kind: Any, value: object) -> Iterator[str]:
    """Yield the paths of unknown fields and of scalars whose type differs from the annotation."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        yield from _iter_union_error_paths([part for part in parts if part is not NoneType], value)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _iter_model_error_paths(kind, value)
    elif kind in _PLAIN_JSON_TYPES:
        if not isinstance(value, str if kind is str else _PLAIN_JSON_TYPES):
            yield ""
    elif isinstance(value, dict):
        inner = parts[1] if _is_subclass(kind, Mapping) and len(parts) == 2 else None
        for name, member in value.items() if inner is not None else ():
            yield from (f"{name}.{place}" for place in _iter_error_paths(inner, member))
    elif isinstance(value, list):
        inner = parts[0] if _is_subclass(kind, Sequence) and parts else None
        for number, member in enumerate(value) if inner is not None else ():
            yield from (f"{number}.{place}" for place in _iter_error_paths(inner, member))


def _iter_model_error_paths(model: type[BaseModel], value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield ""
        return
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for name, member in value.items():
        if name not in fields:
            yield str(name)
        else:
            yield from (f"{name}.{place}" for place in _iter_error_paths(fields[name], member))


def _iter_union_error_paths(kinds: Sequence[Any], value: object) -> Iterator[str]:
    """Yield the error paths of a value against a union, if the value matches none of its types.

    pydantic would report the errors against every type of the union.
    """
    if value is None:
        return
    if len(kinds) == 1:
        yield from _iter_error_paths(kinds[0], value)
        return
    fits = [list(islice(_iter_error_paths(kind, value), MOST + 1)) for kind in kinds]
    if all(fits):
        yield from max(fits, key=len, default=[])


def _is_subclass(kind: Any, wanted: type) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, wanted) and not issubclass(origin, str)


Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time as RFC 3339 in UTC, with microseconds."""


class BaseDocument(BaseModel):
    """A JSON object that has only known fields. `canonical` and `serialize_compact` serialize it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_value(cls, value: object, **others: object) -> Self:
        """Return a document with the fields from `others`, and all other fields from the value's attributes.

        Times are formatted as RFC 3339 in UTC. Nothing is validated.
        """
        members: dict[str, object] = {}
        for name in cls.__pydantic_fields__:
            member = others[name] if name in others else getattr(value, name)
            members[name] = format_time(member) if isinstance(member, datetime) else member
        # Like `model_construct`, without looking up aliases and defaults for each field.
        document = cls.__new__(cls)
        object.__setattr__(document, "__dict__", members)
        object.__setattr__(document, "__pydantic_fields_set__", set(members))
        object.__setattr__(document, "__pydantic_extra__", None)
        object.__setattr__(document, "__pydantic_private__", None)
        return document


def format_optional_time(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, or None for None."""
    return None if moment is None else format_time(moment)


def format_time(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def to_milliseconds(seconds: float) -> float:
    """Return a duration in milliseconds, rounded to microseconds."""
    return round(seconds * 1000, 3)


def to_plain(value: Any) -> Any:  # Any, because a type for JSON isn't narrower
    """Return a document as dictionaries and lists. Return other values unchanged."""
    if (members := get_document_members(value)) is not None:
        return {name: to_plain(part) for name, part in members.items()}
    return [to_plain(part) for part in value] if isinstance(value, list | tuple) else value


class ErrorDetail(BaseDocument):
    """The details of an error: why a request was rejected."""

    code: str = Field(description="Stable name of the reason.")
    message: str = Field(description="One sentence for a person.")
    field: str | None = Field(description="The field or parameter at fault.")
    retryable: bool = Field(description="Whether the same request may succeed later.")


class ErrorDocument(BaseDocument):
    """The body of every error response."""

    error: ErrorDetail = Field(description="Why.")


def build_error_document(error: AssaydError) -> ErrorDocument:
    """Return the response body that describes an error."""
    return ErrorDocument.model_construct(error=ErrorDetail.from_value(error))
