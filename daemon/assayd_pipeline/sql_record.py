"""Parses the record of a `sql` unit, which contains its progress and its error, with exact types.

The daemon's own program around SQLite writes the record. Nevertheless, the record is untrusted, and is used
only if it is consistent with the end that the sandbox observed. Format: docs/guest-protocol.md, "Unit
programs".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from assayd.guest_results import DEFAULT_LIMITS, GuestJsonError, decode_guest_json
from assayd.model.run import Cause, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import MESSAGE_CHARS, shorten_text
from assayd_pipeline.facts import MAX_COLUMNS, Facts

_DECODE_LIMITS = replace(DEFAULT_LIMITS, bytes=2**20, containers=200, values=6000)
_MAX_SHOWN_NAME_CHARS = 100
_MAX_COUNT = 2**53
_MAX_LINE_NUMBER = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleStatement:
    """A statement that changed no row, although it could have changed or read rows."""

    verb: str
    table: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCounts:
    """The numbers of statements, selected rows and changed rows, and the statements without effect.

    `tables` contains the tables of the database after the statements.
    """

    statements: int
    rows: int
    changes: int
    idle: tuple[IdleStatement, ...] = ()
    tables: Mapping[str, Facts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFailure:
    """The error of a statement: its position (None if unknown), SQLite's message, and earlier counts."""

    ran: SqlCounts
    message: str
    code: str | None
    statement: int | None
    line: int | None
    column: int | None
    text: str | None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_sql_record(unit: UnitResult) -> SqlCounts | SqlFailure | None:
    """Parse the record of a unit, or return None if there can't be a record after the unit's end.

    Raises: GuestJsonError, if the record violates the protocol.
    """
    may_hold_one = unit.outcome.cause in {Cause.COMPLETED, Cause.EXITED_NONZERO}
    if not may_hold_one or len(unit.results) != 1 or unit.malformed is not None:
        return None
    fields = decode_guest_json(unit.results[0], _DECODE_LIMITS)
    if not isinstance(fields, dict):
        raise GuestJsonError("the record is not an object")
    ran = SqlCounts(
        statements=_require_count(fields, "statements"),
        rows=_require_count(fields, "rows"),
        changes=_require_count(fields, "changes"),
        idle=tuple(_parse_idle(fields.get("idle"))),
        tables=dict(_parse_tables(fields.get("tables"))),
    )
    match fields.get("status"):
        case "returned":
            return ran
        case "failed":
            return _parse_failure(fields, ran)
        case _:
            raise GuestJsonError("the record has no known status")


def _parse_failure(fields: Mapping[str, JsonValue], ran: SqlCounts) -> SqlFailure:
    message = _parse_text(fields, "message")
    if message is None:
        raise GuestJsonError("the record has no message")
    return SqlFailure(
        ran=ran,
        message=message,
        code=_parse_text(fields, "code"),
        statement=_parse_optional_place(fields, "statement"),
        line=_parse_optional_place(fields, "line"),
        column=_parse_optional_place(fields, "column"),
        text=_parse_text(fields, "text"),
        names=_parse_names(fields),
    )


def _parse_idle(given: JsonValue) -> Iterator[IdleStatement]:
    """Yield the statements without effect, but skip malformed entries."""
    for entry in given if isinstance(given, list) else ():
        match entry:
            case [int() as line, "INSERT" | "UPDATE" | "DELETE" | "CREATE TABLE" as verb, str() as table] if (
                line > 0
            ):
                yield IdleStatement(
                    verb=verb,
                    table=shorten_text(table, _MAX_SHOWN_NAME_CHARS),
                    line=min(line, _MAX_LINE_NUMBER),
                )


def _parse_tables(given: JsonValue) -> Iterator[tuple[str, Facts]]:
    """Yield the tables with their facts, but skip malformed entries."""
    for entry in given if isinstance(given, list) else ():
        match entry:
            case [str() as name, int() as rows, list() as described] if 0 <= rows <= _MAX_COUNT:
                texts = [
                    shorten_text(text, _MAX_SHOWN_NAME_CHARS)
                    for text in described[: 2 * MAX_COLUMNS]
                    if isinstance(text, str)
                ]
                columns, types = tuple(texts[::2]), tuple(texts[1::2])
                yield (
                    shorten_text(name, _MAX_SHOWN_NAME_CHARS),
                    Facts(rows=rows, columns=columns, types=types),
                )


def _parse_names(fields: Mapping[str, JsonValue]) -> Mapping[str, tuple[str, ...]]:
    """Return the tables that existed when the statement failed, each with its columns.

    Malformed entries are skipped.
    """
    given = fields.get("names")
    if not isinstance(given, dict):
        return {}
    return {
        shorten_text(table, _MAX_SHOWN_NAME_CHARS): tuple(
            shorten_text(c, _MAX_SHOWN_NAME_CHARS) for c in columns if isinstance(c, str)
        )
        for table, columns in given.items()
        if isinstance(columns, list)
    }


def _require_count(fields: Mapping[str, JsonValue], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise GuestJsonError(f"{name} is not a count")
    return value


def _parse_optional_place(fields: Mapping[str, JsonValue], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and type(value) is not int:
        raise GuestJsonError(f"{name} is not a number")
    return value if value is not None and 0 < value <= _MAX_LINE_NUMBER else None


def _parse_text(fields: Mapping[str, JsonValue], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise GuestJsonError(f"{name} is not a string")
    return None if value is None else shorten_text(value, MESSAGE_CHARS)
