"""Counts wording that docs/style.md rules out, against the baselines in prose.toml.

Run as a script, it lowers each baseline to the count that it finds, and never raises one. With a place,
it prints each match there: `python tests/support/texts/prose.py docstrings`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BASELINES = Path(__file__).with_name("prose.toml")
PLACES = ("strings", "pages", "docstrings")
QUOTES_BAD_WORDING = {ROOT / "docs/style.md"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Wording to avoid, what to write instead, exempt texts, and the highest accepted count by place."""

    find: str
    instead: str
    exempt: tuple[str, ...]
    accepted: dict[str, int]

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches in a text, without those inside an exempt text."""
        for exempt in self.exempt:
            text = text.replace(exempt, " " * len(exempt))
        yield from re.finditer(self.find, text, re.IGNORECASE)


def patterns() -> list[Pattern]:
    """Read the patterns and their baselines."""
    return [
        Pattern(
            find=row["find"],
            instead=row["instead"],
            exempt=tuple(row.get("exempt", ())),
            accepted={place: row[place] for place in PLACES},
        )
        for row in tomllib.loads(BASELINES.read_text())["pattern"]
    ]


def texts(place: str) -> list[tuple[Path, int, str]]:
    """Return the texts of a place, each with its file and first line."""
    if place == "pages":
        pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
        return [
            (page, 1, page.read_text())
            for page in pages
            if page not in QUOTES_BAD_WORDING and "decisions" not in page.parts
        ]
    daemon = ROOT / "daemon"
    read = literals if place == "strings" else documentation
    written = [
        (path, line, text) for path in sorted(daemon.rglob("*.py")) for line, text in read(path.read_text())
    ]
    if place == "docstrings":
        return written
    files = [*daemon.rglob("*.html"), *daemon.rglob("*.toml"), *(ROOT / "policies").rglob("*.toml")]
    return written + [(file, 1, file.read_text()) for file in sorted(files)]


def count(pattern: Pattern, among: list[tuple[Path, int, str]]) -> int:
    """Return how often a pattern occurs in texts."""
    return sum(1 for _, _, text in among for _ in pattern.matches(text))


def lower() -> None:
    """Write the counts of today into the baselines that are higher."""
    among = {place: texts(place) for place in PLACES}
    written = BASELINES.read_text()
    for pattern in patterns():
        for place, accepted in pattern.accepted.items():
            found = min(accepted, count(pattern, among[place]))
            row = rf"(find = '{re.escape(pattern.find)}'\n(?:.+\n)*?{place} = )\d+"
            written = re.sub(row, rf"\g<1>{found}", written)
    BASELINES.write_text(written)


def show(place: str) -> None:
    """Print each match in a place, with its file, line and surroundings."""
    for pattern in patterns():
        for path, line, text in texts(place):
            for match in pattern.matches(text):
                at = line + text[: match.start()].count("\n")
                around = " ".join(text[max(0, match.start() - 60) : match.end() + 60].split())
                print(f"{path.relative_to(ROOT)}:{at}: [{match.group()}] {around}")


def literals(source: str) -> list[tuple[int, str]]:
    """Return the string literals of a module that contain words, without docstrings, each with its line."""
    tree = ast.parse(source)
    documented = {node for node, _ in _docstrings(tree)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and node not in documented
    ]


def documentation(source: str) -> list[tuple[int, str]]:
    """Return the docstrings and comments of a module with their lines; adjacent comments are one text."""
    found = [(node.lineno, text) for node, text in _docstrings(ast.parse(source))]
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.removeprefix("#")
        if line == last + 1:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{text}")
        else:
            found.append((line, text))
        last = line
    return found


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the docstrings of modules, classes and functions, and the strings after constants."""
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.value, value


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        lower()
