r"""Parses a script once and within limits. Every check of bash uses the result.

1.2 MiB of source           source.too_large
"ls\0"                      source.nul_byte
half a surrogate pair       source.not_text
"ls\r\n"                    source.control_character
echo $(( a $op b ))         shell.undecided       a warning; an error as let x=( a + b )
if true; then               shell.syntax          edit, where one word is missing in one place
```bash … ```               shell.syntax          edit: the text between the fences
$( $( $( … ) ) )            shell.too_deep
200,001 syntax nodes        source.too_complex
# nothing but this          shell.empty
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from assayd.findings.source_text import byte_offset_to_column, get_snippet, line_number_at
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.text_limits import MAX_SYNTAX_NODES, SOURCE_BYTES, shorten_text
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.mending import (
    find_closed_expansion,
    find_misspelt_keyword,
    find_repair,
    find_syntax_edit,
    locate_mistake,
    remove_script_fences,
)
from assayd_pipeline.shell.parse.reader import ScriptNode, build_tree, iter_tree

RULES = (
    Rule(id="source.too_large", title="The source is too large", help="The limit is 1 MiB per text."),
    Rule(id="source.nul_byte", title="The source holds a NUL byte", help="Bad: a script with \\0 in it."),
    Rule(id="source.not_text", title="The source isn't Unicode text", help="Bad: half a surrogate pair."),
    Rule(
        id="source.control_character",
        title="The source holds a control character",
        help="Bad: a carriage return at the end of a line. Write $'\\r' instead.",
    ),
    Rule(
        id="source.too_complex",
        title="The source has too many syntax nodes",
        help="Bad: a table of 100,000 lines in a script. Put data into files.",
    ),
    Rule(
        id="source.unanalysable",
        title="Reading the source exceeded time or memory",
        help="Submit smaller, less deeply nested source.",
    ),
    Rule(
        id="shell.syntax",
        title="The text isn't valid bash",
        help="Bad: if true; then. Good: if true; then ls; fi.",
    ),
    Rule(
        id="shell.undecided",
        title="Text that only bash can interpret",
        help="Bad: let x=( a + b ). Good: x=$((a + b)).",
        profile_key="enforcement",
    ),
    Rule(id="shell.too_deep", title="The script is nested too deeply", help="Bad: $( $( $( … ) ) )."),
    Rule(id="shell.empty", title="The script has no command", help="Bad: a script of comments only."),
)

# Line feeds and tabs are white space in the shell. Bidirectional marks display text as different text.
_CONTROL_REGEX = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMES = {"\r": "a carriage return", "\x1b": "an escape", "\x08": "a backspace"}
_BACKTICK_PATTERN = re.compile(r"[`]([^`]*)[`]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSource:
    """A script with its tree and all nodes, or with the findings that explain why it can't be parsed."""

    text: str
    root: ScriptNode | None = None
    nodes: tuple[ScriptNode, ...] = ()
    findings: tuple[Finding, ...] = ()
    raw: bytes = b""
    lines: list[int] = field(default_factory=list)

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column, in characters, of an offset in bytes."""
        line = bisect_right(self.lines, offset)
        begin = self.lines[line - 1]
        end = self.lines[line] if line < len(self.lines) else len(self.raw)
        return line, byte_offset_to_column(self.raw[begin:end].decode("utf-8", "replace"), offset - begin)

    def written(self, node: ScriptNode) -> str:
        """Return the complete source text of a node."""
        return self.raw[node.start : node.end].decode("utf-8", "replace")


@lru_cache(maxsize=4)
def parse_source(text: str) -> ShellSource:
    """Return the tree of a script with LF line endings, or the findings if it can't be parsed.

    No part of the script is run.
    """
    refused = _reject_text(text)
    if refused is not None:
        return ShellSource(text=text, findings=(refused,))
    fenced = remove_script_fences(text) if text.lstrip().startswith(("```", "~~~")) else None
    if fenced is not None:
        return ShellSource(text=text, findings=(_build_fence_finding(fenced),))
    reading, undecided = _parse_with_warnings(text)
    if reading.tree is None:
        return ShellSource(text=text, findings=(_build_parser_finding(reading, text),))
    try:
        root = build_tree(reading.tree)
    except RecursionError:
        return ShellSource(text=text, findings=(build_too_deep_finding(),))
    nodes = tuple(islice(iter_tree(root), MAX_SYNTAX_NODES + 1))
    found = _check_size(root, len(nodes))
    if found is not None:
        return ShellSource(text=text, findings=(found,))
    raw = text.encode()
    lines = [0, *(match.end() for match in re.finditer(rb"\n", raw))]
    return ShellSource(text=text, root=root, nodes=nodes, raw=raw, lines=lines, findings=undecided)


MAX_UNDECIDED = 20
"""Maximum arithmetic expressions to mask; each needs a run of the parser."""


def _parse_with_warnings(text: str) -> tuple[reader.ParseResult, tuple[Finding, ...]]:
    """Parse a script, and add a warning for each arithmetic expression that only bash can parse.

    The rules treat such an expression as 0. It contains only numbers, variables and operators, so it runs
    no command; the run determines whether the expression is valid.
    """
    reading, shown, undecided = reader.parse_script(text), text, list[Finding]()
    while reading.tree is None and len(undecided) < MAX_UNDECIDED:
        masked = _mask_arithmetic(shown, reading)
        if masked is None:
            return reader.parse_script(text), ()
        undecided.append(replace(_build_parser_finding(reading, shown), severity=Severity.WARNING))
        shown, reading = masked, reader.parse_script(masked)
    return reading, tuple(undecided) if reading.tree is not None else ()


_HARMLESS = re.compile(r"(?:[\w\s+\-*/%<>=&|^~,?:!#]|\$(?:\w+|[#?@*]|\{\w+\}|(?=\s|$)))*", re.ASCII)


def _mask_arithmetic(text: str, reading: reader.ParseResult) -> str | None:
    """Return the text with 0 in place of faulty arithmetic, or None if the arithmetic can contain code."""
    if reading.line is None:
        return None
    begin = sum(len(line) + 1 for line in text.split("\n", reading.line)[: reading.line - 1])
    end = text.find("\n", begin)
    line = text[begin : end if end >= 0 else len(text)]
    for found in _EXPRESSION.finditer(line):
        pieces = found[1].split(";")
        if found.end() <= (reading.column or 1) - 1 or not all(map(_HARMLESS.fullmatch, pieces)):
            continue
        zeros = ";".join("0".ljust(len(piece)) if piece.strip() else piece for piece in pieces)
        start = begin + found.start(1)
        return text[:start] + zeros + text[start + len(zeros) :]
    return None


def normalize_script(text: str) -> str:
    """Return the normalized script: without a byte order mark, and with LF line endings."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _reject_text(text: str) -> Finding | None:
    """Return the finding for a script that must not be passed to the parsers, or None."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = line_number_at(text, error.start)
        return _syntax_finding("source.not_text", "The script contains a lone surrogate.", line)
    if size > SOURCE_BYTES:
        return _syntax_finding(
            "source.too_large", f"The script has {size} bytes; {SOURCE_BYTES} are allowed."
        )
    if "\0" in text:
        return _syntax_finding(
            "source.nul_byte", "The script contains a NUL byte.", line_number_at(text, text.index("\0"))
        )
    control = _CONTROL_REGEX.search(text)
    return None if control is None else _build_control_character_finding(text, control)


def _build_control_character_finding(text: str, found: re.Match[str]) -> Finding:
    character, line = found.group(), line_number_at(text, found.start())
    begin = text.rfind("\n", 0, found.start()) + 1
    whole = text[begin:].split("\n", 1)[0]
    at_end = character == "\r" and found.start() - begin == len(whole) - 1
    return Finding(
        rule="source.control_character",
        category="syntax",
        message=f"The script holds {_NAMES.get(character, f'the character U+{ord(character):04X}')}.",
        line=line,
        column=found.start() - begin + 1,
        suggestion="Remove it; inside a quoted string, write $'\\r', $'\\x1b' or the like.",
        edit=Edit(start_line=line, end_line=line, replacement=whole[:-1]) if at_end else None,
    )


def _build_parser_finding(reading: reader.ParseResult, text: str) -> Finding:
    if reading.line is None:
        return build_too_deep_finding()
    message = _BACKTICK_PATTERN.sub(_quote_matched_text, reading.message)
    line = text.split("\n", reading.line)[reading.line - 1 : reading.line]
    column = byte_offset_to_column(line[0], (reading.column or 1) - 1) if line else reading.column
    shown = get_snippet(text, reading.line)
    found = Finding(
        rule="shell.syntax",
        category="syntax",
        message=shorten_text(f"This isn't valid bash: {message}."),
        line=reading.line,
        column=column,
        snippet=shown,
        suggestion=_suggest_syntax_fix(reading.message),
    )
    glued = line and _UNSPACED_TEST.search(line[0]) is not None
    if (
        glued
        or not _depends_on_run_time(reading.message, line[0] if line else "")
        or _has_open_expansion(line[0])
    ):
        return _add_repair(found, text, message)
    return _build_undecided_finding(found, text, line[0], message)


def _build_undecided_finding(found: Finding, text: str, line: str, message: str) -> Finding:
    """Return the finding for code that the parser can't judge, with remedies for decimals and `let`."""
    said = f"The meaning is unknown before bash runs it: {message}."
    hint, edit = "Write operators and subscripts literally. To choose between them, use case or if.", None
    if "floating point" in message:
        said = "bash computes with integers only, and this arithmetic has decimals."
        hint = "Compute decimals with awk: `awk -v x=\"$x\" 'BEGIN { print x * 1.5 }'`."
    elif _LET.search(line):
        hint = "Write arithmetic without let: x=$((a + b))."
        if (spaced := _SPACED_LET.fullmatch(line)) is not None:
            new = f"{spaced[1]}{spaced[2]}=$(({spaced[4]}))"
            if spaced[3]:
                new = f"{spaced[1]}{spaced[2]}=$(({spaced[2]} {spaced[3]} ({spaced[4]})))"
            hint = f"Write arithmetic without let: `{new.strip()}`."
            edit = Edit(start_line=found.line or 1, end_line=found.line or 1, replacement=new)
    return replace(found, rule="shell.undecided", message=shorten_text(said), suggestion=hint, edit=edit)


