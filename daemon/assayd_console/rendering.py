"""Renders templates and displays text from guests safely.

Every value that a template prints passes through `plain`, so no value can be forgotten. Characters that
control terminals, reorder text or hide text are shown as their codes. `marked` also highlights these codes.

Reads and colors the texts of a submission, and places findings next to the lines that they concern. Hostile
text is colored line by line with a regular expression that runs in linear time, and the pieces remain plain
text. A complete grammar isn't needed, because the syntax that Python, bash and SQL share is enough for
reading.
"""

from __future__ import annotations

import json
import keyword
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from assayd import __version__
from assayd_client import Document
from assayd_client.cli.report import SubmissionOrigin
from assayd_client.cli.terminal import UNSAFE_PATTERN, format_age, format_duration, plain
from assayd_console import charts

LINE_CHARS = 2000
"""Maximum characters of one line; the rest is counted."""
MAX_SHOWN_TEXT_CHARS = 64_000
"""Maximum characters of one text on a page."""
UNSAFE_RUNS = re.compile(f"{UNSAFE_PATTERN.pattern}+")
CODE = Markup('<span class="code">{}</span>')


def to_template_text(value: object) -> object:
    """Return the printed form of a template value: "" for None, safe text, markup unchanged."""
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def mark_invisible(text: str) -> Markup:
    """Return text in which invisible characters are replaced with highlighted codes."""
    pieces, end = [], 0
    for match in UNSAFE_RUNS.finditer(text):
        pieces += [escape(text[end : match.start()]), CODE.format(plain(match[0]))]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])


def cut_lines(text: str) -> str:
    """Truncate very long lines and texts, and state the number of omitted characters."""
    shown = "\n".join(_truncate_line(line) for line in text[:MAX_SHOWN_TEXT_CHARS].split("\n"))
    if len(text) <= MAX_SHOWN_TEXT_CHARS:
        return shown
    return f"{shown}\n… ({len(text) - MAX_SHOWN_TEXT_CHARS:,} more characters)"


def _truncate_line(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS:,} more characters)"


def format_json(value: object) -> str:
    """Return a value as readable JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def format_period(seconds: float) -> str:
    """Return a period as text, in seconds if it is shorter than two minutes: ``5 s``, ``12min``."""
    return f"{seconds:.0f} s" if seconds < 120 else format_age(seconds)


def took(milliseconds: float | None) -> str:
    """Return a duration in milliseconds as text, or a dash for None."""
    return "–" if milliseconds is None else format_duration(milliseconds)


def format_size(number: float | None) -> str:
    """Return a size in bytes as text, or a dash for None."""
    if number is None:
        return "–"
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def format_user(uid: int) -> str:
    """Return a user id as text, with the user's name if this host knows it."""
    try:
        return f"{uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return str(uid)


def format_moment(at: str | None) -> Markup:
    """Return a time, to the second, as text that doesn't wrap, or a dash for None."""
    return Markup('<span class="nowrap">{} {}Z</span>').format(at[:10], at[11:19]) if at else Markup("–")


def format_short_moment(at: str) -> str:
    """Return the time of day (UTC) for a time today, or the date, hours and minutes for another day."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return f"{at[11:19]}" if at[:10] == today else f"{at[:10]} {at[11:16]}"


def format_labels(labels: dict[str, str]) -> str:
    """Return labels in the syntax that filters use."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


HERE = Path(__file__).parent


@cache
def build_environment() -> Environment:
    """Return the template environment, which escapes text and treats unknown names as errors."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=to_template_text,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"version": __version__, "cluster": False}
    made.filters |= {
        "colored": highlight_line,
        "cut_lines": cut_lines,
        "json": format_json,
        "labels": format_labels,
        "marked": mark_invisible,
        "moment": format_moment,
        "path": lambda text: quote(str(text), safe=""),
        "period": format_period,
        "short_moment": format_short_moment,
        "size": format_size,
        "took": took,
        "user": format_user,
    }
    return made


def enable_cluster_menu() -> None:
    """Add an entry for the cluster's nodes to the menu until the process ends."""
    build_environment().globals["cluster"] = True


def render_fragment(template: str, **values: object) -> str:
    """Return the text of a template, rendered with these values."""
    return build_environment().get_template(template).render(values)


def build_chart_response(picture: Markup, name: str, query: QueryParams) -> Response:
    """Return a chart as a download or, with ``?shown``, as an image for the console's pages."""
    drawn_from = "shown" in query
    headers = {} if drawn_from else {"Content-Disposition": f'attachment; filename="{name}.svg"'}
    media_type = "image/svg+xml" if drawn_from else "application/octet-stream"
    return Response(charts.build_standalone_svg(picture), media_type=media_type, headers=headers)


def render_page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Render a template as an HTML response."""
    return HTMLResponse(render_fragment(template, **values), status_code=status)


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


CONTEXT_LINES = 6
"""Number of lines to show before and after a finding if the source is too long to show completely."""
MOST_LINES = 400
"""Maximum lines of a source that is shown completely."""
RANK = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a source. A `number` of 0 marks omitted lines, whose number is in `text`."""

    number: int
    text: str
    opened: str = ""
    """The three quotes of a string that began on an earlier line, or an empty string."""
    severity: str = ""
    findings: Sequence[Document] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedSource:
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
) -> tuple[list[DisplayedSource], list[Document]]:
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
    texts: Sequence[DisplayedSource], findings: Sequence[Document]
) -> tuple[Document, str] | None:
    """Return the first error and its location, e.g. ``adapter.py:12``, or None without an error."""
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


def _build_source(name: str, text: str, placed: Mapping[int, list[Document]]) -> DisplayedSource:
    lines = text.removesuffix("\n").split("\n")
    beyond = [found for number, each in placed.items() if not 0 < number <= len(lines) for found in each]
    return DisplayedSource(name=name, lines=list(_build_lines(lines, placed)), findings=beyond)


def _build_lines(lines: Sequence[str], placed: Mapping[int, list[Document]]) -> Iterator[SourceLine]:
    shown = _select_lines(len(lines), placed)
    left_out, room, read, after = 0, MAX_SHOWN_TEXT_CHARS, 0, ""
    for number, text in enumerate(lines, 1):
        read += len(text)
        opened, after = after, find_open_quotes(text, after) if read < MAX_SHOWN_TEXT_CHARS else ""
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
    near = {line for number in placed for line in range(number - CONTEXT_LINES, number + CONTEXT_LINES + 1)}
    return frozenset(near | set(range(1, CONTEXT_LINES * 4)))
