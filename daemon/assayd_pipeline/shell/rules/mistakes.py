r"""Finds mistakes that bash accepts: errors if the code can't work, otherwise warnings.

head –n 2 f                 shell.mistake       a long dash isn't a hyphen
wc -l<U+200B> f             shell.mistake       an invisible character
date +%F %H:%M              shell.mistake       the format is two words
ls | xargs -I wc -l {}      shell.mistake       -I has no mark
total=5; echo "$totl"       shell.suspicious    a variable that is never assigned, with a near name that is
ages[oslo]=3                shell.suspicious    names as subscripts need declare -A
set -eu pipefail            shell.suspicious    pipefail is an argument here
[ "$x" -eq north ]          shell.suspicious    -eq compares integers
grep '\d' f                 shell.suspicious    \d is a class of Perl's patterns alone
jq 'select(.a = 1)' f       shell.suspicious    = assigns
declare -A a=(x=1)          shell.suspicious    the elements have no keys
a=(x y); echo ${#a}         shell.suspicious    the length of the first element
wc -l <<< data/x.csv        shell.suspicious    the path as text, not the file
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from assayd.guest.near import find_nearest
from assayd.model.text_limits import shorten_text
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import Invocation
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import (
    ENVIRONMENT,
    AssignmentMethod,
    get_literal_text,
    get_parameter_name,
)

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_LONG_DASH = re.compile(f"[{_DASHES}]+([A-Za-z][\\w-]*)?")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")
_STRING_OPERATORS = {"-eq": "=", "-ne": "!="}
_WORDLIKE = re.compile(r"[A-Za-z][A-Za-z_ -]*")
_VARIABLE_REGEX = re.compile(r"[A-Za-z_]\w*")
_SET_NAMES = frozenset({"pipefail", "errexit", "nounset", "xtrace"})
_BASH_VARIABLES = frozenset(
    {
        *ENVIRONMENT,
        "PATH",
        "LANG",
        "TZ",
        "IFS",
        "OLDPWD",
        "REPLY",
        "RANDOM",
        "SECONDS",
        "LINENO",
        "HOSTNAME",
        "USER",
    }
)
_MIN_NAME_CHARS = 3
_MAX_NAMES = 50


def check_mistakes(script: ParsedScript) -> None:
    """Add a finding for each mistake in a script."""
    for call in script.calls:
        _check_characters(script, call)
        check = _CHECKS.get(call.name)
        if check is not None:
            check(script, call)
    _check_subscripts(script)
    _check_keys(script)
    _check_spelling(script)
    _check_assigned_text(script)
    arrays = {setting.name for setting in script.settings if setting.array is not None}
    for node in script.source.nodes:
        for redirection in node.nodes("Redirs"):
            _check_here_string(script, redirection)
        match node.kind:
            case "ParamExp" if node.get_flag("Length") and node.node("Index") is None:
                _check_length(script, node, arrays)
            case "WordIter":
                _check_items(script, node)
            case "IfClause" | "WhileClause":
                _check_assignment_in_condition(script, node)


def _check_length(script: ParsedScript, node: ScriptNode, arrays: Collection[str]) -> None:
    """Check for ``a=(x y); echo ${#a}``, which prints the length of the first element."""
    name = get_parameter_name(node)
    if name in arrays:
        message = f"`${{#{name}}}` is the length of the array's first element."
        hint = f"Count the elements: `${{#{name}[@]}}`."
        edit = script.build_replacement_edit(node, f"${{#{name}[@]}}")
        script.add_warning(node, "shell.suspicious", message, hint, edit=edit)


def _check_here_string(script: ParsedScript, node: ScriptNode) -> None:
    """Check for ``wc -l <<< "data/x.csv"``: the command reads the path instead of the file."""
    word = node.node("Word")
    path = get_literal_text(word) if word is not None and node.text("Op") == "<<<" else None
    if word is None or path is None or not _FILE_PATTERN.fullmatch(path):
        return
    written = script.source.written(word)
    line, _ = script.source.place(word.start)
    text = script.source.text.split("\n")[line - 1]
    edit = script.build_line_edit(
        line, re.sub(rf"<<<\s*{re.escape(written)}", lambda _: f"< {written}", text, count=1)
    )
    message = f"`<<< {shorten_text(path, 60)}` is the path as text; the file isn't read."
    script.add_warning(
        node, "shell.suspicious", message, f"Redirect the file: `< {shorten_text(path, 60)}`.", edit=edit
    )


_FILE_PATTERN = re.compile(r"(?:\./)?(?:data|tmp|logs)/[\w./-]+")


def _check_characters(script: ParsedScript, call: Invocation) -> None:
    for word in (call.word, *call.arguments):
        written = script.source.written(word)
        if _INVISIBLE.search(written) and not written.startswith(("'", '"')):
            found = _INVISIBLE.search(written)
            code = f"U+{ord(found[0]):04X}" if found is not None else ""
            message = f"`{_INVISIBLE.sub('', written)[:40]}` has an invisible character, {code}."
            edit = script.build_replacement_edit(word, _INVISIBLE.sub("", written))
            script.error(word, "shell.mistake", message, "Delete the invisible character.", edit=edit)
        elif (dash := _LONG_DASH.match(written)) is not None and dash[1]:
            hyphens = "-" if len(dash[1]) == 1 else "--"
            plain = f"{hyphens}{dash[1]}{written[dash.end() :]}"
            message = f"`{written[:40]}` begins with a long dash: {call.name} reads it as a name."
            edit = script.build_replacement_edit(word, plain)
            script.error(word, "shell.mistake", message, f"Type a hyphen: `{call.name} {plain}`.", edit=edit)


def _check_date(script: ParsedScript, call: Invocation) -> None:
    """Check for ``date +%Y-%m-%d %H:%M``: the text after the space is a second argument."""
    words = [script.source.written(word) for word in call.arguments]
    for before, word, node in zip(words, words[1:], call.arguments[1:], strict=False):
        if before.startswith("+") and word.startswith("%"):
            line, _ = script.source.place(node.start)
            text = script.source.text.split("\n")[line - 1]
            whole = f"{before} {word}"
            joined = f"'{whole}'" if before != "+" else f"+{word}"
            edit = script.build_line_edit(line, text.replace(whole, joined, 1)) if whole in text else None
            message = f"date takes one format: the space makes `{word}` a second argument."
            script.error(
                node, "shell.mistake", message, f"Quote the whole format: `date {joined}`.", edit=edit
            )


def _check_xargs(script: ParsedScript, call: Invocation) -> None:
    """Check for ``xargs -I wc -l {}``: `-I` takes a placeholder, so `wc` becomes the placeholder."""
    words = [script.source.written(word) for word in call.arguments]
    for option, mark, node in zip(words, words[1:], call.arguments[1:], strict=False):
        if option == "-I" and mark in script.commands.allowed and any("{}" in word for word in words):
            edit = script.build_replacement_edit(node, f"{{}} {mark}")
            hint = f"Write the placeholder after `-I`: `xargs -I {{}} {mark} …`."
            script.error(node, "shell.mistake", f"`-I` uses `{mark}` as the placeholder.", hint, edit=edit)


def _check_set(script: ParsedScript, call: Invocation) -> None:
    """Check for ``set -eu pipefail``, which sets `$1` instead of the option."""
    words = [get_literal_text(word) for word in call.arguments]
    found = _CSH.match(" ".join(script.source.written(word) for word in call.arguments))
    if found is not None:
        message = f"`set {found[0]}` sets the script's arguments, not `{found[1]}`."
        hint = f"Assign without `set`: `{found[1]}={found[2]}`."
        line, _ = script.source.place(call.word.start)
        text = script.source.text.split("\n")[line - 1]
        new = re.sub(rf"\bset\s+{found[1]}\s*=\s*", f"{found[1]}=", text, count=1)
        script.add_warning(
            call.word, "shell.suspicious", message, hint, edit=script.build_line_edit(line, new)
        )
        return
    if len(words) != 2 or words[1] not in _SET_NAMES or words[0] is None or words[0].startswith("-o"):
        return
    first, last = words[0], words[1]
    if not first.startswith("-") or first in {"-", "--"} or "o" in first:
        return
    edit = script.build_replacement_edit(call.arguments[0], f"{first}o")
    message = f"`{last}` has no `-o` before it, so it becomes `$1` and sets nothing."
    script.add_warning(call.word, "shell.suspicious", message, f"Write `set {first}o {last}`.", edit=edit)


_CSH = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\S+)$")


