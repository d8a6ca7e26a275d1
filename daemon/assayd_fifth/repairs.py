r"""Finds the single change to a program that removes the most errors.

    : double ( n -- n ) 2 *             ;  at the end of the line
    s" hello type                       s" hello" type
    : f ( n -- ) if 1 . ;               then  before the ;
    5 0 do i . loop                     : main ( -- ) 5 0 do i . loop ; main
    a b != if                           a b <> if

For each finding, there are candidate changes. The program is checked again with every candidate, and the
candidate that leaves the fewest findings is the correction. Therefore, a proposed program always has fewer
findings, and the findings that resulted from the fault disappear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assayd.findings.source_text import add_correction
from assayd.model.finding import Edit, Finding

MAX_TRIED = 60
"""The maximum number of changed programs that are checked for a program with errors."""
MOST_CHARS = 20_000
_MAX_PLACES = 14
_LINE_CHARS = 300
"""Maximum length of a line that is corrected."""
_END = re.compile(r"(?<!\S);(?!\S)")
_WORD = re.compile(r"\S+")
_STARTS = re.compile(r"^\s*:\s")
_OPEN = re.compile(r"'(\S+)' (?:is never closed|is inside the open '(\S+)' of line)")
_CLOSERS_BY_WORD: Mapping[str, tuple[str, ...]] = {
    "if": ("then",),
    "else": ("then",),
    "do": ("loop",),
    "?do": ("loop",),
    "begin": ("repeat", "until", "again"),
    "while": ("repeat",),
    "case": ("endcase",),
    "of": ("endof",),
}
_RULE_ORDER = (
    "vocabulary.comment_open",
    "vocabulary.string_open",
    "vocabulary.definition_open",
    "structure.unbalanced",
    "vocabulary.forward_reference",
    "vocabulary.imagined_syntax",
    "vocabulary.gforth_word",
    "vocabulary.literal",
    "vocabulary.unknown_word",
    "vocabulary.library_not_loaded",
    "required.buffer_pattern",
    "structure.compile_only",
    "structure.return_stack",
    "structure.stack_underflow",
)
"""The rules with candidates; those that cause others come first."""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """New text for the lines `first` to `last` of a program (1-based, inclusive)."""

    first: int
    last: int
    new: str

    def apply_to(self, lines: Sequence[str]) -> str:
        """Return the program, given as lines, with the change applied."""
        return "\n".join((*lines[: self.first - 1], self.new, *lines[self.last :]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCorrection:
    """A finding with its edit, and the findings that remain after the edit is applied."""

    finding: Finding
    left: tuple[Finding, ...]


def find_best_change(
    text: str, found: Sequence[Finding], again: Callable[[str], Sequence[Finding]], words: Mapping[str, str]
) -> ProgramCorrection | None:
    """Return the single change that improves a program most.

    Return None if no change improves it, or if the program is too long.

    Args:
        text: the program.
        found: the program's findings.
        again: a function that checks a changed program and returns its findings.
        words: words of other languages, mapped to Fifth words with the same meaning.
    """
    if len(text) > MOST_CHARS:
        return None
    lines = text.split("\n")
    tried, before = 0, (_count_errors(found), len(found))
    best: tuple[tuple[int, int], Finding, ProgramChange, tuple[Finding, ...]] | None = None
    for finding in sorted(
        (each for each in found if each.rule in _RULE_ORDER and each.line), key=_build_rank_key
    ):
        for change in _generate_changes(lines, finding, words):
            tried += 1
            if tried > MAX_TRIED:
                break
            left = tuple(again(change.apply_to(lines)))
            if change.new.count("\n") > change.last - change.first and left:
                continue  # the remaining findings would be on other lines
            score = (_count_errors(left), len(left))
            if score < before and len(left) < len(found) and (best is None or score < best[0]):
                best = score, finding, change, left
        if best is not None and best[0][0] == 0:
            break
    if best is None or (best[0][0] >= before[0] and best[1].rule != "structure.compile_only"):
        return None
    _, finding, change, left = best
    finding = _select_finding(finding, found, left)
    edit = Edit(start_line=change.first, end_line=change.last, replacement=change.new)
    return ProgramCorrection(finding=add_correction(replace(finding, edit=edit), text), left=left)


def _select_finding(finding: Finding, found: Sequence[Finding], left: Sequence[Finding]) -> Finding:
    """Return the finding to report for a change.

    It is one that the change removes, preferably an error in every mode. If there is none, it is the given
    finding.
    """
    remaining = [(each.rule, each.message) for each in left]
    gone = [each for each in found if each.is_error and (each.rule, each.message) not in remaining]
    if finding.is_error and finding.rule.startswith(_ERROR_PREFIXES):
        return finding
    return next(
        (each for begin in (*_ERROR_PREFIXES, "") for each in gone if each.rule.startswith(begin)),
        finding,
    )


_ERROR_PREFIXES = ("vocabulary.", "forbidden.", "structure.unbalanced")
"""Prefixes of the rules whose errors are errors in every mode."""


def _count_errors(found: Sequence[Finding]) -> int:
    return sum(each.is_error for each in found)


def _build_rank_key(finding: Finding) -> tuple[int, int]:
    return _RULE_ORDER.index(finding.rule), finding.line or 0


def _generate_changes(
    lines: Sequence[str], finding: Finding, words: Mapping[str, str]
) -> Iterator[ProgramChange]:
    line = finding.line or 1
    if line > len(lines) or len(lines[line - 1]) > _LINE_CHARS:
        return
    making = _CHANGES_BY_RULE.get(finding.rule)
    if making is None:
        yield from _replace_unknown_word(lines, line, finding, words)
    else:
        yield from making(lines, line, finding.message)


def _swap_value_and_name(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield the change that moves a value before the word that names the value."""
    yield ProgramChange(line, line, _NAME_BEFORE_VALUE.sub(r"\3 \1 \2", lines[line - 1]))


