r"""Recognizes lines in the syntax of other languages, and rewrites these lines in Fifth.

    # doubles a number                  \ doubles a number
    :double ( n -- n ) 2 * ;            : double ( n -- n ) 2 * ;
    def double ( n -- n ) 2 * ;         : double ( n -- n ) 2 * ;
    constant limit = 25                 25 constant limit
    total += 2                          2 total +!
    print "Hello"                       ." Hello"

`find_foreign_forms` proposes corrections of wrong lines without changing line numbers. Callers keep a
correction only if the program then has fewer findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_MAX_LINES = 2000
_LINE_CHARS = 300
"""Maximum number of characters of a line that are searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignForm:
    """A line in a foreign form: its 1-based number and column, fault and remedy, and the Fifth line."""

    line: int
    column: int
    message: str
    hint: str
    new: str


@dataclass(frozen=True, slots=True)
class _LinePattern:
    """A pattern for a line, with its messages and its replacement, in which `{1}` etc. stand for groups."""

    find: re.Pattern[str]
    message: str
    hint: str
    put: str


def _row(find: str, message: str, hint: str, put: str) -> _LinePattern:
    return _LinePattern(re.compile(find, re.IGNORECASE), message, hint, put)


_NAME = r"([a-z_][\w?$-]*)"
_ROWS: Sequence[_LinePattern] = (
    _row(r"^\s*(?:include\s+[\"<]|(?:#include|import|load|from)\s+[\"<]?)(?:lib/)?"
         r"(str|html|sql|template|ui|core)(?:\.fs|\.h|\.fth)?(?:[\">].*|\s*;?\s*|\s+import\b.*)$",
         "A library is loaded by `require`, with its path.", "Write `require lib/{1}.fs`.",
         r"require lib/\1.fs"),
    _row(r"^\s*require\s+[\"<](\S+?)[\">]\s*;?\s*$",
         "`require` takes a path without quotes.", "Write `require {1}`.", r"require \1"),
    _row(r"^(\s*)(?:#(?!include)|//|--|;;|%)(?!\S*\s*;)\s?(.*)$",
         "The line is a comment of another language.",
         "Begin a comment with a backslash and a space: `\\ {2}`.", r"\1\\ \2"),
    _row(r"\s(?://|#)\s+([a-z].*)$", "The rest of the line is a comment of another language.",
         "Begin a comment with a backslash and a space: `\\ {1}`.", r" \\ \1"),
    _row(r"/\*\s*+((?:(?!\*/)\S)*+(?:\s++(?!\*/)(?:(?!\*/)\S)++)*+)\s*+\*/",
         "`/* … */` isn't a comment in Fifth.",
         "Write `( {1} )`, or begin the comment with `\\ `.", r"( \1 )"),
    _row(r"^(\s*):(?=([^\s:;=]+)(?:\s|$))", "The `:` and `{2}` have no space between them.",
         "Put a space after the colon: `: {2}`.", r"\1: "),
    _row(r"^(\s*+)(def|define|function|func|fn|proc|sub|fun|word)\s++([^\s(:{]++)\s*+(?:\([\w\s,]*+\)\s*+)?[:{]?\s*+"
         r"((?:.*[^\s}])?(?:\s*+\}(?=\s*+\}))*+)\s*+\}?\s*+$",
         "`{2}` doesn't begin a definition in Fifth.", "Write `: {3} ( before -- after ) … ;`.",
         r"\1: \3 \4"),
    _row(rf"^(\s*)(?:const|constant)\s+{_NAME}\s*=\s*(\S+?)\s*;?\s*$",
         "A constant has its value before the word.", "Write `{3} constant {2}`.", r"\1\3 constant \2"),
    _row(rf"^(\s*)(?:let|var|int|variable|auto|local)\s+{_NAME}\s*=\s*(\S+?)\s*;?\s*$",
         "`=` compares; it doesn't assign.", "Write `variable {2}  {3} {2} !`.", r"\1variable \2 \3 \2 !"),
    _row(rf"^(\s*)(\S+)\s+variable\s+{_NAME}\s*$", "`variable` takes no value from the stack.",
         "Store the value after it: `variable {3} {2} {3} !`.", r"\1variable \3 \2 \3 !"),
    _row(rf"^(\s*){_NAME}\s*:?=\s*(\S+?)\s*;?\s*$", "`=` compares; it doesn't assign.",
         "Store a value with `!`: `{3} {2} !`.", r"\1\3 \2 !"),
    _row(rf"^(\s*)(\S+)\s+(?:->|=>)\s+{_NAME}\s*$", "`->` doesn't store a value in Fifth.",
         "Store a value with `!`: `{2} {3} !`.", r"\1\2 \3 !"),
    _row(rf"(?<!\S){_NAME}\s*\+=\s*(\S+?)(?=\s|$)", "`+=` doesn't exist in Fifth.",
         "Add to a variable with `+!`: `{2} {1} +!`.", r"\2 \1 +!"),
    _row(rf"(?<!\S){_NAME}\s*-=\s*(\S+?)(?=\s|$)", "`-=` doesn't exist in Fifth.",
         "Subtract from a variable with `+!`: `{2} negate {1} +!`.", r"\2 negate \1 +!"),
    _row(rf"(?<!\S){_NAME}\s*\+\+(?=\s|$)", "`++` doesn't exist in Fifth.",
         "Add 1 to a variable: `1 {1} +!`.", r"1 \1 +!"),
    _row(rf"(?<!\S){_NAME}\s*--(?=\s*;?\s*$)", "`--` doesn't subtract in Fifth.",
         "Subtract 1 from a variable: `-1 {1} +!`.", r"-1 \1 +!"),
    _row(r"(?<!\S)(?:print|printf|println|echo|puts|console\.log)\s*\(?\s*\"([^\"]*)\"\s*\)?(?=\s|$)",
         "Text is printed by `.\"`, which comes before the text.", "Write `.\" {1}\"`.", r'." \1"'),
    _row(r"(?<!\S)(?<!char )(?<!\[char\] )'([^'\s][^']{1,80})'(?=\s|$)", "A string isn't in single quotes.",
         "Write `s\" {1}\"`.", r's" \1"'),
    _row(r"^(\s*):\s+\((?=\s)", "The definition has no name.", "Write a name after the colon: `: name (`.",
         r"\1: name ("),
    _row(r"^(\s*)([^\s:;\\(]+)\s+:\s+(?=\()", "The name comes before the `:`.",
         "Write the name after the colon: `: {2}`.", r"\1: \2 "),
    _row(r"^(\s*:\s.*?)\s:\s*$", "A definition ends with `;`.",
         "Write `;` instead of the `:` at its end.", r"\1 ;"),
    _row(r"(?<!\S)\(([^()\s](?:(?!--)[^()])*?)\)(?=\s|$)", "A comment has a space after its `(`.",
         "Write `( {1} )`.", r"( \1 )"),
    _row(r"(\(\s[^()]*?\S)--(?=[\s)])", "A stack comment has a space before `--`.",
         "Write ` -- `.", r"\1 --"),
    _row(r"(\(\s[^()]*?)--(?=\S)", "A stack comment has a space after `--`.", "Write ` -- `.", r"\1-- "),
    _row(r"(\([^()]*?)\s(?:->|=>|-|\u2014|\u2013|- -)\s([^()]*\))",
         "A stack comment has `--` between before and after.",
         "Write `--` instead of the arrow.", r"\1 -- \2"),
    _row(r"(?<!\S)(?:elif|elsif|elseif)(?=\s|$)", "`elif` doesn't exist in Fifth.",
         "Write `else … if … then then`.", "else"),
    _row(r"(?<!\S)(?:endif|end-if|fi)(?=\s|$)", "`if` ends with `then` in Fifth.", "Write `then`.", "then"),
    _row(r"(?<!\S)(?:null|nil|none)(?=\s|$)", "Fifth has no null.", "Write 0.", "0"),
)  # fmt: skip