def _add_repair(found: Finding, text: str, message: str) -> Finding:
    """Add the edit, if one is found, and move the finding to the mistake's most likely position."""
    line = found.line or 1
    repair = find_repair(text, message, line)
    if repair is not None:
        return replace(
            found,
            message=repair.message,
            line=repair.line,
            column=1,
            snippet=get_snippet(text, repair.line),
            suggestion=repair.hint,
            edit=repair.edit,
        )
    edit = find_syntax_edit(text, message, line)
    if edit is None and (spelt := find_misspelt_keyword(text)) is not None:
        word, edit = spelt
        found = replace(found, suggestion=f"Did you mean {word}?")
        return replace(found, line=edit.start_line, snippet=get_snippet(text, edit.start_line), edit=edit)
    if edit is not None and (opened := find_closed_expansion(text, edit)) is not None:
        said = f"The `{opened[0]}` isn't closed on line {edit.start_line}."
        hint = f"Close it with `{opened[1]}`: `{edit.replacement.strip()}`."
        shown = get_snippet(text, edit.start_line)
        column = found.column if edit.start_line == line else 1
        return replace(
            found,
            message=said,
            line=edit.start_line,
            column=column,
            snippet=shown,
            suggestion=hint,
            edit=edit,
        )
    at = locate_mistake(text, message, line)
    if "without closing quote" in message:
        quote = '"' if '"' in message else "'"
        fits = edit is not None and "\n" not in edit.replacement and len(edit.replacement) <= _SHOWN_CHARS
        shown = f": `{edit.replacement.strip()}`" if edit is not None and fits else " where the text ends"
        kind = "double" if quote == '"' else "single"
        hint = f"Close it with a {kind} quote{shown}."
        said = f"The quote {quote} that opens on line {at} isn't closed."
        if (inner := _close_substitution(text.split("\n")[at - 1], at)) is not None:
            said, edit = f"The `$(` on line {at} isn't closed, so its quote isn't either.", inner
            hint = f"Close it with `)`: `{inner.replacement.strip()}`."
        found = replace(found, message=said, suggestion=hint)
    if at == line:
        return replace(found, edit=edit)
    return replace(found, line=at, column=None, snippet=get_snippet(text, at), edit=edit)


