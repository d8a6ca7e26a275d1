"""Reads and colors the texts of a submission, and places findings next to the lines that they concern.

Hostile text is colored line by line with a regular expression that runs in linear time, and the pieces
remain plain text. A complete grammar isn't needed, because the syntax that Python, bash and SQL share is
enough for reading.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from assayd_client import Document
from assayd_client.cli.report import SubmissionOrigin
from assayd_console.shown import LINE_CHARS, TEXT_CHARS, mark_invisible

BASH = "case|do|done|elif|esac|fi|function|then|until|local"
SQL = (
    "AND|AS|BY|CASE|CONFLICT|CREATE|DELETE|DO|DROP|ELSE|END|EXISTS|FROM|GROUP|HAVING|IF|IN|INDEX|INSERT|INTO|"
    "IS|JOIN|KEY|LEFT|LIMIT|NOT|NULL|ON|OR|ORDER|PRIMARY|SELECT|SET|TABLE|THEN|UNION|UNIQUE|UPDATE|USING|"
    "VALUES|VIEW|WHEN|WHERE|WITH"
)
KEYWORDS = frozenset({*keyword.kwlist, *BASH.split("|"), *SQL.split("|")})
TOKEN = re.compile(
    r"(?P<triple>\"{3}|'{3})"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?)"
    r"|(?P<comment>(?<!\S)(?:\#|--\s).*)"
    r"|(?P<number>\b[0-9][0-9A-Za-z_.]*)"
    r"|(?P<word>[A-Za-z_][0-9A-Za-z_]*)"
)


def highlight_line(line: str, opened: str = "") -> Markup:
    """Return a line with an HTML element around each keyword, string, comment and number.

    Args:
        line: the line to color.
        opened: the triple quotes of a string that began on an earlier line, or an empty string.
    """
    pieces = [
        Markup('<span class="t-{}">{}</span>').format(kind, mark_invisible(text))
        if kind
        else mark_invisible(text)
        for kind, text, _ in _iter_pieces(line, opened)
    ]
    return Markup("").join(pieces)


def find_open_quotes(line: str, opened: str) -> str:
    """Return the triple quotes of a string that continues after a line, or an empty string."""
    *_, (_, _, after) = [("", "", opened), *_iter_pieces(line, opened)]
    return after


def _iter_pieces(line: str, opened: str) -> Iterator[tuple[str, str, str]]:
    """Yield each piece of a line: its kind or an empty string, its text, and any open triple quotes."""
    done = place = 0
    if opened:
        end, opened = _find_string_end(line, 0, opened)
        yield "string", line[:end], opened
        done = place = end
    while (match := TOKEN.search(line, place)) is not None:
        kind, (begin, place) = str(match.lastgroup), match.span()
        if kind == "word" and match[0] not in KEYWORDS:
            continue
        if begin > done:
            yield "", line[done:begin], ""
        if kind == "triple":
            kind, (place, opened) = "string", _find_string_end(line, place, match[0])
        yield kind, line[begin:place], opened
        done = place
    if done < len(line):
        yield "", line[done:], ""


def _find_string_end(line: str, begin: int, quotes: str) -> tuple[int, str]:
    """Return the end of a triple-quoted string in a line, and its quotes if the string continues."""
    close = line.find(quotes, begin)
    return (len(line), quotes) if close < 0 else (close + len(quotes), "")


AROUND = 6
"""Lines to show around a finding if the source is too long."""
MOST_LINES = 400
"""Maximum lines of a source that is shown completely."""
RANK = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a source. A `number` of 0 marks omitted lines, whose number is in `text`."""

    number: int
    text: str
    opened: str = ""
    """The three quotes of a string that began on an earlier line."""
    severity: str = ""
    findings: Sequence[Document] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSource:
    """One text of a submission. `findings` contains the findings whose line isn't shown."""

    name: str
    lines: Sequence[SourceLine]
    findings: Sequence[Document] = ()

    @property
    def has_findings(self) -> bool:
        """Return whether the text has any findings."""
        return bool(self.findings) or any(line.findings for line in self.lines)


def list_texts(payload: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of a payload, keyed by the names that findings use for them."""
    texts: dict[str, str] = {}
    if isinstance(code := payload.get("code"), str):
        texts["code"] = code
    for table in (payload.get("files"),):
        if isinstance(table, dict):
            texts |= {str(name): text for name, text in table.items() if isinstance(text, str)}
    steps = payload.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and isinstance(step.get("content"), str):
            texts[str(step.get("name"))] = step["content"]
    return texts


def build_sources(
    payload: Mapping[str, object], findings: Sequence[Document]
) -> tuple[list[ShownSource], list[Document]]:
    """Return the texts with their findings, and separately the findings that belong to no text."""
    texts = list_texts(payload)
    origin = SubmissionOrigin(
        paths={name: name for name in texts}, texts={name: text.encode() for name, text in texts.items()}
    )
    placed: dict[str, dict[int, list[Document]]] = {name: {} for name in texts}
    elsewhere: list[Document] = []
    for finding in findings:
        name, number = origin.locate_finding(finding)
        if name in placed:
            placed[name].setdefault(number or 0, []).append(finding)
        else:
            elsewhere.append(finding)
    return [_build_source(name, text, placed[name]) for name, text in texts.items()], elsewhere


def find_first_error(
    texts: Sequence[ShownSource], findings: Sequence[Document]
) -> tuple[Document, str] | None:
    """Return the first error and its location, e.g. ``adapter.py:12``; None if no error exists."""
    first = next((each for each in findings if each["severity"] == "error"), None)
    if first is None:
        return None
    places = (
        f"{text.name}:{line.number}"
        for text in texts
        for line in text.lines
        if any(each is first for each in line.findings)
    )
    return first, next(places, first["file"] or "")


def _build_source(name: str, text: str, placed: Mapping[int, list[Document]]) -> ShownSource:
    lines = text.removesuffix("\n").split("\n")
    beyond = [found for number, each in placed.items() if not 0 < number <= len(lines) for found in each]
    return ShownSource(name=name, lines=list(_build_lines(lines, placed)), findings=beyond)


def _build_lines(lines: Sequence[str], placed: Mapping[int, list[Document]]) -> Iterator[SourceLine]:
    shown = _select_lines(len(lines), placed)
    left_out, room, read, after = 0, TEXT_CHARS, 0, ""
    for number, text in enumerate(lines, 1):
        read += len(text)
        opened, after = after, find_open_quotes(text, after) if read < TEXT_CHARS else ""
        room -= min(len(text), LINE_CHARS) if number in shown else 0
        if number not in shown or (room < 0 and number not in placed):
            left_out += 1
            continue
        if left_out:
            yield SourceLine(number=0, text=f"{left_out:,} lines without findings")
            left_out = 0
        found = sorted(placed.get(number, ()), key=lambda finding: RANK[finding["severity"]])
        severity = found[0]["severity"] if found else ""
        yield SourceLine(number=number, text=text, opened=opened, findings=found, severity=severity)
    if left_out:
        yield SourceLine(number=0, text=f"{left_out:,} lines without findings")


def _select_lines(count: int, placed: Mapping[int, list[Document]]) -> frozenset[int]:
    """Return the lines to show: all lines, or the first lines and those around findings."""
    if count <= MOST_LINES:
        return frozenset(range(1, count + 1))
    near = {line for number in placed for line in range(number - AROUND, number + AROUND + 1)}
    return frozenset(near | set(range(1, AROUND * 4)))