def find_foreign_forms(text: str, is_wrong: Callable[[int], bool]) -> Iterator[ForeignForm]:
    """Yield the foreign forms on lines that have findings, at most one form per line."""
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        if len(line) > _LINE_CHARS or not is_wrong(number):
            continue
        for row in _ROWS:
            found = row.find.search(line)
            if found is not None:
                new = line[: found.start()] + found.expand(row.put) + line[found.end() :]
                yield ForeignForm(
                    line=number,
                    column=found.start() + 1 + (len(found[0]) - len(found[0].lstrip())),
                    message=_fill_groups(row.message, found),
                    hint=_fill_groups(row.hint, found),
                    new=new.rstrip(),
                )
                break


def iter_missing_fetches(text: str) -> Iterator[ForeignForm]:
    """Yield forms like ``total 2 + .``, in which a variable lacks the `@` that reads its value."""
    names = _find_defined_names(text, "variable")
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        for found in _COMPUTED_PATTERN.finditer(line[:_LINE_CHARS]):
            if found[1].lower() in names and "\\ " not in line[: found.start()]:
                new = f"{line[: found.end(1)]} @{line[found.end(1) :]}"
                name = found[1]
                message = f"`{name}` is the address of the variable, not its value."
                hint = f"Read the value with `@`: `{name} @`."
                yield ForeignForm(line=number, column=found.start(1) + 1, message=message, hint=hint, new=new)
                break


