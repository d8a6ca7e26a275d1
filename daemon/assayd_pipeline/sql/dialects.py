"""Explains a statement that SQLite rejects, and rewrites it for SQLite.

    SELECT TOP 5 name FROM t        T-SQL       SELECT name FROM t LIMIT 5
    SELECT id::text FROM t          PostgreSQL  SELECT CAST(id AS TEXT) FROM t
    WHERE sum(x) > 5 GROUP BY y                 GROUP BY y HAVING sum(x) > 5

`data/slips.toml` lists constructs of other databases with SQLite's equivalents; for unlisted constructs,
sqlglot parses the statement as another dialect. A rewrite is offered only if SQLite can prepare it with the
submission's tables.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from assayd_pipeline.sql.one_token import find_one_token_fix
from assayd_pipeline.sql.preparer import StatementPreparer

MOST_CHARS = 10_000
"""Maximum characters of a statement to explain."""
_MAX_FORMS = 3
"""Maximum forms of one statement in a hint."""
_SHOWN_CHARS = 40
_CONSTRUCTS_FILE = Path(__file__).parent / "data" / "slips.toml"
_TITLE_BY_DIALECT = {"postgres": "PostgreSQL", "tsql": "T-SQL", "mysql": "MySQL", "oracle": "Oracle"}
_FORMAT_BY_UNIT = {
    "year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M", "second": "%S", "dow": "%w",
}  # fmt: skip
_DATE_PARTS = (("YYYY", "%Y"), ("MM", "%m"), ("DD", "%d"), ("HH24", "%H"), ("MI", "%M"), ("SS", "%S"))
_LITERAL_PATTERN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_INTERVAL_PATTERN = re.compile(
    r"INTERVAL\s*+(?:'\s*+)?(-?\d++)\s*+(?:'\s*+)?([a-z]+?)s?\s*+'?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignConstruct:
    """One entry of the table. The header of the table describes the fields."""

    of: str
    hint: str
    call: tuple[str, ...] = ()
    count: int | None = None
    find: str = ""
    put: str | None = None
    unit: str = ""
    at: int = 0
    upper: int = 0
    quoted: bool = False
    whole: bool = False
    interval: bool = False
    number_unit: bool = False
    pattern_of_date: bool = False
    week: bool = False
    certain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedConstruct:
    """A construct that SQLite lacks. `start` is its offset in the statement, and `new` is the rewrite."""

    start: int
    written: str
    of: str
    hint: str
    new: str | None = None
    certain: bool = False
    said: bool = False
    """Whether `written` is a complete sentence."""


@cache
def load_foreign_constructs() -> tuple[ForeignConstruct, ...]:
    """Return the table of constructs from other databases, read once per process."""
    read = tomllib.loads(_CONSTRUCTS_FILE.read_text(encoding="utf-8"))["slip"]
    return tuple(ForeignConstruct(**{**told, "call": tuple(told.get("call", ()))}) for told in read)


def mask_literals(statement: str) -> str:
    """Return a statement with its strings and comments masked, so that offsets stay the same."""
    return _LITERAL_PATTERN.sub(lambda one: ("·" if one[0][0] == "'" else " ") * len(one[0]), statement)


def explain_rejected(statement: str, tables: StatementPreparer | None) -> ExplainedConstruct | None:
    """Explain a statement that SQLite rejects, or return None if no explanation is known.

    The explanation contains a rewritten statement if SQLite can prepare it.
    """
    if len(statement) > MOST_CHARS:
        return None
    first, text = _apply_table(statement)
    if first is not None:
        text, good = _try_rewrite(statement, text, tables)
        return ExplainedConstruct(
            start=first.start,
            written=first.written,
            of=first.of,
            hint=first.hint,
            new=text if good else None,
            certain=first.certain,
        )
    if tables is None:
        return None
    change = find_one_token_fix(statement, tables)
    if change is not None:
        return ExplainedConstruct(
            start=change.start, written=change.message, of="", hint=change.hint, new=change.new, said=True
        )
    for name, new in _translate_dialects(statement):
        if tables.find_error(new) is None:
            return ExplainedConstruct(start=0, written="", of=name, hint=f"In SQLite: `{new}`.", new=new)
    return None


def has_different_meaning(statement: str) -> bool:
    """Return whether SQLite accepts a statement with a construct that it interprets differently."""
    return any(
        slip.certain and _match_entry(slip, statement) is not None for slip in load_foreign_constructs()
    )


def _try_rewrite(statement: str, text: str, tables: StatementPreparer | None) -> tuple[str, bool]:
    """Return the rewritten statement, and whether SQLite can prepare it. sqlglot is used if necessary."""
    if text == statement or not text.strip() or tables is None:
        return text, text != statement and not text.strip()
    if tables.find_error(text) is None:
        return text, True
    return next(
        ((each, True) for _, each in _translate_dialects(text) if tables.find_error(each) is None),
        (text, False),
    )


def _apply_table(statement: str) -> tuple[ExplainedConstruct | None, str]:
    """Apply all entries that match, and return the explanation of the statement and the new text.

    The explanation names the first construct in the statement, and the replacement for each construct. It is
    None if no entry matches.
    """
    found: list[ExplainedConstruct] = []
    text = statement
    for slip in load_foreign_constructs():
        as_written = _match_entry(slip, statement)
        for number in range(20):
            match = _match_entry(slip, text)
            if match is None:
                break
            if not number and (as_written or not found):
                start, _, written, _, values = as_written or match
                hint, of = _format_hint(slip.hint, values), _format_hint(slip.of, values)
                found.append(
                    ExplainedConstruct(start=start, written=written, of=of, hint=hint, certain=slip.certain)
                )
            start, end, _, new, _ = match
            if new is None:
                break
            text = text[:start] + new + text[end:] if not slip.whole else new
    if not found:
        return None, text
    found.sort(key=lambda one: one.start)
    hints = {one.hint: one for one in reversed(found[:_MAX_FORMS])}
    others = (_describe_other_form(one) for one in reversed(hints.values()) if one.hint != found[0].hint)
    return replace(
        found[0], hint=" ".join((found[0].hint, *others)), certain=any(one.certain for one in found)
    ), text


def _describe_other_form(one: ExplainedConstruct) -> str:
    """Return the hint for another form of the statement, which isn't on the finding's line."""
    written = " ".join(one.written.split()).removeprefix(")").lstrip()
    return f"Instead of `{written[:_SHOWN_CHARS]}`: {one.hint[:1].lower()}{one.hint[1:]}"


Match = tuple[int, int, str, str | None, list[str]]


def _match_entry(slip: ForeignConstruct, text: str) -> Match | None:
    masked = text if slip.quoted else mask_literals(text)
    if slip.call:
        return _match_call(slip, text, masked)
    found = re.compile(slip.find, re.IGNORECASE).search(masked)
    if found is None:
        return None
    seen = re.compile(slip.find, re.IGNORECASE).search(text, found.start())
    values = [each or "" for each in (seen or found).groups()]
    if slip.upper and len(values) >= slip.upper:
        values[slip.upper - 1] = values[slip.upper - 1].upper()
    new = _build_replacement(slip, found if seen is None else seen, values)
    start = found.start(slip.at)
    written = found[0] if not slip.at else found[slip.at]
    if slip.at and new is not None:
        # The position covers a part of the match, the replacement all of it.
        return found.start(), found.end(), written, new, values
    return start, found.end(), written, new, values


def _build_replacement(slip: ForeignConstruct, seen: re.Match[str], values: list[str]) -> str | None:
    if slip.unit:
        return slip.unit.format(*values, unit=_FORMAT_BY_UNIT[values[0].lower()])
    if slip.put is None:
        return None
    if slip.week and values[3].lower() == "week":
        values[2], values[3] = str(7 * int(values[2])), "day"
    return re.sub(r"\\(\d)", lambda one: values[int(one[1]) - 1], slip.put)


def _match_call(slip: ForeignConstruct, text: str, masked: str) -> Match | None:
    """Return the match of a function call outside strings, together with its arguments, or None."""
    for found in re.finditer(rf"\b({'|'.join(slip.call)})\s*\(", masked, re.IGNORECASE):
        end = _find_closing(masked, found.end())
        if end is None:
            continue
        inside = text[found.end() : end]
        arguments = _split_arguments(inside, masked[found.end() : end])
        if slip.count is not None and len(arguments) != slip.count:
            continue
        new = (
            None
            if slip.put is None and not slip.interval
            else _rewrite_call(slip, arguments, inside, found[1])
        )
        if new is None and (slip.interval or slip.pattern_of_date):
            continue
        return (
            found.start(),
            end + 1,
            text[found.start() : end + 1],
            new,
            _pad_values(slip, arguments, found[1]),
        )
    return None


def _rewrite_call(slip: ForeignConstruct, arguments: list[str], inside: str, name: str) -> str | None:
    if slip.interval:
        found = _INTERVAL_PATTERN.fullmatch(arguments[1].strip()) if len(arguments) == 2 else None
        if found is None:
            return None
        count = -int(found[1]) if name.upper() in {"DATE_SUB", "SUBDATE"} else int(found[1])
        return f"date({arguments[0]}, '{count:+} {found[2].lower()}s')"
    if slip.pattern_of_date:
        pattern = arguments[1]
        for old, part in _DATE_PARTS:
            pattern = pattern.replace(old, part).replace(old.lower(), part)
        return f"strftime({pattern}, {arguments[0]})" if "%" in pattern else None
    if slip.number_unit and arguments[1].strip().lstrip("-").isdigit():
        return f"date({arguments[2]}, '{arguments[1].strip()} {arguments[0].strip()}')"
    joined = " || ".join(arguments)
    separated = f" || {arguments[0]} || ".join(arguments[1:]) if arguments else ""
    try:
        return (slip.put or "").format(*arguments, all=inside.strip(), joined=joined, separated=separated)
    except IndexError:
        return None


def _pad_values(slip: ForeignConstruct, arguments: list[str], name: str) -> list[str]:
    return [*arguments, *("…",) * 3]


def _format_hint(hint: str, values: list[str]) -> str:
    """Fill the placeholders of a hint, or return it unchanged if the placeholders don't match."""
    try:
        unit = _FORMAT_BY_UNIT.get(values[0].lower(), "%Y") if values else ""
        return hint.format(*values, unit=unit, sign="-", number=7)
    except (IndexError, KeyError, ValueError):
        return hint


def _find_closing(masked: str, start: int) -> int | None:
    depth = 1
    for place in range(start, len(masked)):
        depth += (masked[place] == "(") - (masked[place] == ")")
        if not depth:
            return place
    return None


def _split_arguments(inside: str, masked: str) -> list[str]:
    """Split arguments at the commas that are outside parentheses and strings."""
    if not inside.strip():
        return []
    parts, depth, last = [], 0, 0
    for place, sign in enumerate(masked):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append(inside[last:place].strip())
            last = place + 1
    return [*parts, inside[last:].strip()]


def _translate_dialects(statement: str) -> Iterator[tuple[str, str]]:
    """Yield the SQLite form of a statement for each dialect in which it can be parsed."""
    import sqlglot

    ignore = sqlglot.ErrorLevel.IGNORE
    logging.getLogger("sqlglot").disabled = True  # It would log submitted text.
    for dialect, name in _TITLE_BY_DIALECT.items():
        try:
            read = sqlglot.transpile(statement, read=dialect, write="sqlite", unsupported_level=ignore)
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
            continue
        if len(read) == 1 and read[0].strip():
            yield name, read[0]
