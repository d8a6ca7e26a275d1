"""Checks programs in Fifth, a Forth dialect, statically in one pass over the source, driven by data files.

    text ─tokens─> segments ─program─> words, definitions ─walk─> stack, strings
                                            │                        │
                                            └──────── places ────────┴──> findings of each stage

Unknown words, which the engine can't find, are explained by the first explanation that matches, in the order
of `_report_unknown_word`:

    string-split            vocabulary.unknown_word
    3.14                    vocabulary.literal
    <td>hello               required.word_spacing

The rules, words, libraries and hints are in `data/`. Source: docs/kinds/fifth.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

from assayd.did_you_mean import find_close_names
from assayd.guest.near import find_nearest
from assayd.model.finding import Finding, Severity
from assayd_fifth.foreign_forms import (
    ForeignForm,
    find_foreign_forms,
    iter_missing_fetches,
    iter_suspicious_forms,
)
from assayd_fifth.language import Language, WordPattern, get_language
from assayd_fifth.places import FindingCollector, downgrade_errors
from assayd_fifth.program import FifthProgram, UnknownWord
from assayd_fifth.repairs import find_best_change
from assayd_fifth.tokens import is_number

_MAX_GUESSED_WORDS = 25
"""Maximum number of unknown words to find near matches for, because each search takes time."""
_MAX_PARAMETER_TOKENS = 16
_SIGN_WORDS = frozenset({".", "!", "@"})
"""Words of one sign that are often written without the space before them."""
_NO_HINT = "Define it before this line, or use words that exist."

__all__ = ["Analysis", "analyze_program", "downgrade_errors", "get_language", "extract_program"]
_MAX_FORMS_TRIED = 5
_MAX_REPAIR_ROUNDS = 3
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_BOM_CHARACTER = "\ufeff"
"""A byte order mark, which some editors write first."""


class SimilarWordSearch:
    """A search for known words that resemble an unknown word, with cached results.

    Repairs analyse a program up to two hundred times, nearly always with the same words. The results must not
    outlive the analysis: a worker's memory is limited, and its next program can belong to another user.
    """

    def __init__(self) -> None:
        self.find_close = lru_cache(maxsize=512)(_find_close_words)
        self.find_nearest = lru_cache(maxsize=512)(find_nearest)


def _find_close_words(word: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(find_close_names(word, known, 3))


def report_unknown_words(program: FifthProgram, near: SimilarWordSearch) -> None:
    """Report each word that was unknown when it was used."""
    guesses = _WordGuesser(program, near)
    seen: set[tuple[str, bool]] = set()
    for unknown in program.unknowns:
        key = (unknown.token.word, unknown.blind)
        if key not in seen or unknown.token.word in program.defined:
            seen.add(key)
            _report_unknown_word(program, unknown, guesses)


def _report_unknown_word(program: FifthProgram, unknown: UnknownWord, guesses: _WordGuesser) -> None:
    """Find the first explanation for an unknown word, and report the word with the explanation."""
    token, foreign, word = unknown.token, program.language.foreign, unknown.token.word
    severity = Severity.WARNING if unknown.blind else None
    opener = unknown.inside.opener if unknown.inside else None
    # 1. the program defines it, but not here
    if opener is not None and opener.text.lower() == word:
        edit = (token.start, token.start + len(word), "recurse")
        program.tell("vocabulary.self_reference", token.start, word=word, edit=edit)
    elif word in program.defined:
        line = program.defined[word]
        program.tell("vocabulary.forward_reference", token.start, word=word, line=line)
    # 2. a library defines it
    elif word in program.language.libraries_by_word:
        library = program.language.libraries_by_word[word]
        program.tell(
            "vocabulary.library_not_loaded",
            token.start,
            word=word,
            library=library,
            path=program.get_library_path(library),
            severity=severity,
        )
    # 3. two existing words are joined
    elif (cut := _find_missing_space(program, word)) is not None:
        left, right = word[:cut], word[cut:]
        edit = (token.start + cut, token.start + cut, " ")
        program.tell("required.word_spacing", token.start, word=word, left=left, right=right, edit=edit)
    # 4. another language has it
    elif (hint := foreign.imagined.get(word) or _match_pattern(foreign.forms, word)) is not None:
        program.tell("vocabulary.imagined_syntax", token.start, word=word, hint=hint, severity=severity)
    elif word in foreign.gforth:
        _report_gforth_word(program, unknown, severity)
    elif (hint := _match_pattern(foreign.literals, word)) is not None:
        program.tell("vocabulary.literal", token.start, word=word, hint=hint)
    # 5. no one defines it
    else:
        hint = (
            _explain_named_parameters(program, unknown) or foreign.hints.get(word) or guesses.suggest(unknown)
        )
        near = guesses.certain(unknown)
        change = (token.start, token.start + len(word), near) if near is not None else None
        program.tell(
            "vocabulary.unknown_word", token.start, word=word, hint=hint, edit=change, severity=severity
        )


def _report_gforth_word(program: FifthProgram, unknown: UnknownWord, severity: Severity | None) -> None:
    token, foreign = unknown.token, program.language.foreign
    exact = foreign.replacements.get(token.word)
    hint = foreign.gforth_hints.get(token.word) or (f"Write {exact}" if exact else "Remove it.")
    edit = (token.start, token.start + len(token.word), exact) if exact else None
    program.tell(
        "vocabulary.gforth_word", token.start, word=token.word, hint=hint, edit=edit, severity=severity
    )


def _find_missing_space(program: FifthProgram, word: str) -> int | None:
    """Return the position at which a space is missing, or None if none is missing.

    It is missing before a `;`, a sign or a tag that is joined to a word.
    """
    exists = word[:-1] in program.known or is_number(word[:-1])
    if word.endswith(";") and exists:
        return len(word) - 1
    if word[-1:] in _SIGN_WORDS and word[:-1] in program.defined and not is_number(word[:-1]):
        return len(word) - 1
    tag = word.find("<", 1)
    hangs = tag > 0 and word[tag:] in program.language.tags
    return (
        tag
        if hangs and (word[:tag] in program.known or word[:tag] in program.language.libraries_by_word)
        else None
    )


def _match_pattern(patterns: tuple[WordPattern, ...], word: str) -> str | None:
    return next((pattern.hint for pattern in patterns if pattern.matches.fullmatch(word)), None)


def _explain_named_parameters(program: FifthProgram, unknown: UnknownWord) -> str | None:
    """Return a hint that parameters have no names, if several unknown words follow a definition's name.

    The result is None if the unknown word isn't one of them, or if there is a stack comment.
    """
    segment = unknown.inside
    if segment is None or segment.opener is None or segment.comments:
        return None
    line = program.tell.line_number_at(segment.opener.start)
    few = islice(segment.tokens, _MAX_PARAMETER_TOKENS)
    first = [token for token in few if program.tell.line_number_at(token.start) == line]
    if not first or unknown.token not in first or any(token.word in program.known for token in first):
        return None
    names = " ".join(token.word for token in first)
    return f"Parameters are on the stack and have no names; list them in a comment: ( {names} -- … )"


class _WordGuesser:
    """A search for known words that the program may mean by an unknown word."""

    def __init__(self, program: FifthProgram, near: SimilarWordSearch) -> None:
        self._program = program
        self._near = near
        self._left = _MAX_GUESSED_WORDS
        self._known = tuple(sorted(program.known))
        self._words: tuple[str, ...] = ()

    def suggest(self, unknown: UnknownWord) -> str:
        """Return a hint about an unknown word: a similar known word, if there is one, or a general hint."""
        if unknown.before == "char":
            return "Inside a definition write [char]; char reads its character only when the definition runs."
        if unknown.before in {"variable", "constant", "value", "create"} and unknown.inside is not None:
            return f"Move {unknown.before} outside: in a definition, it reads its name only at run time."
        if not self._left:
            return _NO_HINT
        self._left -= 1
        near = list(self._near.find_close(unknown.token.word, self._candidate_words()))
        if not near and (meant := self.certain(unknown)) is not None:
            near = [meant]
        return f"Did you mean {' or '.join(near)}?" if near else _NO_HINT

    def certain(self, unknown: UnknownWord) -> str | None:
        """Return the only known word that differs in one letter, or None if there isn't exactly one."""
        if self._left <= 0:
            return None
        near = self._near.find_nearest(unknown.token.word, self._known)
        return near[0] if near is not None and near[1] else None

    def _candidate_words(self) -> tuple[str, ...]:
        if not self._words:
            libraries = chain.from_iterable(self._program.language.words.values())
            self._words = tuple(dict.fromkeys(chain(self._program.known, libraries)))
        return self._words


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
    program.check_companion_words()
    report_unknown_words(program, near)
    return Analysis(findings=tell.findings(), libraries=tuple(program.libraries[2:]))


