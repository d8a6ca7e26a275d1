"""Checks programs in Fifth, a Forth dialect, statically in one pass over the source, driven by data files.

    text ─tokens─> segments ─program─> words, definitions ─walk─> stack, strings
                                            │                        │
                                            └──────── places ────────┴──> findings of each stage

The rules, words, libraries and hints are in `data/`. Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assayd.model.finding import Finding
from assayd_fifth.foreign_forms import (
    ForeignForm,
    find_foreign_forms,
    iter_missing_fetches,
    iter_suspicious_forms,
)
from assayd_fifth.language import Language, get_language
from assayd_fifth.places import FindingCollector, downgrade_errors
from assayd_fifth.program import FifthProgram
from assayd_fifth.repairs import find_best_change
from assayd_fifth.vocabulary import SimilarWordSearch, report_unknown_words

__all__ = ["Analysis", "analyze_program", "downgrade_errors", "get_language", "extract_program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The findings about a program by stage, and the libraries that the program uses."""

    findings: Mapping[str, tuple[Finding, ...]]
    libraries: tuple[str, ...]


def analyze_program(
    answer: str,
    *,
    libraries: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    about: Language | None = None,
) -> Analysis:
    """Check a program and return its analysis.

    Args:
        answer: the program, or a model's answer with the program in fenced blocks.
        libraries: the names of the libraries that are loaded before the program.
        files: the files that the program may load, by name.
        about: the language; the default is Fifth as described by the data files.
    """
    about = about or get_language()
    text, near = extract_program(answer), SimilarWordSearch()
    read = _analyze_text(text, about, tuple(libraries), files or {}, near, fenced=text != answer)
    wrong = {found.line for found in _list_errors(read)}
    meant = list(find_foreign_forms(text, wrong.__contains__)) if wrong else []

    def again(changed: str) -> Analysis:
        return _analyze_text(changed, about, libraries, files or {}, near)

    better, known, kept = _correct_foreign_forms(text, meant, read, again)
    known, repaired = _repair_faults(better, known, again, about)
    told = FindingCollector(text, about.rules)
    for one in kept:
        _report_foreign_form(told, text, one, "vocabulary.foreign_form")
    for one in iter_missing_fetches(text):
        _report_foreign_form(told, text, one, "structure.variable_address")
    for one in iter_suspicious_forms(text):
        _report_foreign_form(told, text, one, "structure.suspicious")
    merged = _merge_findings(_merge_findings(known.findings, told.findings()), repaired)
    return Analysis(findings=merged, libraries=known.libraries)


def _analyze_text(
    text: str,
    about: Language,
    libraries: Iterable[str],
    files: Mapping[str, str],
    near: SimilarWordSearch,
    *,
    fenced: bool = False,
) -> Analysis:
    tell = FindingCollector(text, about.rules)
    if fenced:
        tell("forbidden.answer_blocks", 0)
    program = FifthProgram(language=about, tell=tell, files=files)
    program.read(text, libraries)
    program.check_companions()
    report_unknown_words(program, near)
    return Analysis(findings=tell.findings(), libraries=tuple(program.libraries[2:]))


def _list_errors(read: Analysis) -> list[Finding]:
    return [finding for found in read.findings.values() for finding in found if finding.is_error]


def _correct_foreign_forms(
    text: str, meant: Sequence[ForeignForm], read: Analysis, again: Callable[[str], Analysis]
) -> tuple[str, Analysis, Sequence[ForeignForm]]:
    """Return the program with foreign forms corrected, its analysis, and the corrections that help."""
    for chosen in (meant, *([one] for one in meant[:_MOST_TRIED] if len(meant) > 1)):
        if not chosen:
            continue
        lines = text.split("\n")
        for one in chosen:
            lines[one.line - 1] = one.new
        changed = "\n".join(lines)
        better = again(changed)
        if len(_list_errors(better)) < len(_list_errors(read)):
            return changed, better, chosen
    return text, read, ()


_MOST_TRIED = 5
_MOST_REPAIRS = 3


def _repair_faults(
    text: str, read: Analysis, again: Callable[[str], Analysis], about: Language
) -> tuple[Analysis, Mapping[str, tuple[Finding, ...]]]:
    """Return the repaired program's analysis, and the findings about the repaired faults by stage."""
    told: dict[str, tuple[Finding, ...]] = {}
    for _ in range(_MOST_REPAIRS):
        one = find_best_change(
            text, _list_findings(read), lambda changed: _list_findings(again(changed)), about.foreign.meanings
        )
        edit = one.finding.edit if one is not None else None
        if one is None or edit is None:
            break
        stage = one.finding.rule.partition(".")[0]
        told[stage] = (*told.get(stage, ()), one.finding)
        lines = text.split("\n")
        lines[edit.start_line - 1 : edit.end_line] = edit.replacement.split("\n")
        text = "\n".join(lines)
        read = again(text)
    return read, told


def _list_findings(read: Analysis) -> list[Finding]:
    return [finding for found in read.findings.values() for finding in found]


def _report_foreign_form(tell: FindingCollector, text: str, form: ForeignForm, rule: str) -> None:
    start = tell.line_offset(form.line)
    old = text.split("\n", form.line)[form.line - 1]
    edit = None if form.new == old else (start, start + len(old), form.new)
    tell(rule, start + form.column - 1, edit=edit, said=form.message, hint=form.hint)


def _merge_findings(
    found: Mapping[str, tuple[Finding, ...]], more: Mapping[str, tuple[Finding, ...]]
) -> Mapping[str, tuple[Finding, ...]]:
    whole = {stage: (*found.get(stage, ()), *more.get(stage, ())) for stage in {**found, **more}}
    return {
        stage: tuple(sorted(each, key=lambda one: (one.line or 0, one.column or 0)))
        for stage, each in whole.items()
    }


_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_MARK = "\ufeff"
"""A byte order mark, which some editors write first."""


def extract_program(answer: str) -> str:
    """Return the program in an answer. Without fences, only the byte order mark is removed."""
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


def extract_bare_program(answer: str) -> str:
    """Return the program in an answer without the empty lines that replaced other text."""
    program = extract_program(answer)
    return program if program == answer else program.strip("\n") + "\n"
