"""Classifies the error of a failed pipeline step by the step's standard error, and suggests remedies.

The module contains a table of messages from bash, its tools and SQLite. The class helps to repair the step
and doesn't affect the verdict, because a step controls its own standard error. Source:
docs/kinds/pipeline.md.

    cat: sales.csv: No such file or directory        file_not_found
    no such table: sales                             table_missing
    syntax error near unexpected token `fi'          syntax_error
    /etc/x: Read-only file system                    permission_denied
    curl: (28) Operation timed out                   timeout
    NOT NULL constraint failed: t.b                  data_validation
    table t has no column named nope                 schema_mismatch
    line 6: frob: command not found                  command_not_found

The remedies are for a step that failed without a message, timed out, or needs a missing file. For a step
without output, the advice names the commands that use exit code 1 as a normal result:

    (status 1, and nothing written)     grep in line 2 ends with 1 when no line matches: …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assayd.did_you_mean import find_close_names
from assayd.model.text_limits import MESSAGE_CHARS, shorten_text

_MAX_ERROR_LINES = 500
_LINE_CHARS = 2000

_ADVICE_BY_COMMAND: Mapping[str, str] = {
    "grep": "exits with 1 if no line matches: write { grep … || true; } if that is fine",
    "egrep": "exits with 1 if no line matches: write { egrep … || true; } if that is fine",
    "fgrep": "exits with 1 if no line matches: write { fgrep … || true; } if that is fine",
    "diff": "exits with 1 if the files differ: append || true if that is fine",
    "cmp": "exits with 1 if the files differ: append || true if that is fine",
    "expr": "exits with 1 if the result is 0 or empty: write $((…))",
    "let": "exits with 1 if the result is 0: write x=$((…))",
    "test": "exits with 1 if the condition is false: check the compared values",
    "[": "exits with 1 if the condition is false: check the compared values",
    "[[": "exits with 1 if the condition is false: check the compared values",
    "((": "exits with 1 if the result is 0: write x=$((…)), or append || true",
}
_ANSWERING_PATTERN = re.compile(
    r"(?:^|[|;&({`]|\b(?:then|do|else)\b)\s*(grep|egrep|fgrep|diff|cmp|expr|let|test|\[\[?|\(\()(?=\s|\w)"
)
_MAX_NAMED = 3
_LOOPS = re.compile(r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*(while|until)\b")
_WAITING_LOOP = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*(?:while !|until)\s+(?:\[\[?|test) -[efs] [\"']?([\w./*$-]{1,80})"
)
_USAGE = re.compile(r"(?:[Tt]ry '|[Uu]sage: |jq: \d+ compile errors?$)")
_PROGRAM_PREFIX = re.compile(r"[a-z][\w./-]{0,60}: ")
_ASSIGNED = re.compile(r"\s*(?:local |export |readonly )?([A-Za-z_]\w*)=")
_MAX_LINES = 2000
_MAX_CHARS = 1000
_MISSING = re.compile(r"['‘: ]([\w./*-]{1,100})['’]?(?: for reading)?: No such file or directory")
_MAX_FILES = 6
_PATH = re.compile(r"\b(?:data|tmp|logs)/[\w./-]{1,200}\w")
_MAX_STEP_CHARS = 100_000


class ErrorClass(StrEnum):
    """The class of an error, which determines the repair that the error needs."""

    FILE_NOT_FOUND = "file_not_found"
    """A path that doesn't exist or has the wrong type."""
    TABLE_MISSING = "table_missing"
    """A table that doesn't exist."""
    SYNTAX_ERROR = "syntax_error"
    """Bash, SQL, an awk or sed program, a pattern or an option with invalid syntax."""
    PERMISSION_DENIED = "permission_denied"
    """An operation without the required permission."""
    TIMEOUT = "timeout"
    """The step, or something that it waited for, took too long."""
    DATA_VALIDATION = "data_validation"
    """Data that violates a constraint, a type or a format."""
    SCHEMA_MISMATCH = "schema_mismatch"
    """A statement that doesn't match the tables: columns, their number, existing objects."""
    COMMAND_NOT_FOUND = "command_not_found"
    """A command that is neither a tool nor a function."""
    UNKNOWN = "unknown"
    """Any other error."""


