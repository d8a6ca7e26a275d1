r"""Checks awk programs and sed scripts.

awk '{ system("ls") }' f        awk.execute
awk '{ print | "sort" }' f      awk.execute
awk '@load "fork"' f            awk.load
awk '{ print > "/etc/x" }' f    path.outside
awk "{ print \$$n }" f          awk.dynamic     (a warning, if n is unknown)
awk '$1 > $min' f               awk.shell_variable   (a warning, if the shell has a variable min)
awk '{ print "x }' f            awk.unreadable
sed "$commands" f               sed.dynamic     (a warning, if it is unknown)
sed 's/a/b' f                   sed.unreadable
sed 's/a/ls/e' f                sed.execute
sed "s/a/$b/" f                 sed.undecided   (a warning)
sed -i.bak/../../x … f          path.outside

In a sed script, only an initial `s` or `y` is parsed. Other ways to run commands fail because the image has
no shell, and other ways to write files fail because the root filesystem is read-only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assayd.model.finding import Edit
from assayd.model.text_limits import shorten_text
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.resolve import ArgumentValue, Invocation, ParsedArguments
from assayd_pipeline.shell.parse.script import NamedPath, ParsedScript
from assayd_pipeline.shell.parse.words import ANY, get_parameter_name, strip_double_quotes
from assayd_pipeline.shell.rules.paths import PathUse, check_path

_AWK_ASSIGNMENT_REGEX = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_TOKEN_REGEX = re.compile(
    r"(?P<skip>[ \t]+|\\\n|\#[^\n]*)"
    r"|(?P<end>[;\n{}])"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>[0-9\x01]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)"
    r"|(?P<sign>\|\||&&|\|&|>>|[<>=!+*%^-]=|\*\*=?|\+\+|--|[^\"])",
    re.DOTALL,
)
# The pattern never backtracks, so its time is linear.
_AWK_REGEX_PATTERN = re.compile(
    r"/(?>\\.|\[\^?+\]?+(?>\[:[a-z]++:\]|\\.|[^\]\\\n])*+\]|[^/\\\[\n])*+/", re.DOTALL
)
_AWK_KEYWORDS = frozenset(
    ["case", "delete", "do", "else", "exit", "getline", "in", "print", "printf", "return"]
)


@dataclass(frozen=True, slots=True)
class _AwkToken:
    kind: str
    text: str


def check_awk(script: ParsedScript, call: Invocation, parsed: ParsedArguments) -> None:
    """Check the program and the files of an awk call."""
    operands = parsed.operands
    sources = [option.value for option in parsed.list_options("-e", "--source") if option.value is not None]
    if not sources and not parsed.list_options("-f", "--file", "-E", "--exec"):
        sources, operands = operands[:1], operands[1:]
    node = sources[0].node if sources else call.word
    assigned = [
        option.value.value for option in parsed.list_options("-v", "--assign") if option.value is not None
    ]
    _check_program(script, node, "\n".join(source.value for source in sources), assigned)
    for operand in operands:
        if operand.value != "-" and not _AWK_ASSIGNMENT_REGEX.fullmatch(operand.value):
            check_path(script, operand.node, operand.value, PathUse.READS, "awk")


def _check_program(script: ParsedScript, node: ScriptNode, program: str, assigned: Sequence[str]) -> None:
    if _has_argument(script, node):
        written = script.source.written(node)
        message = "In double quotes, `$1` or `$2` is an argument of the step, which is empty."
        plain = f"'{written[1:-1]}'" if "'" not in written and "\\" not in written else None
        edit = script.build_replacement_edit(node, plain) if plain is not None else None
        hint = "Write the awk program in single quotes: `'{ print $2 }'`."
        script.error(node, "awk.dynamic", message, hint, edit=edit)
        return
    if ANY in program:
        message = "A part of the awk program is unknown before the run."
        suggestion = "Write the program in single quotes and pass values with -v: "
        suggestion += "awk -v n=\"$n\" '{ print $n }' file."
        script.add_warning(node, "awk.dynamic", message, suggestion)
        return
    tokens = list(_tokenize(program))
    if tokens and tokens[-1].kind == "broken":
        message = f"The awk program is invalid from {tokens[-1].text[:40]!r} on."
        script.error(node, "awk.unreadable", message, "Close every string and every pattern on its own line.")
        return
    if not _is_quoted(script, node, program) or not _check_brackets(script, node, tokens):
        return
    _check_conditions(script, node, program)
    _check_shell_variables(script, node, tokens, assigned)
    _check_patterns(script, node, tokens)
    printing = False
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else _AwkToken("end", "")
        _check_token(script, node, token, following)
        if token.text in {"print", "printf", "getline"} or token.kind == "end":
            printing = token.kind != "end"
        elif printing and token.text in {">", ">>", "<"} and following.kind == "string":
            use = PathUse.READS if token.text == "<" else PathUse.WRITES
            check_path(script, node, following.text[1:-1], use, "awk")
        elif printing and token.text in {">", ">>"}:
            script.paths.append(NamedPath(node=node, value=ANY, use=PathUse.WRITES, what="awk"))


def _has_argument(script: ParsedScript, node: ScriptNode) -> bool:
    """Return whether a double-quoted program contains the step's `$1`: ``awk "{ print $2 }"``."""
    parts = strip_double_quotes(node)
    quoted = len(node.nodes("Parts")) == 1 and node.nodes("Parts")[0].kind == "DblQuoted"
    if not quoted or not any(
        part.kind == "ParamExp" and get_parameter_name(part).isdigit() for part in parts
    ):
        return False
    around = [each for each in script.source.nodes if each.kind == "FuncDecl"]
    inside = any(each.start < node.start < each.end for each in around)
    return not inside and not any(call.name == "set" for call in script.calls)


