"""Counts wording that docs/style.md rules out, against the baselines in prose.toml.

Run as a script, it lowers each baseline to what it finds, and never raises one.
"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BASELINES = Path(__file__).with_name("prose.toml")
QUOTES_BAD_WORDING = {ROOT / "docs/style.md"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Wording to avoid, what to write instead, and the highest count that is accepted by place."""

    find: str
    instead: str
    accepted: dict[str, int]


def patterns() -> list[Pattern]:
    """Read the patterns and their baselines."""
    return [
        Pattern(
            find=row["find"],
            instead=row["instead"],
            accepted={"strings": row["strings"], "pages": row["pages"]},
        )
        for row in tomllib.loads(BASELINES.read_text())["pattern"]
    ]


def texts(place: str) -> list[str]:
    """Return the texts of a place: "strings" or "pages"."""
    if place == "pages":
        pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        return [
            page.read_text()
            for page in pages
            if page not in QUOTES_BAD_WORDING and "decisions" not in page.parts
        ]
    daemon = ROOT / "daemon"
    files = [*daemon.rglob("*.html"), *daemon.rglob("*.toml"), *(ROOT / "policies").rglob("*.toml")]
    written = [text for path in daemon.rglob("*.py") for text in literals(path.read_text())]
    return written + [file.read_text() for file in files]


def count(pattern: Pattern, among: list[str]) -> int:
    """Return how often a pattern occurs in texts."""
    compiled = re.compile(pattern.find, re.IGNORECASE)
    return sum(len(compiled.findall(text)) for text in among)


def lower() -> None:
    """Write the counts of today into the baselines that are higher."""
    among = {place: texts(place) for place in ("strings", "pages")}
    written = BASELINES.read_text()
    for pattern in patterns():
        for place, accepted in pattern.accepted.items():
            found = min(accepted, count(pattern, among[place]))
            row = rf"(find = '{re.escape(pattern.find)}'\n(?:.+\n)*?{place} = )\d+"
            written = re.sub(row, rf"\g<1>{found}", written)
    BASELINES.write_text(written)


def literals(source: str) -> list[str]:
    """Return the string literals of a module that hold words, without docstrings."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and node not in docstrings
    ]


if __name__ == "__main__":
    lower()