def _check_test(script: ParsedScript, call: Invocation) -> None:
    """Check for ``[ "$region" -eq north ]``: `-eq` compares integers."""
    words = list(call.arguments)
    for left, operator, right in zip(words, words[1:], words[2:], strict=False):
        _check_name_compared(script, left, operator, right)
        instead = _STRING_OPERATORS.get(get_literal_text(operator) or "")
        texts = [text for text in (get_literal_text(left), get_literal_text(right)) if text is not None]
        if instead is not None and any(
            _WORDLIKE.fullmatch(text) and text not in script.assigned_variables for text in texts
        ):
            edit = script.build_replacement_edit(operator, instead)
            shown = f"{script.written(left)} {instead} {script.written(right)}"
            message = f"`{get_literal_text(operator)}` compares integers, but one side is text."
            hint = f"Compare text with `{instead}`: `{shown}`."
            script.add_warning(operator, "shell.suspicious", message, hint, edit=edit)


def _check_digits(script: ParsedScript, call: Invocation) -> None:
    r"""Check for ``grep '\d+' f``: without `-P`, `\d` matches the letter d."""
    words = [script.source.written(word) for word in call.arguments]
    if any(re.fullmatch(r"-\w*P\w*|--perl-regexp|-\w*F\w*|--fixed-strings", word) for word in words):
        return
    for word, node in zip(words, call.arguments, strict=True):
        if word[:1] in "'\"" and re.search(r"(?<!\\)\\d", word):
            new = re.sub(r"(?<!\\)\\d", "[0-9]", word)
            message = f"`\\d` isn't a class of digits in {call.name}."
            edit = script.build_replacement_edit(node, new)
            script.add_warning(
                node, "shell.suspicious", message, f"Write `[0-9]`: `{shorten_text(new, 60)}`.", edit=edit
            )


