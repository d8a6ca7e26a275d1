"""Mistakes that bash accepts and that the tree shows: errors, if they can't work, otherwise warnings.

head –n 2 f                 shell.mistake       a long dash isn't a hyphen
wc -l<U+200B> f             shell.mistake       an invisible character
date +%F %H:%M              shell.mistake       the format is two words
ls | xargs -I wc -l {}      shell.mistake       -I has no mark
total=5; echo "$totl"       shell.suspicious    a variable that is never assigned, with a near name that is
ages[oslo]=3                shell.suspicious    names as subscripts need declare -A
set -eu pipefail            shell.suspicious    pipefail is an argument here
[ "$x" -eq north ]          shell.suspicious    -eq compares integers
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from assayd.guest.near import nearest
from assayd_pipeline.shell.parse.nodes import Node
from assayd_pipeline.shell.parse.resolve import Invocation
from assayd_pipeline.shell.parse.script import ParsedScript
from assayd_pipeline.shell.parse.words import ENVIRONMENT, literal, name_of_parameter

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_LONG_DASH = re.compile(f"[{_DASHES}]+([A-Za-z][\\w-]*)?")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")
_NUMERIC = {"-eq": "=", "-ne": "!="}
_WORDLIKE = re.compile(r"[A-Za-z][A-Za-z_ -]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SET_NAMES = frozenset({"pipefail", "errexit", "nounset", "xtrace"})
_FROM_BASH = frozenset(
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
_LEAST_CHARS = 3
_MOST_NAMES = 50


def check_mistakes(script: ParsedScript) -> None:
    """Leave a finding for each mistake of a script."""
    for call in script.calls:
        _check_characters(script, call)
        match call.name:
            case "date":
                _check_date(script, call)
            case "xargs":
                _check_xargs(script, call)
            case "set":
                _check_set(script, call)
            case "[" | "test":
                _check_test(script, call)
    _check_subscripts(script)
    _check_spelling(script)


def _check_characters(script: ParsedScript, call: Invocation) -> None:
    for word in (call.word, *call.arguments):
        written = script.source.written(word)
        if _INVISIBLE.search(written) and not written.startswith(("'", '"')):
            found = _INVISIBLE.search(written)
            code = f"U+{ord(found[0]):04X}" if found is not None else ""
            message = f"`{_INVISIBLE.sub('', written)[:40]}` has an invisible character, {code}."
            edit = script.replacing(word, _INVISIBLE.sub("", written))
            script.error(word, "shell.mistake", message, "Delete the invisible character.", edit=edit)
        elif (dash := _LONG_DASH.match(written)) is not None and dash[1]:
            hyphens = "-" if len(dash[1]) == 1 else "--"
            plain = f"{hyphens}{dash[1]}{written[dash.end() :]}"
            message = f"`{written[:40]}` begins with a long dash: {call.name} reads it as a name."
            edit = script.replacing(word, plain)
            script.error(word, "shell.mistake", message, f"Type a hyphen: `{call.name} {plain}`.", edit=edit)


def _check_date(script: ParsedScript, call: Invocation) -> None:
    """``date +%Y-%m-%d %H:%M``: the part after the space is a second argument."""
    words = [script.source.written(word) for word in call.arguments]
    for before, word, node in zip(words, words[1:], call.arguments[1:], strict=False):
        if before.startswith("+%") and word.startswith("%"):
            line, _ = script.source.place(node.start)
            text = script.source.text.split("\n")[line - 1]
            whole = f"{before} {word}"
            edit = script.line_edit(line, text.replace(whole, f"'{whole}'", 1)) if whole in text else None
            message = f"date takes one format: the space makes `{word}` a second argument."
            script.error(
                node, "shell.mistake", message, f"Quote the whole format: `date '{whole}'`.", edit=edit
            )


def _check_xargs(script: ParsedScript, call: Invocation) -> None:
    """``xargs -I wc -l {}``: -I takes the mark that stands for each line, so wc becomes the mark."""
    words = [script.source.written(word) for word in call.arguments]
    for option, mark, node in zip(words, words[1:], call.arguments[1:], strict=False):
        if option == "-I" and mark in script.commands.allowed and any("{}" in word for word in words):
            edit = script.replacing(node, f"{{}} {mark}")
            hint = f"Write the mark after `-I`: `xargs -I {{}} {mark} …`."
            script.error(
                node, "shell.mistake", f"`-I` takes `{mark}` as the mark to replace.", hint, edit=edit
            )


def _check_set(script: ParsedScript, call: Invocation) -> None:
    """``set -eu pipefail`` sets $1 instead of the option."""
    words = [literal(word) for word in call.arguments]
    if len(words) != 2 or words[1] not in _SET_NAMES or words[0] is None or words[0].startswith("-o"):
        return
    first, last = words[0], words[1]
    if not first.startswith("-") or first in {"-", "--"} or "o" in first:
        return
    edit = script.replacing(call.arguments[0], f"{first}o")
    message = f"`{last}` has no `-o` before it, so it becomes `$1` and sets nothing."
    script.warn(call.word, "shell.suspicious", message, f"Write `set {first}o {last}`.", edit=edit)


def _check_test(script: ParsedScript, call: Invocation) -> None:
    """``[ "$region" -eq north ]``: -eq compares integers."""
    words = list(call.arguments)
    for left, operator, right in zip(words, words[1:], words[2:], strict=False):
        instead = _NUMERIC.get(literal(operator) or "")
        texts = [text for text in (literal(left), literal(right)) if text is not None]
        if instead is not None and any(_WORDLIKE.fullmatch(text) for text in texts):
            edit = script.replacing(operator, instead)
            shown = f"{script.written(left)} {instead} {script.written(right)}"
            message = f"`{literal(operator)}` compares integers, and one side is text."
            hint = f"Compare text with `{instead}`: `{shown}`."
            script.warn(operator, "shell.suspicious", message, hint, edit=edit)


def _check_subscripts(script: ParsedScript) -> None:
    """``ages[oslo]=3`` without ``declare -A``: the subscript is arithmetic, so every unset name is 0."""
    declared = {name for node in script.source.nodes if node.kind == "DeclClause" for name in _declared(node)}
    assigned = {setting.name for setting in script.settings}
    told: set[str] = set()
    for setting in script.settings:
        index = setting.node.node("Index") if setting.indexed else None
        text = script.source.written(index).strip("\"'") if index is not None else ""
        if setting.name in declared | told or not _NAME.fullmatch(text) or text in assigned:
            continue
        told.add(setting.name)
        line, _ = script.source.place(setting.node.start)
        whole = script.source.text.split("\n")[line - 1]
        indent = whole[: len(whole) - len(whole.lstrip())]
        message = f"`{setting.name}[{text}]` is element 0: a plain array has numbers as subscripts."
        hint = f"Declare the array before: `declare -A {setting.name}`."
        edit = script.line_edit(line, f"{indent}declare -A {setting.name}\n{whole}")
        script.warn(setting.node, "shell.suspicious", message, hint, edit=edit)


def _declared(node: Node) -> Iterator[str]:
    """Return the names that a declaration makes associative arrays."""
    options = [
        literal(argument.node("Value")) or "" for argument in node.nodes("Args") if argument.flag("Naked")
    ]
    if any(text.startswith("-") and "A" in text for text in options):
        yield from options
        for argument in node.nodes("Args"):
            name = argument.node("Name")
            if name is not None:
                yield name.text("Value")


def _check_spelling(script: ParsedScript) -> None:
    """``total=5; echo "$totl"``: a variable that nothing assigns, one letter away from one that is."""
    known = script.assigned
    read = [node for node in script.source.nodes if node.kind == "ParamExp" and not node.node("Exp")]
    told: set[str] = set()
    tried = 0
    for node in sorted(read, key=lambda each: each.start):
        name = name_of_parameter(node)
        unknown = _NAME.fullmatch(name) and name not in known | told | _FROM_BASH and not name.isupper()
        if not unknown or len(name) < _LEAST_CHARS or node.flag("Excl"):
            continue
        tried += 1
        near = nearest(name, known) if tried <= _MOST_NAMES else None
        if near is not None and near[1] and near[0] + "s" != name and name + "s" != near[0]:
            told.add(name)
            written = script.source.written(node)
            edit = script.replacing(node, written.replace(name, near[0], 1))
            message = f"`{name}` is never assigned, so it's empty."
            script.warn(node, "shell.suspicious", message, f"Did you mean `${near[0]}`?", edit=edit)
