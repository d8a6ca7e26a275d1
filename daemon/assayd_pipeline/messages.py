"""Explains error messages of bash, its tools and SQLite with a remedy, a location and a correction.

    head: invalid number of lines: 'data/a'     line 3, `-n` takes a number: `head -n 10 data/a`
    scripts/01_a.sh: line 2: [: amount: integer expression expected

The patterns and texts are in `data/messages.toml`. A step controls its own standard error, which can affect
a hint but never the result. Messages and lines are truncated before they are searched.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath

from assayd.did_you_mean import find_close_names
from assayd.model.finding import Edit

_TABLE = Path(__file__).parent / "data" / "messages.toml"
_AT_LINE = re.compile(r"scripts/[^:]*: line (\d{1,6}): ")
_PROGRAM = re.compile(r"([a-z][\w.-]{0,30}): ")
_LAST_FORM = re.compile(r"(?:^| )(?:Write|Assign)\b[^`]*`[^`]*`\.$")
"""The example at the end of a hint, which the corrected line replaces."""
_NAMELESS = {"parse error:": "jq", "(standard_in) ": "bc", "Runtime error (func=": "bc"}
"""The beginnings of messages that don't name their program."""
_MOST_LINES = 2000
_MOST_CHARS = 10_000
"""Characters above which a step isn't searched for the line of a message."""
_LINE_CHARS = 300
"""Maximum characters of a message to read and of a line to correct."""
_SHOWN_CHARS = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEntry:
    """One entry of the table; the header of the table describes the fields."""

    find: re.Pattern[str]
    hint: str
    at: str = ""
    put: str = ""
    only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """The remedy for a message, and its location, which is the 1-based line of the step if known."""

    hint: str | None
    line: int | None = None
    edit: Edit | None = None


@cache
def _load_messages() -> tuple[MessageEntry, ...]:
    told = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["message"]
    return tuple(MessageEntry(**{**each, "find": re.compile(each["find"])}) for each in told)


def is_known(said: str) -> bool:
    """Return whether the table contains a remedy for a line of standard error."""
    return any(message.find.search(said[:_LINE_CHARS]) for message in _load_messages())


def explain_message(said: str, content: str) -> ExplainedMessage:
    """Explain a line of a step's standard error; without a remedy, return only the line's location."""
    said = said[:_LINE_CHARS]
    lines = content.split("\n")[:_MOST_LINES]
    at = _find_line(said, lines)
    if (
        misspelt := _explain_misspelt_file(said, lines) or _explain_misspelt_variable(said, lines, at)
    ) is not None:
        return misspelt
    for message in _load_messages():
        found = message.find.search(said)
        if found is None:
            continue
        line, new = _correct_line(message, found, lines, at)
        if message.only and new is None:
            continue
        hint = _fill_groups(message.hint, found)
        if line is None or new is None:
            return ExplainedMessage(hint=hint, line=at)
        if len(new.strip()) <= _SHOWN_CHARS:
            hint = f"{_LAST_FORM.sub('', hint)} Write `{new.strip()}`.".lstrip()
        return ExplainedMessage(
            hint=hint,
            line=line,
            edit=Edit(start_line=line, end_line=line, replacement=new),
        )
    return ExplainedMessage(hint=None, line=at)


def _explain_misspelt_file(said: str, lines: list[str]) -> ExplainedMessage | None:
    """Return the remedy for a missing file whose name is similar to another path in the step."""
    missing = _MISSING.search(said)
    if missing is None or sum(map(len, lines)) > _MOST_CHARS:
        return None
    word = re.compile(rf"(?<![\w./-]){re.escape(missing[1])}(?![\w./-])")
    places = [number for number, line in enumerate(lines, 1) if word.search(line)]
    others = {path for line in lines for path in _PATH.findall(line)} - {missing[1]}
    meant = _find_intended_path(PurePosixPath(missing[1]), map(PurePosixPath, sorted(others)))
    if meant is None or not places:
        return None
    hint, at = f"Did you mean `{meant}`?", places[0]
    new = word.sub(meant, lines[at - 1])
    if len(places) > 1 or len(new) > _LINE_CHARS:
        return ExplainedMessage(hint=hint, line=at)
    return ExplainedMessage(hint=hint, line=at, edit=Edit(start_line=at, end_line=at, replacement=new))


