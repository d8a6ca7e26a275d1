"""Checks builtins that change options or run text as code.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings.source_text import get_snippet
from assayd.guest.near import find_nearest
from assayd.model.finding import Finding, Severity
from assayd_pipeline.shell.parse.nodes import ScriptNode
from assayd_pipeline.shell.parse.options import ArgumentValue, OptionSyntax, ParsedArguments, parse_arguments
from assayd_pipeline.shell.parse.resolve import Invocation, WordForm
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import (
    evaluate_arguments,
    get_literal_text,
    get_parameter_name,
    is_plain_variable,
    join_literal_pieces,
    strip_double_quotes,
)
from assayd_pipeline.shell.rules.assignments import check_name
from assayd_pipeline.shell.rules.paths import PathUse, judge_path

_MAPFILE = OptionSyntax(short="d:n:O:s:u:C:c:", ordered=True)
_SYNTAX: Mapping[str, OptionSyntax] = {
    "mapfile": _MAPFILE,
    "printf": OptionSyntax(short="v:", ordered=True),
    "read": OptionSyntax(short="a:d:i:n:N:p:t:u:", ordered=True),
    "readarray": _MAPFILE,
}
_SYNTAX_OF_OTHERS = OptionSyntax(ordered=True)
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
    """Check the arguments of an allowed builtin."""
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
                judge_path(script, folder.node, folder.value, PathUse.ENTERS, call.name)
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
                script, call.name, parse_arguments(_SYNTAX.get(call.name, _SYNTAX_OF_OTHERS), arguments)
            )
    for word in find_set_names(call):
        check_name(script, word, call.name)


def _check_test_closed(script: ParsedScript, call: Invocation) -> None:
    """Check for an unclosed test, ``[ -s x ; then`` -> builtin.test_open, which is always false in bash."""
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
    """Return the words in a builtin's call that contain the names of variables to set."""
    arguments = [ArgumentValue(value=join_literal_pieces(word), node=word) for word in call.arguments]
    parsed = parse_arguments(_SYNTAX.get(call.name, _SYNTAX_OF_OTHERS), arguments)
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
    """Return the word that contains the command of a trap, or None."""
    words = [word for word in call.arguments if get_literal_text(word) != "--"]
    shows = len(words) < 2 or (get_literal_text(words[0]) or "").startswith("-")
    return None if call.name != "trap" or call.form is not WordForm.PLAIN or shows else words[0]


def place_at_trap(script: ParsedScript, trap: ScriptNode, finding: Finding) -> Finding:
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
