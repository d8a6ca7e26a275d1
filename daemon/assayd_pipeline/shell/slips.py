"""Explains mistakes in bash by ShellCheck's comments and a table of ShellCheck's codes.

    if [ -s x ] then            shell.syntax      SC1010    edit: if [ -s x ]; then
    limit = 5                   command.not_allowed, SC2283    edit: limit=5
    echo "$names[0]"            shell.suspicious  SC1087    edit: echo "${names[0]}"   (a warning)

ShellCheck checks only scripts that bash can't parse, that a rule refuses, or that contain a form which is
valid but has a different meaning than intended. Messages and hints are in `data/shellcheck.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path

from assayd.findings.source_text import get_line, get_snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.text_limits import shorten_text
from assayd.static.python.safe_fixes import build_edit
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.mending import close_quotes
from assayd_pipeline.shell.parse.reader import LinterComment

_HEREDOC_PATTERN = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_MIDDLE_PATTERN = re.compile(r"(?:else|elif|then|do)\b")
_ARGUMENT = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|\$\([^()]*\)|[^,"'])+)\s*(?:,|$)""")


def closed(text: str, line: int, closer: str) -> Iterator[str]:
    """Yield versions of the script in which a quote, a here-document, or the block of a line is closed."""
    if closer == "quote":
        yield from close_quotes(text, '"')
    elif closer == "heredoc":
        words = _HEREDOC_PATTERN.findall(text)
        if words:
            yield f"{text.rstrip(chr(10))}\n{words[-1][1]}\n"
    else:
        yield from _insert_closer(text, line, closer)


def _insert_closer(text: str, line: int, closer: str) -> Iterator[str]:
    """Yield versions with a block closed after the more deeply indented lines, or at the end."""
    lines = text.rstrip("\n").split("\n")
    indent = _measure_indent(lines[line - 1])
    last = line
    for number, each in enumerate(lines[line:], line + 1):
        if not each.strip():
            continue
        if len(_measure_indent(each)) <= len(indent) and not _MIDDLE_PATTERN.match(each.strip()):
            break
        last = number
    yield "\n".join((*lines[:last], f"{indent}{closer}", *lines[last:], ""))
    yield "\n".join((*lines, f"{indent}{closer}", ""))


def explain_foreign_call(text: str, line: int, seen: re.Match[str], found: Finding) -> Finding | None:
    """Return the finding for a call or definition in the syntax of another language.

    It has an edit only if the corrected script is valid bash.
    """
    indent, name, inside, opens = seen.groups()
    lines = text.split("\n")
    if opens:
        lines[line - 1] = f"{indent}{name}() {{"
        words = [one.strip() for one in inside.split(",") if one.strip().isidentifier()]
        lines[line:line] = [f'{indent}  local {word}="${n}"' for n, word in enumerate(words, 1)]
        message = f"`{name}({inside})`: bash functions have no parameters in parentheses."
        hint = f"Write `{name}() {{`, and read the arguments as `$1`, `$2`."
    else:
        command = "echo" if name in {"print", "printf", "console"} else name
        arguments = " ".join(one.strip() for one in _ARGUMENT.findall(inside))
        lines[line - 1] = f"{indent}{command} {arguments}".rstrip()
        message = f"`{name}(…)` isn't a call in bash: parentheses after a name define a function."
        hint = f"Write a call without parentheses or commas: `{lines[line - 1].strip()}`."
    candidate = "\n".join(lines)
    readable = reader.parse_script(candidate).tree is not None
    return replace(
        found,
        message=message,
        line=line,
        column=len(indent) + 1,
        snippet=get_snippet(text, line),
        suggestion=hint,
        edit=build_edit(text, candidate) if readable else None,
        context="ShellCheck SC1065",
    )


def _measure_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


