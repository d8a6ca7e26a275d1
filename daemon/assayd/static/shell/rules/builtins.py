"""The rules on builtins: those that set variables, change options or look for the text of a name.

read PATH                     variable.protected
read "$name"                  variable.dynamic_name
declare -n ref=PATH           variable.nameref
mapfile -C run lines          builtin.option
set -k                        builtin.option
[ -s x                        builtin.test_open
shopt -s expand_aliases       builtin.option
command -p cat f              builtin.option
set -- 'a[$(ls)]'             arithmetic.hidden_command
cd /etc                       path.outside
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assayd.static.shell.parse.nodes import Node
from assayd.static.shell.parse.options import ArgumentValue, Parsed, Syntax, parse
from assayd.static.shell.parse.resolve import Invocation
from assayd.static.shell.parse.script import ParsedScript
from assayd.static.shell.parse.variables import Known
from assayd.static.shell.parse.words import arguments_of, literal
from assayd.static.shell.rules.assignments import check_name, check_text
from assayd.static.shell.rules.paths import PathUse, judge_path
from assayd.static.shell.rules.traps import check_trap

_DECLARING = frozenset(("declare", "typeset", "local", "export", "readonly"))
_REFERRING = frozenset(("declare", "typeset", "local"))
_SYNTAX: Mapping[str, Syntax] = {
    "cd": Syntax(short="LPe@", ordered=True),
    "command": Syntax(short="pvV", ordered=True),
    "declare": Syntax(short="aAfFgiIlnrtuxp", ordered=True),
    "export": Syntax(short="fnp", ordered=True),
    "exec": Syntax(short="cla:", ordered=True),
    "getopts": Syntax(ordered=True),
    "hash": Syntax(short="dlp:rt", ordered=True),
    "local": Syntax(short="aAfFgiIlnrtuxp", ordered=True),
    "mapfile": Syntax(short="d:n:O:s:tu:C:c:", ordered=True),
    "printf": Syntax(short="v:", ordered=True),
    "pushd": Syntax(short="n", ordered=True),
    "read": Syntax(short="ersa:d:i:n:N:p:t:u:", ordered=True),
    "readarray": Syntax(short="d:n:O:s:tu:C:c:", ordered=True),
    "readonly": Syntax(short="aAfp", ordered=True),
    "trap": Syntax(short="lpP", ordered=True),
    "typeset": Syntax(short="aAfFgiIlnrtuxp", ordered=True),
    "unset": Syntax(short="fvn", ordered=True),
    "wait": Syntax(short="fnp:", ordered=True),
}
_NOTHING = Known([])
_SHOPT = frozenset(
    [
        "checkwinsize",
        "dotglob",
        "extglob",
        "failglob",
        "globskipdots",
        "globstar",
        "inherit_errexit",
        "lastpipe",
        "nocaseglob",
        "nocasematch",
        "nullglob",
    ]
)
_SET_LETTERS = frozenset("abCefhuvxE")
_SET_NAMES = frozenset(
    [
        "allexport",
        "braceexpand",
        "errexit",
        "errtrace",
        "hashall",
        "noclobber",
        "noglob",
        "nounset",
        "pipefail",
        "verbose",
        "xtrace",
    ]
)


def check_builtin(script: ParsedScript, call: Invocation) -> None:
    """Judge the arguments of a builtin that is allowed."""
    arguments = [
        ArgumentValue(value=one.values[0], node=one.node)
        for word in call.arguments
        for one in arguments_of(word, script.known)
    ]
    parsed = parse(_SYNTAX.get(call.name, Syntax(ordered=True)), arguments)
    _check_arguments(script, call, parsed, arguments)
    if call.name == "set" or parsed.given("-v"):
        check_texts(script, arguments)
    for word in names_set(call):
        check_name(script, word, call.name, call.call)


def _check_arguments(
    script: ParsedScript, call: Invocation, parsed: Parsed, arguments: Sequence[ArgumentValue]
) -> None:
    match call.name:
        case "set":
            _check_set(script, arguments)
        case "shopt":
            _check_shopt(script, arguments)
        case "cd" | "pushd":
            for folder in parsed.operands[:1]:
                if not folder.value.startswith(("-", "+")):
                    judge_path(script, folder.node, folder.value, PathUse.ENTERS, call.name)
        case "trap":
            check_trap(script, call)
        case "exec":
            _check_exec(script, call, arguments)
        case "let" | "test" | "[":
            check_texts(script, arguments)
            _check_closed(script, call)
        case _:
            _check_options(script, call.name, parsed)


def _check_closed(script: ParsedScript, call: Invocation) -> None:
    """``[ -s x ; then`` -> builtin.test_open: what is asked is never read, and counts as no."""
    if call.name != "[":
        return
    last = call.arguments[-1] if call.arguments else call.word
    if script.source.written(last).strip("\"'") != "]":
        edit = script.replacing(last, f"{script.source.written(last)} ]")
        message = "[ has no ] at its end: bash reads nothing of it, and goes on as if it were not so."
        script.error(last, "builtin.test_open", message, "Close it: [ … ].", edit=edit)


def _check_exec(script: ParsedScript, call: Invocation, arguments: Sequence[ArgumentValue]) -> None:
    if arguments:
        message = "exec may redirect, and not put another program in the place of the shell."
        script.error(
            call.word, "builtin.not_allowed", message, "Run the command as it is, and exit after it."
        )


def takes_options(script: ParsedScript, call: Invocation) -> bool:
    """Return whether an eval only takes what getopt has quoted: ``eval set -- "$parsed"``."""
    words = call.arguments
    if len(words) != 3 or [literal(words[0]), literal(words[1])] != ["set", "--"]:
        return False
    parts = words[2].nodes("Parts")
    if len(parts) == 1 and parts[0].kind == "DblQuoted":
        parts = parts[0].nodes("Parts")
    if len(parts) != 1:
        return False
    parameter = parts[0].node("Param")
    if parts[0].kind != "ParamExp" or parameter is None:
        return _is_getopt(parts[0])
    given = [one for one in script.settings if one.name == parameter.text("Value")]
    values = [one.value.nodes("Parts") if one.value is not None else [] for one in given]
    return bool(given) and all(len(each) == 1 and _is_getopt(each[0]) for each in values)


def _is_getopt(part: Node) -> bool:
    """Return whether a part is ``$(getopt …)``, with its output quoted."""
    if part.kind == "DblQuoted" and len(part.nodes("Parts")) == 1:
        part = part.nodes("Parts")[0]
    statements = part.nodes("Stmts") if part.kind == "CmdSubst" else []
    command = statements[0].node("Cmd") if len(statements) == 1 else None
    texts = [literal(word) for word in command.nodes("Args")] if command is not None else []
    loose = any(text in {"-u", "--unquoted", "-s", "--shell"} for text in texts)
    return texts[:1] == ["getopt"] and not loose


def check_given(script: ParsedScript, call: Invocation) -> None:
    """Judge what a function is given: its arguments are variables inside."""
    for word in call.arguments:
        for one in arguments_of(word, script.known):
            for value in one.values:
                check_text(script, one.node, value)


def check_texts(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    """Judge arguments that become the value of a variable, or are read as one's name."""
    for argument in arguments:
        check_text(script, argument.node, argument.value)


_REFUSED = {
    ("command", "-p"): ("command -p looks for commands in another place.", "Write command NAME."),
    ("hash", "-p"): ("hash -p gives a command's name to a file.", "Write hash NAME, or command -v NAME."),
    ("mapfile", "-C"): ("mapfile -C runs a command for each line.", "Use a loop: while read -r line."),
    ("readarray", "-C"): ("readarray -C runs a command for each line.", "Use a loop: while read -r line."),
}


def _check_options(script: ParsedScript, name: str, parsed: Parsed) -> None:
    for option in parsed.options:
        refused = _REFUSED.get((name, option.name))
        if refused is not None:
            message, suggestion = refused
            script.error(option.node, "builtin.option", message, suggestion)
        elif name in _REFERRING and option.name == "-n":
            check_nameref(script, option.node)


def check_nameref(script: ParsedScript, node: Node) -> None:
    """Refuse a variable that stands for another one."""
    message = "A name reference sets or reads another variable than the one that is written."
    script.error(node, "variable.nameref", message, "Use an associative array: declare -A map.")


def names_set(call: Invocation) -> Sequence[Node]:
    """Return the words of a builtin's call that name variables which it sets."""
    return [text.node for text in _names(call)]


def _names(call: Invocation) -> Iterator[ArgumentValue]:
    syntax = _SYNTAX.get(call.name)
    if syntax is None:
        return
    arguments = [
        ArgumentValue(value=one.values[0], node=word)
        for word in call.arguments
        for one in arguments_of(word, _NOTHING)
    ]
    parsed = parse(syntax, arguments)
    match call.name:
        case "read":
            yield from (option.value for option in parsed.given("-a") if option.value is not None)
            yield from parsed.operands
        case "mapfile" | "readarray":
            yield from parsed.operands[:1]
        case "printf":
            yield from (option.value for option in parsed.given("-v") if option.value is not None)
        case "getopts":
            yield from parsed.operands[1:2]
        case "wait":
            yield from (option.value for option in parsed.given("-p") if option.value is not None)
        case "unset":
            yield from parsed.operands if not parsed.given("-f") else ()
        case name if name in _DECLARING:
            yield from parsed.operands if not _only_functions(parsed) else ()
        case _:
            return


def _only_functions(parsed: Parsed) -> bool:
    return bool(parsed.given("-f", "-F"))


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
                _refuse_set(script, named.node, f"-o {script.written(named.node)}")
        if letters - _SET_LETTERS and text[0] == "-":
            _refuse_set(script, argument.node, script.written(argument.node))


def _refuse_set(script: ParsedScript, node: Node, what: str) -> None:
    message = f"set may not be used with {what}."
    script.error(node, "builtin.option", message, "Use set -euo pipefail, -x, -f, -C or --.")


def _check_shopt(script: ParsedScript, arguments: Sequence[ArgumentValue]) -> None:
    for argument in arguments:
        if not argument.value.startswith("-") and argument.value not in _SHOPT | _SET_NAMES:
            message = f"shopt may not change {script.written(argument.node)}."
            script.error(argument.node, "builtin.option", message, f"Use only: {', '.join(sorted(_SHOPT))}.")
