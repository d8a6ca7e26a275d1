"""Explains unknown words: words that are misspelled, joined, from another language, or defined later.

The first explanation that matches, in the order of `_report_unknown_word`, is used. These rules concern
only words that the program uses and the engine can't find.

    string-split            vocabulary.unknown_word
    3.14                    vocabulary.literal
    <td>hello               required.word_spacing
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, islice

from assayd.did_you_mean import find_close_names
from assayd.guest.near import find_nearest
from assayd.model.finding import Severity
from assayd_fifth.language import WordPattern
from assayd_fifth.program import FifthProgram, UnknownWord
from assayd_fifth.tokens import is_number

_MOST_GUESSED = 25
"""Maximum number of unknown words to find near matches for, because each search takes time."""
_MOST_PARAMETERS = 16
_BEHIND = frozenset({".", "!", "@"})
"""Words of one sign that are often written without the space before them."""
_NO_HINT = "Define it before this line, or use words that exist."


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
    elif word in program.language.wheres:
        library = program.language.wheres[word]
        program.tell(
            "vocabulary.library_not_loaded",
            token.start,
            word=word,
            library=library,
            path=program.get_library_path(library),
            severity=severity,
        )
    # 3. two existing words are joined
    elif (cut := _find_missing_blank(program, word)) is not None:
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


def _find_missing_blank(program: FifthProgram, word: str) -> int | None:
    """Find the position at which a space is missing: before a `;`, or before a tag joined to a word."""
    exists = word[:-1] in program.known or is_number(word[:-1])
    if word.endswith(";") and exists:
        return len(word) - 1
    if word[-1:] in _BEHIND and word[:-1] in program.defined and not is_number(word[:-1]):
        return len(word) - 1
    tag = word.find("<", 1)
    hangs = tag > 0 and word[tag:] in program.language.tags
    return tag if hangs and (word[:tag] in program.known or word[:tag] in program.language.wheres) else None


def _match_pattern(patterns: tuple[WordPattern, ...], word: str) -> str | None:
    return next((pattern.hint for pattern in patterns if pattern.matches.fullmatch(word)), None)


def _explain_named_parameters(program: FifthProgram, unknown: UnknownWord) -> str | None:
    """Explain unknown words directly after a name without a stack comment: parameters have no names."""
    segment = unknown.inside
    if segment is None or segment.opener is None or segment.comments:
        return None
    line = program.tell.line_number_at(segment.opener.start)
    few = islice(segment.tokens, _MOST_PARAMETERS)
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
        self._left = _MOST_GUESSED
        self._known = tuple(sorted(program.known))
        self._words: tuple[str, ...] = ()

    def suggest(self, unknown: UnknownWord) -> str:
        """Return a hint about an unknown word, such as similar known words."""
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
