"""Draws texts at random for an editor, who scores each 0 to 3: `python tests/support/texts/draw.py SEED`."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import prose

CLI = ("assayd_client/cli", "assayd_console", "assayd_pipeline/commands")
HINTS = ("assayd/findings", "assayd/static", "assayd/kinds", "assayd_pipeline/shell", "assayd_pipeline/sql")
SENTENCE = re.compile(r"^[A-Z`].{20,400}?[.?!]$")
NOT_PROSE = re.compile(r"[\n\\<>|^]|^\W|SELECT|\(\?")


def draw(seed: int) -> None:
    """Print a sample of each group: CLI, console and wizard; hints; docstrings; pages."""
    chosen = random.Random(seed)
    strings, docstrings = prose.texts("strings"), prose.texts("docstrings")
    groups = {
        "cli, console, wizard": (40, _below(strings, CLI)),
        "hints and messages": (60, [*_below(strings, HINTS), *_fifth()]),
        "docstrings": (40, [text for _, _, text in docstrings if " " in text.strip()]),
        "pages": (100, _sentences(text for _, _, text in prose.texts("pages"))),
    }
    for name, (number, among) in groups.items():
        print(f"== {name}")
        for position, text in enumerate(chosen.sample(sorted(set(among)), number), 1):
            print(f"{position}. {text.strip()}")


def _below(strings: Iterable[tuple[Path, int, str]], folders: tuple[str, ...]) -> list[str]:
    return [
        text
        for path, _, text in strings
        if any(f"daemon/{folder}/" in str(path) for folder in folders)
        and len(text.split()) >= 3
        and not NOT_PROSE.search(text)
    ]


def _fifth() -> list[str]:
    rules = (prose.ROOT / "daemon/assayd_fifth/data/rules.toml").read_text()
    return re.findall(r'^(?:title|message|suggestion) = "([^"]+)"$', rules, re.MULTILINE)


def _sentences(pages: Iterable[str]) -> list[str]:
    found: list[str] = []
    for page in pages:
        plain = re.sub(r"```(?s:.*?)```|^[|#].*$", "", page, flags=re.MULTILINE)
        for paragraph in plain.split("\n\n"):
            sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z`])", " ".join(paragraph.split()).lstrip("-* "))
            found.extend(filter(SENTENCE.match, sentences))
    return found


if __name__ == "__main__":
    draw(int(sys.argv[1]))