def _explain_misspelt_variable(said: str, lines: list[str], at: int | None) -> ExplainedMessage | None:
    """Return the remedy for an unbound variable whose name is similar to an assigned variable."""
    unbound = _UNBOUND.search(said)
    if unbound is None or sum(map(len, lines)) > _MOST_CHARS:
        return None
    close = find_close_names(unbound[1], sorted({name for line in lines for name in _ASSIGNED.findall(line)}))
    return (
        ExplainedMessage(hint=f"Did you mean `${close[0]}`?", line=at)
        if close and close[0] != unbound[1]
        else None
    )


_UNBOUND = re.compile(r"([A-Za-z_]\w{2,60})(?:\[\S{1,60}\])?: unbound variable")
_ASSIGNED = re.compile(r"(?:^|[\s;&|(])([A-Za-z_]\w{2,60})=")


def _find_intended_path(missing: PurePosixPath, others: Iterable[PurePosixPath]) -> str | None:
    """Return a path with the same name in another folder, or with a similar name in the same folder."""
    known = list(others)
    moved = [str(path) for path in known if path.name == missing.name]
    stems = {path.stem: str(path) for path in known if path.parent == missing.parent}
    close = find_close_names(missing.stem, stems) if len(missing.stem) >= _STEM_CHARS else []
    return next(iter((*moved, *(stems[stem] for stem in close))), None)


_STEM_CHARS = 3
"""Shorter names are close to too many others."""
_MISSING = re.compile(
    r"(?<![\w./-])([\w.-]{1,60}(?:/[\w.-]{1,60}){0,6})'?(?: for reading)?: No such file or directory"
)
_PATH = re.compile(r"(?<![\w./-])[\w.-]{1,60}(?:/[\w.-]{1,60}){1,6}")


def _escape_replacement(text: str) -> str:
    """Escape a string for a regex replacement, in which backslashes have a special meaning."""
    return text.replace("\\", r"\\")


def _fill_groups(text: str, found: re.Match[str], *, quote: Callable[[str], str] = str) -> str:
    def value(place: re.Match[str]) -> str:
        return quote(found.group(int(place[1])) or "")

    return re.sub(r"\{([1-9])\}", value, text)


def _correct_line(
    message: MessageEntry, found: re.Match[str], lines: list[str], at: int | None
) -> tuple[int | None, str | None]:
    """Return the only line that matches an entry's pattern, with its correction; otherwise None."""
    if not message.at or (at is None and sum(map(len, lines)) > _MOST_CHARS):
        return None, None
    pattern = re.compile(_fill_groups(message.at, found, quote=re.escape))
    put = _fill_groups(message.put, found, quote=_escape_replacement)
    matches = (
        (number, seen)
        for number, line in enumerate(lines, 1)
        if (at is None or number == at)
        and len(line) <= _LINE_CHARS
        and not line.lstrip().startswith("#")
        and (seen := pattern.search(line)) is not None
    )
    places = list(islice(matches, 2))
    if len(places) != 1:
        return None, None
    [(number, seen)] = places
    line = lines[number - 1]
    return number, line[: seen.start()] + seen.expand(put) + line[seen.end() :]


def _find_line(said: str, lines: list[str]) -> int | None:
    """Return the line that bash reports, or the only line that calls the program of a message."""
    named = _AT_LINE.match(said)
    if named is not None:
        return int(named[1]) if int(named[1]) <= len(lines) else None
    program = _PROGRAM.match(said)
    nameless = (name for begin, name in _NAMELESS.items() if said.startswith(begin))
    name = program[1] if program is not None else next(nameless, None)
    if name is None:
        return None
    calls = list(_iter_lines_calling(name, lines))
    if len(calls) > 1:
        quoted = re.findall(r"['\"`‘]([^'\"`’]{2,200})['\"’]|: ([\w./*-]{3,200}):", said)
        values = [value for pair in quoted for value in pair if value]
        narrowed = [n for n in calls if any(value in lines[n - 1] for value in values)]
        calls = narrowed or calls
    return calls[0] if len(calls) == 1 else None


def _iter_lines_calling(program: str, lines: list[str]) -> Iterator[int]:
    word = re.compile(rf"(?<![\w./-]){re.escape(program)}(?![\w.=-])")
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("#") and word.search(line[:_LINE_CHARS]):
            yield number
