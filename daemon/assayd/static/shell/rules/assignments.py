"""The rules on variables: what may not be set, and names that are known only when the script runs.

PATH=/tmp                 variable.protected
for PATH in /tmp; do      variable.protected
(( PATH = 1 ))            variable.protected
IFS=$x                    variable.ifs
IFS=,                     variable.ifs_kept   (a warning; not in a subshell or a function)
export "$name=1"          variable.dynamic_name
x='a[$(ls)]'              arithmetic.hidden_command
x=$(echo 'a[$(ls)]')      arithmetic.hidden_command
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assayd.static.shell.parse.nodes import Node, walk
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.variables import How, Setting
from assayd.static.shell.parse.words import arguments_of, is_known, literal, values_of

_NAMED = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<rest>\[.*\]|\+?=.*|\[.*\]\+?=.*)?", re.DOTALL)
_BEGINNING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?=\[|\+?=)")
_SUBSCRIPT = re.compile(r"(?P<open>[A-Za-z0-9_]\[)|(?P<inner>\[)|(?P<close>\])|(?P<runs>\$\(|`|@P\})")


def hides(text: str) -> bool:
    """Return whether a text has a subscript that runs a command when arithmetic, unset or read look at it."""
    depth = 0
    for found in _SUBSCRIPT.finditer(text):
        match found.lastgroup:
            case "open":
                depth += 1
            case "inner":
                depth += depth > 0
            case "close":
                depth -= depth > 0
            case _ if depth:
                return True
    return False


def check_setting(script: ParsedScript, setting: Setting) -> None:
    """Judge one place where the grammar sets a variable."""
    _check_variable(script, setting.node, setting.name, setting.how, setting.command)
    words = [setting.value] if setting.value is not None else []
    if setting.array is not None:
        elements = setting.array.nodes("Elems")
        words += [value for value in (each.node("Value") for each in elements) if value is not None]
    for word in words:
        for value in _values(script, setting, word):
            check_text(script, word, value)
        for printed in _printed(word):
            check_text(script, word, printed)


def _values(script: ParsedScript, setting: Setting, word: Node) -> Sequence[str]:
    if setting.how is How.LOOP:
        return [value for one in arguments_of(word, script.known) for value in one.values]
    return values_of(word, script.known)


def _printed(word: Node) -> Iterator[str]:
    """Return what echo and printf print inside a value: ``x=$(echo …)``."""
    for call in (node for node in walk(word) if node.kind == "CallExpr"):
        texts = [literal(argument) for argument in call.nodes("Args")]
        if texts and texts[0] in {"echo", "printf"}:
            yield from (text for text in texts if text is not None)


def check_name(script: ParsedScript, word: Node, what: str, command: Node) -> None:
    """Judge a word that names a variable for a builtin to set."""
    text = literal(word)
    beginning = _BEGINNING.match(script.source.written(word).lstrip("\"'"))
    found = _NAMED.fullmatch(text) if text is not None else beginning
    if found is None:
        message = f"Which variable {what} sets is known only when it runs: {script.written(word)}."
        suggestion = "Write the variable's name in plain text; use an associative array for names that vary."
        script.error(word, "variable.dynamic_name", message, suggestion)
        return
    name = found.group("name") if text is not None else found.group()
    _check_variable(script, word, name, How.BUILTIN, command)
    for value in values_of(word, script.known):
        check_text(script, word, value)


def check_text(script: ParsedScript, node: Node, value: str) -> None:
    """Refuse a text that runs a command when arithmetic reads it as the name of a variable."""
    if hides(value):
        message = "This text runs a command when it is used as a number or as a variable's name."
        suggestion = "Run the command first and keep its output: n=$(…)."
        script.error(node, "arithmetic.hidden_command", message, suggestion)


def _check_variable(script: ParsedScript, node: Node, name: str, how: How, command: Node | None) -> None:
    if name == "IFS" and script.commands.protects("IFS"):
        _check_ifs(script, node, how, command)
    elif script.commands.protects(name):
        message = f"The variable {name} may not be set."
        script.error(node, "variable.protected", message, _advice(name))


_SEPARATORS = re.compile(r"[\s,;:|!#%&*+=?@^~<>(){}\"'\x1c-\x1f-]*")


def _check_ifs(script: ParsedScript, node: Node, how: How, command: Node | None) -> None:
    """Judge how IFS is set: what is split at is known, and only for a part of the script."""
    value = node.node("Value")
    if how is How.BUILTIN and _is_call(command, "unset"):
        return
    if how not in {How.PLAIN, How.PREFIX, How.DECLARED} or _restores(script, value):
        plain = _restores(script, value)
    else:
        texts = values_of(value, script.known) if value is not None else ("",)
        plain = all(is_known(text) and _SEPARATORS.fullmatch(text) for text in texts)
        if plain and how is not How.PREFIX and not all(set(text) <= _BLANKS for text in texts):
            _warn_of_ifs(script, node, how)
    if not plain and not (how is How.PREFIX and _is_call(command, "read")):
        message = "IFS changes how every later word is split, and at what is not known here."
        suggestion = "Set it in plain text, for one read only: while IFS=, read -r a b; do …; done."
        script.error(node, "variable.ifs", message, suggestion)


_BLANKS = frozenset(" \t\n")


def _warn_of_ifs(script: ParsedScript, node: Node, how: How) -> None:
    inside = ("FuncDecl",) if how is How.DECLARED else ("FuncDecl", "Subshell", "CmdSubst", "ProcSubst")
    if any(each.start <= node.start < each.end for each in script.source.nodes if each.kind in inside):
        return
    message = "IFS stays as it is set here: every later word is split by it."
    suggestion = (
        "Set it for one read only, while IFS=, read -r a b; do …; done, or in a subshell: ( IFS=,; … )."
    )
    script.warn(node, "variable.ifs_kept", message, suggestion)


def _restores(script: ParsedScript, value: Node | None) -> bool:
    """Return whether a value is what IFS was before: ``old=$IFS; …; IFS=$old``."""
    name = _variable_in(value)
    kept = [one.value for one in script.settings if one.name == name]
    return bool(name and kept) and all(_variable_in(word) == "IFS" for word in kept)


def _variable_in(word: Node | None) -> str:
    """Return the name of the variable that is all of a word."""
    parts = word.nodes("Parts") if word is not None else []
    if len(parts) == 1 and parts[0].kind == "DblQuoted":
        parts = parts[0].nodes("Parts")
    plain = len(parts) == 1 and parts[0].kind == "ParamExp" and not parts[0].node("Exp")
    parameter = parts[0].node("Param") if plain else None
    return parameter.text("Value") if parameter is not None else ""


def _is_call(command: Node | None, name: str) -> bool:
    words = command.nodes("Args") if command is not None else []
    return bool(words) and literal(words[0]) == name


def _advice(name: str) -> str:
    if name == "PATH":
        return "Leave PATH as it is: every allowed command is found. Call a variable of your own path."
    return "Choose a name of your own in small letters."
