"""The static checks of Fifth, a Forth dialect: one pass over a text, everything else is data.

    text ─tokens─> segments ─program─> words, definitions ─walk─> stack, strings
                                            │                        │
                                            └──────── places ────────┴──> findings of each stage

The rules, words, libraries and hints are in `data/`. Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assayd.model.finding import Finding
from assayd_fifth.answer import program_of
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