_STRING = r"""(?<!\S)s\\?" [^"\n]{1,200}\""""
_SUSPICIOUS_PATTERNS: Sequence[_LinePattern] = (
    _row(rf"({_STRING})\s+\.(?=\s|$)", "`.` prints a number: of a string, its length.",
         "Print a string with `type`.", r"\1 type"),
    _row(rf"({_STRING})\s+({_STRING})\s+\+(?=\s|$)", "`+` adds numbers; it doesn't join strings.",
         "Join strings in the buffer: `str-reset {1} str+ {2} str+ str$`.",
         r"str-reset \1 str+ \2 str+ str$"),
    _row(rf"({_STRING})\s+({_STRING})\s+=(?=\s|$)", "`=` compares numbers, not strings.",
         "Compare strings with `str=`.", r"\1 \2 str="),
    _row(r"(?<!\S)(-?[1-9]\d{0,5})\s+loop(?=\s|$)", "`loop` adds 1; it takes no step.",
         "Write `{1} +loop`.", r"\1 +loop"),
    _row(r'(?<!\S)(s|\.)" ([^"\n]{0,200}\\[nt][^"\n]{0,200}")', "`\\n` in this string is two characters.",
         "Print a line end with `cr`, or write `s\\\" …`, which reads escapes.", r's\\" \2'),
    _row(r"(?<!\S)(\d{1,6})[ \t]+(\d{1,6})[ \t]+(\??do)(?=\s|$)",
         "The loop counts from {2} to {1}: the limit comes first.", "Write `{2} {1} {3}`.", r"\2 \1 \3"),
    _row(rf"^(\s*)variable\s+{_NAME}\s+(-?\d{{1,9}})\s*$",
         "`variable` takes no value: `{3}` stays on the stack.",
         "Store the value after it: `variable {2} {3} {2} !`.", r"\1variable \2 \3 \2 !"),
    _row(rf"^(\s*)(-?\d{{1,9}})\s+variable\s+{_NAME}\s*$",
         "`variable` takes no value: `{2}` stays on the stack.",
         "Store the value after it: `variable {3} {2} {3} !`.", r"\1variable \3 \2 \3 !"),
    _row(r"^(\s*:\s[^\"\[]{1,200}?(?<!\S))char\s+([-+*/<>=!@.,])(?=\s[^\"]{0,200}\s;)(?!.*\simmediate\b)",
         "`char` in a definition reads its character only when the definition runs.",
         "Write `[char] {2}`.", r"\1[char] \2"),
    _row(r"^(\s*:\s+(\S+)\s+\([^()]*\)(?:(?!\s;(?:\s|$)|\").)*?)\s:\s+(\S+)\s",
         "`{3}` is defined inside the definition of `{2}`.",
         "Define `{3}` before `{2}`, outside of it.", ""),
)  # fmt: skip


