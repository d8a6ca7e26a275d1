"""Inserts a missing character if the line shows both the character and its position.

    if x = 1:                         if x == 1:              (a name that is bound nowhere else may mean :=)
    f(a b)                            f(a, b)
    f(a, b                            f(a, b)                 (not x = f(a, b: that may be f(a), b)
    return f(g(x)                     return f(g(x))
    rows = [                          rows = [
        1,                                1,
        2                                 2]
    for x in rows:                    for x in rows:

Although several insertions may compile, the likely one is chosen (decision 0062): f(g)(x) is valid Python
too, but unlikely if the bracket was forgotten at the end of the line. An ambiguous line, such as len(x + 1,
gets no edit.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from assayd.findings.source_text import get_line
from assayd.model.finding import Edit
from assayd.static.python.safe_fixes import MAX_TRIED_CHARS, build_edit, parse_or_none

_STRING_PATTERN = re.compile(r"""[bBfFrRuU]{0,2}(?:'(?:[^'\\\n]|\\.)*+'?|"(?:[^"\\\n]|\\.)*+"?)|\#[^\n]*+""")
_LONE_EQUALS_PATTERN = re.compile(r"(?<![=!<>:+\-*/%&|^@])=(?!=)")
_CONDITION_KEYWORD_PATTERN = re.compile(r"\b(?:if|elif|while|return|assert|and|or|not)\b")
_COMMA_STATEMENT_PATTERN = re.compile(r"\s*(?:for|def|async def|from|import)\b|.*\blambda\b")
_GAP = re.compile(r"(?<=[\w'\")\]}]) (?=[\w'\"])")
_OPERATOR_PATTERN = re.compile(
    r"[-+*/%@&|^<>!]|(?<![\w)\]\s])=|==|\b(?:and|or|not|in|is|if|else|for|lambda)\b"
)
_BARE_CALL_PATTERN = re.compile(r"\s*[\w.]+(?:\[[^\]]*\])?\(")
_CLOSER_BY_OPENER = {"(": ")", "[": "]", "{": "}"}
_MAX_PLACES = 40


def replace_assignment_in_condition(error: SyntaxError, text: str) -> Edit | None:
    """Return the edit that turns an assignment into a comparison: ``if x = 1:`` -> ``if x == 1:``.

    Return None unless exactly one such edit compiles and the compared name is used before.
    """
    line = get_line(text, error.lineno)
    if line is None or error.lineno is None:
        return None
    masked = mask_line(line)
    places = [m.start() for m in _LONE_EQUALS_PATTERN.finditer(masked)][:_MAX_PLACES]
    asked = [
        place
        for place in places
        if _CONDITION_KEYWORD_PATTERN.search(masked[:place]) or _has_open_bracket(masked[:place])
    ]
    good = [
        at
        for at in asked
        if _compiles(_replace_line(text, error.lineno, _replace_with_double_equals(line, at)), text)
    ]
    if len(good) != 1:
        return None
    name = re.search(r"(?<![\w.\])])([A-Za-z_]\w*)\s*$", masked[: good[0]])
    if name is not None and not _occurs_before_line(name[1], text, error.lineno):
        return None
    return Edit(
        start_line=error.lineno, end_line=error.lineno, replacement=_replace_with_double_equals(line, good[0])
    )


def _has_open_bracket(before: str) -> bool:
    """Return whether a bracket is open at the end of this text."""
    return len(re.findall(r"[(\[{]", before)) > len(re.findall(r"[)\]}]", before))


def _replace_with_double_equals(line: str, at: int) -> str:
    return f"{line[:at]}=={line[at + 1 :]}"


def _occurs_before_line(name: str, text: str, line: int) -> bool:
    """Return whether a name occurs before a line, so that the line isn't needed to bind the name."""
    before = "\n".join(text.split("\n")[: line - 1])
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", before) is not None


def insert_comma(error: SyntaxError, text: str) -> Edit | None:
    """Return the edit that inserts a comma between two values in brackets: ``f(a b)`` -> ``f(a, b)``.

    Return None unless exactly one position makes the text compile.
    """
    line = get_line(text, error.lineno)
    if line is None or error.lineno is None:
        return None
    if "forgot a comma" not in error.msg and not _COMMA_STATEMENT_PATTERN.match(mask_line(line)):
        return None  # Outside brackets, x = y z isn't a tuple.
    changed = [
        one for one in _iter_comma_insertions(line) if _compiles(_replace_line(text, error.lineno, one), text)
    ]
    if len(changed) != 1:
        return None
    return Edit(start_line=error.lineno, end_line=error.lineno, replacement=changed[0])