def _check_select(script: ParsedScript, call: Invocation) -> None:
    """Check for ``jq 'select(.name = "pen")' f``: `=` assigns, so every value is selected."""
    for node in call.arguments:
        word = script.source.written(node)
        found = _SELECT_PATTERN.search(word)
        if word[:1] == "'" and found is not None:
            new = f"{word[: found.end(1)]} == {word[found.end() :]}"
            message = "`=` assigns in `select(…)`, so every value is selected."
            hint = f"Compare with `==`: `{shorten_text(new, 80)}`."
            script.add_warning(
                node, "shell.suspicious", message, hint, edit=script.build_replacement_edit(node, new)
            )


_SELECT_PATTERN = re.compile(r"(\bselect\([^()=<>!|+*/%-]{1,60}?)\s*=\s*(?=[\"\d.$])")


def _check_keys(script: ParsedScript) -> None:
    """Check for ``declare -A price=(pen=3)``: elements without `[key]=` become keys and values in turn."""
    for node in script.source.nodes if "-A" in script.source.text else ():
        if node.kind != "DeclClause" or not list(_iter_names_declared_with(node, "A")):
            continue
        written = script.source.written(node)
        found = re.search(r"=\(([^()\[\]\n]*[=:][^()\[\]\n]*)\)$", written)
        pairs = re.findall(
            r"[\"']?([\w-]+)[\"']?\s*(?:=>|=|:)\s*([\"']?[\w./-]+[\"']?),?", found[1] if found else ""
        )
        if found is None or not pairs:
            continue
        keyed = " ".join(f"[{key}]={value}" for key, value in pairs)
        edit = script.build_replacement_edit(node, f"{written[: found.start()]}=({keyed})")
        message = f"The elements have no keys: bash makes `{pairs[0][0]}={pairs[0][1]}` a key."
        script.add_warning(
            node, "shell.suspicious", message, f"Write `({shorten_text(keyed, 100)})`.", edit=edit
        )


def _check_name_compared(
    script: ParsedScript, left: ScriptNode, operator: ScriptNode, right: ScriptNode
) -> None:
    """Check for ``[ n -lt 5 ]``: the name lacks a `$`."""
    for word in (left, right) if get_literal_text(operator) in _NUMBER_TESTS else ():
        name = get_literal_text(word)
        if name is not None and name in script.assigned_variables:
            edit = script.build_replacement_edit(word, f'"${name}"')
            message = f"`{name}` is text here: the variable has a `$`."
            script.add_warning(word, "shell.suspicious", message, f'Write `"${name}"`.', edit=edit)


