"""Text of guests as a page shows it: escaped by the templates, and made visible here.

Every value that a template prints goes through `plain` first, so that none can be forgotten: what controls
a terminal, reorders text or hides it stands there as its code. `marked` sets the codes apart as well.
"""

from __future__ import annotations

import json
import pwd
import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

from assayd_client.cli.terminal import UNSAFE, duration, plain

LINE_CHARS = 2000
"""Characters of one line; the rest is counted."""
TEXT_CHARS = 64_000
"""Of one text on a page."""
UNSAFE_RUNS = re.compile(f"{UNSAFE.pattern}+")
CODE = Markup('<span class="code">{}</span>')


def finalize(value: object) -> object:
    """Return what a template prints: nothing for None, foreign text made harmless, markup as it is."""
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def marked(text: str) -> Markup:
    """Return text whose codes for what is not shown are set apart from what only looks like them."""
    pieces, end = [], 0
    for match in UNSAFE_RUNS.finditer(text):
        pieces += [escape(text[end : match.start()]), CODE.format(plain(match[0]))]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])


def cut_lines(text: str) -> str:
    """Return text without the ends of its very long lines and its own, which say how long they are."""
    shown = "\n".join(_cut(line) for line in text[:TEXT_CHARS].split("\n"))
    if len(text) <= TEXT_CHARS:
        return shown
    return f"{shown}\n… ({len(text) - TEXT_CHARS:,} more characters)"


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… ({len(line) - LINE_CHARS:,} more characters)"


def as_json(value: object) -> str:
    """Return a value as JSON text for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def took(milliseconds: float | None) -> str:
    """Write a duration; a dash for none."""
    return "–" if milliseconds is None else duration(milliseconds)


def size(number: float | None) -> str:
    """Write a number of bytes; a dash for none."""
    if number is None:
        return "–"
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def user(uid: int) -> str:
    """Write a user's number, with the name if this host knows it."""
    try:
        return f"{uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return str(uid)


def moment(at: str | None) -> str:
    """Write a time of a document to the second; a dash for none."""
    return f"{at[:10]} {at[11:19]}Z" if at else "–"


def short_moment(at: str) -> str:
    """Write a time: of today the time alone, of another day the date and the minute."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return f"{at[11:19]}" if at[:10] == today else f"{at[:10]} {at[11:16]}"


def labels_text(labels: dict[str, str]) -> str:
    """Write labels as filters take them."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
