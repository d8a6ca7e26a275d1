"""Displays text from guests safely: templates escape the text, and this module shows invisible characters.

Every value that a template prints passes through `plain`, so no value can be forgotten. Characters that
control terminals, reorder text or hide text are shown as their codes. `marked` also highlights these codes.
"""

from __future__ import annotations

import json
import pwd
import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

from assayd_client.cli.terminal import UNSAFE, format_age, format_duration, plain

LINE_CHARS = 2000
"""Maximum characters of one line; the rest is counted."""
TEXT_CHARS = 64_000
"""Maximum characters of one text on a page."""
UNSAFE_RUNS = re.compile(f"{UNSAFE.pattern}+")
CODE = Markup('<span class="code">{}</span>')


def to_printed(value: object) -> object:
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
    shown = "\n".join(_truncate_line(line) for line in text[:TEXT_CHARS].split("\n"))
    if len(text) <= TEXT_CHARS:
        return shown
    return f"{shown}\n… ({len(text) - TEXT_CHARS:,} more characters)"


def _truncate_line(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS:,} more characters)"


def format_json(value: object) -> str:
    """Return a value as readable JSON text."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def format_period(seconds: float) -> str:
    """Return a period as readable text: ``5 s``, ``12min``."""
    return f"{seconds:.0f} s" if seconds < 120 else format_age(seconds)


def took(milliseconds: float | None) -> str:
    """Return a duration in milliseconds as text; return a dash for None."""
    return "–" if milliseconds is None else format_duration(milliseconds)


def format_size(number: float | None) -> str:
    """Return a size in bytes as text; return a dash for None."""
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
    """Return a time, to the second, as text that doesn't wrap; return a dash for None."""
    return Markup('<span class="nowrap">{} {}Z</span>').format(at[:10], at[11:19]) if at else Markup("–")


def format_short_moment(at: str) -> str:
    """Return the time of day for a time today; otherwise, return the date, hours and minutes."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return f"{at[11:19]}" if at[:10] == today else f"{at[:10]} {at[11:16]}"


def format_labels(labels: dict[str, str]) -> str:
    """Return labels in the syntax that filters use."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
