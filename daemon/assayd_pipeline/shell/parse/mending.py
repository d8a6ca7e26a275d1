"""Finds the edit for a script that can't be parsed, if exactly one word at one position is missing.

    if [ -s x ]; then … (to the end)      fi at the end     (if all lines after it are more deeply indented)
    while read -r x; do … (to the end)    done at the end
    if [ -s x ]                           if [ -s x ]; then (if the test ends the line)
    ```bash … ```                         …
    whiel read -r x; do                   while read -r x; do
    echo "total                           echo "total"        (if a quote in no other line would do)
    names=(a b                            names=(a b)
    scores[0] = 5                         scores[0]=5
    case $x                               case $x in
    if (( x > 3 ) then                    if (( x > 3 )) then
    sort f |                              sort f

The result is parsed again: an edit is returned only if the edited script is valid bash. The parser reports
the line at which it stops, which can be many lines after the mistake; `locate_mistake` returns the most
likely line of the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assayd.guest.near import compute_edit_distance
from assayd.model.finding import Edit
from assayd.model.text_limits import shorten_text
from assayd.static.python.safe_fixes import build_edit, extract_fenced_text
from assayd_pipeline.shell.parse import reader

_OPENED_PATTERN = re.compile(
    r"'(if|for|while|until|case)' (?:statement|clause) must (?:end|be closed) with '(\w+)'"
)
_KEYWORDS = frozenset(
    {"case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "then", "until", "while"}
)
_FIRST_WORDS = re.compile(r"(?:^|[;&|]|\b(?:do|then|else)\b)\s*([a-z]{2,9})(?![\w=.(/-])")
_MAX_TRIED = 8
_MAX_QUOTES = 6
_TEST_ALONE = re.compile(r"[ \t]*(?:if|elif)\b[^;#]*\]\]?[ \t]*;?")


def find_syntax_edit(text: str, message: str, line: int) -> Edit | None:
    """Return the edit for a parser error that is reported at a line, or None if no correction is valid."""
    for candidate in _generate_corrections(text, message, line):
        if reader.parse_script(candidate).tree is not None:
            return build_edit(text, candidate)
    return None


def locate_mistake(text: str, message: str, line: int) -> int:
    """Return the 1-based line on which the mistake most likely is, by default the reported line."""
    if "without closing quote" in message:
        starts = _find_open_quotes(text, '"' if '"' in message else "'")
        return starts[0] + 1 if starts else line
    if "array element values" in message:
        return _find_open_array(text.split("\n"), line) + 1
    if "without matching '{'" in message:
        return _find_block_end(text.split("\n"), line)
    return line


def find_misspelt_keyword(text: str) -> tuple[str, Edit] | None:
    """Return the correct keyword and the edit for a misspelled one, or None unless exactly one edit works."""
    found: list[tuple[str, str]] = []
    lines = text.split("\n")
    tried = 0
    for number, each in enumerate(lines):
        for word in _FIRST_WORDS.finditer(each):
            near = sorted(key for key in _KEYWORDS if compute_edit_distance(word[1], key) == 1)
            for key in near if word[1] not in _KEYWORDS else ():
                tried += 1
                if tried > _MAX_TRIED:
                    return None
                new = each[: word.start(1)] + key + each[word.end(1) :]
                changed = "\n".join((*lines[:number], new, *lines[number + 1 :]))
                if reader.parse_script(changed).tree is not None:
                    found.append((key, changed))
    if len(found) != 1:
        return None
    edit = build_edit(text, found[0][1])
    return None if edit is None else (found[0][0], edit)


def remove_script_fences(text: str) -> Edit | None:
    """Return the edit that removes the fences around a script, or None if there are none.

    Return None also if the text inside isn't valid bash.
    """
    inside = extract_fenced_text(text)
    if inside is None or reader.parse_script(inside).tree is None:
        return None
    return build_edit(text, inside)


def _generate_corrections(text: str, message: str, line: int) -> Iterator[str]:
    inside = extract_fenced_text(text)
    if inside is not None:
        yield inside
        return
    if "without closing quote" in message:
        yield from _close_expansions(text)
        yield from close_quotes(text, '"' if '"' in message else "'")
        return
    if "array element values" in message:
        yield from _close_array(text, line)
        return
    if re.search(r"reached EOF|without (?:matching|closing)|not a valid parameter", message):
        yield from _close_expansions(text)
    opened = _OPENED_PATTERN.search(message)
    if opened is not None:
        yield from _close_block(text, line, opened[2])
    elif "'fi' can only be used to end an 'if'" in message or "must be followed by 'then'" in message:
        yield from _insert_then(text)


def _close_expansions(text: str) -> Iterator[str]:
    """Yield scripts in which ``$(``, ``$((``, ``${`` or a backtick is closed at the end of its line."""
    lines = text.split("\n")
    for number, line in enumerate(lines[:_MAX_LINES]):
        for pattern, closer in _EXPANSIONS:
            if len(line) <= _MAX_CHARS and (found := pattern.search(line)) is not None:
                for place in dict.fromkeys((found.end(), len(line.rstrip()))):
                    changed = line[:place] + closer + line[place:]
                    yield "\n".join((*lines[:number], changed, *lines[number + 1 :]))
        if (wrong := re.search(r"\$\{(\w+)\)", line[:_MAX_CHARS])) is not None:
            changed = f"{line[: wrong.end() - 1]}}}{line[wrong.end() :]}"
            yield "\n".join((*lines[:number], changed, *lines[number + 1 :]))


def find_closed_expansion(text: str, edit: Edit) -> tuple[str, str] | None:
    """Return the expansion that a one-line edit closes, and the closing token, or None for other edits."""
    line = text.split("\n")[edit.start_line - 1] if edit.start_line == edit.end_line else ""
    new = edit.replacement
    for opener, closer in (("$((", "))"), ("${", "}"), ("$(", ")"), ("`", "`")):
        if opener in line and new.count(closer) == line.count(closer) + 1 and len(new) - len(line) in {0, 1}:
            return opener, closer
    return None


_MAX_LINES = 400
_MAX_CHARS = 500
_EXPANSIONS = (
    (re.compile(r"\$\(\((?:[^()]|\([^()]*\))*(?=\)(?!\)))"), ")"),
    (re.compile(r"\$\{[^{}\s\"]*(?=\"|\s|$)"), "}"),
    (re.compile(r"\$\((?!\()[^()]*(?=$)"), ")"),
    (re.compile(r"(?<!`)`[^`]*(?=$)"), "`"),
)


def _close_block(text: str, line: int, closer: str) -> Iterator[str]:
    """Yield the script closed at its end, if everything after the opening line is more deeply indented."""
    lines = text.rstrip("\n").split("\n")
    indent = _get_indentation(lines[line - 1])
    inner = [each for each in lines[line:] if each.strip()]
    middle = {"else", "elif"} if closer == "fi" else set()
    deeper = [
        each
        for each in inner
        if each.split()[0].rstrip(";") not in middle or _get_indentation(each) != indent
    ]
    if inner and all(len(_get_indentation(each)) > len(indent) for each in deeper):
        yield "\n".join((*lines, f"{indent}{closer}", ""))


def _insert_then(text: str) -> Iterator[str]:
    """Yield the script with `then` added after the only test whose line ends without `then`."""
    lines = text.split("\n")
    alone = [
        n
        for n, each in enumerate(lines[:-1])
        if _TEST_ALONE.fullmatch(each) and not re.match(r"\s*(?:then\b|&&|\|\|)", lines[n + 1])
    ]
    if len(alone) == 1:
        [n] = alone
        lines[n] = lines[n].rstrip().removesuffix(";") + "; then"
        yield "\n".join(lines)


def close_quotes(text: str, quote: str) -> Iterator[str]:
    """Yield the script with a quote closed at the end of its line, if this works on exactly one line."""
    lines = text.split("\n")
    good: list[tuple[int, int, str]] = []
    for number in _find_open_quotes(text, quote)[:_MAX_QUOTES]:
        code = lines[number].rstrip()
        tail = code[len(code.rstrip(";")) :]
        files = _FILES_AT_END.search(code, code.rfind(quote))
        tail = code[files.start() :] if files is not None else tail
        changed = [*lines]
        changed[number] = f"{code.removesuffix(tail)}{quote}{tail}"
        whole = "\n".join(changed)
        if reader.parse_script(whole).tree is not None:
            still_open = sum(len(_find_open_quotes(whole, each)) for each in "\"'")
            good.append((still_open, number, whole))
    good.sort()
    alone = len(good) == 1 or (len(good) > 1 and good[0][0] == 0 < good[1][0])
    if good and alone and _ends_as_text(lines[good[0][1]], quote):
        yield good[0][2]


_FILES_AT_END = re.compile(
    r"(?<=\S)(?:(?:\s+(?:[<>]{1,2}\s*)?(?:data|tmp|logs)/[\w./*-]+)+(?:\s+\|\s.*)?|(?<=\})\s+\|\s.*);?$"
)
"""Files, redirections and pipes after an unclosed quote, which aren't part of the string."""


def _ends_as_text(line: str, quote: str) -> bool:
    """Return whether everything after an open quote can be text, without a pipe or second command."""
    text = line[line.rfind(quote) :]
    return not re.search(r"[|&<>;]", _FILES_AT_END.sub("", text).rstrip(";"))


def _find_open_quotes(text: str, quote: str) -> list[int]:
    """Return the 0-based lines on which a string begins that isn't closed on the same line."""
    found: list[int] = []
    inside = ""
    for number, line in enumerate(text.split("\n")):
        began = False
        before = ""
        for character in line:
            if before == "\\" and inside != "'":
                before = ""
                continue
            if not inside and character == "#" and before in {"", " ", "\t"}:
                break
            if character in "\"'" and inside in {"", character}:
                inside, began = ("", False) if inside else (character, True)
            before = character
        if inside == quote and began:
            found.append(number)
    return found


def _find_open_array(lines: list[str], line: int) -> int:
    """Return the 0-based line of the array that is still open before a line, or the line itself."""
    for number in range(min(line, len(lines)) - 1, -1, -1):
        if re.search(r"=\(", lines[number]) and lines[number].count("(") > lines[number].count(")"):
            return number
    return line - 1


def _close_array(text: str, line: int) -> Iterator[str]:
    """Yield the script with an array closed at the end of its line: ``names=(a b)``."""
    lines = text.split("\n")
    number = _find_open_array(lines, line)
    lines[number] = f"{lines[number].rstrip()})"
    yield "\n".join(lines)


def _find_block_end(lines: list[str], line: int) -> int:
    """Return the line after the lines that are indented more deeply than an opening line and follow it."""
    indent, last = len(_get_indentation(lines[line - 1])), line
    for number, each in enumerate(lines[line:], line + 1):
        if each.strip() and len(_get_indentation(each)) <= indent:
            return last + 1
        if each.strip():
            last = number
    return last + 1 if last < len(lines) else last


def _get_indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


_MAX_CORRECTIONS = 12
_LINE_CHARS = 500
_UNCLOSED_PATTERN = re.compile(
    r"'(if|for|while|until|case|\{)' (?:statement|clause) must (?:end|be closed) with '(\w+)'"
)
_STRAY_PATTERN = re.compile(r"'(\w+|\})' can only be used to (?:end|close)")
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
class _CorrectionCandidate:
    line: int
    new: str
    message: str
    hint: str
    last: int = 0
    """The last line that `new` replaces; 0 for `line`."""


def find_repair(text: str, message: str, line: int) -> Repair | None:
    """Return the first one-line correction that makes a script valid bash, or None.

    Args:
        text: the script.
        message: the parser's message, with the script's words in single quotes.
        line: the 1-based line that the parser reports.
    """
    lines = text.split("\n")
    if len(lines) > _MAX_LINES or any(len(each) > _LINE_CHARS for each in lines):
        return None
    for number, tried in enumerate(each for kind in _CORRECTORS for each in kind(lines, message, line)):
        if number == _MAX_CORRECTIONS:
            return None
        changed = "\n".join((*lines[: tried.line - 1], tried.new, *lines[tried.last or tried.line :]))
        edit = build_edit(text, changed) if reader.parse_script(changed).tree is not None else None
        if edit is not None:
            shown = shorten_text(tried.new.strip().split("\n", 1)[0], 110)
            hint = f"{tried.hint} Write `{shown}`."
            return Repair(line=tried.line, message=tried.message, hint=hint, edit=edit)
    return None


def _replace_closing_words(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    """Yield candidates that replace a closing word that doesn't match its block."""
    stray = _STRAY_PATTERN.search(message)
    found = _CLOSER.match(lines[line - 1]) if stray is not None else None
    for right in ("fi", "done", "esac", "}") if found is not None else ():
        if found is not None and right != found[2]:
            said = f"`{found[2]}` doesn't close the block that is open here."
            yield _CorrectionCandidate(
                line, f"{found[1]}{right}{found[3]}", said, f"This block ends with `{right}`."
            )
    opened = _UNCLOSED_PATTERN.search(message)
    if opened is None or line > len(lines):
        return
    right = opened[2]
    for number in range(line + 1, len(lines) + 1):
        found = _CLOSER.match(lines[number - 1])
        if found is not None and found[2] != right:
            new = f"{found[1]}{right}{found[3]}"
            said = f"`{found[2]}` doesn't close `{opened[1]}`."
            yield _CorrectionCandidate(number, new, said, f"`{opened[1]}` ends with `{right}`.")


def _remove_element_spaces(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    found = _SPACED_ELEMENT.match(lines[line - 1]) if "must be followed by '='" in message else None
    if found is not None:
        new = f"{found[1]}={lines[line - 1][found.end() :]}"
        yield _CorrectionCandidate(
            line, new, "The assignment has spaces around `=`.", "Remove the spaces around `=`."
        )


def _close_brackets(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    """Yield candidates that close a bracket on its line, or double a single closing bracket."""
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
            _CorrectionCandidate(line, f"{text[:at]}{closer}{text[at + 1 :]}", said, hint)
            for at in (each.start() for each in re.finditer(re.escape(closer[0]), text))
        )
    for place in places:
        yield _CorrectionCandidate(line, f"{text[:place]}{closer}{text[place:]}", said, hint)


def _repair_cases(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    del line
    if "case" not in message and ";;" not in message and "esac" not in message:
        return
    for number, each in enumerate(lines, 1):
        if _CASE.match(each):
            said = "The `case` has no `in`."
            yield _CorrectionCandidate(number, f"{each.rstrip()} in", said, "Put `in` after the value.")
        found = _BRANCH.match(each)
        if found is not None and ")" not in found[0] and found[2] not in {"case", "esac", "echo"}:
            new = f"{found[1]}{found[2]}) {each[found.end() :]}"
            said = f"The pattern `{found[2]}` of the `case` has no `)`."
            yield _CorrectionCandidate(number, new, said, "A branch begins with its pattern and `)`.")


def _insert_keywords(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    """Yield candidates that insert `then` or `do` between a condition and commands on the same line."""
    for pattern, word in ((_NO_THEN, "then"), (_NO_DO, "do")):
        if f"'{word}'" in message or "'fi' can only" in message or "'done' can only" in message:
            found = pattern.search(lines[line - 1])
            if found is not None:
                new = f"{lines[line - 1][: found.end(1)]} {word} {lines[line - 1][found.end() :]}"
                said = f"The condition has no `{word}` after it."
                yield _CorrectionCandidate(line, new, said, f"Put `{word}` after the `;` of the condition.")


def _repair_operators(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    """Yield candidates that remove an operator without a command, or join a line to the one before."""
    text = lines[line - 1]
    if "must be followed by a statement" in message:
        for pattern in (_DOUBLED, _TRAILING):
            found = pattern.search(text)
            if found is not None:
                kept = f"{found[1]} " if pattern is _DOUBLED else ""
                new = f"{text[: found.start()]}{kept}{text[found.end() :]}".rstrip()
                said = f"No command follows `{found[1]}`."
                yield _CorrectionCandidate(
                    line, new, said, f"Write a command after `{found[1]}`, or remove it."
                )
    if "can only immediately follow a statement" in message and line > 1:
        first, last = line - 1, line
        while last < len(lines) and _LEADING.match(lines[last]):
            last += 1
        said = f"The line begins with `{text.split()[0]}`: the command ended on the line before."
        hint = "Put the operator at the end of the line before, or a backslash there."
        joined = "\n".join(f"{each.rstrip()} \\" for each in lines[first - 1 : last - 1])
        yield _CorrectionCandidate(first, joined, said, hint, last - 1)


def _repair_apostrophes(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    del line
    if "without closing quote '''" not in message:
        return
    for number, each in enumerate(lines, 1):
        found = _APOSTROPHE.search(each)
        if found is not None and each[: found.start()].count("'") % 2 == 0:
            new = f"{each[: found.start()]}\\'{each[found.end() :]}"
            said = "An apostrophe opens a string in single quotes that isn't closed."
            yield _CorrectionCandidate(number, new, said, "Put a backslash before it, or use double quotes.")


def _functions(lines: list[str], message: str, line: int) -> Iterator[_CorrectionCandidate]:
    found = _PARAMETERS.match(lines[line - 1]) if "'foo(' must be followed by ')'" in message else None
    if found is not None:
        new = f"{found[1]}{found[2]}() {{{lines[line - 1][found.end() :]}"
        said = f"`{found[2]}(…)`: a function of bash has no parameters in its parentheses."
        yield _CorrectionCandidate(line, new, said, "Read the arguments as `$1`, `$2`.")


_Corrector = Callable[[list[str], str, int], Iterator[_CorrectionCandidate]]
_CORRECTORS: tuple[_Corrector, ...] = (
    _remove_element_spaces,
    _insert_keywords,
    _replace_closing_words,
    _close_brackets,
    _repair_cases,
    _repair_operators,
    _repair_apostrophes,
    _functions,
)
