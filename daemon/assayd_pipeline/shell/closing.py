"""Proposes ends of open blocks, quotes and here-documents in bash, and correct forms of calls.

Callers check each proposal: an edit is offered only if bash can parse the edited script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from assayd.findings.source_text import snippet
from assayd.model.finding import Finding
from assayd.static.python.safe_fixes import edit_between
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.mending import close_quotes

_HEREDOC = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_MIDDLE = re.compile(r"(?:else|elif|then|do)\b")
_ARGUMENT = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|\$\([^()]*\)|[^,"'])+)\s*(?:,|$)""")


def closed(text: str, line: int, closer: str) -> Iterator[str]:
    """Yield versions of the script that close a construct which a line opens."""
    if closer == "quote":
        yield from close_quotes(text, '"')
    elif closer == "heredoc":
        words = _HEREDOC.findall(text)
        if words:
            yield f"{text.rstrip(chr(10))}\n{words[-1][1]}\n"
    else:
        yield from _insert_closer(text, line, closer)


def _insert_closer(text: str, line: int, closer: str) -> Iterator[str]:
    """Yield versions with a block closed after the more deeply indented lines, or at the end."""
    lines = text.rstrip("\n").split("\n")
    indent = _indentation(lines[line - 1])
    last = line
    for number, each in enumerate(lines[line:], line + 1):
        if not each.strip():
            continue
        if len(_indentation(each)) <= len(indent) and not _MIDDLE.match(each.strip()):
            break
        last = number
    yield "\n".join((*lines[:last], f"{indent}{closer}", *lines[last:], ""))
    yield "\n".join((*lines, f"{indent}{closer}", ""))


def called(text: str, line: int, seen: re.Match[str], found: Finding) -> Finding | None:
    """Return the finding for a call or definition in the syntax of another language, or None."""
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
    readable = reader.read(candidate).tree is not None
    return replace(
        found,
        message=message,
        line=line,
        column=len(indent) + 1,
        snippet=snippet(text, line),
        suggestion=hint,
        edit=edit_between(text, candidate) if readable else None,
        context="ShellCheck SC1065",
    )


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