def _check_conditions(script: ParsedScript, node: ScriptNode, program: str) -> None:
    """Check for ``awk '{ if ($1 = 5) print }'``, in which the condition assigns (a warning)."""
    compared = _CONDITION_PATTERN.search(program)
    if compared is not None:
        message = f"`{compared[0][:60]}` assigns: the condition is the value."
        script.add_warning(node, "shell.suspicious", message, "Compare with two equals signs: `==`.")


_CONDITION_PATTERN = re.compile(
    r"\b(?:if|while)\s*\([^()=<>!~\"]{1,60}[^=<>!~+*/%^()\"-]=[^=~()][^()]{0,60}\)"
)


def _is_quoted(script: ParsedScript, node: ScriptNode, program: str) -> bool:
    """Return True if a program is quoted, or report ``awk {print $1} f`` as an error."""
    if script.source.written(node).startswith(("'", '"')) or "{" not in program:
        return True
    line, _ = script.source.place(node.start)
    text = script.source.text.split("\n")[line - 1]
    found = re.search(r"\{[^{}'\"]*\}", text)
    if found is None or " " not in found[0]:
        return True
    edit = script.build_line_edit(line, f"{text[: found.start()]}'{found[0]}'{text[found.end() :]}")
    message = "The awk program has no quotes, so bash splits it."
    script.error(node, "awk.unreadable", message, f"Quote it: `'{found[0]}'`.", edit=edit)
    return False


def _check_brackets(script: ParsedScript, node: ScriptNode, tokens: Sequence[_AwkToken]) -> bool:
    """Check for ``awk '{ print $1'`` -> awk.unreadable, and return whether all brackets are closed."""
    texts = [token.text for token in tokens if token.kind in {"sign", "end"}]
    for opener, closer in ("{}", "()"):
        missing = texts.count(opener) - texts.count(closer)
        if missing > 0:
            message = f"A `{opener}` of the awk program isn't closed."
            edit = _build_closing_edit(script, node, closer) if missing == 1 else None
            hint = f"Close it with `{closer}`."
            script.error(node, "awk.unreadable", message, hint, edit=edit)
            return False
    return True


