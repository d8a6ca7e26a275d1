"""Draws texts at random for an editor, who scores each from 0 to 3 without seeing where it is from.

    python -m bench.hints.editor draw FOLDER [--seed N]
    python -m bench.hints.editor score FOLDER SCORES…

`draw` writes `sheet.md` (100 sentences of pages, 40 docstrings, 40 strings of CLI, console and wizard) and
`key.json`, which names the group and the file of each. The same seed draws the same texts.

`score` reads a line `NUMBER SCORE` per text. It prints the mean of each group, and the texts that scored 0
or 1.
"""

from __future__ import annotations

import argparse
import ast
import html
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.texts import prose  # noqa: E402

SCREENS = (
    "assayd_client/cli",
    "assayd_console",
    "assayd_lsp",
    "assayd_mcp",
    "assayd_pipeline_commands",
    "assayd_screens",
)
FEWEST_WORDS = 3
SCORES = range(4)
LOW = 1
SENTENCE = re.compile(r"^[A-Z`].{20,400}?[.?!]$")
END_OF_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<=[.?!])\s+(?=[A-Z`])")
NOT_PARAGRAPH = re.compile(r"^(?:[|#!=<].*| {4}.*|---.*)$|```(?s:.*?)```", re.MULTILINE)
NOT_PROSE = re.compile(r"[\n\\<>|^{}=]|^\W|^[a-z-]+:|SELECT|\(\?|%[a-z(]")
TAGS = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|{%.*?%}|{#.*?#}|<[^>]*>", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Drawn:
    """A text, and the file that contains it."""

    text: str
    file: str


def sentences() -> Iterator[Drawn]:
    """Return the sentences of pages, without tables, headings and code."""
    for page, _, text in prose.texts("pages"):
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", NOT_PARAGRAPH.sub("", text)):
            plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            for sentence in END_OF_SENTENCE.split(re.sub(r"^(?:[-*>]|\d+\.) ", "", plain)):
                if SENTENCE.match(sentence):
                    yield Drawn(sentence, _name(page))


def docstrings() -> Iterator[Drawn]:
    """Return the docstrings below daemon/ that have some words."""
    for path in _modules(""):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, prose.DOCUMENTED):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= FEWEST_WORDS:
                    yield Drawn(text, _name(path))


def strings() -> Iterator[Drawn]:
    """Return the texts of CLI, console and wizard; `…` is in the place of a value."""
    for folder in SCREENS:
        for path in _modules(folder):
            for text in _literals(ast.parse(path.read_text())):
                if _is_prose(text):
                    yield Drawn(text, _name(path))
        for path in sorted((prose.ROOT / "daemon" / folder).rglob("*.html")):
            for line in TAGS.sub("\n", path.read_text()).splitlines():
                text = " ".join(html.unescape(re.sub(r"{{.*?}}", "…", line)).split())
                if _is_prose(text):
                    yield Drawn(text, _name(path))


GROUPS = {"pages": (sentences, 100), "docstrings": (docstrings, 40), "strings": (strings, 40)}


def _modules(folder: str) -> list[Path]:
    return sorted((prose.ROOT / "daemon" / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(prose.ROOT))


def _is_prose(text: str) -> bool:
    """Return whether a string is a text, and not a piece that another string continues."""
    words = [word for word in text.split() if "…" not in word]
    return len(words) >= FEWEST_WORDS and text == text.strip() and not NOT_PROSE.search(text)


def _literals(tree: ast.Module) -> Iterator[str]:
    """Return string literals without docstrings, and f-strings as a whole."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def draw(folder: Path, seed: int) -> None:
    """Write the sheet and its key."""
    chance = random.Random(seed)
    sheet: list[str] = []
    key: dict[str, dict[str, str]] = {}
    for group, (pool, number) in GROUPS.items():
        sheet.append(f"## {group}\n")
        for drawn in chance.sample(sorted(set(pool())), number):
            key[str(len(key) + 1)] = {"group": group, "file": drawn.file, "text": drawn.text}
            sheet.append(f"{len(key)}. {drawn.text}\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sheet.md").write_text("\n".join(sheet))
    (folder / "key.json").write_text(json.dumps(key, indent=1, ensure_ascii=False))


def score(folder: Path, answers: Sequence[Path]) -> None:
    """Print each editor's mean by group, then the texts that an editor scored low."""
    key = json.loads((folder / "key.json").read_text())
    low: dict[str, list[int]] = {}
    for path in answers:
        given = dict(re.findall(r"^\W*(\d+)\W+([0-9]+)\b", path.read_text(), re.MULTILINE))
        if given.keys() != key.keys() or any(int(points) not in SCORES for points in given.values()):
            sys.exit(f"{path}: expected a score from 0 to 3 for each of {len(key)} texts, got {len(given)}")
        for group in GROUPS:
            points = [int(given[number]) for number, drawn in key.items() if drawn["group"] == group]
            print(f"{path.name} {group}: {mean(points):.2f} of {len(points)} texts")
        for number in key:
            if int(given[number]) <= LOW:
                low.setdefault(number, []).append(int(given[number]))
    for number, scores in sorted(low.items(), key=lambda one: int(one[0])):
        print(f"{number} {scores} {key[number]['file']}: {key[number]['text']}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("folder", type=Path)
    drawing.add_argument("--seed", type=int, default=1)
    scoring = verbs.add_parser("score")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("answers", type=Path, nargs="+")
    given = parser.parse_args()
    if given.verb == "score":
        score(given.folder, given.answers)
    else:
        draw(given.folder, given.seed)


if __name__ == "__main__":
    main()