def _iter_comma_insertions(line: str) -> Iterator[str]:
    masked = mask_line(line)
    for place in list(_GAP.finditer(masked))[:_MAX_PLACES]:
        before = re.search(r"(\w+)$", masked[: place.start()])
        after = re.match(r"\w+", masked[place.end() :])
        if any(found is not None and keyword.iskeyword(found[0]) for found in (before, after)):
            continue
        if "%" in line[: place.start()] and masked[place.start() - 1] in "'\"":
            continue  # In "%s" name, an operator is missing.
        yield f"{line[: place.start()]},{line[place.start() :]}"
    if line.strip() and not line.rstrip().endswith((",", "(", "[", "{", ":")) and "#" not in masked:
        yield f"{line.rstrip()},"


def close_open_bracket(error: SyntaxError, text: str) -> Edit | None:
    """Return the edit that closes a bracket, at the end of its line or after the lines indented below.

    Return None if the position is uncertain, or if the text doesn't compile with the edit.
    """
    found = re.search(r"'([(\[{])' was never closed", error.msg)
    lines = text.split("\n")
    if found is None or error.lineno is None or not error.offset or error.lineno > len(lines):
        return None
    at = error.lineno - 1
    line, closer = lines[at], _CLOSER_BY_OPENER[found[1]]
    inside = mask_line(line)[error.offset :]
    several = list_missing_closers(line)
    if len(several) > 1:
        return _close_brackets(lines, at, several) if not _OPERATOR_PATTERN.search(mask_line(line)) else None
    last = at if inside.strip() else _find_last_indented(lines, at)
    if last is None or (last == at and not _is_simple_content(mask_line(line), inside)):
        return None
    if last != at and not lines[last + 1].strip():
        # If an empty line follows, the closing bracket was on it alone: put it back there.
        lines[last + 1] = " " * _measure_indentation(line) + closer
    else:
        lines[last] = _append_closer(lines[last], closer)
    changed = "\n".join(lines)
    return build_edit(text, changed) if _compiles(changed, text) else None


def list_missing_closers(line: str) -> str:
    """Return the closing brackets that a line lacks, in the order in which they must be inserted."""
    open_: list[str] = []
    for character in mask_line(line):
        if character in _CLOSER_BY_OPENER:
            open_.append(_CLOSER_BY_OPENER[character])
        elif open_ and character == open_[-1]:
            open_.pop()
    return "".join(reversed(open_))


def _close_brackets(lines: list[str], at: int, missing: str) -> Edit | None:
    """Return the edit that turns ``x = f(g(1`` into ``x = f(g(1))``, or None if the places are uncertain."""
    text = "\n".join(lines)
    if "," in mask_line(lines[at]) or mask_line(lines[at]).rstrip()[-1:] in _CLOSER_BY_OPENER:
        return None
    changed = "\n".join((*lines[:at], _append_closer(lines[at], missing), *lines[at + 1 :]))
    return build_edit(text, changed) if _compiles(changed, text) else None


def _is_simple_content(line: str, inside: str) -> bool:
    """Return whether a bracket's content has no operator and, unless `line` is only a call, no comma.

    `inside` is the content of the bracket; the contents of nested brackets are ignored.
    """
    own = _strip_nested_brackets(inside)
    if _OPERATOR_PATTERN.search(own):
        return False
    return "," not in own or _BARE_CALL_PATTERN.match(line) is not None


def _strip_nested_brackets(inside: str) -> str:
    """Return the content of a bracket, excluding the contents of nested brackets."""
    depth, kept = 0, []
    for character in inside:
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            kept.append(character)
    return "".join(kept)


def _find_last_indented(lines: list[str], at: int) -> int | None:
    """Return the index of the last line indented below a bracket's line.

    Return None if there is none, if a closing bracket follows, or if the text ends with these lines.
    """
    indent, last = _measure_indentation(lines[at]), None
    for number in range(at + 1, len(lines)):
        if not lines[number].strip():
            continue
        if _measure_indentation(lines[number]) <= indent:
            return last if not lines[number].lstrip().startswith((")", "]", "}")) else None
        last = number
    return None  # The text ends here, so more than a bracket may be missing.


def _append_closer(line: str, closer: str) -> str:
    code = mask_line(line).rstrip()
    return f"{line[: len(code)]}{closer}{line[len(code) :]}"


def mask_line(line: str) -> str:
    """Return a line with its string contents and its comment masked without changing any column."""

    def blank(found: re.Match[str]) -> str:
        whole = found[0]
        if whole.startswith("#"):
            return " " * len(whole)
        opening = next(n for n, character in enumerate(whole) if character in "'\"")
        closing = whole[-1] if len(whole) > opening + 1 and whole[-1] == whole[opening] else "x"
        return whole[: opening + 1] + "x" * (len(whole) - opening - 2) + closing * (len(whole) > opening + 1)

    return _STRING_PATTERN.sub(blank, line)


def _measure_indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _replace_line(text: str, number: int, line: str) -> str:
    lines = text.split("\n")
    lines[number - 1] = line
    return "\n".join(lines)


def _compiles(changed: str, text: str) -> bool:
    return len(text) <= MAX_TRIED_CHARS // 4 and parse_or_none(changed) is not None
