"""The static checks of Fifth, a Forth dialect: one pass over a text, everything else is data.

    text ─tokens─> segments ─program─> words, definitions ─walk─> stack, strings
                                            │                        │
                                            └──────── places ────────┴──> findings of each stage

The rules, words, libraries and hints are in `data/`. Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assayd.model.finding import Finding
from assayd_fifth.language import Language, language
from assayd_fifth.places import Teller, errors_as_warnings
from assayd_fifth.program import FifthProgram
from assayd_fifth.vocabulary import explain_unknown

__all__ = ["Analysis", "analyse", "errors_as_warnings", "language", "program_of"]

STAGES = ("forbidden", "required", "structure", "vocabulary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What the checks found in a program, by stage, and the libraries that it uses."""

    findings: Mapping[str, tuple[Finding, ...]]
    libraries: tuple[str, ...]


def analyse(
    answer: str,
    *,
    libraries: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    about: Language | None = None,
) -> Analysis:
    """Check a program.

    Args:
        answer: the program, or an answer of a model with the program in fenced blocks.
        libraries: what is loaded before it.
        files: what it may load, by name.
        about: the language; by default Fifth as the data files describe it.
    """
    about = about or language()
    text = program_of(answer)
    tell = Teller(text, about.rules)
    if text != answer:
        tell("forbidden.answer_blocks", 0)
    program = FifthProgram(language=about, tell=tell, files=files or {})
    program.read(text, libraries)
    program.check_companions()
    explain_unknown(program)
    return Analysis(findings=tell.findings(), libraries=tuple(program.libraries[2:]))


_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_MARK = "\ufeff"
"""A byte order mark, which some editors write first."""


def program_of(answer: str) -> str:
    """Return the program; a text without fences is one as it is, but for a byte order mark."""
    text = answer.removeprefix(_MARK)
    if _FENCE.search(text) is None:
        return text
    inside = False
    kept = []
    for line in text.split("\n"):
        fence = _FENCE.match(line) is not None
        kept.append(line if inside and not fence else "")
        inside ^= fence
    return "\n".join(kept)


def program_alone(answer: str) -> str:
    """Return the program of an answer without the empty lines in the place of what was around it."""
    program = program_of(answer)
    return program if program == answer else program.strip("\n") + "\n"