_NUMBER_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def _check_items(script: ParsedScript, node: ScriptNode) -> None:
    """Check for ``for f in "data/*.csv"`` and ``for x in a, b``: quotes and commas become part of items."""
    items = node.nodes("Items")
    written = [script.source.written(item) for item in items]
    line, _ = script.source.place(node.start)
    text = script.source.text.split("\n")[line - 1]
    if len(items) == 1 and re.fullmatch(r"[\"'][\w./-]*\*[\w.*/-]*[\"']", written[0]):
        plain = written[0][1:-1]
        message = f"The quotes keep {written[0]} from becoming the names of the files."
        edit = script.build_replacement_edit(items[0], plain)
        script.add_warning(items[0], "shell.suspicious", message, f"Remove the quotes: `{plain}`.", edit=edit)
    elif len(items) == 1 and re.fullmatch(r"\w+\.\.\w+", written[0]):
        message = f"`{written[0]}` is one word: a range has braces."
        edit = script.build_replacement_edit(items[0], f"{{{written[0]}}}")
        script.add_warning(items[0], "shell.suspicious", message, f"Write `{{{written[0]}}}`.", edit=edit)
    elif len(items) > 1 and all(each.endswith(",") for each in written[:-1]):
        whole, plain = " ".join(written), " ".join(each.rstrip(",") for each in written)
        edit = script.build_line_edit(line, text.replace(whole, plain, 1)) if whole in text else None
        message = "The commas are part of the loop's values."
        script.add_warning(
            items[0], "shell.suspicious", message, f"Separate values with spaces: `{plain}`.", edit=edit
        )
    elif len(items) > 1 and written[0].startswith("[") and written[-1].endswith("]"):
        whole = " ".join(written)
        plain = whole[1:-1].replace(",", "")
        edit = script.build_line_edit(line, text.replace(whole, plain, 1)) if whole in text else None
        message = "The brackets are part of the loop's values."
        script.add_warning(
            items[0], "shell.suspicious", message, f"Remove the brackets: `{plain}`.", edit=edit
        )


def _check_assignment_in_condition(script: ParsedScript, node: ScriptNode) -> None:
    """Check for ``if (( n = 3 ))``: the condition assigns."""
    for statement in node.nodes("Cond"):
        command = statement.node("Cmd")
        sum_ = command.node("X") if command is not None and command.kind == "ArithmCmd" else None
        if command is None or sum_ is None or sum_.kind != "BinaryArithm" or sum_.text("Op") != "=":
            continue
        written = script.source.written(command)
        new = re.sub(r"(?<![=!<>+*/%-])=(?!=)", "==", written, count=1)
        edit = script.build_replacement_edit(command, new)
        script.add_warning(
            command, "shell.suspicious", "`=` assigns in this condition.", f"Write `{new}`.", edit=edit
        )


def _check_assigned_text(script: ParsedScript) -> None:
    """Check for ``i=$i+1``, which assigns text, ``x=[1, 2]``, and ``set x = 5``, which sets arguments."""
    numbers = {
        setting.name
        for setting in script.settings
        if setting.value is not None and script.source.written(setting.value).isdigit()
    }
    declared = (node for node in script.source.nodes if node.kind == "DeclClause")
    integers = {name for node in declared for name in _iter_names_declared_with(node, "i")}
    for setting in script.settings:
        if (
            setting.how is not AssignmentMethod.PLAIN
            or setting.value is None
            or setting.append
            or setting.name in integers
        ):
            continue
        written = script.source.written(setting.value)
        found = _SUM.fullmatch(written)
        if found is not None and (found[1] == setting.name or found[2] == "++") and setting.name != "IFS":
            certain = found[2] in {"+", "++", "*"} or setting.name in numbers
            plain = f"{found[1]} + 1" if found[2] == "++" else f"{found[1]} {found[2]} {found[3]}"
            if certain:
                edit = script.build_replacement_edit(setting.node, f"{setting.name}=$(({plain}))")
                message = f"`{setting.name}={written}` assigns text: nothing is computed."
                hint = f"Write `{setting.name}=$(({plain}))`."
                script.add_warning(setting.node, "shell.suspicious", message, hint, edit=edit)
        elif re.fullmatch(r"\[[^\[\]]*,[^\[\]]*\]", written):
            plain = written[1:-1].replace(",", " ")
            edit = script.build_replacement_edit(setting.node, f"{setting.name}=({plain})")
            message = f"`{written}` is text: an array of bash has parentheses."
            script.add_warning(
                setting.node, "shell.suspicious", message, f"Write `{setting.name}=({plain})`.", edit=edit
            )


