"""The one filter between what a guest wrote and a terminal, and how documents are printed."""

from __future__ import annotations

import json
import re
import sys

from assayd_client.cli.screen import err, out

__all__ = ["err", "out", "plain", "print_json", "shorten"]

# Control characters but tab and newline, the marks that reorder text, and those that nobody sees: a guest
# could else rewrite the screen, show a source line as another, or hide words for a model in what a person
# copies.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """Make foreign text harmless to show: what acts on a terminal is shown as its code."""
    if text.isascii() and text.isprintable():  # as nearly all is: lists print hundreds
        return text
    return UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shorten(text: str, most: int) -> str:
    """Cut text to so many characters, in one line."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def print_json(document: object) -> None:
    """Print a document; on a terminal in ASCII, since results may hold anything."""
    print(json.dumps(document, indent=2, ensure_ascii=sys.stdout.isatty()))
