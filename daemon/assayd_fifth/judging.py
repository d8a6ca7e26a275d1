"""Judges the run of a Fifth program, and rates a program that passed.

The rating, and the advice for another try, don't affect the verdict. Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings.expected import judge_expected_output, merge_findings
from assayd.findings.runs import build_unfinished_findings
from assayd.findings.source_text import get_snippet
from assayd.findings.units import JudgedUnit, judge_exec
from assayd.model.finding import Finding, Layer, Severity, has_errors
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd_fifth.language import Language, get_language
from assayd_fifth.payload import FifthCase, FifthPayload
from assayd_fifth.rules import FifthRule

PROGRAM_FILE = "assayd/program.fs"

_ERROR_PATTERN = re.compile(
    r"^(?P<file>[^\n:]{1,300}):(?P<line>\d{1,7}): (?P<said>[^\n]*)\n(?P<source>[^\n]*)", re.MULTILINE
)
_OPENED, _CLOSED = ">>>", "<<<"
_RULE_BY_NOTE = {
    "library-unavailable": "fifth.library_unavailable",
    "no-programs": "fifth.needs_programs",
}
_NOTE_PATTERN = re.compile(r"^assayd: (?P<what>[a-z-]+) (?P<said>[^\n]*)$", re.MULTILINE)


def build_error_finding(stderr: str, code: str, about: Language) -> Finding | None:
    """Return the finding for the error that ended the program, or None if gforth printed no error."""
    errors = list(_ERROR_PATTERN.finditer(stderr))
    if not errors:
        return None
    error = errors[-1]
    said = error["said"].strip()
    rule = next(rule for rule in about.rules.run.values() if any(p.fullmatch(said) for p in rule.matches))
    token = _find_token(error["source"])
    if token.lower() == "throw" and rule.id == "fifth.undefined_word":
        rule = about.rules.run["fifth.uncaught_throw"]  # `-13 throw` prints the same as an undefined word
    line = int(error["line"]) if error["file"].endswith(PROGRAM_FILE) else None
    found = _build_run_finding(rule, said=said or "aborted", token=token)
    return found if line is None else _add_location(found, line, code)


def _find_token(source: str) -> str:
    """Return the token that gforth marks as ``>>>token<<<`` in a line, or an empty string."""
    _, opened, rest = source.partition(_OPENED)
    token, closed, _ = rest.partition(_CLOSED)
    return token if opened and closed else ""


def iter_prelude_findings(stderr: str, about: Language) -> Iterator[Finding]:
    """Yield the findings for the messages that the prelude printed."""
    for note in _NOTE_PATTERN.finditer(stderr):
        if note["what"] in _RULE_BY_NOTE:
            yield _build_run_finding(
                about.rules.run[_RULE_BY_NOTE[note["what"]]], said=note["said"], token=""
            )


def _build_run_finding(rule: FifthRule, *, said: str, token: str) -> Finding:
    return Finding(
        rule=rule.id,
        category=rule.type,
        message=shorten_text(
            rule.message.format(said=shorten_text(said, 200), token=shorten_text(token, 100)), 400
        ),
        severity=rule.severity,
        layer=Layer.RUNTIME,
        suggestion=rule.suggestion,
    )


def _add_location(found: Finding, line: int, code: str) -> Finding:
    """Add the location to a finding, unless the program doesn't have this line."""
    text = get_snippet(code, line)
    return found if text is None else replace(found, line=line, snippet=text)


_LOOP_REGEX = re.compile(r"(?<!\S)(?:begin|\??do|recurse)(?!\S)", re.IGNORECASE)


def _move_to_loop(found: Finding, code: str) -> Finding:
    """Move an error about a limit to the only line that contains a loop.

    Without exactly one such line, return it unchanged.
    """
    lines = [number for number, line in enumerate(code.split("\n"), 1) if _LOOP_REGEX.search(line)]
    if len(lines) != 1 or not found.is_error:
        return found
    [line] = lines
    hint = f"Check the loop in line {line}: each turn must come closer to its end. `10 0 do` counts up to 9."
    return replace(found, line=line, snippet=get_snippet(code, line), suggestion=hint)


GFORTH = "/usr/bin/gforth"
UNIT = "program"


def iter_runs(submitted: FifthPayload) -> Iterator[tuple[str, str, FifthCase | None]]:
    """Yield the name, the standard input, and the case (if any) of each run."""
    for case in submitted.cases:
        yield case.name, case.stdin, case
    if submitted.execute and not submitted.cases:
        yield UNIT, "", None


def judge_runs(submitted: FifthPayload, result: RunResult) -> Judgement:
    """Judge runs by their exit, and cases also by their output.

    The messages that gforth printed affect only the wording.
    """
    tries = []
    for index, (name, _, case) in enumerate(iter_runs(submitted)):
        unit = result.units[index] if index < len(result.units) else None
        unit = unit if unit is not None and unit.name == name else None
        tried = _judge_run(name, unit, submitted.code)
        if case is not None and unit is not None:
            before = tried.findings
            tried = judge_expected_output(tried, case, case.expected, unit.stdout)
            if tried.findings is not before:
                tried = replace(tried, findings=(*before, *tried.findings))
        tries.append(tried)
    found = merge_findings(tries)
    if not has_errors(found) and any(one.case.status is not CaseStatus.PASSED for one in tries):
        found = (*found, *build_unfinished_findings(result, "The program"))
    return Judgement(stage_findings={"sandbox": found}, cases=tuple(one.case for one in tries))