_SUM = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?(\+\+|[-+*])(\$?\w+)?")


def _check_subscripts(script: ParsedScript) -> None:
    """Check for ``ages[oslo]=3`` without ``declare -A``, where unset names in the subscript are 0."""
    declared = {
        name
        for node in script.source.nodes
        if node.kind == "DeclClause"
        for name in _iter_names_declared_with(node, "A")
    }
    assigned = {setting.name for setting in script.settings}
    told: set[str] = set()
    for setting in script.settings:
        index = setting.node.node("Index") if setting.indexed else None
        text = script.source.written(index).strip("\"'") if index is not None else ""
        if setting.name in declared | told or not _VARIABLE_REGEX.fullmatch(text) or text in assigned:
            continue
        told.add(setting.name)
        line, _ = script.source.place(setting.node.start)
        whole = script.source.text.split("\n")[line - 1]
        indent = whole[: len(whole) - len(whole.lstrip())]
        message = f"`{setting.name}[{text}]` is element 0: a plain array has numbers as subscripts."
        hint = f"Declare the array first: `declare -A {setting.name}`."
        edit = script.build_line_edit(line, f"{indent}declare -A {setting.name}\n{whole}")
        script.add_warning(setting.node, "shell.suspicious", message, hint, edit=edit)


def _iter_names_declared_with(node: ScriptNode, option: str) -> Iterator[str]:
    """Yield the names that a declaration declares with an option, e.g. `A` for associative arrays."""
    options = [
        get_literal_text(argument.node("Value")) or ""
        for argument in node.nodes("Args")
        if argument.get_flag("Naked")
    ]
    if any(text.startswith("-") and option in text for text in options):
        yield from options
        for argument in node.nodes("Args"):
            name = argument.node("Name")
            if name is not None:
                yield name.text("Value")


def _check_spelling(script: ParsedScript) -> None:
    """Check for ``total=5; echo "$totl"``: an unassigned name is one letter away from an assigned one."""
    known = script.assigned_variables
    read = [node for node in script.source.nodes if node.kind == "ParamExp" and not node.node("Exp")]
    told: set[str] = set()
    tried = 0
    for node in sorted(read, key=lambda each: each.start):
        name = get_parameter_name(node)
        unknown = (
            _VARIABLE_REGEX.fullmatch(name)
            and name not in known | told | _BASH_VARIABLES
            and not name.isupper()
        )
        if not unknown or len(name) < _MIN_NAME_CHARS or node.get_flag("Excl"):
            continue
        tried += 1
        near = find_nearest(name, known) if tried <= _MAX_NAMES else None
        if near is not None and near[1] and near[0] + "s" != name and name + "s" != near[0]:
            told.add(name)
            written = script.source.written(node)
            edit = script.build_replacement_edit(node, written.replace(name, near[0], 1))
            message = f"`{name}` is never assigned, so it's empty."
            script.add_warning(node, "shell.suspicious", message, f"Did you mean `${near[0]}`?", edit=edit)


def _check_mapfile(script: ParsedScript, call: Invocation) -> None:
    """Check for ``mapfile -t lines data/x``: the builtin reads standard input."""
    words = [script.source.written(word) for word in call.arguments]
    if len(words) >= 2 and "/" in words[-1] and not words[-2].startswith("-") and "<" not in words[-1]:
        edit = script.build_replacement_edit(call.arguments[-1], f"< {words[-1]}")
        message = f"`{call.name}` reads standard input and ignores `{shorten_text(words[-1], 60)}`."
        script.add_warning(
            call.arguments[-1], "shell.suspicious", message, f"Redirect the file: `< {words[-1]}`.", edit=edit
        )


_CHECKS: Mapping[str, Callable[[ParsedScript, Invocation], None]] = {
    "date": _check_date,
    "xargs": _check_xargs,
    "set": _check_set,
    **dict.fromkeys(("[", "test"), _check_test),
    **dict.fromkeys(("grep", "egrep", "sed"), _check_digits),
    "jq": _check_select,
    **dict.fromkeys(("mapfile", "readarray"), _check_mapfile),
}
