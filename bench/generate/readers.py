"""Writes prompts with ten questions each, for readers who see nothing else.

    python -m bench.generate.readers FOLDER

FOLDER/KIND.prompt.txt is a real prompt, FOLDER/KIND.md has the questions, FOLDER-answers/KIND.md the right
answers, which readers don't see. The questions are in readers.toml.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

from bench.generate import intents
from bench.prompts import first_fix, first_request
from bench.repair import cases

QUESTIONS = Path(__file__).with_name("readers.toml")
REPAIR = "repair"
Pairs = list[tuple[str, str]]


def load() -> dict[str, tuple[str, Pairs]]:
    """Return by kind the prompt that readers see, and the questions with their answers."""
    told = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))
    return {
        kind: (prompt(kind, one["name"]), [(asked, right) for asked, right in one["questions"]])
        for kind, one in told.items()
    }


def prompt(kind: str, name: str) -> str:
    """Return the prompt of a request, or of the repair of a broken submission."""
    if kind == REPAIR:
        [case] = [one for one in cases.load() if f"{one.kind}/{one.name}" == name]
        found = first_fix(case)
        assert found is not None, f"{name} isn't refused before it runs"
    else:
        [intent] = [one for one in (*intents.load(), *intents.hard()) if (one.kind, one.name) == (kind, name)]
        found = first_request(intent)
    return f"{found.system}\n\n{found.user}"


def write(folder: Path) -> None:
    """Write prompts, questions and answers."""
    answers = folder.with_name(f"{folder.name}-answers")
    for place in (folder, answers):
        place.mkdir(parents=True, exist_ok=True)
    for kind, (text, pairs) in load().items():
        (folder / f"{kind}.prompt.txt").write_text(text, encoding="utf-8")
        asked = [f"{number}. {question}" for number, (question, _) in enumerate(pairs, 1)]
        head = f"# Read {kind}.prompt.txt, and answer from it alone\n"
        (folder / f"{kind}.md").write_text("\n".join([head, *asked]) + "\n", encoding="utf-8")
        numbered = enumerate(pairs, 1)
        right = [f"{number}. {question}\n   **{answer}**" for number, (question, answer) in numbered]
        (answers / f"{kind}.md").write_text("\n".join(right) + "\n", encoding="utf-8")


def main() -> None:
    """Write them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="where prompts and questions go")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