def _close_substitution(line: str, number: int) -> Edit | None:
    """Return the edit that closes a ``$(`` before the quote that ends the line, or None for other lines."""
    found = _SUBSTITUTION_AT_END.search(line)
    if found is None or len(line) > _SHOWN_CHARS:
        return None
    return Edit(
        start_line=number, end_line=number, replacement=f"{line[: found.end(1)]}){line[found.end(1) :]}"
    )


_SUBSTITUTION_AT_END = re.compile(r'(\$\([^()"]+)"\s*$')
_ARITHMETIC = re.compile(r"\(\(|\[|\$\{")
_EXPRESSION = re.compile(r"\(\(([^()`\[\]'\"]*)\)\)")
_SHOWN_CHARS = 110
_LET = re.compile(r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*let\s")
_SPACED_LET = re.compile(r"(\s*)let\s+([A-Za-z_]\w*)\s*([-+*/%]?)=\s*(?=\S)([\w\s$+*/%-]*[\w)])\s*")
_LET_ERRORS = re.compile(r"`\(` must be followed by an expression|statements must be separated")
_UNSPACED_TEST = re.compile(r"(?:^|[;&|]|\b(?:then|do|else)\b)\s*(?:if|elif|while|until)\[")
"""A keyword without a space before a test, which bash treats as an array element."""
_RUN_TIME_REGEX = re.compile(
    r"not a valid (?:arithmetic operator|parameter expansion operator)|arithmetic"
    r"|`expr` must be followed by `;`|`\[` must be followed by an expression|reached `?[.~$]"
    r"|must be followed by a word"
)


def _depends_on_run_time(message: str, line: str) -> bool:
    """Return whether the parser stopped at a construct that bash itself parses only at run time."""
    if _LET.search(line) and _LET_ERRORS.search(message):
        return True  # For bash, let x=( a + b ) and let x=a<b are arithmetic.
    return _RUN_TIME_REGEX.search(message) is not None and _ARITHMETIC.search(line) is not None


def _has_open_expansion(line: str) -> bool:
    """Return whether a line contains a ``${`` that isn't closed."""
    return line.count("${") > line.count("}")


def _build_fence_finding(edit: Edit) -> Finding:
    message, remedy = "The script is inside a markdown fence.", "Submit only the script, without the fences."
    found = Finding(rule="shell.syntax", category="syntax", message=message, line=1, suggestion=remedy)
    return replace(found, edit=edit)


def _quote_matched_text(found: re.Match[str]) -> str:
    return f"'{found.group(1)}'"


# shfmt's messages begin with the faulty word in backquotes.
_ADVICE = (
    (r"must be followed by an expression", "Write a value after the operator, or remove the operator."),
    (r"invalid var name", "Begin the name of a variable with a letter or `_`."),
    (r"must end with `esac`", "Add `esac` where the `case` ends, and `;;` at the end of each branch."),
    (r"`elif` must be followed", "Write a condition after `elif`, and `; then`."),
    (
        r"must be followed by a statement list",
        "Write a command in this block, such as `:`, and close the block.",
    ),
    (r"`\|`.* must be followed by a statement", "Write a command after `|`, or remove it."),
    (r"must be followed by a statement", "Write a command after the operator, or remove it."),
    (r"can only immediately follow a statement", "Put the operator at the end of the line before."),
    (r"must be followed by a word", "Write the name of a file after the redirection."),
    (r"statements must be separated", "Put `;`, `&&` or a newline between the two commands."),
    (r"without matching `\(\(`", "Close `((` with `))`."),
    (r"`;;` can only be used", "Write a single `;`: `;;` ends a branch of `case`."),
    (r"without closing quote", "Add the closing quote at the end of the string."),
    (
        r"here-document|heredoc",
        "Write the closing word alone on its line, without spaces around it (with <<-, leading tabs are "
        "allowed).",
    ),
    (r"array element values", "Close the array: names=(a b)."),
    (r"can only be used (in|to)|is not a valid", "Remove the word, or add its opening word."),
    (
        r"reached EOF|without closing|must (be followed|end)|unclosed|not closed",
        "Close the construct in the message.",
    ),
)


def _suggest_syntax_fix(message: str) -> str:
    fitting = (advice for pattern, advice in _ADVICE if re.search(pattern, message))
    return next(fitting, "Correct the syntax at this place. Quote ( ) ; & | < > if they are text.")


def _check_size(root: ScriptNode, count: int) -> Finding | None:
    if count > MAX_SYNTAX_NODES:
        return _syntax_finding(
            "source.too_complex", f"The script has more than {MAX_SYNTAX_NODES} syntax nodes."
        )
    if not root.nodes("Stmts"):
        return _syntax_finding("shell.empty", "The script has no command.")
    return None


def build_too_deep_finding() -> Finding:
    """Return the finding for a script that exceeds a parser's limits."""
    return _syntax_finding("shell.too_deep", "The script is too large or too deeply nested to read.")


def _syntax_finding(rule: str, message: str, line: int | None = None) -> Finding:
    return Finding(rule=rule, category="syntax", message=message, line=line, suggestion=_SUGGESTIONS[rule])


_SUGGESTIONS = {
    "source.too_large": "Submit less source; put data into files.",
    "source.nul_byte": "Remove the NUL byte.",
    "source.not_text": "Submit text that is valid UTF-8.",
    "source.too_complex": "Submit a smaller script; put data into files.",
    "shell.too_deep": "Use variables and functions instead of nesting; split the script into steps.",
    "shell.empty": "Write at least one command.",
}