RULES = (
    Rule(id="shell.mistake", title="A command that can't work", help="Bad: local total=0. Good: total=0."),
    Rule(
        id="shell.suspicious",
        title="A form that means something else",
        severity=Severity.WARNING,
        help='Bad: echo "$names[0]". Good: echo "${names[0]}".',
    ),
)
_MISTAKES_FILE = Path(__file__).parent / "data" / "shellcheck.toml"
_LINE_CHARS = 2000
_MAX_LINES = 2000
_SHOWN_CHARS = 110
_TEST_BY_OPERATOR = {">": "gt", "<": "lt", ">=": "ge", "<=": "le"}
_CONSEQUENCE_RULES = frozenset(
    {
        "builtin.test_open",
        "command.dynamic",
        "command.not_allowed",
        "command.obscured",
        "variable.dynamic_name",
    }
)
"""Rules whose findings result from a mistake on the same line."""
_SUSPICIOUS_FORMS = re.compile(
    r"""\blocal\b|\breturn\s+["'$A-Za-z]|=~\s*["']|\{[\w$]{1,40}\.\.[\w$]{1,40}\}|\[\s[^\]\n]{0,80}\s[<>]=?\s|=\(
    |\[\s[^\]\n]{0,80}=~|\$\w{1,40}\[|[“”‘’\u2010-\u2015\u00a0]|\b0\d|\b(?:if|while)\s+\(
    |\[\s[^\]\n]{1,80}["'\w}](?:==?|!=)["'$\w]|\s=[<>]\s|\]\s+(?:or|and)\s|2>&1\s*>|\d&?>\s?\d|'[^'"\n]{0,80}\$\{?[A-Za-z_]
    |\bexpr\s+["$\w]+[-+*/%]["$\w]|>\s*(?:awk|cat|cut|grep|head|sed|sort|tail|tee|tr|uniq|wc)\s*$
    |\|\s*(?:while|for|read|mapfile|readarray)\b|^[ \t]*\(|\+=["'\w$]|\$\{\#\w+\}
    |\$\{?(?!\w+\[)\w+\}?["]?\s*;\s*do\b
    |\[\s[^\]\n]{0,80}\s-(?:eq|ne|gt|lt|ge|le)\s+["']?[A-Za-z]|<<<\s*[\w-]{1,80}[/.]\w""",
    re.VERBOSE | re.MULTILINE,
)
"""Valid forms with another meaning than intended; ShellCheck is only run on scripts that contain one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptMistake:
    """The meaning of a ShellCheck code in this project. The header of the table describes the fields."""

    code: int
    level: str
    message: str
    hint: str
    find: str = ""
    put: str | None = None
    at: int | None = None
    back: int = 0
    cause: bool = False
    covers: int = 0
    whole: bool = False
    every: bool = False
    above: bool = False
    call: bool = False
    compare: bool = False
    assigned: int = 0
    close: str = ""


@cache
def load_mistake_table() -> tuple[ScriptMistake, ...]:
    """Return the table, which begins with the most helpful entries. A code can have several entries."""
    return tuple(
        ScriptMistake(**told) for told in tomllib.loads(_MISTAKES_FILE.read_text(encoding="utf-8"))["code"]
    )


@cache
def _map_mistakes_by_code() -> dict[int, list[ScriptMistake]]:
    found: dict[int, list[ScriptMistake]] = {}
    for slip in load_mistake_table():
        found.setdefault(slip.code, []).append(slip)
    return found


def explain_unreadable(text: str, found: Finding) -> Finding | None:
    """Return a finding that explains why bash can't parse a script, or None without an explanation."""
    told = reader.lint(text)
    for slip in load_mistake_table():
        at = (one for one in told if one.code == slip.code) if slip.code else _find_matches(text, slip)
        for comment in at:
            explained = _explain_mistake(text, slip, _place_comment(slip, comment, told), found)
            if explained is not None:
                return explained
    return None


def _find_matches(text: str, slip: ScriptMistake) -> Iterator[LinterComment]:
    """Yield the positions for an entry without a code, at which lines match the entry's pattern."""
    pattern = re.compile(slip.find)
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        found = pattern.search(line[:_LINE_CHARS])
        if found is not None:
            yield LinterComment(
                code=0, line=number, column=found.start() + 1, end_line=number, end_column=found.end() + 1
            )


