r"""Proposes one-line corrections of a script that bash can't parse, each with an explanation.

fi                          done                    after `while …; do`: the wrong word closes the block
scores[0] = 5               scores[0]=5
if (( x > 3 ) then          if (( x > 3 )) then
b echo b;;                  b) echo b;;             in a `case`
case $x                     case $x in
if (( x > 3 )); echo y; fi  if (( x > 3 )); then echo y; fi
sort f |                    sort f
| sort f                    a backslash at the end of the line before
echo It's late              echo It\'s late

A correction is used only if bash can parse the corrected script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assayd.model.finding import Edit
from assayd.model.text_limits import shorten
from assayd.static.python.safe_fixes import edit_between
from assayd_pipeline.shell.parse import reader

_MOST_TRIED = 12
_MOST_LINES = 400
_LINE_CHARS = 500
_OPENED = re.compile(
    r"'(if|for|while|until|case|\{)' (?:statement|clause) must (?:end|be closed) with '(\w+)'"
)
_STRAY = re.compile(r"'(\w+|\})' can only be used to (?:end|close)")
_CLOSER = re.compile(r"(\s*+)(fi|done|esac|end\w*+|\}|don|od|if|elihw|rof)(\s*+(?:;\s*+|[<|>].*)?)$")
_UNMATCHED = re.compile(r"without matching '(\(\(|\(|\[\[|\[)' with '(\)\)|\)|\]\]|\])'")
_SPACED_ELEMENT = re.compile(r"^(\s*\w+\[[^\]]*\])\s*=\s*(?=\S)")
_BRANCH = re.compile(
    r"^(\s*+)([\"']?[\w*.-]++[\"']?(?:\s*+\|\s*+[\"']?[\w*.-]++[\"']?)*)(?:\s*+:)?\s++(?=\S)"
)
_CASE = re.compile(r"^\s*case\s+\S+\s*$")
_NO_THEN = re.compile(r"\b((?:el)?if\s[^;]*;)\s+(?!then\b)")
_NO_DO = re.compile(r"\b((?:for|while|until)\s[^;]*;)\s+(?!do\b)")
_TRAILING = re.compile(r"(?<!\s)\s*+(\|\|?+|&&)\s*+$")
_DOUBLED = re.compile(r"(\|\|?|&&)\s+(?:\|\|?|&&)\s*")
_LEADING = re.compile(r"^\s*(\|\|?|&&)\s")
_APOSTROPHE = re.compile(r"(?<=[a-z])'(?=(?:s|t|re|ll|ve|d|m)\b)")
_PARAMETERS = re.compile(r"^(\s*)(?:function\s+)?(\w+)\s*\(\s*[\w$,= ]+\)\s*\{")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A correction: the 1-based line of the mistake, the message, the hint and the edit."""

    line: int
    message: str
    hint: str
    edit: Edit


@dataclass(frozen=True, slots=True)
class _RepairCandidate:
    line: int
    new: str
    message: str
    hint: str
    last: int = 0
    """The last line that `new` replaces; 0 for `line`."""


def repaired(text: str, message: str, line: int) -> Repair | None:
    """Return the first one-line correction that makes a script valid bash, or None.

    Args:
        text: the script.
        message: the parser's message, with the script's words in single quotes.
        line: the 1-based line that the parser reports.
    """
    lines = text.split("\n")
    if len(lines) > _MOST_LINES or any(len(each) > _LINE_CHARS for each in lines):
        return None
    for number, tried in enumerate(each for kind in _KINDS for each in kind(lines, message, line)):
        if number == _MOST_TRIED:
            return None
        changed = "\n".join((*lines[: tried.line - 1], tried.new, *lines[tried.last or tried.line :]))
        edit = edit_between(text, changed) if reader.read(changed).tree is not None else None
        if edit is not None:
            shown = shorten(tried.new.strip().split("\n", 1)[0], 110)
            hint = f"{tried.hint} Write `{shown}`."
            return Repair(line=tried.line, message=tried.message, hint=hint, edit=edit)
    return None