def _judge_run(name: str, unit: UnitResult | None, code: str) -> JudgedUnit:
    tried = judge_exec(name, unit, program=GFORTH)
    if unit is None:
        return tried
    stderr = unit.stderr.text()
    if tried.case.status is CaseStatus.PASSED:
        return replace(tried, findings=tuple(iter_prelude_findings(stderr, get_language())))
    if unit.outcome.cause in {Cause.TIMEOUT, Cause.OUTPUT_LIMIT}:
        return replace(tried, findings=tuple(_move_to_loop(one, code) for one in tried.findings))
    said = build_error_finding(stderr, code, get_language())
    if said is None or unit.outcome.cause is not Cause.EXITED_NONZERO or unit.results:
        return tried
    case = replace(tried.case, error_type=said.rule, message=said.message, line=said.line)
    return JudgedUnit(case=case, findings=(said,))


WARNING_FACTOR = 0.9
UNKNOWN_WORD_FACTOR = 0.5
UNKNOWN_WORD = "hallucination"
_BASIC_SECTIONS = ("stack_discipline", "syntax_basics", "vocabulary", "definitions", "control_flow")
"""Guide sections that every request needs."""

_extract_words = re.compile(r"[a-z]+").findall
_ADVICE_NOTES = {
    "forbidden": "The program uses nothing forbidden",
    "required": "Every definition has a stack comment, and words are separated by spaces",
    "structure": "Control words are balanced, and stack effects match the code",
    "vocabulary": "Every used word exists",
    "fifth": "The program completed its run",
}


def compute_confidence(findings: Iterable[Finding]) -> float:
    """Return the confidence, from 0 to 1, in a program without errors.

    Each warning multiplies the confidence by 0.9, or by 0.5 if the warning is about an unknown word.
    """
    value = 1.0
    for finding in findings:
        if finding.severity is Severity.WARNING:
            value *= UNKNOWN_WORD_FACTOR if finding.category == UNKNOWN_WORD else WARNING_FACTOR
    return round(value, 6)


def build_feedback(
    findings: Sequence[Finding],
    about: Language,
    *,
    model_source: str = "",
    task_type: str = "",
    ran: bool = False,
) -> dict[str, JsonValue]:
    """Return the feedback for the next prompt: points to emphasize, guide sections and warnings."""
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
        "priority_fixes": _remove_duplicates(_list_fixes(errors, rules)),
    }


def describe_feedback(said: object, about: Language) -> tuple[str, ...]:
    """Return the feedback for the next prompt: points to emphasize, warnings, and sections of the guide.

    Without feedback, the result is empty.
    """
    feedback = said if isinstance(said, Mapping) else {}
    sections = [str(name) for name in _get_list(feedback, "expand_sections") if name in about.guide]
    warned = [f"Known from similar answers: {text}." for text in _get_list(feedback, "lens_warnings")]
    stressed = [str(text) for text in _get_list(feedback, "add_emphasis")]
    return (*stressed, *warned, *list_guide_sections(sections, about))


def list_guide_sections(names: Iterable[str], about: Language) -> tuple[str, ...]:
    """Return the named sections of the guide as text for a prompt."""
    return tuple(f"Guide, {name.replace('_', ' ')}: {about.guide[name]}" for name in names)


def build_first_prompt_guide(model_source: str, task_type: str, about: Language) -> tuple[str, ...]:
    """Return the guide for the first prompt: the task's sections, the basics, and the model's errors."""
    first = [name for name in list_task_sections(task_type, about) if name in about.guide]
    slips = [text for p in about.rules.profiles if _contains_word(model_source, p.match) for text in p.lens]
    names = dict.fromkeys((*first, *_BASIC_SECTIONS))
    return (*list_guide_sections(names, about), *(f"Known from similar models: {text}." for text in slips))


def list_task_sections(task_type: str, about: Language) -> tuple[str, ...]:
    """Return the sections of the guide that a type of task needs."""
    tasks = (t for t in about.rules.tasks if _contains_word(task_type, t.match))
    return tuple(section for task in tasks for section in task.sections)


def _get_list(feedback: Mapping[str, object], name: str) -> list[object]:
    found = feedback.get(name)
    return found if isinstance(found, list) else []


def extract_word(finding: Finding) -> str:
    """Return the word at a finding's position, or the part of the word in the snippet.

    Without a position, return an empty string.
    """
    if finding.snippet is None or finding.column is None:
        return ""
    return next(iter(finding.snippet[finding.column - 1 :].split()), "")


def _iter_broken_rules(errors: Sequence[Finding], about: Language) -> Iterator[FifthRule]:
    """Yield the rules that the errors broke, in the order in which the errors should be fixed."""
    broken = {finding.rule for finding in errors}
    known = (*about.rules.by_id.values(), *about.rules.run.values())
    return (rule for rule in known if rule.id in broken)


def _list_fixes(errors: Sequence[Finding], rules: Iterable[FifthRule]) -> Iterator[str | None]:
    for rule in rules:
        for finding in errors:
            if finding.rule == rule.id and rule.fix:
                yield rule.fix.format(word=extract_word(finding) or "such words")


def _build_notes(findings: Sequence[Finding], *, ran: bool) -> Iterator[str]:
    warned = {finding.rule.partition(".")[0] for finding in findings if finding.severity is Severity.WARNING}
    for stage, note in _ADVICE_NOTES.items():
        if stage not in warned and (ran or stage != "fifth"):
            yield note


def _contains_word(text: str, parts: Iterable[str]) -> bool:
    """Return whether a name, such as ``gpt4-turbo`` or ``html_pages``, contains one of these words."""
    words = {part for word in _extract_words(text.lower()) for part in (word, word.removesuffix("s"))}
    return not words.isdisjoint(parts)


def _remove_duplicates(texts: Iterable[str | None]) -> list[JsonValue]:
    return list(dict.fromkeys(text for text in texts if text))
