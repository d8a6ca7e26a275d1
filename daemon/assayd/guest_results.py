"""Parses the result record that a unit wrote, with exact type checks.

A record is an unverified claim of the guest. Other modules decide whether a record was written, by which
process, and how that process ended. A record with a field of the wrong type counts as missing. The format
is specified in docs/guest-protocol.md, "Unit programs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assayd.model.json_reader import JsonError, JsonLimits, parse_strictly
from assayd.model.submission import JsonValue
from assayd.model.text_limits import MAX_TRACEBACK_CHARS, MESSAGE_CHARS, shorten_text

DEFAULT_LIMITS = JsonLimits(
    bytes=8 * 2**20, depth=80, containers=500_000, values=1_200_000, number_chars=1000, key_chars=4096
)


class GuestJsonError(ValueError):
    """An error for guest output that isn't acceptable JSON. The message contains the reason."""


def decode_guest_json(body: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
    """Decode one JSON value.

    Raises: GuestJsonError for anything other than strict JSON within the limits.
    """
    try:
        return parse_strictly(body, limits)
    except JsonError as problem:
        raise GuestJsonError(shorten_text(f"not JSON: {problem}", 200)) from None


MAX_LINE = 10**7
MAX_FURTHER_RESULTS = 50
_NAME_CHARS = 200
_MAX_VALUES = 5
_VALUE_CHARS = 200
_MAX_SUGGESTION_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The location of a part of a value that wasn't plain JSON and was rendered safely."""

    path: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedValue:
    """One value with the exact name of its type in the guest.

    `complete` is true if nothing was truncated because of its size.
    """

    value: JsonValue
    type_name: str
    notes: tuple[Note, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedValue:
    """The result of a `call` that returned. `again` lists the results of further calls (None if raised)."""

    value: TypedValue
    again: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundNames:
    """The result of a `python` text that completed: the requested names with their values.

    `again` holds the values of the first requested name in further runs.
    """

    values: Mapping[str, TypedValue]
    missing: tuple[str, ...] = ()
    again: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedException:
    """An uncaught exception of submitted code. `line` is its last traceback line in `file`.

    `file` is a submitted file. `meant` is the existing attribute, key or name that is most similar to the
    missing one; `certain` is true if none is equally similar. `values` maps the names in the line to their
    values as text.
    """

    error_type: str
    message: str
    line: int | None
    traceback: str
    where: str | None
    phase: str
    file: str | None = None
    meant: str | None = None
    certain: bool = False
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResults:
    """The results of several calls in one process, in order: the value or the exception of each call."""

    results: tuple[TypedValue | RaisedException, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailure:
    """The result of source that the container's Python can't compile."""

    error_type: str
    message: str
    line: int | None
    column: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFunction:
    """The result of source that ran without defining the requested function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecFailure:
    """The result of a program that couldn't be started. `error` is the kernel's error name, e.g. ENOENT."""

    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptExit:
    """The result of a script that called ``sys.exit()``. Its wait status contains the exit status."""


Record = (
    ReturnedValue
    | BoundNames
    | CallResults
    | RaisedException
    | CompileFailure
    | MissingFunction
    | ExecFailure
    | ScriptExit
)


def parse_guest_record(body: bytes) -> Record:
    """Parse one record.

    Raises: GuestJsonError, if the bytes aren't a record as defined by the protocol.
    """
    fields = decode_guest_json(body)
    if not isinstance(fields, dict):
        raise GuestJsonError("the record is not an object")
    status = fields.get("status")
    if not isinstance(status, str) or status not in _PARSER_BY_STATUS:
        raise GuestJsonError("the record has no known status")
    return _PARSER_BY_STATUS[status](fields)


def _parse_returned(fields: Mapping[str, JsonValue]) -> ReturnedValue | BoundNames | CallResults:
    if "values" in fields:
        return _parse_bound_names(fields)
    if "each" in fields:
        return _parse_call_results(fields["each"])
    return ReturnedValue(value=_parse_value(fields), again=_parse_further_results(fields))


def _parse_further_results(fields: Mapping[str, JsonValue]) -> tuple[JsonValue, ...]:
    again = fields.get("again", [])
    if not isinstance(again, list) or len(again) > MAX_FURTHER_RESULTS:
        raise GuestJsonError("again is not a short list")
    return tuple(again)


def _parse_call_results(each: JsonValue) -> CallResults:
    if not isinstance(each, list):
        raise GuestJsonError("each is not a list")
    return CallResults(results=tuple(_parse_call_result(_require_object(one)) for one in each))


def _parse_call_result(fields: Mapping[str, JsonValue]) -> TypedValue | RaisedException:
    if "error_type" not in fields:
        return _parse_value(fields)
    return parse_raised_exception({**fields, "traceback": ""}, "call")


def _parse_raised(fields: Mapping[str, JsonValue]) -> RaisedException:
    return parse_raised_exception(fields, _parse_text(fields, "phase", _NAME_CHARS))


def _parse_bound_names(fields: Mapping[str, JsonValue]) -> BoundNames:
    values, missing = fields["values"], fields.get("missing", [])
    if not isinstance(values, dict) or not isinstance(missing, list):
        raise GuestJsonError("values is not an object, or missing is not a list")
    return BoundNames(
        values={name: _parse_value(_require_object(value)) for name, value in values.items()},
        missing=tuple(str(name) for name in missing),
        again=_parse_further_results(fields),
    )


def parse_raised_exception(fields: Mapping[str, JsonValue], phase: str) -> RaisedException:
    """Parse the guest's record of an exception.

    Raises: GuestJsonError, if a required field has the wrong type.
    """
    where, file, meant = fields.get("where"), fields.get("file"), fields.get("meant")
    return RaisedException(
        error_type=_parse_text(fields, "error_type", _NAME_CHARS),
        message=_parse_text(fields, "message"),
        line=_read_position(fields, "line"),
        traceback=_parse_text(fields, "traceback", MAX_TRACEBACK_CHARS),
        where=shorten_text(where, _NAME_CHARS) if isinstance(where, str) else None,
        phase=phase,
        file=shorten_text(file, _NAME_CHARS) if isinstance(file, str) else None,
        meant=meant
        if isinstance(meant, str) and len(meant) <= _MAX_SUGGESTION_CHARS and meant.isprintable()
        else None,
        certain=fields.get("certain") is True,
        values=tuple(_parse_variable_values(fields.get("values"))),
    )


def _parse_variable_values(given: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield variable names with their values. Skip invalid entries, and truncate long values."""
    for name, text in list(given.items())[:_MAX_VALUES] if isinstance(given, dict) else ():
        if isinstance(text, str) and name.isidentifier() and len(name) <= _MAX_SUGGESTION_CHARS:
            yield name, shorten_text(text, _VALUE_CHARS)


def _parse_not_compiled(fields: Mapping[str, JsonValue]) -> CompileFailure:
    return CompileFailure(
        error_type=_parse_text(fields, "error_type", _NAME_CHARS),
        message=_parse_text(fields, "message"),
        line=_read_position(fields, "line"),
        column=_read_position(fields, "column"),
    )


def _parse_not_executed(fields: Mapping[str, JsonValue]) -> ExecFailure:
    return ExecFailure(
        error=_parse_text(fields, "error", _NAME_CHARS), message=_parse_text(fields, "message")
    )


_PARSER_BY_STATUS: Mapping[str, Callable[[Mapping[str, JsonValue]], Record]] = {
    "returned": _parse_returned,
    "raised": _parse_raised,
    "not_compiled": _parse_not_compiled,
    "no_function": lambda _: MissingFunction(),
    "not_executed": _parse_not_executed,
    "exited": lambda _: ScriptExit(),
}


def _parse_value(fields: Mapping[str, JsonValue]) -> TypedValue:
    if "value" not in fields:
        raise GuestJsonError("a value is missing")
    notes = fields.get("notes", [])
    if not isinstance(notes, Sequence) or isinstance(notes, str):
        raise GuestJsonError("notes is not a list")
    return TypedValue(
        value=fields["value"],
        type_name=_parse_text(fields, "value_type", _NAME_CHARS),
        notes=tuple(
            Note(path=_parse_text(note, "path"), problem=_parse_text(note, "problem"))
            for note in map(_require_object, notes)
        ),
        complete=fields.get("complete", True) is True,
    )


def _require_object(value: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(value, dict):
        raise GuestJsonError("an entry is not an object")
    return value


def _parse_text(fields: Mapping[str, JsonValue], name: str, chars: int = MESSAGE_CHARS) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise GuestJsonError(f"{name} is not a string")
    return shorten_text(value, chars)


def _read_position(fields: Mapping[str, JsonValue], name: str) -> int | None:
    """Return a line or column, or None if it is missing or out of range.

    Raises: GuestJsonError, if it isn't an integer.
    """
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise GuestJsonError(f"{name} is not a number")
    return value if 0 < value < MAX_LINE else None
