r"""The rules on awk programs: nothing is run, loaded or written outside.

One bad line for each rule:

    awk '{ system("ls") }' f            awk.execute
    awk '{ print | "sort" }' f          awk.execute
    awk '@load "fork"' f                awk.load
    awk '{ f = "x"; @f() }' f           awk.load
    awk '{ print > "/etc/x" }' f        path.outside
    awk "{ print \$$n }" f              awk.dynamic     (n is not known beforehand)
    awk '{ print "x }' f                awk.unreadable
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.options import Parsed
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.words import ANY, NUMBER
from assayd.static.shell.rules.paths import PathUse, judge_path

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class _Kind(StrEnum):
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    PATTERN = "pattern"
    END = "end"
    SIGN = "sign"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str


_MOST_TOKENS = 200
"""A longer expression has no value that is known beforehand."""
_BEYOND = _Token(_Kind.SIGN, "+")

_TOKEN = re.compile(
    r"(?P<skip>[ \t]+|\\\n|\#[^\n]*)"
    r"|(?P<end>[;\n])"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>[0-9\x01]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)"
    r"|(?P<sign>\|\||&&|\|&|>>|[<>=!+*%^-]=|\*\*=?|\+\+|--|[^\"])",
    re.DOTALL,
)
# Nothing in it is tried twice, so that it takes no longer than its length.
_PATTERN = re.compile(r"/(?>\\.|\[\^?+\]?+(?>\[:[a-z]++:\]|\\.|[^\]\\\n])*+\]|[^/\\\[\n])*+/", re.DOTALL)
_CONTROL = frozenset(("if", "while", "for"))
_OPERATORS = frozenset(("print", "printf", "return", "in", "getline", "case", "delete", "exit", "do", "else"))
_FUNCTION_NAMES = frozenset(("system",))


def check(script: ParsedScript, call: Invocation, parsed: Parsed) -> None:
    """Judge the program and the files of a call of awk."""
    operands = parsed.operands
    sources = [option.value for option in parsed.given("-e", "--source") if option.value is not None]
    if not sources and not parsed.given("-f", "--file", "-E", "--exec"):
        sources, operands = operands[:1], operands[1:]
    node = sources[0].node if sources else call.word
    known = dict(_given(parsed))
    _check_program(script, node, "\n".join(source.value for source in sources), known)
    for operand in operands:
        if operand.value != "-" and not _ASSIGNMENT.fullmatch(operand.value):
            judge_path(script, operand.node, operand.value, PathUse.READS, "awk")


def _given(parsed: Parsed) -> Iterator[tuple[str, str]]:
    """Return the variables that ``-v`` sets."""
    for option in parsed.given("-v", "--assign"):
        found = _ASSIGNMENT.fullmatch(option.value.value) if option.value is not None else None
        if found is not None:
            yield found.group(1), found.group(2)


def _check_program(script: ParsedScript, node: Node, program: str, given: Mapping[str, str]) -> None:
    if ANY in program:
        message = "A part of the awk program is known only when it runs."
        suggestion = "Write the program in single quotes and hand values over with -v: "
        suggestion += "awk -v n=\"$n\" '{ print $n }' file."
        script.error(node, "awk.dynamic", message, suggestion)
        return
    tokens = list(_tokens(program))
    if tokens and tokens[-1].kind is _Kind.BROKEN:
        message = f"The awk program cannot be read from {tokens[-1].text[:40]!r} on."
        script.error(node, "awk.unreadable", message, "Close every string and every pattern on its own line.")
        return
    known = {**_assigned(tokens), **given}
    _check_shell_variables(script, node, tokens, given)
    for index, token in enumerate(tokens):
        _check_token(script, node, token, tokens[index + 1 : index + 2])
    for path, written in _files(tokens, known):
        judge_path(script, node, path, PathUse.WRITES if written else PathUse.READS, "awk")


def _check_shell_variables(
    script: ParsedScript, node: Node, tokens: Sequence[_Token], given: Mapping[str, str]
) -> None:
    """``awk '$2 >= $min' f``, where the shell has min and awk has not -> awk.shell_variable (a warning)."""
    fields, names = set[str](), set(given)
    for before, token in pairwise(tokens):
        if token.kind is _Kind.NAME:
            (fields if before.text == "$" else names).add(token.text)
    of_the_shell = {setting.name for setting in script.settings}
    for name in sorted((fields - names) & of_the_shell):
        message = f"${name} in single quotes is a field of awk, not the variable of the shell."
        suggestion = f"Hand the value over: awk -v {name}=\"${name}\" '… {name} …', without a $ before it."
        script.warn(node, "awk.shell_variable", message, suggestion)


def _check_token(script: ParsedScript, node: Node, token: _Token, following: Sequence[_Token]) -> None:
    if token.kind is _Kind.NAME and token.text in _FUNCTION_NAMES:
        message = f"The awk program runs a command with {token.text}()."
        script.error(
            node, "awk.execute", message, "Run the command in the script itself, before or after awk."
        )
    elif token.kind is _Kind.SIGN and token.text in {"|", "|&"}:
        message = "The awk program starts a command with a pipe."
        suggestion = "Pipe the output of awk itself: awk '{ print $1 }' file | sort."
        script.error(node, "awk.execute", message, suggestion)
    elif token.kind is _Kind.SIGN and token.text == "@":
        named = following[0].text if following else ""
        what = f"loads code with @{named}" if named in {"load", "include"} else f"calls @{named} by its name"
        if named != "namespace":
            script.error(node, "awk.load", f"The awk program {what}.", "Write the functions out.")


def _files(tokens: Sequence[_Token], known: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Return what print and getline are directed to or from, and whether it is written."""
    depth, printing = 0, -1
    for index, token in enumerate(tokens):
        if token.kind is _Kind.NAME and token.text in {"print", "printf"}:
            printing = depth
        elif token.kind is _Kind.END or token.text == "}":
            printing = -1
        elif token.kind is not _Kind.SIGN:
            continue
        elif token.text in "([":
            depth += 1
        elif token.text in ")]":
            depth -= 1
        elif token.text in {">", ">>"} and printing == depth:
            yield _target(_expression(tokens, index + 1), known), True
            printing = -1
        elif token.text == "<" and _reads_line(tokens[max(index - 5, 0) : index]):
            yield _target(_expression(tokens, index + 1), known), False