def iter_suspicious_forms(text: str) -> Iterator[ForeignForm]:
    """Yield forms like ``s" hello" .`` and ``0 5 do``, which have a different meaning in Fifth."""
    names, values = _find_defined_names(text, "variable"), _find_defined_names(text, "value")
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        code = line[:_LINE_CHARS]
        for row in _SUSPICIOUS_PATTERNS:
            found = row.find.search(code)
            if found is None or "\\ " in code[: found.start()] or not _is_applicable(row, found):
                continue
            new = line[: found.start()] + found.expand(row.put) + line[found.end() :] if row.put else line
            yield _build_foreign_form(number, found, row, new)
        for rows, known in ((_STORE_PATTERNS, names), (_VALUE_PATTERNS, values)):
            for row in rows:
                found = next((each for each in row.find.finditer(code) if each[1].lower() in known), None)
                if found is not None and "\\ " not in code[: found.start()]:
                    new = line[: found.start()] + found.expand(row.put) + line[found.end() :]
                    yield _build_foreign_form(number, found, row, new)


_STORE_PATTERNS: Sequence[_LinePattern] = (
    _row(r"(?<!\S)(?<!variable )(\S{1,31})\s+([-+*/])(?=\s)(?!\s+[@!])",
         "`{1}` is the address of the variable, not its value.", "Read the value with `@`: `{1} @ {2}`.",
         r"\1 @ \2"),
    _row(r"^(?=\s*-?\d{1,9}\s+(\S{1,31})\s*$)(\s*-?\d{1,9}\s+\S+)\s*$", "Nothing stores the value in `{1}`.",
         "Store it with `!`: `{2} !`.", r"\2 !"),
    _row(r"(?<=\s[-+*/]\s)(?=(\S{1,31})\s+;)(\S+)\s+;", "Nothing stores the value in `{1}`.",
         "Store it with `!`: `{1} !`.", r"\2 ! ;"),
    _row(r"(?<!\S)(?<!variable )(\S{1,31})\s+(-?\d{1,9})\s+!(?=\s|$)",
         "`!` takes the value, then the address.",
         "Write `{2} {1} !`.", r"\2 \1 !"),
)  # fmt: skip


_VALUE_PATTERNS: Sequence[_LinePattern] = (
    _row(r"(?<!\S)(?<!value )(?<!constant )(\S{1,31})\s+@(?=\s|$)", "`{1}` is a value, not an address.",
         "Remove `@`: `{1}` leaves its value.", r"\1"),
    _row(r"(?<!\S)(?<!value )(?<!constant )(\S{1,31})\s+!(?=\s|$)", "`{1}` is a value, not an address.",
         "Change a value with `is`: `is {1}`.", r"is \1"),
)  # fmt: skip


def _is_applicable(row: _LinePattern, found: re.Match[str]) -> bool:
    """Return whether a pattern applies.

    The pattern of a backward loop applies only if the limit is the smaller number.
    """
    return not row.put.endswith(r"\3") or int(found[1]) < int(found[2])


def _build_foreign_form(number: int, found: re.Match[str], row: _LinePattern, new: str) -> ForeignForm:
    return ForeignForm(
        line=number,
        column=found.start() + 1 + (len(found[0]) - len(found[0].lstrip())),
        message=_fill_groups(row.message, found),
        hint=_fill_groups(row.hint, found),
        new=new,
    )


def _find_defined_names(text: str, word: str) -> set[str]:
    """Return the names that `word` defines, if the text defines them only once."""
    found = re.findall(rf"(?<!\S){word}\s+(\S{{1,31}})", text, re.IGNORECASE)
    others = re.findall(r"(?<!\S)(?:create|variable|value|constant|:)\s+(\S{1,31})", text, re.IGNORECASE)
    names = [name.lower() for name in others]
    return {name.lower() for name in found if names.count(name.lower()) == 1}


_COMPUTED_PATTERN = re.compile(
    r"(?<!\S)(\S{1,31})(?=\s+(?:-?\d+\s+(?:[-+*/]|mod|<|>|=|<>)|[.])(?:\s+(?![@!]|c@|c!|cells)|\s*$))"
)


def _fill_groups(text: str, found: re.Match[str]) -> str:
    return re.sub(r"\{([1-9])\}", lambda place: found.group(int(place[1])) or "", text)
