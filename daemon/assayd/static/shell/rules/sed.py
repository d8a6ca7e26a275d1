"""The rules on sed scripts: nothing is run, and files stay inside.

sed 's/a/ls/e' f            sed.execute
sed '1e ls' f               sed.execute
sed 'w /etc/x' f            path.outside
sed -i.bak/../../x … f      path.outside
sed "$commands" f           sed.dynamic     (not known beforehand)
sed "s/a/$b/" f             sed.undecided   (a warning)
sed 's/a/b' f               sed.unreadable
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.options import Parsed
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.words import ANY
from assayd.static.shell.rules.paths import PathUse, judge_path

_NUMBER = re.compile(r"[0-9\x01]+(~[0-9\x01]+)?|\$")
_BETWEEN = re.compile(r"[ \t]*[+~]?")
_SPACE = re.compile(r"[ \t\n;]*")
_BLANKS = re.compile(r"[ \t]*")
_LABEL = re.compile(r"[^\n;}]*")
_LINE = re.compile(r"[^\n]*")
_TEXT = re.compile(r"(?:\\.|[^\\\n])*(?:\\\Z)?", re.DOTALL)
_EXIT = re.compile(r"[ \t]*[0-9\x01]*")
_NOTHING = re.compile("")
# What follows each command, but for those that name files or patterns.
_REST = {
    **dict.fromkeys("={}dDgGhHnNpPxzF", _NOTHING),
    **dict.fromkeys("aic", _TEXT),
    **dict.fromkeys(":btTv", _LABEL),
    **dict.fromkeys("qQlL", _EXIT),
    **dict.fromkeys("e#", _LINE),
}


class _Unreadable(Exception):
    """A script that sed would refuse, or that is not known; never leaves this module."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(slots=True)
class _Found:
    """What a sed script does: commands that run something, files that it reads and writes."""

    executes: list[str] = field(default_factory=list)
    files: list[tuple[str, bool]] = field(default_factory=list)


def check(script: ParsedScript, call: Invocation, parsed: Parsed) -> None:
    """Judge the script and the files of a call of sed."""
    operands = parsed.operands
    sources = [option.value for option in parsed.given("-e", "--expression") if option.value is not None]
    if not sources and not parsed.given("-f", "--file", "-e", "--expression"):
        sources, operands = operands[:1], operands[1:]
    node = sources[0].node if sources else call.word
    _check_script(script, node, "\n".join(source.value for source in sources))
    in_place = parsed.given("-i", "--in-place")
    for option in in_place:
        if option.value is not None and "/" in option.value.value:
            message = "The backup that sed -i makes would lie in another folder."
            script.error(option.node, "path.outside", message, "Give -i a plain ending, e.g. -i.bak.")
    for operand in operands:
        if operand.value != "-":
            judge_path(
                script,
                operand.node,
                operand.value,
                PathUse.WRITES if bool(in_place) else PathUse.READS,
                "sed",
            )


def _check_script(script: ParsedScript, node: Node, text: str) -> None:
    found = _Found()
    try:
        _read(text, found)
    except _Unreadable as problem:
        suggestion = "Write the commands in single quotes and separate them by ;."
        if problem.rule == "sed.dynamic":
            suggestion = 'Write the commands in plain text; a value may stand inside s: sed "s/a/$b/".'
        script.error(node, problem.rule, str(problem), suggestion)
    for command in found.executes:
        message = f"The sed script runs what it finds as a command ({command})."
        script.error(node, "sed.execute", message, "Leave e out; run commands in the script itself.")
    for path, written in found.files:
        judge_path(script, node, path, PathUse.WRITES if written else PathUse.READS, "sed")
    if ANY in text and not found.executes:
        message = (
            "A value inside the sed script is known only when it runs; a / or & in it changes the script."
        )
        script.warn(node, "sed.undecided", message, "Use awk -v for values that come from data.")


def _read(text: str, found: _Found) -> None:
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    while position < len(text):
        position = _command(text, _address(text, position), found)
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]


def _address(text: str, position: int) -> int:
    """Return where the command behind the addresses begins."""
    position = _one_address(text, position)
    position = _skip(_BLANKS, text, position)
    if text[position : position + 1] == ",":
        position = _skip(_BETWEEN, text, position + 1)
        position = _one_address(text, position)
    while text[position : position + 1] in {" ", "\t", "!"}:
        position += 1
    return position


def _one_address(text: str, position: int) -> int:
    number = _NUMBER.match(text, position)
    if number is not None:
        return number.end()
    if text[position : position + 1] == "/":
        return _flags(text, _delimited(text, position, "/"))
    if text[position : position + 1] == "\\":
        return _flags(text, _delimited(text, position + 1, text[position + 1 : position + 2]))
    return position


def _flags(text: str, position: int) -> int:
    while text[position : position + 1] in {"I", "M"}:
        position += 1
    return position


def _delimited(text: str, position: int, mark: str) -> int:
    """Return the place behind the closing mark of a pattern that begins with one at `position`."""
    index = position + 1
    while mark and index < len(text):
        if text[index] == "\\":
            index += 2
        elif text[index] == mark:
            return index + 1
        else:
            index += 1
    raise _Unreadable("sed.unreadable", "The sed script has a pattern that is not closed.")


def _command(text: str, position: int, found: _Found) -> int:
    """Read one command and return the place behind it."""
    name = text[position : position + 1]
    after = position + 1
    if name in _REST:
        if name == "e":
            found.executes.append("e")
        return _skip(_REST[name], text, after)
    if name in {"r", "R", "w", "W"}:
        return _file(text, after, found, written=name in {"w", "W"})
    if name in {"y", "s"}:
        after = _second(text, after)
        return after if name == "y" else _flags_of_s(text, after, found)
    if name == ANY or not name:
        raise _Unreadable("sed.dynamic", "A command of the sed script is known only when it runs.")
    raise _Unreadable("sed.unreadable", f"The sed script has a command that sed does not know: {name!r}.")


def _second(text: str, position: int) -> int:
    """Return the place behind both parts of ``s`` or ``y``."""
    mark = text[position : position + 1]
    if mark == ANY:
        raise _Unreadable("sed.dynamic", "What separates the parts of s is known only when it runs.")
    return _delimited(text, _delimited(text, position, mark) - 1, mark)


def _flags_of_s(text: str, position: int, found: _Found) -> int:
    while position < len(text) and text[position] not in "\n;}# \t":
        flag = text[position]
        if flag == ANY:
            raise _Unreadable("sed.dynamic", "The flags of s are known only when it runs.")
        if flag == "e":
            found.executes.append("s///e")
        if flag == "w":
            return _file(text, position + 1, found, written=True)
        position += 1
    return _skip(_BLANKS, text, position)


def _file(text: str, position: int, found: _Found, *, written: bool) -> int:
    begin = _skip(_BLANKS, text, position)
    end = _skip(_LINE, text, begin)
    found.files.append((text[begin:end], written))
    return end


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match is not None else position
