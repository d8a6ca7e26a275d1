"""Parses the record of a `pytest` unit line by line, and checks its consistency.

The record is an unverified claim of the guest, and `pytest_unit` decides which parts to trust. Lines that
are out of order, repeated, or lack a matching end are contradictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from assayd.guest_results.record import (
    DEFAULT_LIMITS,
    GuestJsonError,
    RaisedException,
    decode_guest_json,
    read_raised,
)
from assayd.model.submission import JsonValue
from assayd.model.text_limits import MESSAGE_CHARS, shorten_text

OUTCOMES = frozenset({"passed", "failed", "error", "skipped", "xfailed", "xpassed"})
MAX_LINES = 5000
_OUTPUT_CHARS = 5000
_ID_CHARS = 500
_MAX_SECONDS = 3600
_LIMITS = replace(DEFAULT_LIMITS, bytes=4 * 2**20, depth=8, containers=100, values=5000, string_chars=2**16)

_DIGITS = 7
Fields = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTest:
    """A finished test. `raised` is set if it ended with an exception, `reason` if it was skipped."""

    id: str
    outcome: str
    duration_s: float
    step: str
    raised: RaisedException | None
    reason: str
    stdout: str
    stderr: str


@dataclass(slots=True, kw_only=True)
class PytestRecord:
    """The parsed record of a unit. `final` is the record's last line, or None if it is missing."""

    collected: list[str] | None = None
    ended: list[FinishedTest] = field(default_factory=list)
    running: str | None = None
    not_imported: RaisedException | None = None
    import_skipped: str | None = None
    not_collected: list[RaisedException] = field(default_factory=list)
    too_many: int | None = None
    stopped: RaisedException | None = None
    final: FinalRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCoverage:
    """The executed lines of the adapter's functions, grouped by block, and the blocks that were entered.

    `owners` maps each block to the line of the ``def`` if the block is a function's body, and to 0
    otherwise.
    """

    owners: tuple[int, ...]
    lines: tuple[tuple[int, ...], ...]
    seen: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRecord:
    """The last record of a unit, which confirms that its record is complete."""

    good: bool
    notes: tuple[str, ...]
    coverage: LineCoverage | None = None


def parse_record(body: bytes, *, whole: bool) -> PytestRecord:
    """Parse the lines of a unit's record.

    Args:
        body: the bytes of the result.
        whole: whether the unit ended by itself, so that the last line must be the final record.

    Raises: GuestJsonError, if the lines are malformed or contradictory.
    """
    lines = body.split(b"\n")
    if len(lines) > MAX_LINES:
        raise GuestJsonError(f"more than {MAX_LINES} lines")
    told = PytestRecord()
    for number, line in enumerate(lines[:-1] if not whole else lines):
        _process_line(told, _require_object(decode_guest_json(line, _LIMITS)), number)
    if whole and told.final is None:
        raise GuestJsonError("the last line is missing")
    return told


def _process_line(told: PytestRecord, fields: Fields, number: int) -> None:
    if told.final is not None:
        raise GuestJsonError("lines follow the last one")
    match fields.get("event"):
        case "started":
            _record_start(told, _require_text(fields.get("id"), _ID_CHARS))
        case "ended":
            _record_end(told, fields)
        case "stopped":
            told.stopped = read_raised(fields, "call")
        case None if "status" in fields:
            told.final = _parse_final(told, fields, number)
        case _:
            _process_collection(told, fields)


def _process_collection(told: PytestRecord, fields: Fields) -> None:
    """Process a record line about the import of the file or about the collected tests."""
    if told.collected is not None:
        raise GuestJsonError("a misplaced line")
    match fields.get("event"):
        case "collected":
            told.collected = [_require_text(name, _ID_CHARS) for name in _require_list(fields, "tests")]
        case "not_imported":
            told.not_imported = read_raised(fields, "import")
        case "import_skipped":
            told.import_skipped = read_raised(fields, "import").message
        case "not_collected":
            told.not_collected.append(read_raised(fields, "import"))
        case "too_many":
            told.too_many = _require_count(fields, "count")
        case _:
            raise GuestJsonError("a line of an unknown kind")


def _record_start(told: PytestRecord, name: str) -> None:
    due = (told.collected or [])[len(told.ended) : len(told.ended) + 1]
    if told.running is not None or [name] != due:
        raise GuestJsonError(f"{name} begins out of turn")
    told.running = name


def _record_end(told: PytestRecord, fields: Fields) -> None:
    name, outcome = _require_text(fields.get("id"), _ID_CHARS), _require_text(fields.get("outcome"))
    if told.running != name or outcome not in OUTCOMES:
        raise GuestJsonError(f"{name} ends without a begin")
    told.running = None
    told.ended.append(
        FinishedTest(
            id=name,
            outcome=outcome,
            duration_s=_require_seconds(fields),
            step=_require_text(fields.get("step", "")),
            raised=read_raised(fields, "call") if "error_type" in fields else None,
            reason=_require_text(fields.get("reason", fields.get("message", ""))),
            stdout=_require_text(fields.get("stdout"), _OUTPUT_CHARS),
            stderr=_require_text(fields.get("stderr"), _OUTPUT_CHARS),
        )
    )


def _parse_final(told: PytestRecord, fields: Fields, number: int) -> FinalRecord:
    counts = (
        _require_count(fields, "lines"),
        _require_count(fields, "collected"),
        _require_count(fields, "ended"),
    )
    if counts != (number, len(told.collected or ()), len(told.ended)):
        raise GuestJsonError("the counts of the last line don't match the lines")
    status = fields.get("status")
    if status not in {"returned", "failed"}:
        raise GuestJsonError("the last line has no known status")
    notes = tuple(_require_text(note) for note in _require_list(fields, "notes"))
    return FinalRecord(good=status == "returned", notes=notes, coverage=_parse_coverage(fields))


def _parse_coverage(fields: Fields) -> LineCoverage | None:
    """Parse the executed blocks; return None if any is malformed, because blocks only affect warnings."""
    blocks, seen = fields.get("blocks"), fields.get("seen")
    if not isinstance(blocks, str) or not isinstance(seen, str):
        return None
    read = [_parse_numbers(block) for block in blocks.split(";")] if blocks else []
    if not all(read):
        return None
    return LineCoverage(
        owners=tuple(block[0] for block in read),
        lines=tuple(block[1:] for block in read),
        seen=frozenset(_parse_numbers(seen)),
    )


def _parse_numbers(text: str) -> tuple[int, ...]:
    """Parse numbers separated by spaces; return an empty list if any number is malformed."""
    parts = text.split()
    plain = all(part.isascii() and part.isdecimal() and len(part) <= _DIGITS for part in parts)
    return tuple(map(int, parts)) if plain else ()


def _require_object(value: JsonValue) -> Fields:
    if not isinstance(value, dict):
        raise GuestJsonError("a line is not an object")
    return value


def _require_list(fields: Fields, name: str) -> Sequence[JsonValue]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise GuestJsonError(f"{name} is not a list")
    return value


def _require_text(value: JsonValue, chars: int = MESSAGE_CHARS) -> str:
    if not isinstance(value, str):
        raise GuestJsonError("a string is missing")
    return shorten_text(value, chars)


def _require_count(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or value < 0:
        raise GuestJsonError(f"{name} is not a count")
    return value


def _require_seconds(fields: Fields) -> float:
    value = fields.get("duration_s")
    if type(value) not in {int, float} or not isinstance(value, int | float):
        raise GuestJsonError("duration_s is not a number")
    return float(min(max(value, 0), _MAX_SECONDS))