def _list_errors(read: Analysis) -> list[Finding]:
    return [finding for found in read.findings.values() for finding in found if finding.is_error]


def _correct_foreign_forms(
    text: str, meant: Sequence[ForeignForm], read: Analysis, again: Callable[[str], Analysis]
) -> tuple[str, Analysis, Sequence[ForeignForm]]:
    """Return the program with foreign forms corrected, its analysis, and the corrections that help.

    If no correction helps, return the program unchanged, with its analysis and no corrections.
    """
    for chosen in (meant, *([one] for one in meant[:_MAX_FORMS_TRIED] if len(meant) > 1)):
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


def _repair_faults(
    text: str, read: Analysis, again: Callable[[str], Analysis], about: Language
) -> tuple[Analysis, Mapping[str, tuple[Finding, ...]]]:
    """Return the repaired program's analysis, and the findings about the repaired faults by stage."""
    told: dict[str, tuple[Finding, ...]] = {}
    for _ in range(_MAX_REPAIR_ROUNDS):
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
    start = tell.get_line_offset(form.line)
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


def extract_program(answer: str) -> str:
    """Return the program in an answer: the lines in fenced blocks, with empty lines in place of the others.

    Without fences, only the byte order mark is removed.
    """
    text = answer.removeprefix(_BOM_CHARACTER)
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
    """Return the program in an answer without the empty lines before and after it.

    Without fences, return the answer unchanged.
    """
    program = extract_program(answer)
    return program if program == answer else program.strip("\n") + "\n"