_NAME_BEFORE_VALUE = re.compile(r"(?<!\S)(constant|value)\s+(\S+)\s+(\S+)", re.IGNORECASE)


def _find_definition_end(lines: Sequence[str], line: int) -> int:
    """Return the line of the `;` that ends the definition around a line, or that line if there is none."""
    for number in range(line, len(lines) + 1):
        if _END.search(lines[number - 1]):
            return number
    return line


def _insert_word(lines: Sequence[str], line: int, word: str, *, start: int = 0) -> Iterator[ProgramChange]:
    """Yield the changes that insert a word into a line, starting with the last position."""
    text = lines[line - 1]
    places = [found.start() for found in _WORD.finditer(text) if found.start() > start]
    for place in [*places[-_MAX_PLACES:], len(text.rstrip())][::-1]:
        before, after = text[:place].rstrip(), text[place:].strip()
        new = " ".join(part for part in (before, word, after) if part)
        yield ProgramChange(line, line, new)


def _close_comment(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield changes that close a comment at each position of its line."""
    yield from _insert_word(lines, line, ")", start=lines[line - 1].find("(") + 1)


def _close_string(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield changes that close a string at each position of its line, last position first."""
    text = lines[line - 1]
    start = text.rfind('"') + 1
    words = [found for found in _WORD.finditer(text) if found.end() > start]
    places = [found.end() for found in words[-_MAX_PLACES:]][::-1]
    last = len(words)
    while last > 1 and words[last - 1][0].lower() in _AFTER_STRINGS:
        last -= 1
    for place in dict.fromkeys((words[last - 1].end(), *places) if words else ()):
        yield ProgramChange(line, line, f'{text[:place]}"{text[place:]}')


_AFTER_STRINGS = frozenset({"type", "text", "print", "raw", "cr", "nl", "str+", "2drop", ";", "li.", "p."})
"""Words that usually follow a string, so they aren't part of it."""


def _end_definition(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield changes that end a definition at the end of a line, last possible line first."""
    last = next((n for n in range(line + 1, len(lines) + 1) if _STARTS.match(lines[n - 1])), len(lines) + 1)
    for number in range(min(last - 1, line + _MAX_PLACES), line - 1, -1):
        text = lines[number - 1].rstrip()
        if text.strip() and not text.lstrip().startswith("\\"):
            yield ProgramChange(number, number, f"{text} ;")


def _balance_block(lines: Sequence[str], line: int, message: str) -> Iterator[ProgramChange]:
    """Yield changes that close an open block, or begin a block that is closed without a beginning."""
    end = _find_definition_end(lines, line)
    opened = _OPEN.search(message)
    if opened is None:
        word = message.split("'")[1] if "'" in message else ""
        if word in {"while", "repeat", "until", "again"}:
            yield from _insert_word(lines, line, "begin", start=lines[line - 1].find(")") + 1)
        elif word == "endof":
            yield from _insert_word(lines, line, "of", start=lines[line - 1].find("case"))
        elif word in {"then", "else", "loop", "endcase"}:
            yield from _remove_word(lines, line, word)
        return
    for closer in _CLOSERS_BY_WORD.get(opened[2] or opened[1], ()):
        for number in range(line, end + 1):
            for found in _WORD.finditer(lines[number - 1]):
                if found[0].lower().strip("()") in _FOREIGN_CLOSERS:
                    text = lines[number - 1]
                    yield ProgramChange(
                        number, number, f"{text[: found.start()]}{closer}{text[found.end() :]}"
                    )
        yield from _insert_word(lines, end, closer, start=lines[end - 1].find(")"))


_FOREIGN_CLOSERS = frozenset(
    {"end", "endif", "end-if", "fi", "next", "done", "od", "wend", "endwhile", "end-while", "endfor",
     "end-for", "endloop", "end-loop", "esac", "end-case", "endswitch", "break", "}", "repeat", "until",
     "then", "loop"}
)  # fmt: skip


def _remove_word(lines: Sequence[str], line: int, word: str) -> Iterator[ProgramChange]:
    text = lines[line - 1]
    for found in list(re.finditer(rf"(?<!\S){re.escape(word)}(?!\S)\s?", text))[::-1]:
        yield ProgramChange(line, line, text[: found.start()] + text[found.end() :])


def _move_definition(lines: Sequence[str], line: int, message: str) -> Iterator[ProgramChange]:
    """Yield the change that moves a definition before the definition that uses it, if it is on one line."""
    found = re.search(r"in line (\d+)\.", message)
    later = int(found[1]) if found is not None else 0
    first = line
    while first > 1 and not _STARTS.match(lines[first - 1]):
        first -= 1
    if line < later <= len(lines) and _STARTS.match(lines[later - 1]) and _END.search(lines[later - 1]):
        yield ProgramChange(first, later, "\n".join((lines[later - 1], *lines[first - 1 : later - 1])))


def _wrap_in_definition(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield changes for a word that can be used only in a definition.

    They replace `[char]`, move the line into a new definition and call it, or remove a `;`.
    """
    text = lines[line - 1]
    if re.search(r"(?<!\S)\[char\](?!\S)", text):
        yield ProgramChange(line, line, text.replace("[char]", "char"))
    if _STARTS.match(text) is None:
        yield ProgramChange(line, line, f": main ( -- ) {text.strip()} ; main")
    yield from _remove_word(lines, line, ";")


def _clear_return_stack(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    """Yield changes that remove the items left on the return stack."""
    end = _find_definition_end(lines, line)
    text = lines[line - 1]
    for found in re.finditer(r"(?<!\S)exit(?!\S)", text):
        for word in ("unloop", "r> drop"):
            yield ProgramChange(line, line, f"{text[: found.start()]}{word} {text[found.start() :]}")
    for word in ("r>", "r> drop", "r> swap", "2r>", "2r> 2drop"):
        last = list(_END.finditer(lines[end - 1]))
        if last:
            place = last[-1].start()
            yield ProgramChange(end, end, f"{lines[end - 1][:place]}{word} {lines[end - 1][place:]}")
    yield from _insert_word(lines, line, "r>", start=text.find(">r"))


def _reset_buffer(lines: Sequence[str], line: int, _: str) -> Iterator[ProgramChange]:
    text = lines[line - 1]
    found = re.search(r"""(?:s\\?" [^"]*"\s+|(?<!\S)\S+\s+)?(str2?)\+""", text)
    if found is not None:
        yield ProgramChange(line, line, f"{text[: found.start()]}{found[1]}-reset {text[found.start() :]}")


def _load_library(lines: Sequence[str], _: int, message: str) -> Iterator[ProgramChange]:
    """Yield the change that loads the library that the message names at the beginning of the program."""
    found = re.search(r"the library (\w+)", message)
    if found is not None:
        yield ProgramChange(1, 1, f"require lib/{found[1]}.fs\n{lines[0]}")


def _replace_unknown_word(
    lines: Sequence[str], line: int, finding: Finding, words: Mapping[str, str]
) -> Iterator[ProgramChange]:
    """Yield changes that replace an unknown word with its equivalent or the suggested words."""
    text, start = lines[line - 1], (finding.column or 1) - 1
    found = _WORD.match(text, start)
    if found is None:
        return
    near = re.match(r"Did you mean (.+)\?$", finding.suggestion or "")
    meant = [word.strip("`") for word in near[1].split(" or ")] if near is not None else []
    word = found[0]
    if word.lower() in words:
        meant.insert(0, words[word.lower()])
    for new in meant:
        yield ProgramChange(line, line, f"{text[:start]}{new}{text[found.end() :]}")
    for pattern, put in _FORMS:
        seen = pattern.search(text, max(start - 1, 0)) or pattern.search(text)
        if seen is not None:
            new = f"{text[: seen.start()]}{seen.expand(put)}{text[seen.end() :]}".rstrip()
            yield ProgramChange(line, line, re.sub(r"(?<=\S)  +(?=\S)", " ", new))
    if re.search(r"(?<!\S):\s\S+.*?(?<!\S):\s", text):
        inner = re.search(r"(?<=\S)\s:\s\S+.*?\s;(?!\S)", text)
        if inner is not None:
            rest = f"{text[: inner.start()]}{text[inner.end() :]}"
            yield ProgramChange(line, line, f"{inner[0].strip()} {rest.strip()}")


_NAME = r"(?:(?!:\})[^{}\s])++"
_INPUT = rf"(?!--\s){_NAME}"
_EFFECT = (
    rf"(?<!\S)\{{:?\s++((?:{_INPUT}(?:\s++{_INPUT})*+)?)\s*+--\s++((?:{_NAME}(?:\s++{_NAME})*+)?)\s*+:?\}}"
)
"""Locals with a stack effect. Repeats are possessive: a submitter chooses the text that is searched."""
_FORMS = tuple(
    (re.compile(find, re.IGNORECASE), put)
    for find, put in (
        (r'(?<!\S)"([^"\s][^"]*)"(?=\s|$)', r's" \1"'),
        (r'(?<!\S)"([^"\s][^"]*)"\s+(?:print|echo|puts|println)(?!\S)', r'." \1"'),
        (r"(?<!\S)'(\S)'(?!\S)", r"char \1"),
        (r"(?<!\S)'(\S)'(?!\S)", r"[char] \1"),
        (r"(?<!\S)char\s+(\S)(?!\S)", r"[char] \1"),
        (r"(?<!\S)(\d{1,3})[,_](\d{3})(?!\S)", r"\1\2"),
        (r"(?<!\S)([a-z_][\w-]*)\[\s*(\S+?)\s*\]", r"\1 \2 cells +"),
        (rf"(?<!\S)\{{:?\s++({_NAME}(?:\s++{_NAME})*+)\s++:?\}}\s++\1(?!\S)", r""),
        (rf"{_EFFECT}\s++\1(?!\S)", r"( \1 -- \2 )"),
        (_EFFECT, r"( \1 -- \2 )"),
        (r"(?<!\S)\{\s++(\S++(?:\s++(?!\}(?!\S))\S++)*+)\s++\}(?!\S)", r"\1"),
        (r"(?<!\S)([a-z_][\w-]*)\(\s*\)(?!\S)", r"\1"),
        (r"(?<!\S)([a-z_][\w-]*)\(\s*([^(),\s]+)\s*\)(?!\S)", r"\2 \1"),
        (r"(?<!\S)([a-z_][\w-]*)\(\s*([^(),\s]+)\s*,\s*([^(),\s]+)\s*\)(?!\S)", r"\2 \3 \1"),
        (r"(?<!\S)([\w.!@+*/<>=?-]+)[,;](?!\S)", r"\1"),
        (r'<(\w+)\s+class="([^"]*)">', r's" \2" <\1.>'),
        (r'<a\s++href="([^"]*+)">\s*+((?:[^<>\s]++(?:\s++[^<>\s]++)*+)?)\s*+</a>', r's" \2" s" \1" a.'),
        (r'<img\s+src="([^"]*)"(?:\s+alt="([^"]*)")?\s*/?>', r's" \2" s" \1" img.'),
        (r"<(\w++)>\s*+([^<>\"\s]++(?:\s++[^<>\"\s]++)*+)\s*+</\1>", r'<\1> s" \2" text </\1>'),
        (r"<br>", r"<br/>"),
        (
            r'^\s*(?:#include|import|include|use:?|load|from|require)\s+["<](?:lib/)?(\w+)(?:\.fs|\.h)?[">].*$',
            r"require lib/\1.fs",
        ),
        (r"^\s*(?:import|use|load)\s+(?:lib/)?(\w+)(?:\.fs)?\s*;?\s*$", r"require lib/\1.fs"),
        (r"^\s*from\s+(\w+)\s+import\b.*$", r"require lib/\1.fs"),
    )
)

_ChangeGenerator = Callable[[Sequence[str], int, str], Iterator[ProgramChange]]
_CHANGES_BY_RULE: Mapping[str, _ChangeGenerator] = {
    "vocabulary.comment_open": _close_comment,
    "vocabulary.string_open": _close_string,
    "vocabulary.definition_open": _end_definition,
    "structure.unbalanced": _balance_block,
    "vocabulary.forward_reference": _move_definition,
    "structure.compile_only": _wrap_in_definition,
    "structure.return_stack": _clear_return_stack,
    "structure.stack_underflow": _swap_value_and_name,
    "required.buffer_pattern": _reset_buffer,
    "vocabulary.library_not_loaded": _load_library,
}