def _replace_closing_words(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    """Replace a closing word that doesn't match its block."""
    stray = _STRAY.search(message)
    found = _CLOSER.match(lines[line - 1]) if stray is not None else None
    for right in ("fi", "done", "esac", "}") if found is not None else ():
        if found is not None and right != found[2]:
            said = f"`{found[2]}` doesn't close the block that is open here."
            yield _RepairCandidate(
                line, f"{found[1]}{right}{found[3]}", said, f"This block ends with `{right}`."
            )
    opened = _OPENED.search(message)
    if opened is None or line > len(lines):
        return
    right = opened[2]
    for number in range(line + 1, len(lines) + 1):
        found = _CLOSER.match(lines[number - 1])
        if found is not None and found[2] != right:
            new = f"{found[1]}{right}{found[3]}"
            said = f"`{found[2]}` doesn't close `{opened[1]}`."
            yield _RepairCandidate(number, new, said, f"`{opened[1]}` ends with `{right}`.")


def _remove_element_spaces(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    found = _SPACED_ELEMENT.match(lines[line - 1]) if "must be followed by '='" in message else None
    if found is not None:
        new = f"{found[1]}={lines[line - 1][found.end() :]}"
        yield _RepairCandidate(
            line, new, "The assignment has spaces around `=`.", "Remove the spaces around `=`."
        )


def _close_brackets(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    """Close a bracket on its line: at the end, before `;`, `}` or `then`, or by doubling a single one."""
    found = _UNMATCHED.search(message)
    if found is None:
        return
    opener, closer = found[1], found[2]
    said, hint = f"The `{opener}` isn't closed.", f"Close it with `{closer}`."
    text = lines[line - 1]
    start = text.find(opener) + len(opener)
    places = [
        place
        for pattern in (r"\}", r"\s*;", r"\s+(?:then|do)\b", r"\"", r"\s*$")
        for place in (each.start() for each in re.finditer(pattern, text))
        if place >= start
    ]
    if len(closer) == 2:
        yield from (
            _RepairCandidate(line, f"{text[:at]}{closer}{text[at + 1 :]}", said, hint)
            for at in (each.start() for each in re.finditer(re.escape(closer[0]), text))
        )
    for place in places:
        yield _RepairCandidate(line, f"{text[:place]}{closer}{text[place:]}", said, hint)


def _repair_cases(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    del line
    if "case" not in message and ";;" not in message and "esac" not in message:
        return
    for number, each in enumerate(lines, 1):
        if _CASE.match(each):
            said = "The `case` has no `in`."
            yield _RepairCandidate(number, f"{each.rstrip()} in", said, "Put `in` after the value.")
        found = _BRANCH.match(each)
        if found is not None and ")" not in found[0] and found[2] not in {"case", "esac", "echo"}:
            new = f"{found[1]}{found[2]}) {each[found.end() :]}"
            said = f"The pattern `{found[2]}` of the `case` has no `)`."
            yield _RepairCandidate(number, new, said, "A branch begins with its pattern and `)`.")


def _insert_keywords(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    """Insert `then` or `do` after a condition on the same line as its commands."""
    for pattern, word in ((_NO_THEN, "then"), (_NO_DO, "do")):
        if f"'{word}'" in message or "'fi' can only" in message or "'done' can only" in message:
            found = pattern.search(lines[line - 1])
            if found is not None:
                new = f"{lines[line - 1][: found.end(1)]} {word} {lines[line - 1][found.end() :]}"
                said = f"The condition has no `{word}` after it."
                yield _RepairCandidate(line, new, said, f"Put `{word}` after the `;` of the condition.")


def _repair_operators(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    """Remove an operator without a command, or join a line that begins with one to the line before it."""
    text = lines[line - 1]
    if "must be followed by a statement" in message:
        for pattern in (_DOUBLED, _TRAILING):
            found = pattern.search(text)
            if found is not None:
                kept = f"{found[1]} " if pattern is _DOUBLED else ""
                new = f"{text[: found.start()]}{kept}{text[found.end() :]}".rstrip()
                said = f"No command follows `{found[1]}`."
                yield _RepairCandidate(line, new, said, f"Write a command after `{found[1]}`, or remove it.")
    if "can only immediately follow a statement" in message and line > 1:
        first, last = line - 1, line
        while last < len(lines) and _LEADING.match(lines[last]):
            last += 1
        said = f"The line begins with `{text.split()[0]}`: the command ended on the line before."
        hint = "Put the operator at the end of the line before, or a backslash there."
        joined = "\n".join(f"{each.rstrip()} \\" for each in lines[first - 1 : last - 1])
        yield _RepairCandidate(first, joined, said, hint, last - 1)


def _repair_apostrophes(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    del line
    if "without closing quote '''" not in message:
        return
    for number, each in enumerate(lines, 1):
        found = _APOSTROPHE.search(each)
        if found is not None and each[: found.start()].count("'") % 2 == 0:
            new = f"{each[: found.start()]}\\'{each[found.end() :]}"
            said = "An apostrophe opens a string in single quotes that isn't closed."
            yield _RepairCandidate(number, new, said, "Put a backslash before it, or use double quotes.")


def _functions(lines: list[str], message: str, line: int) -> Iterator[_RepairCandidate]:
    found = _PARAMETERS.match(lines[line - 1]) if "'foo(' must be followed by ')'" in message else None
    if found is not None:
        new = f"{found[1]}{found[2]}() {{{lines[line - 1][found.end() :]}"
        said = f"`{found[2]}(…)`: a function of bash has no parameters in its parentheses."
        yield _RepairCandidate(line, new, said, "Read the arguments as `$1`, `$2`.")


_Kind = Callable[[list[str], str, int], Iterator[_RepairCandidate]]
_KINDS: tuple[_Kind, ...] = (
    _remove_element_spaces,
    _insert_keywords,
    _replace_closing_words,
    _close_brackets,
    _repair_cases,
    _repair_operators,
    _repair_apostrophes,
    _functions,
)
