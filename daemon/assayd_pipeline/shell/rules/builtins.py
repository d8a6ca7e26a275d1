"""Checks builtins that change options or run text as code, variables, and expansions.

Checks builtins that change options or run text as code.

read "$name"                  variable.dynamic_name
mapfile -C run lines          builtin.option
set -k                        builtin.option
[ -s x                        builtin.test_open
shopt -s expand_aliases       builtin.option
command -p cat f              builtin.option
exec cat                      builtin.not_allowed
cd /etc                       path.outside
trap "$x" EXIT                trap.dynamic        (x is unknown)
trap 'rm x' EXIT              command.blocked     (the text of a trap is judged as a script)
trap 'frob' EXIT              command.not_allowed (a warning)

Checks variables and expansions: protected variables, and names that are known only at run time.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings.source_text import get_snippet
from assayd.guest.near import find_nearest
from assayd.model.finding import Finding, Severity
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import (
    ArgumentValue,
    Invocation,
    OptionSyntax,
    ParsedArguments,
    WordForm,
    parse_arguments,
)
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import (
    VariableSetting,
    evaluate_arguments,
    get_literal_text,
    get_parameter_name,
    is_plain_variable,
    join_literal_pieces,
    strip_double_quotes,
)
from assayd_pipeline.shell.rules.paths import PathUse, check_path

_ASSIGNED_REGEX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[.*\])?(?:\+?=.*)?", re.DOTALL)
_PLAIN_NAME_PATTERN = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_DOLLAR_PATTERN = re.compile(r"([\"']?)\$(?=[A-Za-z_]\w{0,99}=)")
_NAME_START_REGEX = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_]*)(?:\[|\+?=)")
_PARAMETER_REGEX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[0-9@*\x01]+\])?|[0-9\x01]+|[@*]")


def check_setting(script: ParsedScript, setting: VariableSetting) -> None:
    """Check the name of a variable that the grammar sets at a position."""
    _check_variable(script, setting.node, setting.name)


def check_name(script: ParsedScript, word: ScriptNode, what: str) -> None:
    """Check a word that contains the name of a variable which a builtin sets."""
    text = get_literal_text(word)
    written = script.source.written(word)
    found = _ASSIGNED_REGEX.fullmatch(text) if text is not None else _NAME_START_REGEX.match(written)
    if found is not None:
        _check_variable(script, word, found[1])
        return
    message = f"The variable that {what} sets is unknown before the run: {script.written(word)}."
    suggestion = "Write the variable's name literally. For names that vary, use an associative array."
    plain_name = _PLAIN_NAME_PATTERN.fullmatch(written)
    if plain_name is not None:
        suggestion = f"Remove the `$` before the name: `{what} {plain_name[1]}`."
        edit = script.build_replacement_edit(word, plain_name[1])
        script.error(word, "variable.dynamic_name", message, suggestion, edit=edit)
        return
    dollar = _DOLLAR_PATTERN.match(written)
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
    """Check a parameter expansion, or a ``$"…"`` string."""
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
    return all(_PARAMETER_REGEX.fullmatch(value) for value in values)


_MAPFILE = OptionSyntax(short="d:n:O:s:u:C:c:", ordered=True)
_BUILTIN_SYNTAX: Mapping[str, OptionSyntax] = {
    "mapfile": _MAPFILE,
    "printf": OptionSyntax(short="v:", ordered=True),
    "read": OptionSyntax(short="a:d:i:n:N:p:t:u:", ordered=True),
    "readarray": _MAPFILE,
}
_DEFAULT_SYNTAX = OptionSyntax(ordered=True)
_SHOPT = (
    "checkwinsize", "dotglob", "extglob", "failglob", "globskipdots", "globstar", "inherit_errexit",
    "lastpipe", "nocaseglob", "nocasematch", "nullglob",
)  # fmt: skip
_SET_LETTERS = frozenset("abCefhuvxE")
_SET_NAMES = (
    "allexport", "braceexpand", "errexit", "errtrace", "hashall", "noclobber", "noglob", "nounset",
    "pipefail", "verbose", "xtrace",
)  # fmt: skip
_REFUSED = {
    ("command", "-p"): ("command -p searches another path for commands.", "Write command NAME."),
    ("hash", "-p"): ("hash -p binds a command's name to a file.", "Write hash NAME, or command -v NAME."),
    ("mapfile", "-C"): ("mapfile -C runs a command for each line.", "Use a loop: while read -r line."),
    ("readarray", "-C"): ("readarray -C runs a command for each line.", "Use a loop: while read -r line."),
}


def check_builtin(script: ParsedScript, call: Invocation) -> None:
    """Check the arguments of a call of an allowed builtin."""
    arguments = [
        ArgumentValue(value=one.values[0], node=one.node)
        for word in call.arguments
        for one in evaluate_arguments(word, script.known)
    ]
    match call.name:
        case "set":
            _check_set(script, arguments)
        case "shopt":
            _check_shopt(script, arguments)
        case "cd" | "pushd":
            folders = (one for one in arguments if not one.value.startswith(("-", "+")))
            for folder in list(folders)[:1]:
                check_path(script, folder.node, folder.value, PathUse.ENTERS, call.name)
        case "trap":
            word = get_trap_action(call)
            if word is not None and get_literal_text(word) is None:
                message = f"The text of this trap is unknown before the run: {script.written(word)}."
                suggestion = "Write the text in single quotes, or name a function: trap cleanup EXIT."
                script.error(word, "trap.dynamic", message, suggestion)
        case "exec" if arguments:
            message = "exec can only redirect; it can't replace the shell with another program."
            suggestion = "Run the command without exec, then exit."
            script.error(call.word, "builtin.not_allowed", message, suggestion)
        case "[":
            _check_test_closed(script, call)
        case _:
            _check_options(
                script, call.name, parse_arguments(_BUILTIN_SYNTAX.get(call.name, _DEFAULT_SYNTAX), arguments)
            )
    for word in find_set_names(call):
        check_name(script, word, call.name)


def _check_test_closed(script: ParsedScript, call: Invocation) -> None:
    """Check for a test whose last argument isn't ``]``, which is always false (builtin.test_open)."""
    last = call.arguments[-1] if call.arguments else call.word
    inner = next((word for word in call.arguments if script.source.written(word) == "]"), None)
    if inner is not None and inner is not last:
        edit = script.build_replacement_edit(inner, "] &&")
        message = "A command follows `]` on the same line, so it becomes part of the test."
        script.error(last, "builtin.test_open", message, "Put `&&` or `;` after the `]`.", edit=edit)
    elif script.source.written(last).strip("\"'") != "]":
        written = script.source.written(last)
        edit = script.build_replacement_edit(last, "]" if written == "]]" else f"{written} ]")
        message = "The test that `[` opens has no `]` at its end: bash doesn't evaluate it."
        hint = (
            "Close `[` with `]`, and `[[` with `]]`." if written == "]]" else "Close it with ` ]`: `[ … ]`."
        )
        script.error(last, "builtin.test_open", message, hint, edit=edit)


