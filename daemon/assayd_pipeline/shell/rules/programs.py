r"""The rules on awk programs and sed scripts.

awk '{ system("ls") }' f        awk.execute
awk '{ print | "sort" }' f      awk.execute
awk '@load "fork"' f            awk.load
awk '{ print > "/etc/x" }' f    path.outside
awk "{ print \$$n }" f          awk.dynamic     (a warning, if n is unknown)
awk '$1 > $min' f               awk.shell_variable   (a warning, if the shell has a variable min)
awk '{ print "x }' f            awk.unreadable
sed "$commands" f               sed.dynamic     (a warning, if it is unknown)
sed 's/a/b' f                   sed.unreadable
sed 's/a/ls/e' f                sed.execute
sed "s/a/$b/" f                 sed.undecided   (a warning)
sed -i.bak/../../x … f          path.outside

Of a sed script only a first `s` or `y` is read. The image has no shell for the other ways to run commands,
and the root is read-only for files that are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assayd_pipeline.shell.parse.nodes import Node
from assayd_pipeline.shell.parse.options import ArgumentValue, Parsed
from assayd_pipeline.shell.parse.resolve import Invocation
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import ANY
from assayd_pipeline.shell.rules.paths import PathUse, judge_path

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<skip>[ \t]+|\\\n|\#[^\n]*)"
    r"|(?P<end>[;\n{}])"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>[0-9\x01]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)"
    r"|(?P<sign>\|\||&&|\|&|>>|[<>=!+*%^-]=|\*\*=?|\+\+|--|[^\"])",
    re.DOTALL,
)
# Nothing in it is tried twice, so that it takes no longer than its length.
_PATTERN = re.compile(r"/(?>\\.|\[\^?+\]?+(?>\[:[a-z]++:\]|\\.|[^\]\\\n])*+\]|[^/\\\[\n])*+/", re.DOTALL)
_OPERATORS = frozenset(["case", "delete", "do", "else", "exit", "getline", "in", "print", "printf", "return"])


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def check_awk(script: ParsedScript, call: Invocation, parsed: Parsed) -> None:
    """Judge the program and the files of a call of awk."""
    operands = parsed.operands
    sources = [option.value for option in parsed.given("-e", "--source") if option.value is not None]
    if not sources and not parsed.given("-f", "--file", "-E", "--exec"):
        sources, operands = operands[:1], operands[1:]
    node = sources[0].node if sources else call.word
    assigned = [option.value.value for option in parsed.given("-v", "--assign") if option.value is not None]
    _check_program(script, node, "\n".join(source.value for source in sources), assigned)
    for operand in operands:
        if operand.value != "-" and not _ASSIGNMENT.fullmatch(operand.value):
            judge_path(script, operand.node, operand.value, PathUse.READS, "awk")


def _check_program(script: ParsedScript, node: Node, program: str, assigned: Sequence[str]) -> None:
    if ANY in program:
        message = "A part of the awk program is known only when it runs."
        suggestion = "Write the program in single quotes and hand values over with -v: "
        suggestion += "awk -v n=\"$n\" '{ print $n }' file."
        script.warn(node, "awk.dynamic", message, suggestion)
        return
    tokens = list(_tokens(program))
    if tokens and tokens[-1].kind == "broken":
        message = f"The awk program cannot be read from {tokens[-1].text[:40]!r} on."
        script.error(node, "awk.unreadable", message, "Close every string and every pattern on its own line.")
        return
    _check_shell_variables(script, node, tokens, assigned)
    printing = False
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else _Token("end", "")
        _check_token(script, node, token, following)
        if token.text in {"print", "printf", "getline"} or token.kind == "end":
            printing = token.kind != "end"
        elif printing and token.text in {">", ">>", "<"} and following.kind == "string":
            use = PathUse.READS if token.text == "<" else PathUse.WRITES
            judge_path(script, node, following.text[1:-1], use, "awk")


def _check_token(script: ParsedScript, node: Node, token: _Token, following: _Token) -> None:
    if token == _Token("name", "system"):
        message = "The awk program runs a command with system()."
        suggestion = "Run the command in the script itself, before or after awk."
        script.error(node, "awk.execute", message, suggestion)
    elif token.kind == "sign" and token.text in {"|", "|&"}:
        message = "The awk program starts a command with a pipe."
        suggestion = "Pipe the output of awk itself: awk '{ print $1 }' file | sort."
        script.error(node, "awk.execute", message, suggestion)
    elif token == _Token("sign", "@") and following.text != "namespace":
        message = f"The awk program loads code with @{following.text}, or calls a function by its name."
        script.error(node, "awk.load", message, "Write the functions out.")


def _check_shell_variables(
    script: ParsedScript, node: Node, tokens: Sequence[_Token], assigned: Sequence[str]
) -> None:
    """``awk '$2 >= $min' f``, if the shell has min and awk does not -> awk.shell_variable (a warning)."""
    names = {text.partition("=")[0] for text in assigned}
    fields = set[str]()
    for before, token in pairwise([_Token("end", ""), *tokens]):
        if token.kind == "name":
            (fields if before.text == "$" else names).add(token.text)
    of_the_shell = {setting.name for setting in script.settings}
    for name in sorted((fields - names) & of_the_shell):
        message = f"${name} in single quotes is a field of awk, not the variable of the shell."
        suggestion = f"Hand the value over: awk -v {name}=\"${name}\" '… {name} …', without a $ before it."
        script.warn(node, "awk.shell_variable", message, suggestion)


def _tokens(program: str) -> Iterator[_Token]:
    """Split a program into tokens; the last one is "broken" if gawk will report a syntax error there."""
    position, after_operand = 0, False
    while position < len(program):
        divides = program[position] != "/" or after_operand
        found = (_TOKEN if divides else _PATTERN).match(program, position)
        if found is None:
            yield _Token("broken", program[position:])
            return
        position = found.end()
        token = _Token(found.lastgroup or "pattern", found.group())
        if token.kind != "skip":
            # A slash after an operand divides; any other begins a pattern.
            after_operand = token.kind in {"string", "number", "pattern"} or token.text in {")", "]", "$"}
            after_operand = after_operand or (token.kind == "name" and token.text not in _OPERATORS)
            yield token


_SUBSTITUTES = re.compile(r"[sy][^\w\s\\]")
_SUBSTITUTION = re.compile(r"[sy](.)(?:\\.|(?!\1).)*+\1(?:\\.|(?!\1).)*+\1(\w*)", re.DOTALL)


def check_sed(script: ParsedScript, call: Invocation, parsed: Parsed) -> None:
    """Judge the script, as far as it is unknown, and the files of a call of sed."""
    operands = parsed.operands
    sources = [option.value for option in parsed.given("-e", "--expression") if option.value is not None]
    if not sources and not parsed.given("-f", "--file", "-e", "--expression"):
        sources, operands = operands[:1], operands[1:]
    for source in sources:
        if source.value.startswith(ANY):
            message = "A command of the sed script is known only when it runs."
            suggestion = 'Write the commands in plain text; a value may stand inside s: sed "s/a/$b/".'
            script.warn(source.node, "sed.dynamic", message, suggestion)
        elif ANY in source.value:
            message = "A value inside the sed script is known only when it runs; "
            message += "a / or & in it changes the script."
            script.warn(source.node, "sed.undecided", message, "Use awk -v for values that come from data.")
        elif _SUBSTITUTES.match(source.value):
            _check_substitution(script, source)
    in_place = parsed.given("-i", "--in-place")
    for option in in_place:
        if option.value is not None and "/" in option.value.value:
            message = "The backup that sed -i makes would be in another folder."
            script.error(option.node, "path.outside", message, "Give -i a plain ending, e.g. -i.bak.")
    for operand in operands:
        if operand.value != "-":
            use = PathUse.WRITES if in_place else PathUse.READS
            judge_path(script, operand.node, operand.value, use, "sed")


def _check_substitution(script: ParsedScript, source: ArgumentValue) -> None:
    """Judge the command ``s/a/b/`` at the beginning of a sed script."""
    found = _SUBSTITUTION.match(source.value)
    if found is None:
        message = "The sed script has a pattern that is not closed."
        suggestion = "Write the separator three times: s/a/b/."
        script.error(source.node, "sed.unreadable", message, suggestion)
    elif "e" in found[2]:
        message = "The sed script runs what it finds as a command (s///e)."
        script.error(source.node, "sed.execute", message, "Leave e out; run commands in the script itself.")