def _build_closing_edit(script: ParsedScript, node: ScriptNode, closer: str) -> Edit | None:
    """Return the edit that closes a brace before `END` or at the program's end, or None if uncertain."""
    written = script.source.written(node)
    if written[:1] != "'" or written[-1:] != "'":
        return None
    if closer == ")":
        new, count = re.subn(r"(\w+\([^(){};]*)(?=\s*[};'])", r"\1)", written)
        return script.build_replacement_edit(node, new) if count == 1 else None
    last = re.search(r"\s*\bEND\s*\{", written)
    before = written[: last.start()] if last is not None else ""
    if last is not None and before.count("{") > before.count("}"):
        return script.build_replacement_edit(node, f"{before} }}{written[last.start() :]}")
    return script.build_replacement_edit(node, f"{written[:-1].rstrip()} }}'")


def _check_patterns(script: ParsedScript, node: ScriptNode, tokens: Sequence[_AwkToken]) -> None:
    """Check for ``awk '$2 = "north"'``, in which the pattern assigns (a warning)."""
    depth = 0
    kept = [token for token in tokens if token.text != "\n"]
    for place, token in enumerate(kept):
        depth += (token.text == "{") - (token.text == "}")
        before = [each.text for each in kept[max(place - 2, 0) : place]]
        after = kept[place + 1 : place + 3]
        begins = place < 3 or kept[place - 3].text in {"}", ";", "&&", "||"}
        if token.text == "=" and depth == 0 and before[:1] == ["$"] and begins and after[:1]:
            constant = after[0].kind in {"string", "number"}
            ends = len(after) == 1 or after[1].text in {"{", "&&", "||", ";"}
            if constant and ends:
                message = f"`${before[1]} = {after[0].text}` assigns to the field of every line."
                hint = f"Compare with two equals signs: `${before[1]} == {after[0].text}`."
                script.add_warning(
                    node,
                    "shell.suspicious",
                    message,
                    hint,
                    edit=_build_comparison_edit(script, node, before[1]),
                )


def _build_comparison_edit(script: ParsedScript, node: ScriptNode, field: str) -> Edit | None:
    written = script.source.written(node)
    new, count = re.subn(rf"(\${re.escape(field)}\s*)=(?![=~])", r"\1==", written)
    return script.build_replacement_edit(node, new) if count == 1 else None


def _check_token(script: ParsedScript, node: ScriptNode, token: _AwkToken, following: _AwkToken) -> None:
    if token == _AwkToken("name", "system"):
        message = "The awk program runs a command with system()."
        suggestion = "Run the command in the script, before or after awk."
        script.error(node, "awk.execute", message, suggestion)
    elif token.kind == "sign" and token.text in {"|", "|&"}:
        message = "The awk program starts a command with a pipe."
        suggestion = "Pipe the output of awk itself: awk '{ print $1 }' file | sort."
        script.error(node, "awk.execute", message, suggestion)
    elif token == _AwkToken("sign", "@") and following.text != "namespace":
        message = (
            f"The awk program loads code with @{following.text}, or calls a function by a computed name."
        )
        script.error(node, "awk.load", message, "Write the functions in the program, and call them directly.")


def _check_shell_variables(
    script: ParsedScript, node: ScriptNode, tokens: Sequence[_AwkToken], assigned: Sequence[str]
) -> None:
    """Check for ``awk '$2 >= $min' f`` if only the shell has `min` -> awk.shell_variable (a warning)."""
    names = {text.partition("=")[0] for text in assigned}
    fields = set[str]()
    for before, token in pairwise([_AwkToken("end", ""), *tokens]):
        if token.kind == "name":
            (fields if before.text == "$" else names).add(token.text)
    of_the_shell = {setting.name for setting in script.settings}
    for name in sorted((fields - names) & of_the_shell):
        message = f"${name} in single quotes is an awk field, not the shell variable."
        suggestion = f"Pass the value: awk -v {name}=\"${name}\" '… {name} …', without a $ before it."
        script.add_warning(node, "awk.shell_variable", message, suggestion)


