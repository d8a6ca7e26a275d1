"""Rates a program that passed, and collects advice for another try, without affecting the verdict.

Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assayd.model.finding import Finding, Severity
from assayd.model.submission import JsonValue
from assayd_fifth.language import Language
from assayd_fifth.rules import FifthRule

PER_WARNING = 0.9
PER_UNKNOWN_WORD = 0.5
UNKNOWN_WORD = "hallucination"
_BASICS = ("stack_discipline", "syntax_basics", "vocabulary", "definitions", "control_flow")
"""Guide sections that every request needs."""

_WORDS = re.compile(r"[a-z]+").findall
_NOTES = {
    "forbidden": "The program uses nothing forbidden",
    "required": "Every definition has a stack comment, and words are separated by spaces",
    "structure": "Control words are balanced, and stack effects match the code",
    "vocabulary": "Every used word exists",
    "fifth": "The program completed its run",
}


def compute_confidence(findings: Iterable[Finding]) -> float:
    """Return the confidence without errors: a factor of 0.9 per warning, but 0.5 per unknown word."""
    value = 1.0
    for finding in findings:
        if finding.severity is Severity.WARNING:
            value *= PER_UNKNOWN_WORD if finding.category == UNKNOWN_WORD else PER_WARNING
    return round(value, 6)


def build_feedback(
    findings: Sequence[Finding],
    about: Language,
    *,
    model_source: str = "",
    task_type: str = "",
    ran: bool = False,
) -> dict[str, JsonValue]:
    """Return the points to emphasize, the sections to show in full, and the warnings of the next prompt."""
    errors = [finding for finding in findings if finding.is_error]
    rules = list(_iter_broken_rules(errors, about))
    profiles = [p for p in about.rules.profiles if _contains_word(model_source, p.match)] if errors else []
    tasks = [t for t in about.rules.tasks if _contains_word(task_type, t.match)] if errors else []
    watched = [*(rule for p in profiles for rule in p.rules), *(rule for t in tasks for rule in t.rules)]
    stressed = (*rules, *(about.rules.by_id[rule] for rule in watched))
    sections = (*(rule.section for rule in rules), *(section for t in tasks for section in t.sections))
    lens = (*(rule.lens for rule in rules), *(warning for p in profiles for warning in p.lens))
    return {
        "notes": [] if errors else list(_build_notes(findings, ran=ran)),
        "add_emphasis": _remove_duplicates(rule.emphasis for rule in stressed),
        "expand_sections": _remove_duplicates(sections),
        "lens_warnings": _remove_duplicates(lens),
        "priority_fixes": _remove_duplicates(_format_fixes(errors, rules)),
    }


def describe_feedback(said: object, about: Language) -> tuple[str, ...]:
    """Return the feedback for the next prompt: points to emphasize, warnings, and sections of the guide."""
    feedback = said if isinstance(said, Mapping) else {}
    sections = [str(name) for name in _get_list(feedback, "expand_sections") if name in about.guide]
    warned = [f"Known from similar answers: {text}." for text in _get_list(feedback, "lens_warnings")]
    stressed = [str(text) for text in _get_list(feedback, "add_emphasis")]
    return (*stressed, *warned, *list_guide_sections(sections, about))


def list_guide_sections(names: Iterable[str], about: Language) -> tuple[str, ...]:
    """Return sections of the guide, formatted for a prompt."""
    return tuple(f"Guide, {name.replace('_', ' ')}: {about.guide[name]}" for name in names)


def build_first_prompt_guide(model_source: str, task_type: str, about: Language) -> tuple[str, ...]:
    """Return the guide for the first prompt: the task's sections, the basics, and the model's errors."""
    first = [name for name in list_task_sections(task_type, about) if name in about.guide]
    slips = [text for p in about.rules.profiles if _contains_word(model_source, p.match) for text in p.lens]
    names = dict.fromkeys((*first, *_BASICS))
    return (*list_guide_sections(names, about), *(f"Known from similar models: {text}." for text in slips))


def list_task_sections(task_type: str, about: Language) -> tuple[str, ...]:
    """Return the sections of the guide that a type of task needs."""
    tasks = (t for t in about.rules.tasks if _contains_word(task_type, t.match))
    return tuple(section for task in tasks for section in task.sections)


def _get_list(feedback: Mapping[str, object], name: str) -> list[object]:
    found = feedback.get(name)
    return found if isinstance(found, list) else []


def find_word(finding: Finding) -> str:
    """Return the word at a finding's position, or the part of the word in the snippet."""
    if finding.snippet is None or finding.column is None:
        return ""
    return next(iter(finding.snippet[finding.column - 1 :].split()), "")


def _iter_broken_rules(errors: Sequence[Finding], about: Language) -> Iterator[FifthRule]:
    """Return the rules of the errors, in the order in which the errors should be fixed."""
    broken = {finding.rule for finding in errors}
    known = (*about.rules.by_id.values(), *about.rules.run.values())
    return (rule for rule in known if rule.id in broken)


def _format_fixes(errors: Sequence[Finding], rules: Iterable[FifthRule]) -> Iterator[str | None]:
    for rule in rules:
        for finding in errors:
            if finding.rule == rule.id and rule.fix:
                yield rule.fix.format(word=find_word(finding) or "such words")


def _build_notes(findings: Sequence[Finding], *, ran: bool) -> Iterator[str]:
    warned = {finding.rule.partition(".")[0] for finding in findings if finding.severity is Severity.WARNING}
    for stage, note in _NOTES.items():
        if stage not in warned and (ran or stage != "fifth"):
            yield note


def _contains_word(text: str, parts: Iterable[str]) -> bool:
    """Return whether a name, such as ``gpt4-turbo`` or ``html_pages``, contains one of these words."""
    words = {part for word in _WORDS(text.lower()) for part in (word, word.removesuffix("s"))}
    return not words.isdisjoint(parts)


def _remove_duplicates(texts: Iterable[str | None]) -> list[JsonValue]:
    return list(dict.fromkeys(text for text in texts if text))
