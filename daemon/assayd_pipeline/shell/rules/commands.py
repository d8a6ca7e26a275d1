"""Checks command words, which determine the commands that a script can run.

frob x                  command.not_allowed
rm x                    command.blocked
r"m" x                  command.blocked      (the name is rm)
/bin/c?t x              command.obscured
$tool x                 command.dynamic
/bin/cat x              command.path
eval "$x"               builtin.not_allowed
builtin cat x           builtin.not_allowed
read() { :; }           function.name
coproc cat              command.coproc
sleep 1 &               process.not_awaited   (a warning, when nothing waits)
"""

from __future__ import annotations

import re

from assayd.did_you_mean import find_close_names
from assayd.guest.near import find_nearest
from assayd.model.finding import Edit
from assayd.model.text_limits import shorten_text
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import TOOLS, Invocation, WordForm
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import get_literal_text
from assayd_pipeline.shell.rules.builtins import check_builtin, is_getopt_eval
from assayd_pipeline.shell.rules.operands import check_tool

BUILTINS = frozenset((
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen",
    "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec",
    "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let",
    "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly",
    "return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "type",
    "typeset", "ulimit", "umask", "unalias", "unset", "wait",
))  # fmt: skip
"""All builtins of bash 5.2."""

_REDEFINABLE_BUILTINS = frozenset(
    ("bg", "caller", "dirs", "disown", "fg", "hash", "help", "history", "jobs", "logout", "times")
)
"""Builtins whose names functions can have, because both are harmless."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT_BY_COMMAND = {
    "eval": "Write the command directly; use an array for varying arguments.",
    "source": "Copy the file's content into this script.",
    ".": "Copy the file's content into this script.",
    "exec": "Run the command directly.",
    "alias": "Write a function.",
    "rm": "Remove it: the directory is deleted after the run. To replace a file, write another one in tmp/.",
    "dd": "Use head -c or cat.",
    "chmod": "Remove it: the step already owns every file that it creates.",
    "chown": "Remove it: the step already owns every file that it creates.",
    "kill": "Remove it, and start nothing in the background.",
    "wget": "Use curl, if the policy allows hosts.",
    "sudo": "Remove sudo, and run the command directly.",
    "python": "Use awk; jq for JSON, a SQL step for tables.",
    "elseif": "Write `elif`.",
    "elsif": "Write `elif`.",
    "endif": "Close an `if` with `fi`.",
    "endfor": "Close a loop with `done`.",
    "endwhile": "Close a loop with `done`.",
    "end": "Close a loop with `done`, an `if` with `fi`.",
    "foreach": "Write `for x in …; do`.",
    "switch": 'Write `case "$x" in`.',
    "try": "bash has no exceptions. Test the command: `if ! command; then`.",
    "catch": "bash has no exceptions. Test the command: `if ! command; then`.",
    "throw": "Write `echo … >&2; exit 1`.",
    "function": "Write `name() {`.",
    "pip": "Packages can't be installed. Use awk, jq for JSON, or a SQL step.",
    "pip3": "Packages can't be installed. Use awk, jq for JSON, or a SQL step.",
    "npm": "Packages can't be installed. Use awk, jq for JSON, or a SQL step.",
    "apt": "Packages can't be installed. Use an allowed command.",
    "apt-get": "Packages can't be installed. Use an allowed command.",
    "import": "This is Python. Write bash, or use awk, jq or a SQL step.",
    "print": "Write `echo`.",
    "node": "Use awk; jq for JSON, a SQL step for tables.",
    "Rscript": "Use awk; a SQL step for tables.",
    "csvtool": "Use `awk -F,`, or a SQL step that reads the file as a table.",
    "csvcut": "Use `cut -d,` or `awk -F,`.",
    "csvsql": "Write a SQL step: it reads `data/x.csv` as a table.",
    "yq": "Use awk; jq reads JSON only.",
    "tree": "Use find.",
    "less": "Use cat or head.",
    "more": "Use cat or head.",
    "vim": "Use sed.",
    "nano": "Use sed.",
    "python3": "Use awk; jq for JSON, a SQL step for tables.",
    "perl": "Use awk or sed.",
    "sqlite3": "Write a step of type sql.",
    "bash": "Write the commands into this script, or a function.",
    "sh": "Write the commands into this script, or a function.",
    "gawk": "Write awk.",
    "mawk": "Write awk.",
    "nawk": "Write awk.",
    "gsed": "Write sed.",
    "ggrep": "Write grep.",
    "gdate": "Write date.",
    "rg": "Use grep -r.",
    "ag": "Use grep -r.",
    "fd": "Use find.",
    "bat": "Use cat.",
    "ll": "Use ls -l.",
    "dir": "Use ls.",
    "copy": "Use cp.",
    "move": "Use mv.",
    "rename": "Use mv in a loop: `for f in data/*.txt; do mv …; done`.",
    "which": "Use `command -v NAME`.",
    "shasum": "Use sha256sum or sha1sum.",
    "md5": "Use md5sum.",
    "xxd": "Use od.",
    "hexdump": "Use od.",
    "strings": "Use grep -a.",
    "dos2unix": "Use `tr -d '\\r'`.",
    "iconv": "Remove it: nothing converts encodings here. Submit the file in UTF-8.",
    "zcat": "Remove it: nothing unpacks archives here. Submit the unpacked file.",
    "gzip": "Remove it: nothing packs archives here. Write the file itself.",
    "gunzip": "Remove it: nothing unpacks archives here. Submit the unpacked file.",
    "zip": "Remove it: nothing packs archives here. Write the files themselves.",
    "unzip": "Remove it: nothing unpacks archives here. Submit the unpacked files.",
    "tar": "Remove it: nothing packs or unpacks archives here. Write the files themselves.",
    "parallel": "Use xargs.",
    "sponge": "Write to a file in tmp/, then move it with mv.",
    "xmllint": "Use grep, sed or awk.",
    "csvkit": "Use `awk -F,`, or a SQL step that reads the file as a table.",
    "mlr": "Use `awk -F,`, or a SQL step that reads the file as a table.",
    "psql": "Write a step of type sql.",
    "mysql": "Write a step of type sql.",
    "ruby": "Use awk; jq for JSON, a SQL step for tables.",
    "php": "Use awk; jq for JSON, a SQL step for tables.",
    "git": "Remove it: the sandbox has no repository.",
    "docker": "Remove it: no container can be started here.",
    "brew": "Nothing can be installed. Use an allowed command.",
    "yum": "Nothing can be installed. Use an allowed command.",
    "clear": "Remove it: a step has no terminal.",
    "tput": "Remove it: a step has no terminal.",
    "du": "Use `stat -c %s FILE`, or `wc -c < FILE`.",
    "df": "Remove it: the disk's state isn't visible here.",
    "file": "Use head to look at the content.",
    "logger": "Use `echo … >&2`.",
    "ln": "Use cp: artifacts can't be links.",
    "man": "Remove it: the sandbox has no manual pages.",
    "var": "Assign without a keyword: `name=value`.",
    "def": "Write `name() {`.",
    "func": "Write `name() {`.",
    "goto": "bash has no goto. Use a function or a loop.",
    "include": "Put what the file holds into this script.",
    "require": "Put what the file holds into this script.",
    "assert": "Test the condition: `[ … ] || exit 1`.",
    "pass": "Write `:`.",
    "null": "Write `:`.",
    "console.log": "Write `echo`.",
    "println": "Write `echo`.",
    "puts": "Write `echo`.",
    "write": "Write `echo`.",
    "calc": "Use `$((…))` for integers, awk or bc for decimals.",
    "len": "Write `${#name}`.",
}
_ADVISED_PROGRAMS = frozenset({
    "awk", "bc", "cat", "cp", "curl", "find", "grep", "head", "jq", "ls", "md5sum", "mv", "od", "sed",
    "sha1sum", "sha256sum", "stat", "tr", "wc", "xargs",
})  # fmt: skip
"""Programs that the advice names."""
_WORD = re.compile(r"\w+")
_WELL_KNOWN_TOOLS = ("awk", "cut", "grep", "head", "jq", "sed", "sort", "tr", "uniq", "wc")


def check_invocation(script: ParsedScript, call: Invocation) -> None:
    """Check the name of one command, or report the foreign syntax that it resembles."""
    bare = _find_bare_test(script, call) or _find_spaced_assignment(script, call)
    if bare is not None:
        message, hint, edit = bare
        script.error(call.word, "command.not_allowed", message, hint, edit=edit)
    else:
        _check_name(script, call)


def _check_name(script: ParsedScript, call: Invocation) -> None:
    written = script.written(call.word)
    if call.form is WordForm.DYNAMIC:
        message = f"The command is unknown before the run: {written}."
        suggestion = "Write the command's name literally; choose between commands with if or case, and "
        suggestion += "test a flag with [[ $flag == true ]]."
        script.error(call.word, "command.dynamic", message, suggestion)
    elif call.form is WordForm.OBSCURED:
        message = f"The command's name is a pattern: {written}."
        suggestion = "Write the command's name literally, without `*`, `?`, brackets, braces or a tilde."
        script.error(call.word, "command.obscured", message, suggestion)
    elif call.path:
        _report_path_command(script, call)
    elif call.prefixes[-1:] == ("builtin",):
        _check_builtin(script, call)
    elif call.name in script.functions and call.prefixes[-1:] != ("command",):
        if _is_allowed_tool(script, call) and call.name not in BUILTINS:
            check_tool(script, call)  # It runs before the function is defined.
    elif call.name in script.commands.blocked:
        message = f"The command {call.name} is blocked."
        script.error(
            call.word, "command.blocked", message, _suggest_command(script, call.name), subject=call.name
        )
    elif call.name in BUILTINS and (
        call.name in script.commands.builtins or not _is_allowed_tool(script, call)
    ):
        _check_builtin(script, call)
    elif _is_allowed_tool(script, call):
        check_tool(script, call)
    else:
        _report_unknown_command(script, call)


def _find_bare_test(script: ParsedScript, call: Invocation) -> tuple[str, str, Edit | None] | None:
    """Find a comparison that is used as a command: ``if $n -gt 3``, ``while (i < 3)``.

    Returns:
        The message, hint and edit, or None for an actual command.
    """
    line, column = script.source.place(call.word.start)
    text = script.source.text.split("\n")[line - 1]
    written = script.written(call.word)
    first = get_literal_text(call.arguments[0]) if call.arguments else None
    in_parentheses = _SUBSHELL_SUM.search(text)
    is_value = call.form is WordForm.DYNAMIC or call.name in script.assigned_variables or call.name.isdigit()
    if not is_value or call.name in script.functions:
        return None
    if in_parentheses is not None and in_parentheses.start(2) == column - 1:
        shown = f"(({in_parentheses[2].strip()}))"
        new = f"{text[: in_parentheses.start(1)]} {shown}{text[in_parentheses.end() :]}"
        message = f"`({in_parentheses[2].strip()})` runs a command named `{written}` in a subshell."
        return (
            message,
            f"Write arithmetic in double parentheses: `{shown}`.",
            script.build_line_edit(line, new),
        )
    if first not in _TEST_OPERATORS:
        return None
    last = call.arguments[-1]
    whole = script.source.raw[call.word.start : last.end].decode("utf-8", "replace")
    shown = (
        f"[ {f'${written}' if call.name in script.assigned_variables else written}{whole[len(written) :]} ]"
    )
    message = f"`{shorten_text(whole, 60)}` is a test without brackets: bash runs `{written}` as a command."
    edit = script.build_line_edit(line, text.replace(whole, shown, 1)) if text.count(whole) == 1 else None
    return message, f"Write `{shown}`.", edit


def _find_spaced_assignment(script: ParsedScript, call: Invocation) -> tuple[str, str, Edit | None] | None:
    """Find an assignment that would run a tool, ``sum += x``, or None if no allowed tool has the name."""
    operator = get_literal_text(call.arguments[0]) if call.arguments else None
    if (
        operator not in _ASSIGN_OPERATORS
        or not _is_allowed_tool(script, call)
        or call.name not in script.used_variables
    ):
        return None
    line, _ = script.source.place(call.word.start)
    last = call.arguments[-1]
    whole = script.source.raw[call.word.start : last.end].decode("utf-8", "replace")
    value = whole.partition(operator)[2].strip()
    new = f"{call.name}={value}" if operator in {"=", ":="} else f"(({call.name} {operator} {value}))"
    text = script.source.text.split("\n")[line - 1]
    edit = script.build_line_edit(line, text.replace(whole, new, 1)) if text.count(whole) == 1 else None
    message = f"`{shorten_text(whole, 60)}` runs the command `{call.name}`: an assignment has no spaces."
    return message, f"Write `{shorten_text(new, 100)}`.", edit


_ASSIGN_OPERATORS = frozenset({"=", ":=", "+=", "-=", "*=", "/="})
_SUBSHELL_SUM = re.compile(
    r"\b(?:if|elif|while|until)(\s+)\((?!\()\s*(\$?\w+\s*(?:[<>]=?|[!=]=|-(?:lt|le|gt|ge|eq|ne)\b)[^()]*)\)"
)
_TEST_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=", "==", "!=", "=~"})


def _report_unknown_command(script: ParsedScript, call: Invocation) -> None:
    message = f"The command {call.name} isn't allowed."
    if (foreign := _find_foreign_syntax(script, call) or _suggest_arithmetic(script, call)) is not None:
        hint, edit = foreign
        script.error(call.word, "command.not_allowed", message, hint, edit=edit, subject=call.name)
        return
    counted = _COUNTED.fullmatch(call.name)
    if counted is not None:
        hint = f"Write arithmetic in parentheses: `(({call.name}))`."
        edit = script.build_replacement_edit(call.word, f"(({call.name}))")
        script.error(call.word, "command.not_allowed", message, hint, edit=edit, subject=call.name)
        return
    meant = find_nearest(
        call.name, sorted(script.commands.allowed | script.commands.builtins | script.functions)
    )
    other = _TOOL_BY_ALIAS.get(call.name) or (meant[0] if meant is not None and meant[1] else None)
    known = other in script.commands.allowed | script.commands.builtins | script.functions
    edit = script.build_replacement_edit(call.word, other) if known and other is not None else None
    advice = _suggest_command(script, call.name)
    script.error(call.word, "command.not_allowed", message, advice, edit=edit, subject=call.name)


def _suggest_arithmetic(script: ParsedScript, call: Invocation) -> tuple[str, Edit | None] | None:
    """Return the hint and the edit for arithmetic in a command substitution, ``$(3 + 4)``, or None."""
    line, column = script.source.place(call.word.start)
    text = script.source.text.split("\n")[line - 1]
    summed = _SUM.search(text)
    if summed is None or not call.name.isdigit() or summed.start(1) != column - 1:
        return None
    shown = f"$(({summed[1].strip()}))"
    new = text[: summed.start()] + shown + text[summed.end() :]
    hint = f"`$(…)` runs a command. Write arithmetic in double parentheses: `{shown}`."
    return hint, script.build_line_edit(line, new)


def _find_foreign_syntax(script: ParsedScript, call: Invocation) -> tuple[str, Edit | None] | None:
    """Return the hint and edit for a word of another language or an unquoted jq filter, or None."""
    line, column = script.source.place(call.word.start)
    text = script.source.text.split("\n")[line - 1]
    if (filtered := _JQ_FILTER.search(text)) is not None and filtered.end() >= column:
        quoted = f"'{filtered[2]}'"
        new = text[: filtered.start(2)] + quoted + text[filtered.end(2) :]
        return f"The `|` ends the command. Quote the filter of jq: `{quoted}`.", script.build_line_edit(
            line, new
        )
    if call.name in _NEGATION_BY_WORD:
        return f"Write `{_NEGATION_BY_WORD[call.name]}`.", script.build_replacement_edit(
            call.word, _NEGATION_BY_WORD[call.name]
        )
    empty = _EMPTY_ASSIGNMENT.search(text)
    if call.call.nodes("Assigns") and empty is not None and text[empty.end() :].startswith(call.name):
        new = text[: empty.end(1)] + text[empty.end() :]
        return f"Remove the space after `{empty[1]}`: `{new.strip()}`.", script.build_line_edit(line, new)
    walrus = _WALRUS.match(text)
    if walrus is not None and walrus[2] == call.name:
        new = f"{walrus[1]}{walrus[2]}={walrus[3]}"
        return f"Assign with `=`, without spaces: `{new.strip()}`.", script.build_line_edit(line, new)
    typed = _TYPED.match(text)
    if call.name in _TYPES and typed is not None:
        new = f"{typed[1]}{typed[3]}={typed[4]}"
        return f"bash has no types. Assign without spaces: `{new.strip()}`.", script.build_line_edit(
            line, new
        )
    return None


_JQ_FILTER = re.compile(r"\bjq((?:\s+-{1,2}[\w-]+)*)\s+(\.[^\s'\"]*(?:\s*\|\s*[.\w][^\s|'\"]*)+)")
_SUM = re.compile(r"\$\(\s*(\d+(?:\s*[-+*/%]\s*\$?\w+)+)\s*\)")
_EMPTY_ASSIGNMENT = re.compile(r"(?<![\w$])(\w{1,100}=)[ \t]+")
_WALRUS = re.compile(r"(\s*)(\w{1,100})\s*:=\s*([^;]+?)\s*;?\s*$")
_NEGATION_BY_WORD = {"not": "!", "NOT": "!"}
_TYPES = frozenset({"auto", "char", "const", "double", "final", "float", "int", "my", "str", "string", "var"})
_TYPED = re.compile(r"(\s*)(\w+)\s+\$?(\w+)\s*=\s*([^;]+?)\s*;?\s*$")
_COUNTED = re.compile(r"[A-Za-z_]\w{0,99}(?:\+\+|--)")
_TOOL_BY_ALIAS = {"gawk": "awk", "mawk": "awk"}


def _is_allowed_tool(script: ParsedScript, call: Invocation) -> bool:
    return call.name in script.commands.allowed and call.name not in script.commands.blocked


def _check_builtin(script: ParsedScript, call: Invocation) -> None:
    if call.name in script.commands.builtins and call.name not in script.commands.blocked:
        check_builtin(script, call)
        return
    if call.name == "eval" and is_getopt_eval(script, call):
        return
    message = f"The builtin {call.name} isn't allowed."
    script.error(
        call.word, "builtin.not_allowed", message, _suggest_command(script, call.name), subject=call.name
    )


def _report_path_command(script: ParsedScript, call: Invocation) -> None:
    base = call.name.rsplit("/", 1)[-1]
    known = base in script.commands.allowed
    message = f"The command {call.name} is written as a path."
    if known:
        suggestion = f"Write {base}."
    elif call.name.startswith(TOOLS):
        suggestion = _suggest_command(script, base)
    else:
        suggestion = "Script files can't be run: write a function. " + _list_allowed(script)
    edit = script.build_replacement_edit(call.word, base) if known else None
    script.error(call.word, "command.path", message, suggestion, edit=edit)


def _suggest_command(script: ParsedScript, name: str) -> str:
    """Return a hint that names a replacement for a command, a similar name, or some allowed commands."""
    advice = _HINT_BY_COMMAND.get(name)
    if advice is not None and set(_WORD.findall(advice)) & _ADVISED_PROGRAMS <= script.commands.allowed:
        return advice
    names = sorted(script.commands.allowed | script.commands.builtins | script.functions)
    close = find_close_names(name, names)
    return f"Did you mean `{close[0]}`?" if close else _list_allowed(script)


def _list_allowed(script: ParsedScript) -> str:
    known = [name for name in _WELL_KNOWN_TOOLS if name in script.commands.allowed]
    names = known or sorted(script.commands.allowed)[: len(_WELL_KNOWN_TOOLS)]
    return f"Use one of the profile's allowed commands (such as {', '.join(names)}), or define a function."


def check_function(script: ParsedScript, node: ScriptNode) -> None:
    """Check the name of a function. The function's body is checked like all other commands."""
    name_node, commands = node.node("Name"), script.commands
    name = name_node.text("Value") if name_node is not None else ""
    hidden = (commands.blocked | BUILTINS) - _REDEFINABLE_BUILTINS
    if name in hidden or (
        name in commands.allowed and name in BUILTINS and name not in _REDEFINABLE_BUILTINS
    ):
        message = f"The function {name} hides the command of that name."
        script.error(node, "function.name", message, f"Choose another name, e.g. my_{name.strip('.:[')}.")
    elif not _IDENTIFIER.fullmatch(name.replace("-", "_").replace(":", "_").replace(".", "_")):
        message = f"{name!r} isn't a valid function name."
        script.error(node, "function.name", message, "Use letters, digits and _.")


def check_background(script: ParsedScript, node: ScriptNode) -> None:
    """Check a background command: coprocesses, and commands that nothing waits for."""
    if node.get_flag("Coprocess") or node.kind == "CoprocClause" or node.get_flag("Disown"):
        message = "Coprocesses aren't allowed."
        script.error(node, "command.coproc", message, "Use a pipe: producer | consumer.")
    elif node.get_flag("Background") and not any(call.name == "wait" for call in script.calls):
        message = "Nothing waits for this command, and a step that leaves a process running fails."
        script.add_warning(node, "process.not_awaited", message, "Remove &, or write wait at the end.")
