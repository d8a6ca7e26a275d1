"""Parses the record of a `pytest` unit line by line, and checks its consistency.

The record is an unverified claim of the guest, and `pytest_unit` decides which parts to trust. Lines that
are out of order, repeated, or lack a matching end are contradictions.

Reports the parts of the adapter that the tests don't execute. Source: docs/quality.md.

methods of the contract that no test runs      quality.untested_method
share of its functions' lines that they run    quality.coverage  (info)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assayd.findings.source_text import get_snippet
from assayd.guest_results import (
    DEFAULT_LIMITS,
    GuestJsonError,
    RaisedException,
    decode_guest_json,
    parse_raised_exception,
)
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.submission import JsonValue
from assayd.model.text_limits import MESSAGE_CHARS, shorten_text

OUTCOMES = frozenset({"passed", "failed", "error", "skipped", "xfailed", "xpassed"})
MAX_LINES = 5000
_MAX_OUTPUT_CHARS = 5000
_MAX_ID_CHARS = 500
_MAX_DURATION_S = 3600
_RECORD_LIMITS = replace(
    DEFAULT_LIMITS, bytes=4 * 2**20, depth=8, containers=100, values=5000, string_chars=2**16
)

_MAX_DIGITS = 7
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
    """The lines of the adapter's functions, grouped by block, and the numbers of the executed blocks.

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
        _process_line(told, _require_object(decode_guest_json(line, _RECORD_LIMITS)), number)
    if whole and told.final is None:
        raise GuestJsonError("the last line is missing")
    return told


def _process_line(told: PytestRecord, fields: Fields, number: int) -> None:
    if told.final is not None:
        raise GuestJsonError("lines follow the last one")
    match fields.get("event"):
        case "started":
            _record_start(told, _require_text(fields.get("id"), _MAX_ID_CHARS))
        case "ended":
            _record_end(told, fields)
        case "stopped":
            told.stopped = parse_raised_exception(fields, "call")
        case None if "status" in fields:
            told.final = _parse_final(told, fields, number)
        case _:
            _process_collection(told, fields)