def _check_options(script: ParsedScript, name: str, parsed: ParsedArguments) -> None:
    for option in parsed.options:
        if (name, option.name) in _REFUSED:
            message, suggestion = _REFUSED[name, option.name]
            script.error(option.node, "builtin.option", message, suggestion)


def _check_set(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    rest = list(arguments[::-1])
    while rest:
        argument = rest.pop()
        text = argument.value
        if text in {"--", "-"} or not text.startswith(("-", "+")):
            return
        letters = set(text[1:])
        if "o" in letters:
            named = rest.pop() if rest else None
            letters.discard("o")
            if named is not None and named.value not in _SET_NAMES:
                _report_set_option(script, named.node, f"-o {script.written(named.node)}")
        if letters - _SET_LETTERS and text[0] == "-":
            _report_set_option(script, argument.node, script.written(argument.node))


def _report_set_option(script: ParsedScript, node: ScriptNode, what: str) -> None:
    message = f"`set` doesn't accept `{what}` here."
    meant = find_nearest(what.removeprefix("-o "), _SET_NAMES) if what.startswith("-o ") else None
    if meant is not None and meant[1]:
        edit = script.build_replacement_edit(node, meant[0])
        script.error(node, "builtin.option", message, f"Did you mean `{meant[0]}`?", edit=edit)
        return
    script.error(node, "builtin.option", message, "Use set -euo pipefail, -x, -f, -C or --.")


def _check_shopt(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    for argument in arguments:
        if not argument.value.startswith("-") and argument.value not in (*_SHOPT, *_SET_NAMES):
            message = f"`shopt` can't change `{script.written(argument.node)}` here."
            meant = find_nearest(argument.value, _SHOPT)
            known = meant[0] if meant is not None and meant[1] else None
            edit = script.build_replacement_edit(argument.node, known) if known is not None else None
            hint = f"Did you mean `{known}`?" if known else f"Use one of: {', '.join(_SHOPT)}."
            script.error(argument.node, "builtin.option", message, hint, edit=edit)


def find_set_names(call: Invocation) -> list[ScriptNode]:
    """Return the words in a builtin's call that contain the names of variables to set, or an empty list."""
    arguments = [ArgumentValue(value=join_literal_pieces(word), node=word) for word in call.arguments]
    parsed = parse_arguments(_BUILTIN_SYNTAX.get(call.name, _DEFAULT_SYNTAX), arguments)
    return (
        [] if call.form is not WordForm.PLAIN else [name.node for name in _list_set_names(call.name, parsed)]
    )


def _list_set_names(builtin: str, parsed: ParsedArguments) -> Iterator[ArgumentValue]:
    match builtin:
        case "read":
            yield from (option.value for option in parsed.list_options("-a") if option.value is not None)
            yield from parsed.operands
        case "mapfile" | "readarray":
            yield from parsed.operands[:1]
        case "printf":
            yield from (option.value for option in parsed.list_options("-v") if option.value is not None)
        case "getopts":
            yield from parsed.operands[1:2]
        case "unset" if not parsed.list_options("-f"):
            yield from parsed.operands


def is_getopt_eval(script: ParsedScript, call: Invocation) -> bool:
    """Return whether an `eval` only parses getopt's quoted output: ``eval set -- "$parsed"``."""
    words = call.arguments
    if len(words) != 3 or [get_literal_text(words[0]), get_literal_text(words[1])] != ["set", "--"]:
        return False
    parts = strip_double_quotes(words[2])
    if len(parts) == 1 and is_plain_variable(parts[0]):
        places = script.known.list_settings(get_parameter_name(parts[0]))
        given = [strip_double_quotes(one.value) if one.value is not None else [] for one in places]
        return bool(given) and all(len(each) == 1 and _is_getopt(each[0]) for each in given)
    return len(parts) == 1 and _is_getopt(parts[0])


def _is_getopt(part: ScriptNode) -> bool:
    """Return whether a part is a ``$(getopt …)`` whose output is quoted."""
    statements = part.nodes("Stmts")
    command = statements[0].node("Cmd") if len(statements) == 1 else None
    texts = [get_literal_text(word) for word in command.nodes("Args")] if command is not None else []
    return texts[:1] == ["getopt"] and not {"-u", "--unquoted", "-s", "--shell"} & set(texts)


def get_trap_action(call: Invocation) -> ScriptNode | None:
    """Return the word that contains the command of a trap, or None if the call doesn't set a trap."""
    words = [word for word in call.arguments if get_literal_text(word) != "--"]
    shows = len(words) < 2 or (get_literal_text(words[0]) or "").startswith("-")
    return None if call.name != "trap" or call.form is not WordForm.PLAIN or shows else words[0]


def relocate_to_trap(script: ParsedScript, trap: ScriptNode, finding: Finding) -> Finding:
    """Return a finding about the text of a trap, with the position of the trap."""
    line, column = script.source.place(trap.start)
    shown = get_snippet(script.source.text, line)
    message = f"In the text of this trap: {finding.message}"
    # PATH lacks the program, and bash only prints an error when the trap fires.
    unknown = finding.rule == "command.not_allowed"
    return replace(
        finding,
        message=message,
        severity=Severity.WARNING if unknown else finding.severity,
        line=line,
        column=column,
        end_line=line,
        snippet=shown,
        edit=None,
    )
