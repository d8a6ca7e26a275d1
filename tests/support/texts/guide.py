"""The commands and files in the operators' guide."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
OPERATING = DOCS / "operating"
PAGES = sorted([*OPERATING.glob("*.md"), *DOCS.glob("compat/*.md")])
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, the word after the language, and its text."""

    language: str
    word: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [
        Block(language=found[1], word=found[2] or "", text=found[3])
        for found in _BLOCK.finditer(page.read_text())
    ]


def commands(page: Path, word: str = "") -> list[str]:
    """Return the shell blocks of a page that are marked with a word."""
    return [block.text for block in blocks(page) if block.language == "sh" and block.word == word]


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows, under their names."""
    for block in blocks(page):
        if block.language in {"toml", "json"} and block.word:
            (folder / block.word).write_text(block.text)
