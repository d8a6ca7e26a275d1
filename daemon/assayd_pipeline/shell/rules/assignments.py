"""Checks variables and expansions: protected variables, and names that are known only at run time.

PATH=/tmp                 variable.protected
for PATH in /tmp; do      variable.protected
(( PATH = 1 ))            variable.protected
read PATH                 variable.protected
export "PATH=tmp"         variable.protected
export "$name=1"          variable.dynamic_name
read "$name"              variable.dynamic_name
alias x=y                 builtin.not_allowed   (as a declaration: export, if it is not listed)
${x@P}                    expansion.prompt
${!name}                  expansion.indirect   (name is not one of a few literal names)
$"text"                   quote.locale
"""

from __future__ import annotations

import re

from assayd_pipeline.shell.parse.nodes import ScriptNode
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import VariableSetting, get_literal_text, get_parameter_name

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[.*\])?(?:\+?=.*)?", re.DOTALL)
_PLAIN_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_DOLLAR = re.compile(r"([\"']?)\$(?=[A-Za-z_]\w{0,99}=)")
_BEGINNING = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_]*)(?:\[|\+?=)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[0-9@*\x01]+\])?|[0-9\x01]+|[@*]")


def check_setting(script: ParsedScript, setting: VariableSetting) -> None:
    """Check a position at which the grammar sets a variable."""
    _check_variable(script, setting.node, setting.name)


def check_name(script: ParsedScript, word: ScriptNode, what: str) -> None:
    """Check a word that contains the name of a variable which a builtin sets."""
    text = get_literal_text(word)
    written = script.source.written(word)
    found = _ASSIGNED.fullmatch(text) if text is not None else _BEGINNING.match(written)
    if found is not None:
        _check_variable(script, word, found[1])
        return
    message = f"The variable that {what} sets is unknown before the run: {script.written(word)}."
    suggestion = "Write the variable's name literally. For names that vary, use an associative array."
    plain_name = _PLAIN_NAME.fullmatch(written)
    if plain_name is not None:
        suggestion = f"Remove the `$` before the name: `{what} {plain_name[1]}`."
        edit = script.build_replacement_edit(word, plain_name[1])
        script.error(word, "variable.dynamic_name", message, suggestion, edit=edit)
        return
    dollar = _DOLLAR.match(written)
    if dollar is None:
        script.error(word, "variable.dynamic_name", message, suggestion)
        return
    plain = dollar[1] + written[dollar.end() :]
    suggestion = f"Remove the `$` before the name: `{what} {plain}`."
    edit = script.build_replacement_edit(word, plain) if not dollar[1] else None
    script.error(word, "variable.dynamic_name", message, suggestion, edit=edit)


def _check_variable(script: ParsedScript, node: ScriptNode, name: str) -> None:
    if not script.commands.protects(name):
        return
    suggestion = "Choose another name, in lowercase."
    if name == "PATH":
        suggestion = (
            "Don't change PATH: every allowed command is found. For your own variable, choose another name."
        )
    script.error(node, "variable.protected", f"The variable {name} can't be set.", suggestion)


def check_declaration(script: ParsedScript, node: ScriptNode) -> None:
    """Check `declare`, `export`, `local`, `readonly` and `typeset`, which have their own grammar."""
    variant = node.node("Variant")
    name = variant.text("Value") if variant is not None else ""
    if name not in script.commands.builtins or name in script.commands.blocked:
        message = f"The builtin {name} isn't allowed."
        script.error(node, "builtin.not_allowed", message, "Assign the variable without it: x=1.")
    naked = [argument.node("Value") for argument in node.nodes("Args") if argument.get_flag("Naked")]
    words = [word for word in naked if word is not None]
    options = [
        text for text in map(get_literal_text, words) if text is not None and text.startswith(("-", "+"))
    ]
    if any(set(text) & set("pfF") for text in options if text[0] == "-"):
        return  # It only prints.
    for word in words:
        if get_literal_text(word) not in options:
            check_name(script, word, name)


def check_expansion(script: ParsedScript, node: ScriptNode) -> None:
    """Check an expansion, or a double-quoted string."""
    if node.kind == "DblQuoted" and node.get_flag("Dollar"):
        edit = script.build_replacement_edit(node, script.source.written(node).removeprefix("$"))
        message = 'A message catalogue can replace the text in $"…".'
        script.error(node, "quote.locale", message, 'Write "…" without the dollar sign.', edit=edit)
    if node.kind != "ParamExp":
        return
    expansion = node.node("Exp")
    if (
        expansion is not None
        and expansion.text("Op") == "@"
        and get_literal_text(expansion.node("Word")) == "P"
    ):
        message = "${…@P} runs commands in the value."
        script.error(node, "expansion.prompt", message, 'Use the value itself: "$name".')
    if node.get_flag("Excl") and not node.text("Names") and not _is_known_indirection(script, node):
        message = f"{script.written(node)} reads a variable whose name is unknown before the run."
        script.error(node, "expansion.indirect", message, "Use an associative array: ${map[$key]}.")


def _is_known_indirection(script: ParsedScript, node: ScriptNode) -> bool:
    """Return whether ``${!x}`` lists keys, or reads one of a few variables that the script states."""
    name, index = get_parameter_name(node), node.node("Index")
    if name == "#" or (
        index is not None and get_literal_text(index) in {"@", "*"} and node.node("Exp") is None
    ):
        return True
    values = script.known.values(name) if index is None else script.known.list_members(name)
    return all(_VARIABLE.fullmatch(value) for value in values)