def _tokenize(program: str) -> Iterator[_AwkToken]:
    """Split a program into tokens. At a syntax error, the last token has the kind "broken"."""
    position, after_operand = 0, False
    while position < len(program):
        divides = program[position] != "/" or after_operand
        found = (_TOKEN_REGEX if divides else _AWK_REGEX_PATTERN).match(program, position)
        if found is None:
            yield _AwkToken("broken", program[position:])
            return
        position = found.end()
        token = _AwkToken(found.lastgroup or "pattern", found.group())
        if token.kind != "skip":
            # A slash after an operand divides; any other begins a pattern.
            after_operand = token.kind in {"string", "number", "pattern"} or token.text in {")", "]", "$"}
            after_operand = after_operand or (token.kind == "name" and token.text not in _AWK_KEYWORDS)
            yield token


_WRITE_PATTERN = re.compile(r"w[ \t]")


def _record_written_file(script: ParsedScript, source: ArgumentValue) -> None:
    """Record that a sed script can write to any file, if it contains the command ``w``."""
    if _WRITE_PATTERN.search(source.value):
        script.paths.append(NamedPath(node=source.node, value=ANY, use=PathUse.WRITES, what="sed"))


_AFTER_FLAGS = re.compile(r"[gpIiMme\d]*(?:\s*$|\s*[;}\n#]|w[ \t])")
_SEPARATORS = 3
_SUBSTITUTES = re.compile(r"[sy][^\w\s\\]")
_SUBSTITUTION = re.compile(r"[sy](.)(?:\\.|(?!\1).)*+\1(?:\\.|(?!\1).)*+\1(\w*)", re.DOTALL)


def check_sed(script: ParsedScript, parsed: ParsedArguments) -> None:
    """Check the files of a sed script, and the parts of the script that are unknown before the run."""
    operands = parsed.operands
    sources = [
        option.value for option in parsed.list_options("-e", "--expression") if option.value is not None
    ]
    if not sources and not parsed.list_options("-f", "--file", "-e", "--expression"):
        sources, operands = operands[:1], operands[1:]
    for source in sources:
        _record_written_file(script, source)
        if source.value.startswith(ANY):
            message = "A command of the sed script is unknown before the run."
            suggestion = 'Write the commands literally; only the parts of s can vary: sed "s/a/$b/".'
            script.add_warning(source.node, "sed.dynamic", message, suggestion)
        elif ANY in source.value:
            message = "A value inside the sed script is unknown before the run; "
            message += "a / or & in it changes the script."
            script.add_warning(
                source.node, "sed.undecided", message, "Use awk -v for values that come from data."
            )
        elif _SUBSTITUTES.match(source.value):
            _check_substitution(script, source)
    in_place = parsed.list_options("-i", "--in-place")
    for option in in_place:
        if option.value is not None and "/" in option.value.value:
            message = "sed -i would put its backup into another folder."
            script.error(option.node, "path.outside", message, "Write a plain suffix after -i, e.g. -i.bak.")
    for operand in operands:
        if operand.value != "-":
            use = PathUse.CHANGES if in_place else PathUse.READS
            check_path(script, operand.node, operand.value, use, "sed")


def _check_substitution(script: ParsedScript, source: ArgumentValue) -> None:
    """Check a command ``s/a/b/`` at the beginning of a sed script."""
    found = _SUBSTITUTION.match(source.value)
    written = script.source.written(source.node)
    if found is None:
        separator, quote = source.value[1], written[-1:] if written[-1:] in {"'", '"'} else ""
        body = written[:-1] if quote else written
        message = f"The last `{separator}` of the sed script is missing."
        hint = f"Write the separator three times: `{shorten_text(source.value, 60)}{separator}`."
        edit = script.build_replacement_edit(source.node, f"{body}{separator}{quote}")
        script.error(source.node, "sed.unreadable", message, hint, edit=edit)
    elif not _AFTER_FLAGS.match(source.value, found.start(2)):
        separator = source.value[1]
        message = f"The text of the sed script contains `{separator}`, which separates its parts."
        parts = written.count(separator) == _SEPARATORS and "|" not in written
        edit = script.build_replacement_edit(source.node, written.replace(separator, "|")) if parts else None
        hint = "Separate the parts with another delimiter: `s|old|new|`."
        script.error(source.node, "sed.unreadable", message, hint, edit=edit)
    elif "e" in found[2]:
        message = "The sed script runs the matched text as a command (s///e)."
        script.error(source.node, "sed.execute", message, "Remove e, and run commands in the script.")