def _expression(tokens: Sequence[_Token], start: int) -> Sequence[_Token]:
    """Return an expression as far as it is looked at; what goes on beyond that is not known beforehand."""
    found = tokens[start : start + _MOST_TOKENS]
    return found if len(found) < _MOST_TOKENS else (*found, _BEYOND)


def _reads_line(before: Sequence[_Token]) -> bool:
    """Return whether a ``<`` after these few tokens belongs to getline, which may have a variable between."""
    texts = [token.text for token in before]
    return "getline" in texts and ";" not in texts and "\n" not in texts


def _target(tokens: Sequence[_Token], known: Mapping[str, str]) -> str:
    """Return the value of an expression that names a file, up to its end."""
    found, depth = "", 0
    for token in tokens:
        if token.kind is _Kind.END or token.text in {"}", ","}:
            break
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            break
        if token.kind is _Kind.STRING:
            found += re.sub(r"\\(.)", _escaped, token.text[1:-1], flags=re.DOTALL)
        elif token.kind is _Kind.NUMBER:
            found += NUMBER
        elif token.text not in {"(", ")"}:
            found += known.get(token.text, ANY)
    return found


def _escaped(found: re.Match[str]) -> str:
    return found.group(1) if found.group(1) in '"/\\' else ANY


def _assigned(tokens: Sequence[_Token]) -> dict[str, str]:
    """Return the variables that get one value in the whole program, a text: ``f = "tmp/" $1``."""
    found: dict[str, set[str]] = {}
    for index, (name, sign) in enumerate(pairwise(tokens)):
        if name.kind is _Kind.NAME and sign.text.endswith("=") and sign.text not in {"==", "!=", "<=", ">="}:
            value = _joined(_expression(tokens, index + 2)) if sign.text == "=" else ANY
            found.setdefault(name.text, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _joined(tokens: Sequence[_Token]) -> str:
    """Return the value of an assignment as far as it is strings and fields, one after the other."""
    found = ""
    for token in tokens:
        if token.kind is _Kind.END or token.text == "}":
            break
        if token.kind is _Kind.STRING:
            found += re.sub(r"\\(.)", _escaped, token.text[1:-1], flags=re.DOTALL)
        elif token.kind in {_Kind.NAME, _Kind.NUMBER} or token.text == "$":
            found += ANY
        else:
            return ANY
    return found


def _tokens(program: str) -> Iterator[_Token]:
    """Cut a program into tokens; a last one that is broken holds what cannot be read."""
    position, operand = 0, False
    controls: list[bool] = []
    previous = ""
    while position < len(program):
        if program[position] == "/" and not operand:
            found = _PATTERN.match(program, position)
            if found is None:
                yield _Token(_Kind.BROKEN, program[position:])
                return
            yield _Token(_Kind.PATTERN, found.group())
            operand, previous, position = True, "/", found.end()
            continue
        found = _TOKEN.match(program, position)
        if found is None:
            yield _Token(_Kind.BROKEN, program[position:])
            return
        position = found.end()
        kind, text = found.lastgroup, found.group()
        if kind == "skip":
            continue
        if text == "(":
            controls.append(previous in _CONTROL)
        closes_control = text == ")" and bool(controls) and controls.pop()
        operand = _ends_operand(str(kind), text) and not closes_control
        previous = text
        yield _Token(_Kind(str(kind)), text)


def _ends_operand(kind: str, text: str) -> bool:
    """Return whether a slash after this token divides."""
    if kind in {"string", "number"}:
        return True
    if kind == "name":
        return text not in _OPERATORS
    return text in {")", "]", "$", "++", "--"}
