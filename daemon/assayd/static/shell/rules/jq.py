"""The rules on jq: files that it reads stay inside, and it loads no modules from elsewhere.

jq takes its options apart in a way of its own: some take two values, and flags are glued in any order.

jq '.a' /etc/x                        path.outside
jq --slurpfile a /etc/x '.a' f        path.outside
jq -L /usr/lib '.a' f                 option.refused
jq 'import "/etc/x" as $x; .' f       option.refused
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assayd.static.shell.parse.options import ArgumentValue
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.rules.paths import PathUse, judge_path

VALUES: Mapping[str, int] = {
    "--arg": 2,
    "--argjson": 2,
    "--argfile": 2,
    "--slurpfile": 2,
    "--rawfile": 2,
    "--indent": 1,
    "-L": 1,
}
"""How many values each option takes; others take none."""
FLAGS = (
    "--slurp --raw-output --join-output --ascii-output --color-output --monochrome-output --sort-keys --tab "
    "--unbuffered --stream --seq --null-input --raw-input --from-file --compact-output --exit-status --args "
    "--jsonargs --help --version"
)
_FILES = frozenset(("--argfile", "--slurpfile", "--rawfile"))
_LOADS = re.compile(r"(?:^|[\s;}])(?:import|include)\s*\"")


@dataclass(slots=True)
class _Taken:
    operands: list[ArgumentValue] = field(default_factory=list)
    files: list[tuple[str, ArgumentValue]] = field(default_factory=list)
    loads: list[ArgumentValue] = field(default_factory=list)
    from_file: bool = False
    texts_after: int | None = None


def check(script: ParsedScript, call: Invocation, arguments: Sequence[ArgumentValue]) -> None:
    """Judge a call of jq."""
    taken = _take(arguments)
    program, operands = taken.operands[:1], taken.operands[1:]
    if taken.from_file:
        taken.files += [("--from-file", each) for each in program]
    elif program and _LOADS.search(program[0].value):
        taken.loads.append(program[0])
    for argument in taken.loads:
        message = "jq loads a module from a file here."
        script.error(argument.node, "option.refused", message, "Write the functions into the program itself.")
    for option, value in taken.files:
        judge_path(script, value.node, value.value, PathUse.READS, f"jq {option}")
    most = len(operands) if taken.texts_after is None else max(taken.texts_after - 1, 0)
    for operand in operands[:most]:
        judge_path(script, operand.node, operand.value, PathUse.READS, "jq")


def _take(arguments: Sequence[ArgumentValue]) -> _Taken:
    """Take the arguments apart as jq does: options anywhere, up to ``--``."""
    taken, rest = _Taken(), list(arguments[::-1])
    while rest:
        argument = rest.pop()
        text = argument.value
        if text == "--":
            taken.operands += rest[::-1]
            break
        if not text.startswith("-") or text == "-":
            taken.operands.append(argument)
            continue
        values = [rest.pop() for _ in range(VALUES.get(text, 0)) if rest]
        if text in _FILES:
            taken.files += [(text, value) for value in values[1:]]
        glued = text[1:] if not text.startswith("--") else ""
        taken.from_file = taken.from_file or "f" in glued or text == "--from-file"
        if text.startswith("-L"):
            taken.loads.append(argument)
        if text in {"--args", "--jsonargs"} and taken.texts_after is None:
            taken.texts_after = len(taken.operands) or 1
    return taken