def add_mistake_findings(text: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings about a valid script, with ShellCheck's findings in place of those they explain.

    ShellCheck runs only if there is an error, or the script contains a suspicious form.
    """
    suspicious = _SUSPICIOUS_FORMS.search(text) is not None or _overwrites_input(text)
    if not suspicious and not any(one.is_error for one in findings):
        return tuple(findings)
    kept = list(findings)
    added: list[Finding] = []
    lines: set[int] = set()
    for comment, slip in (
        (one, slip) for one in reader.lint(text) for slip in _map_mistakes_by_code().get(one.code, ())
    ):
        following = _find_consequences(slip, comment, kept)
        if comment.line in lines or (not following and slip.level == "never"):
            continue
        base = following[0] if following else _build_finding(certain=slip.level == "error")
        made = _explain_mistake(text, slip, comment, base)
        if made is not None:
            kept = [one for one in kept if one not in following]
            added.append(made)
            lines.add(comment.line)
    return tuple(sorted((*kept, *added), key=lambda one: (one.line or 0, one.column or 0)))


def _find_consequences(
    slip: ScriptMistake, comment: LinterComment, found: Sequence[Finding]
) -> list[Finding]:
    """Return the findings that result from a mistake, because bash misreads a command or test there."""
    covered = range(comment.line, comment.line + slip.covers + 1)
    return [one for one in found if slip.cause and one.rule in _CONSEQUENCE_RULES and one.line in covered]


def _overwrites_input(text: str) -> bool:
    """Return whether a line redirects output to a file that the same line also uses."""
    return any(
        len(line) <= _LINE_CHARS and line.find(found[1]) < found.start(1)
        for line in text.split("\n")
        if ">" in line
        for found in _TARGET.finditer(line[:_LINE_CHARS])
    )


_TARGET = re.compile(r">\s?([\w./-]{3,200})")


def _build_finding(*, certain: bool) -> Finding:
    rule, severity = ("shell.mistake", Severity.ERROR) if certain else ("shell.suspicious", Severity.WARNING)
    return Finding(rule=rule, category="command", message="", severity=severity)


def _place_comment(
    slip: ScriptMistake, comment: LinterComment, told: Sequence[LinterComment]
) -> LinterComment:
    """Return the comment, moved to the position that the table's entry specifies."""
    other = next((one for one in told if one.code == slip.at), None)
    place = comment if other is None else other
    if slip.above and place.line > 1:
        return replace(place, line=place.line - 1, column=1, end_column=1)
    return place


def _explain_mistake(
    text: str, slip: ScriptMistake, comment: LinterComment, found: Finding
) -> Finding | None:
    """Return the finding for a mistake with its edit, or None if the line doesn't match the pattern."""
    line = get_line(text, comment.line)
    if line is None or len(line) > _LINE_CHARS:
        return None
    start = 0 if slip.whole else max(comment.column - 1 - slip.back, 0)
    seen = re.compile(slip.find).search(line, start) if slip.find else None
    if slip.find and seen is None:
        return None
    if slip.assigned and seen is not None and seen[slip.assigned] not in _find_assigned_names(text):
        return None
    if slip.call and seen is not None:
        return explain_foreign_call(text, comment.line, seen, found)
    groups = ["", *(seen.groups("") if seen is not None else ())]
    word = line[comment.column - 1 : comment.end_column - 1] if comment.end_line == comment.line else ""
    values = {
        "word": shorten_text(word, 60),
        "line": comment.line,
        "op": _TEST_BY_OPERATOR.get(groups[-1].strip("\\"), "gt"),
    }
    edit = _find_edit(text, line, slip, comment, seen)
    hint = slip.hint.format(*groups, **values)
    return replace(
        found,
        message=slip.message.format(*groups, **values),
        line=comment.line,
        column=comment.column,
        snippet=get_snippet(text, comment.line),
        suggestion=hint if edit is None else f"{hint}{_describe_correction(edit)}",
        edit=edit,
        context=f"ShellCheck SC{slip.code}" if slip.code else found.context,
    )


@lru_cache(maxsize=1)
def _find_assigned_names(text: str) -> frozenset[str]:
    """Return the variables to which a script assigns a value, including all words after `read`."""
    read = (_READ.search(command) for command in _COMMAND_END.split(text))
    words = (_WORD.findall(found.string, found.end()) for found in read if found is not None)
    return frozenset(chain(_ASSIGNMENT.findall(text), _LOOP.findall(text), *words))


_ASSIGNMENT = re.compile(r"(?:^|[;&|({\s])(\w+)=", re.MULTILINE)
_LOOP = re.compile(r"\bfor\s+(\w+)")
_COMMAND_END = re.compile(r"[\n;|&]")
_READ = re.compile(r"\bread\b")
_WORD = re.compile(r"\w+")


def _describe_correction(edit: Edit) -> str:
    """Return a sentence with the corrected line, or an empty string for a long or multi-line correction."""
    new = edit.replacement.strip()
    short = new and "\n" not in new and len(new) <= _SHOWN_CHARS and edit.start_line == edit.end_line
    return f" Write `{new}`." if short else ""


def _find_edit(
    text: str, line: str, slip: ScriptMistake, comment: LinterComment, seen: re.Match[str] | None
) -> Edit | None:
    """Return the edit for a mistake, or None if bash can't parse any edited script."""
    for candidate in _iter_candidate_texts(text, line, slip, comment, seen):
        if candidate != text and reader.parse_script(candidate).tree is not None:
            return build_edit(text, candidate)
    return None


def _iter_candidate_texts(
    text: str, line: str, slip: ScriptMistake, comment: LinterComment, seen: re.Match[str] | None
) -> Iterator[str]:
    if slip.close:
        yield from closed(text, comment.line, slip.close)
    elif seen is not None and (put := _build_replacement(slip, seen)) is not None:
        if slip.every:
            changed = re.sub(slip.find, put, line)
        else:
            changed = line[: seen.start()] + seen.expand(put) + line[seen.end() :]
        lines = text.split("\n")
        yield "\n".join((*lines[: comment.line - 1], changed, *lines[comment.line :]))


def _build_replacement(slip: ScriptMistake, seen: re.Match[str]) -> str | None:
    if slip.compare:
        return f" -{_TEST_BY_OPERATOR[seen[1].strip(chr(92))]} "
    return slip.put