class ErrorSource(StrEnum):
    """The program that wrote an error message: bash (or its tools), or SQLite."""

    BASH = "bash"
    """A bash script: bash itself or one of its tools."""
    SQL = "sql"
    """SQLite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedError:
    """The class of an error, the line from which the class was inferred (or None), and the remedy."""

    error_class: ErrorClass
    line: str | None
    advice: str


ADVICE: Mapping[ErrorClass, str] = {
    ErrorClass.FILE_NOT_FOUND: "Check the path: it is relative to the sandbox directory (data/, tmp/, "
    "scripts/, logs/), and an earlier step must create the file.",
    ErrorClass.TABLE_MISSING: "Add a step before this one that has CREATE TABLE IF NOT EXISTS, or correct "
    "the table's name.",
    ErrorClass.SYNTAX_ERROR: "Correct the syntax before the quoted word: a sign or word is missing "
    "or extra there.",
    ErrorClass.PERMISSION_DENIED: "Read and write only inside the sandbox directory: data/, tmp/, logs/.",
    ErrorClass.TIMEOUT: "Make the command faster, or split the step.",
    ErrorClass.DATA_VALIDATION: "Clean the data in a step before this one: drop or fill empty values, remove "
    "duplicates, convert types.",
    ErrorClass.SCHEMA_MISMATCH: "Compare the statement with the tables' columns; name the columns in INSERT "
    "and use IF NOT EXISTS in CREATE.",
    ErrorClass.COMMAND_NOT_FOUND: "Use only the allowed commands, and define functions before they "
    "are called.",
    ErrorClass.UNKNOWN: "Correct the arguments of the command that the message names.",
}

_BOTH = frozenset(ErrorSource)
_BASH = frozenset({ErrorSource.BASH})
_SQL = frozenset({ErrorSource.SQL})


def _build_rule(error_class: ErrorClass, programs: frozenset[ErrorSource], *patterns: str) -> _ErrorRule:
    return _ErrorRule(error_class, programs, re.compile("|".join(patterns), re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class _ErrorRule:
    error_class: ErrorClass
    programs: frozenset[ErrorSource]
    pattern: re.Pattern[str]


# The first match wins, so specific patterns come before general ones.
_RULES = (
    _build_rule(
        ErrorClass.TABLE_MISSING,
        _BOTH,
        r"\bno such table\b",
        r"\btable \S+ does not exist",
        r'\brelation "[^"]*" does not exist',
    ),
    _build_rule(ErrorClass.COMMAND_NOT_FOUND, _BASH, r": command not found$", r": not a shell builtin$"),
    _build_rule(
        ErrorClass.TIMEOUT,
        _BOTH,
        r"\bexecution timeout\b",
        r"\btimed? ?out\b",
        r"^interrupted$",
        r"\bdatabase (table )?is locked\b",
    ),
    _build_rule(
        ErrorClass.PERMISSION_DENIED,
        _BOTH,
        r"\bpermission denied\b",
        r"\boperation not permitted\b",
        r"\bread-only file system\b",
        r"\breadonly database\b",
        r"^not authorized$",
        r"\baccess to \S+ is prohibited\b",
        r"\bcannot (unset|assign).*readonly\b",
        r": readonly variable$",
    ),
    _build_rule(
        ErrorClass.SCHEMA_MISMATCH,
        _SQL,
        r"\bno such (column|index|view|trigger|function|collation sequence)\b",
        r"\bhas no column named\b",
        r"\bhas \d+ columns? but \d+ values? were supplied\b",
        r"\b\d+ values for \d+ columns\b",
        r"^(table|view|index|trigger) \S+ already exists$",
        r"\bduplicate column name\b",
        r"\bambiguous column name\b",
        r"\bdo not have the same number of result columns\b",
        r"\bsub-select returns \d+ columns\b",
        r"\ball VALUES must have the same number of terms\b",
        r"\bcannot modify \S+ because it is a view\b",
        r"\bwrong number of arguments to function\b",
        r"\buse DROP (TABLE|VIEW) to delete\b",
        r"\bforeign key mismatch\b",
    ),
    _build_rule(
        ErrorClass.DATA_VALIDATION,
        _SQL,
        r"\bconstraint (failed|violation)\b",
        r"\bdatatype mismatch\b",
        r"\bcannot store \w+ value in\b",
        r"\bnull value\b",
        r"\binteger overflow\b",
        r"\bmalformed JSON\b",
        r"\bstring or blob too big\b",
        r"\bis not a database\b",
        r"\bdatabase disk image is malformed\b",
    ),
    _build_rule(
        ErrorClass.SYNTAX_ERROR,
        _SQL,
        r"\bsyntax error\b",
        r"^incomplete input$",
        r"\bunrecognized token\b",
        r"\bmisuse of (aggregate|window)\b",
        r"\baggregate functions are not allowed\b",
        r"\bone statement at a time\b",
        r"\bnumber of bindings supplied\b",
    ),
    _build_rule(
        ErrorClass.SYNTAX_ERROR,
        _BASH,
        r"\bsyntax error\b",
        r"\bunexpected (end of file|token|argument|EOF|newline)\b",
        r"\bunterminated\b",
        r"\bbad substitution\b",
        r"\bunknown (command|option)\b",
        r"^sed: -e expression\b",
        r"\bunmatched\b",
        r"\binvalid (regular expression|option|preceding regular expression|range end|back reference)\b",
        r"\bunrecognized option\b",
        r"\b(missing|extra) (file |destination )*operand\b",
        r"\boption requires an argument\b",
        r"\bmissing `\]'",
        r"\bnot a valid identifier\b",
        r"\bunbound variable$",
        r"\bcan only be used in a function$",
        r"\binvalid (field|byte|character|number of|line count|count at start)\b",
        r"\bhere-document at line \d+ delimited by end-of-file\b",
        r"^jq: (?:error: .*(?:not defined|syntax error)|\d+ compile error)",
        r"^sort: multi-character tab\b",
        r"^cut: (?:you must specify|the delimiter must)",
        r"^find: (?:paths must precede|missing argument|[^:]*-type\b)",
        r"^tr: range-endpoints\b",
        r"^awk: .*(?:syntax error|unexpected newline)",
    ),
    _build_rule(
        ErrorClass.DATA_VALIDATION,
        _BASH,
        r"\bconstraint (failed|violation)\b",
        r"\bnull value\b",
        r": invalid (number|date)\b",
        r"\binteger expression expected$",
        r"^(?:(?!\[: ).)*+\[: .*(?:unary operator expected|too many arguments)$",
        r"\bnumeric argument required$",
        r"\bdivision by (zero|0)\b",
        r"\bvalue too great for base\b",
        r"^jq: (?:parse )?error \(at |^(?:jq: )?parse error: ",
        r"\bexpression recursion level exceeded\b",
        r"\bbinary file .* matches\b",
    ),
    _build_rule(
        ErrorClass.FILE_NOT_FOUND,
        _BOTH,
        r"\bno such file\b",
        r"\bcannot (open|read|stat|access)\b",
        r"\bcan't read\b",
        r"\bunable to open (the )?database\b",
        r"\bis a directory\b",
        r"\bnot a directory\b",
    ),
)


def classify_error(text: str, *, program: ErrorSource, timed_out: bool = False) -> ClassifiedError:
    """Return the class of an error, or `UNKNOWN` if no rule matches its text.

    Args:
        text: the step's standard error, or SQLite's message, which can be any text.
        program: the program that wrote the message.
        timed_out: whether the step timed out; if it did, the message is ignored.
    """
    if timed_out:
        return _build_classified(ErrorClass.TIMEOUT, None)
    for line in text.splitlines()[:_MAX_ERROR_LINES]:
        seen = line.strip()[:_LINE_CHARS]
        for rule in _RULES:
            if program in rule.programs and rule.pattern.search(seen):
                return _build_classified(rule.error_class, seen)
    return _build_classified(ErrorClass.UNKNOWN, None)


def find_last_error_line(text: str) -> str:
    """Return the last line of an error message that isn't a usage message, or an empty string.

    A line that begins with a program's name takes precedence.
    """
    lines = [line.strip()[:_LINE_CHARS] for line in text.splitlines()[-_MAX_ERROR_LINES:]]
    told = [line for line in lines if line and not _USAGE.match(line)]
    named = [line for line in told if _PROGRAM_PREFIX.match(line)]
    return shorten_text((named or told or [""])[-1], MESSAGE_CHARS)


def _build_classified(error_class: ErrorClass, line: str | None) -> ClassifiedError:
    shown = None if line is None else shorten_text(line, MESSAGE_CHARS)
    return ClassifiedError(error_class=error_class, line=shown, advice=ADVICE[error_class])


def suggest_for_silent_failure(content: str) -> tuple[str, int | None]:
    """Return the advice for a bash step that failed without output, and the likely line or None."""
    named = [
        (number, found[1])
        for number, line in enumerate(content.split("\n"), 1)
        if not line.lstrip().startswith("#")
        for found in _ANSWERING_PATTERN.finditer(line)
    ]
    if (field := _find_awk_field(content)) is not None:
        line, name = field
        words = f"${name} in line {line} is an awk field, not the shell variable: "
        return (
            f"The step printed no error. {words}awk -v {name}=\"${name}\" '… {name} …', without a $.",
            line,
        )
    if not named:
        return (
            "The step printed no error. Add set -x to trace its commands, or find the one that can fail.",
            None,
        )
    shown = "; ".join(
        f"{name} in line {number} {_ADVICE_BY_COMMAND[name]}" for number, name in named[:_MAX_NAMED]
    )
    return f"The step printed no error. {shown}.", named[0][0] if len(named) == 1 else None


def _find_awk_field(content: str) -> tuple[int, str] | None:
    """Return the line and name of a shell variable that a single-quoted awk program uses like a field.

    Return None if no program does so.
    """
    lines = content.split("\n")[:_MAX_LINES]
    names = {found[1] for line in lines if (found := _ASSIGNED.match(line)) is not None}
    for number, line in enumerate(lines, 1):
        quoted = line[:_MAX_CHARS].split("'")[1::2] if re.search(r"\bg?awk\b", line) else []
        for name in (found for part in quoted for found in re.findall(r"\$([A-Za-z_]\w*)", part)):
            if name in names and f"-v {name}=" not in line:
                return number, name
    return None


def explain_exit_status(content: str, status: int | None) -> str:
    """Return a sentence with the lines that end a bash step with this status, or an empty string."""
    exits = re.compile(rf"\bexit {status}\b")
    lines = [n for n, line in enumerate(content.split("\n"), 1) if status and exits.search(line)]
    shown = ", ".join(map(str, lines[:_MAX_NAMED]))
    return f" Line {shown} ends the step with exit {status}." if lines else ""


def find_endless_loops(content: str) -> list[int]:
    """Return the lines of a bash step that contain potentially endless loops."""
    return [number for number, line in enumerate(content.split("\n"), 1) if _LOOPS.search(line)]


def suggest_for_waiting_loop(content: str) -> tuple[str, int] | None:
    """Return advice about a bash loop that waits for a file, and its line, or None if no loop waits."""
    for number, line in enumerate(content.split("\n"), 1):
        if (found := _WAITING_LOOP.search(line[:_MAX_CHARS])) is not None:
            words = f"Remove the loop on line {number}: no other process runs that could create `{found[1]}`."
            return words, number
    return None


def suggest_similar_path(message: str, others: Sequence[str]) -> str | None:
    """Return a suggestion of a path in other texts that resembles the missing path, or None."""
    found = _PATH.search(message)
    if found is None:
        return None
    named = {path for text in others for path in _PATH.findall(text[:_MAX_STEP_CHARS])} - {found[0]}
    near = find_close_names(found[0], sorted(named))
    return f"Did you mean {near[0]}? No step creates {found[0]}, and it isn't submitted." if near else None


def suggest_submitted_files(message: str, files: Iterable[str]) -> str | None:
    """Return advice with the missing file and the submitted files, or None if no file is named."""
    found = _MISSING.search(message)
    if found is None:
        return None
    known = ", ".join(sorted(files)[:_MAX_FILES]) or "none"
    return f"`{found[1]}` doesn't exist. Correct its name, or create it before this line. Submitted: {known}."


def find_steps_with_path(message: str, texts: Sequence[str]) -> list[int]:
    """Return the numbers of the steps with the path that a message reports as missing, or an empty list."""
    found = _PATH.search(message)
    if found is None:
        return []
    return [
        number for number, text in enumerate(texts, 1) if found[0] in _PATH.findall(text[:_MAX_STEP_CHARS])
    ]