def _process_collection(told: PytestRecord, fields: Fields) -> None:
    """Process a record line about the import of the file or about the collected tests.

    Raises: GuestJsonError, if the line is unknown or out of order.
    """
    if told.collected is not None:
        raise GuestJsonError("a misplaced line")
    match fields.get("event"):
        case "collected":
            told.collected = [_require_text(name, _MAX_ID_CHARS) for name in _require_list(fields, "tests")]
        case "not_imported":
            told.not_imported = parse_raised_exception(fields, "import")
        case "import_skipped":
            told.import_skipped = parse_raised_exception(fields, "import").message
        case "not_collected":
            told.not_collected.append(parse_raised_exception(fields, "import"))
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
    name, outcome = _require_text(fields.get("id"), _MAX_ID_CHARS), _require_text(fields.get("outcome"))
    if told.running != name or outcome not in OUTCOMES:
        raise GuestJsonError(f"{name} ends without a begin")
    told.running = None
    told.ended.append(
        FinishedTest(
            id=name,
            outcome=outcome,
            duration_s=_require_seconds(fields),
            step=_require_text(fields.get("step", "")),
            raised=parse_raised_exception(fields, "call") if "error_type" in fields else None,
            reason=_require_text(fields.get("reason", fields.get("message", ""))),
            stdout=_require_text(fields.get("stdout"), _MAX_OUTPUT_CHARS),
            stderr=_require_text(fields.get("stderr"), _MAX_OUTPUT_CHARS),
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
    """Parse the executed blocks. Return None if any is malformed, because blocks only affect warnings."""
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
    """Parse numbers separated by spaces. Return an empty tuple if any number is malformed."""
    parts = text.split()
    plain = all(part.isascii() and part.isdecimal() and len(part) <= _MAX_DIGITS for part in parts)
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
    return float(min(max(value, 0), _MAX_DURATION_S))


RULES = (
    Rule(
        id="quality.untested_method",
        title="No test runs a method",
        severity=Severity.WARNING,
        help="Bad: no test calls transform(). Good: assert adapter.transform(raw) == {…}.",
    ),
    Rule(
        id="quality.coverage",
        title="Test coverage of the adapter",
        severity=Severity.INFO,
        help="Counts lines of functions by the blocks that began.",
    ),
)
_MAX_RANGES = 20

_SHARE = 0.25
"""Share of the adapter's lines from which methods without tests cause a warning."""

Methods = Mapping[str, Sequence[Sequence[int]]]


def find_methods(tree: ast.Module) -> dict[str, list[list[int]]]:
    """Return the methods of all top-level classes of a file, each with its first and last lines."""
    found: dict[str, list[list[int]]] = {}
    for holder in tree.body:
        for node in holder.body if isinstance(holder, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append([node.lineno, node.end_lineno or node.lineno])
    return found


def judge_coverage(
    file: str, text: str, methods: Methods, contract: Sequence[str], found: Sequence[LineCoverage]
) -> Iterator[Finding]:
    """Yield findings about the parts of the adapter that no test ran, or none without coverage data.

    `methods` are the file's methods.
    """
    if not found:
        return
    ran, known = _merge_lines(found)
    # If no test imported the file, nothing of it ran.
    idle = {
        name: methods[name] for name in contract if name in methods and not _was_executed(methods[name], ran)
    }
    total = sorted(line for line in known if line > 0)
    own = [line for line in total for first, last in _iter_method_ranges(idle) if first <= line <= last]
    if idle and len(own) >= _SHARE * len(total):
        yield from (
            _build_untested_method_finding(file, text, name, places[0][0]) for name, places in idle.items()
        )
    if total:
        yield _build_coverage_finding(file, total, [line for line in total if line not in ran], list(idle))


def collect_executed_lines(found: Sequence[LineCoverage]) -> set[int] | None:
    """Return the lines of functions that at least one test executed, or None if they are unknown."""
    ran, known = _merge_lines(found)
    return ran if known else None


def _was_executed(places: Sequence[Sequence[int]], ran: Collection[int]) -> bool:
    return any(-place[0] in ran for place in places)


def _iter_method_ranges(methods: Methods) -> Iterator[Sequence[int]]:
    return (place for places in methods.values() for place in places)


def _build_untested_method_finding(file: str, text: str, method: str, line: int) -> Finding:
    return Finding(
        rule="quality.untested_method",
        category="quality",
        message=f"No test runs {method}().",
        severity=Severity.WARNING,
        layer=Layer.RUNTIME,
        file=file,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=f"Call {method}() in a test, and assert its result.",
    )


def _build_coverage_finding(
    file: str, total: Sequence[int], missed: Sequence[int], idle: Sequence[str]
) -> Finding:
    methods = f"; methods that no test runs: {', '.join(idle)}" if idle else ""
    return Finding(
        rule="quality.coverage",
        category="quality",
        message=f"The tests run {len(total) - len(missed)} of {len(total)} lines in functions.",
        severity=Severity.INFO,
        layer=Layer.RUNTIME,
        file=file,
        context=f"lines that no test runs: {_format_ranges(missed)}{methods}" if missed else None,
    )


def _merge_lines(found: Iterable[LineCoverage]) -> tuple[set[int], set[int]]:
    """Return the executed lines, and all lines. Numbers of ``def`` lines are negative."""
    ran: set[int] = set()
    known: set[int] = set()
    for one in found:
        for number, (owner, lines) in enumerate(zip(one.owners, one.lines, strict=True)):
            own = {*lines, *([-owner] if owner else [])}
            known |= own
            ran |= own if number in one.seen else set()
    return ran, known


def _format_ranges(lines: Sequence[int]) -> str:
    """Return lines as ranges, e.g. ``3, 7-9``."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], line]
        else:
            ranges.append([line])
    told = ", ".join("-".join(map(str, each)) for each in ranges[:_MAX_RANGES])
    return told + (f" and {len(ranges) - _MAX_RANGES} more" if len(ranges) > _MAX_RANGES else "")
