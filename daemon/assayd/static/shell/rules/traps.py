"""What trap is given is a script of its own, run later with the same functions and variables.

trap 'rm x' EXIT          command.blocked     (at the trap)
trap "$x" EXIT            trap.dynamic        (x is not known)
trap 'if' EXIT            shell.syntax
trap cleanup EXIT         nothing, where cleanup is a function
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assayd.findings.source_text import snippet
from assayd.model.finding import Finding
from assayd.static.shell.parse import source
from assayd.static.shell.parse.nodes import Node, walk
from assayd.static.shell.parse.options import ArgumentValue, Syntax, parse
from assayd.static.shell.parse.resolve import Invocation, WordForm, invocations
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.source import ShellSource
from assayd.static.shell.parse.variables import How, Setting, find_settings
from assayd.static.shell.parse.words import literal, pieces_of

MOST_TRAPS = 64
"""How many texts of traps are read; each costs a run of the parser."""

_SYNTAX = Syntax(short="lpP", ordered=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """The text that a trap runs, and where the trap is called in the script."""

    word: Node
    source: ShellSource


def traps_of(calls: Sequence[Invocation]) -> list[Trap]:
    """Return the texts of the traps of a script that are plain, and those of traps in them."""
    found: list[Trap] = []
    pending = [(call, call.word) for call in calls if call.name == "trap"]
    while pending and len(found) < MOST_TRAPS:
        call, place = pending.pop()
        word = action_of(call)
        text = literal(word) if word is not None else None
        if text is None or not text.strip() or text.isdecimal() or text == "-":
            continue
        trap = Trap(word=place, source=source.parse(text))
        found.append(trap)
        pending += [(inner, place) for inner in invocations(trap.source) if inner.name == "trap"]
    if pending:
        found.append(Trap(word=pending[0][1], source=ShellSource(text="", findings=(source.too_deep(),))))
    return found


def settings_of(trap: Trap) -> list[Setting]:
    """Return what a trap sets; what it is given itself is not known."""
    return [
        replace(one, value=None, how=How.BUILTIN)
        if one.value is not None and _takes_arguments(one.value)
        else one
        for one in find_settings(trap.source.nodes)
    ]


def _takes_arguments(word: Node) -> bool:
    names = (part.node("Param") for part in walk(word) if part.kind == "ParamExp")
    return any(
        name is not None and (name.text("Value").isdigit() or name.text("Value") in "@*") for name in names
    )


def action_of(call: Invocation) -> Node | None:
    """Return the word that says what a trap runs."""
    if call.name != "trap" or call.form is not WordForm.PLAIN:
        return None
    parsed = parse(_SYNTAX, [ArgumentValue(value=pieces_of(word), node=word) for word in call.arguments])
    shows = parsed.given("-l", "-p", "-P") or len(parsed.operands) < 2
    return None if shows else parsed.operands[0].node


def check_trap(script: ParsedScript, call: Invocation) -> None:
    """Refuse a trap whose text is not plain."""
    word = action_of(call)
    if word is not None and literal(word) is None:
        message = f"What this trap runs is known only then: {script.written(word)}."
        suggestion = "Write it in single quotes, or name a function: trap cleanup EXIT."
        script.error(word, "trap.dynamic", message, suggestion)


def at_trap(script: ParsedScript, trap: Trap, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Return findings of a trap's text, at the place of the trap."""
    line, column = script.source.place(trap.word.start)
    shown = snippet(script.source.text, line)
    for finding in findings:
        message = f"In the text of this trap: {finding.message}"
        yield replace(
            finding, message=message, line=line, column=column, end_line=line, snippet=shown, edit=None
        )
