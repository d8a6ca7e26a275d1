r"""Explains a syntax error and suggests a fix.

The explanations are looked up by the messages of CPython 3.11 and later. The first matching row determines
the rule and the suggestion:

    x = "abc                          syntax.unterminated_string   edit: x = "abc"
    x = '''abc                        syntax.unterminated_string
    x = int(s                         syntax.unclosed_bracket      edit: x = int(s)
    x = (1, 2]                        syntax.mismatched_bracket    edit: x = (1, 2)
    if x                              syntax.missing_colon         edit: if x:
    print "x"                         syntax.print_statement       edit: print("x")
    except A, error:                  syntax.except_types          edit: except A as error:
    x = “abc”                         syntax.invalid_character     edit: x = "abc"
    x = [1 2]                         syntax.missing_comma
    if x = 1: pass                    syntax.assignment
    f"{a["b"]}"                       syntax.f_string              edit: f"{a['b']}"
    "C:\Users"                        syntax.unicode_escape
    return 1 (at top level)           syntax.outside_function
    ```python                         syntax.markdown_fence        edit: the text between the fences
    (two spaces) x = 1                syntax.indentation
    a tab under eight spaces          syntax.tabs                  edit: spaces
    re.compile("\d")                  syntax.invalid_escape        (a warning)
    [(1, 2) (3, 4)], on two lines     syntax.suspicious            (a warning) edit: a comma between

An edit is offered only if the whole text compiles with it and no other change is possible; see
`safe_fixes`.

For "invalid syntax", the module also checks for a misspelled keyword or a missing comma:

    dfe f(x):          Did you mean 'def'?
    f(a b)             A comma, or an operator, is missing (no edit: it may be f(a, b), f(a.b) or f(a + b))

Each candidate is compiled with the whole text. An edit is offered only if exactly one keyword makes the
text valid.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from assayd.findings.source_text import get_line, get_snippet
from assayd.guest.near import compute_edit_distance
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.text_limits import shorten_text
from assayd.static.python.left_out import (
    close_open_bracket,
    insert_comma,
    list_missing_closers,
    replace_assignment_in_condition,
)
from assayd.static.python.safe_fixes import (
    MAX_TRIED_CHARS,
    Proposal,
    add_colon,
    add_print_parentheses,
    build_edit,
    expand_tabs,
    fails_after_line,
    find_certain_edit,
    fix_except_clause,
    fix_mismatched_bracket,
    insert_comma_after_tuple,
    insert_missing_bracket,
    insert_missing_quote,
    limit_explanation,
    parse_or_none,
    remove_extra_bracket,
    remove_fences,
    repeat_per_line,
    replace_else_if,
    replace_lookalikes,
    swap_inner_quotes,
)

_WORD_PATTERN = re.compile(r"[A-Za-z]+")
_QUOTED_PATTERN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_KEYWORDS = tuple(word for word in keyword.kwlist if len(word) > 1)
_GAP = re.compile(r"(?<=[\w'\")\]}])[ \t]+(?=[\w'\"(\[{*-])")
_MAX_PLACES = 40


def explain_misspelling(error: SyntaxError, text: str) -> _Explanation | None:
    """Return the explanation of an invalid line with a misspelled keyword or a missing sign, or None."""
    line = get_line(text, error.lineno)
    if line is None or error.lineno is None:
        return None
    if (raised := _explain_python2_raise(line, error.lineno, text)) is not None:
        return raised
    left = MAX_TRIED_CHARS // max(len(text), 1)
    words = list(islice(_iter_keyword_candidates(line, error.lineno, text), left + 1))
    found = [one for one in words[:left] if parse_or_none(one.text) is not None]
    if found:
        unique = len(found) == 1 and len(words) <= left
        return found[0].told(build_edit(text, found[0].text) if unique else None)
    left = max(left - len(words), 0)
    changed = list(islice(_insert_commas(line, error.lineno, text), left))
    if any(parse_or_none(one) is not None for one in changed):
        return _Explanation(
            hint="Add the missing comma or operator.", cause="a comma or an operator is missing", edit=None
        )
    left -= len(changed)
    meant = next((one for one in words[:left] if fails_after_line(one.text, error.lineno)), None)
    return meant.told(None) if meant is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explanation:
    """The hint and the edit for a syntax error, and its cause if the compiler doesn't report the cause."""

    hint: str | None
    edit: Edit | None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeywordCandidate:
    """A possibly misspelled keyword, and the whole text with the corrected keyword."""

    word: str
    keyword: str
    text: str

    def told(self, edit: Edit | None) -> _Explanation:
        return _Explanation(
            hint=f"Did you mean '{self.keyword}'?", cause=f"'{self.word}' is not a keyword", edit=edit
        )


def _explain_python2_raise(line: str, number: int, text: str) -> _Explanation | None:
    """Return the Python 3 form of a Python 2 statement such as ``raise ValueError, "no name"``.

    Return None for other lines, or if the text doesn't compile with the new line.
    """
    found = _RAISE_PATTERN.fullmatch(line)
    if found is None:
        return None
    new = f"{found[1]}raise {found[2]}({found[3].rstrip()})"
    changed = _replace_line(text, number, new)
    if parse_or_none(changed) is None:
        return None
    return _Explanation(
        hint=f"Write `{new.strip()}`.", cause="`raise` takes one exception", edit=build_edit(text, changed)
    )


_RAISE_PATTERN = re.compile(r"(\s*)raise\s+([A-Za-z_][\w.]*)\s*,\s*([^,\s][^,]*)")


def _iter_keyword_candidates(line: str, number: int, text: str) -> Iterator[_KeywordCandidate]:
    """Yield a candidate for each word of the line that is outside strings and one edit from a keyword."""
    code = _QUOTED_PATTERN.sub(lambda one: " " * len(one[0]), line)
    for place in list(_WORD_PATTERN.finditer(code))[:_MAX_PLACES]:
        if keyword.iskeyword(place[0]):
            continue
        for word in _KEYWORDS:
            if abs(len(word) - len(place[0])) <= 1 and compute_edit_distance(place[0], word) == 1:
                changed = _replace_line(text, number, line[: place.start()] + word + line[place.end() :])
                yield _KeywordCandidate(word=place[0], keyword=word, text=changed)


def _insert_commas(line: str, number: int, text: str) -> Iterator[str]:
    for place in list(_GAP.finditer(line))[:_MAX_PLACES]:
        before = re.search(r"\b\w+$", line[: place.start()])
        after = re.match(r"\w+", line[place.end() :])
        if any(found is not None and keyword.iskeyword(found[0]) for found in (before, after)):
            continue
        yield _replace_line(text, number, f"{line[: place.start()]},{line[place.start() :]}")


def _replace_line(text: str, number: int, line: str) -> str:
    lines = text.split("\n")
    lines[number - 1] = line
    return "\n".join(lines)


CATEGORY = "syntax"
_MISSPELLING_RULES = frozenset(
    {"syntax.invalid", "syntax.missing_comma", "syntax.missing_colon", "syntax.indentation"}
)
"""Rules of lines that may just have a misspelled keyword or a missing comma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _MistakePattern:
    """A kind of mistake: a pattern for the compiler's message, and the message of the finding.

    The text `suggestion` can contain ``{line}``, and ``{0}`` and ``{1}`` for the pattern's groups.
    """

    rule: str
    pattern: re.Pattern[str]
    suggestion: str
    proposals: tuple[Proposal, ...] = ()


def explain_syntax_error(error: SyntaxError, text: str) -> Finding:
    """Return the finding that explains a syntax error.

    If the search for an edit exceeds its limit, the finding has no edit.
    """
    with limit_explanation() as budget:
        finding = _explain(error, text)
    return replace(finding, edit=None) if budget.is_used_up else finding


def _explain(error: SyntaxError, text: str) -> Finding:
    line, column = _locate_error(error, text)
    row, groups = _match_mistake(error, text, line)
    suggestion = row.suggestion.format(*groups, line=line or 1)
    told = _explain_missing_operator(error, text, row.rule) if row.rule == "syntax.unclosed_bracket" else None
    edit = (
        find_certain_edit(error, text, row.proposals)
        if line and (told is None or told.edit is None)
        else None
    )
    if told is None and edit is None:
        told = _explain_missing_operator(error, text, row.rule)
    if told is None and edit is None and row.rule in _MISSPELLING_RULES:
        told = explain_misspelling(error, text)
    if told is not None:
        suggestion, edit = told.hint or suggestion, told.edit or edit
    before = _correct_line_before(error, text) if edit is None else None
    if before is not None:
        suggestion, edit = before
        line, column = edit.start_line, None
    return Finding(
        rule=row.rule,
        category=CATEGORY,
        message=shorten_text(f"Syntax error: {told.cause if told and told.cause else error.msg}"),
        line=line,
        column=column,
        end_line=error.end_lineno if error.end_lineno and line and error.end_lineno >= line else line,
        snippet=get_snippet(text, line),
        suggestion=suggestion,
        edit=edit,
    )


def _correct_line_before(error: SyntaxError, text: str) -> tuple[str, Edit] | None:
    """Return the correction of an earlier line, or None if there is none.

    The correction is ``async def`` instead of ``def``, or an added `with`.
    """
    lines, number = text.split("\n"), (error.lineno or 1) - 1
    if number >= len(lines):
        return None
    if _NEEDS_ASYNC_PATTERN.search(error.msg or ""):
        indent = len(lines[number]) - len(lines[number].lstrip())
        for place in range(number - 1, -1, -1):
            found = _DEF_PATTERN.match(lines[place])
            if found is not None and len(found[1]) < indent:
                hint, new = f"Write `async def {found[2]}`.", lines[place].replace("def ", "async def ", 1)
                return _build_edit_if_valid(text, place + 1, new, hint)
    if "unexpected indent" in (error.msg or ""):
        before = next((n for n in range(number - 1, -1, -1) if lines[n].strip()), 0)
        opened = _MANAGER_PATTERN.match(lines[before])
        if opened is not None:
            new = f"{opened[1]}with {opened[2]}:"
            return _build_edit_if_valid(text, before + 1, new, f"Write `{new.strip()}` above the block.")
    return None


def _build_edit_if_valid(text: str, number: int, line: str, hint: str) -> tuple[str, Edit] | None:
    if parse_or_none(_replace_line(text, number, line)) is None:
        return None
    return hint, Edit(start_line=number, end_line=number, replacement=line)


_NEEDS_ASYNC_PATTERN = re.compile(r"outside (?:of an )?async(?:hronous)? function")
_DEF_PATTERN = re.compile(r"([ \t]*)def\s+(\w+)")
_MANAGER_PATTERN = re.compile(r"([ \t]*)([\w.]{1,100}\(.{0,400}\)(?:\s+as\s+\w+)?)\s*$")
_APOSTROPHE_PATTERN = re.compile(r"\w'\w")
_COMPARISON_HINT = "Write == to compare; a single = assigns to a name."
_COMMA_HINT = "Add the missing comma."


def _explain_missing_operator(error: SyntaxError, text: str, rule: str) -> _Explanation | None:
    """Return the explanation of a missing sign, or None if no sign is known to be missing.

    If the line shows the sign's position, the explanation has an edit.
    """
    shown = get_line(text, error.lineno) or ""
    if rule == "syntax.unclosed_bracket":
        edit, missing = close_open_bracket(error, text), list_missing_closers(shown)
        told = f"Close all {len(missing)} brackets opened in line {error.lineno}: {missing}"
        several = len(missing) > 1
        return _Explanation(hint=told if several else None, edit=edit) if edit or several else None
    if rule == "syntax.unterminated_string" and _APOSTROPHE_PATTERN.search(shown):
        hint = f"Use double quotes for a string with an apostrophe, or write \\' (line {error.lineno})."
        return _Explanation(hint=hint, edit=None)
    if rule not in _MISSPELLING_RULES and rule != "syntax.assignment":
        return None
    edit = replace_assignment_in_condition(error, text)
    if edit is not None:
        return _Explanation(hint=_COMPARISON_HINT, edit=edit)
    edit = insert_comma(error, text) if rule != "syntax.assignment" else None
    return None if edit is None else _Explanation(hint=_COMMA_HINT, edit=edit, cause="a comma is missing")


def too_deep() -> Finding:
    """Return the finding for a source that exceeds the compiler's limits."""
    return Finding(
        rule="syntax.too_deep",
        category=CATEGORY,
        message="The source is too deeply nested or too large to compile.",
        suggestion="Flatten nested expressions and blocks; build long values in a loop.",
    )


_ESCAPE_MESSAGE = "invalid escape sequence"
_MAX_SHOWN_LINES = 20


def build_warning_findings(noted: Sequence[tuple[int, str]], text: str) -> tuple[Finding, ...]:
    """Return the findings for the compiler's warnings in the order of their lines.

    All invalid escapes share one finding.
    """
    escapes = [(line, message) for line, message in noted if _ESCAPE_MESSAGE in message]
    others = [
        _build_compiler_warning(message, line, text)
        for line, message in noted
        if _ESCAPE_MESSAGE not in message
    ]
    if not escapes:
        return tuple(others)
    first = _build_compiler_warning(escapes[0][1], escapes[0][0], text)
    lines = list(dict.fromkeys(line for line, _ in escapes))
    if len(lines) > 1:
        shown = ", ".join(map(str, lines[:_MAX_SHOWN_LINES]))
        more = f" and {len(lines) - _MAX_SHOWN_LINES} more" if len(lines) > _MAX_SHOWN_LINES else ""
        first = replace(first, message=shorten_text(f"{first.message}; also in lines {shown}{more}"))
    return tuple(sorted((first, *others), key=lambda finding: finding.line or 0))


def _build_compiler_warning(message: str, line: int, text: str) -> Finding:
    """Return the finding for a compiler warning."""
    escape = _ESCAPE_MESSAGE in message
    return Finding(
        rule="syntax.invalid_escape" if escape else "syntax.suspicious",
        category=CATEGORY,
        message=shorten_text(message),
        severity=Severity.WARNING,
        line=line,
        snippet=get_snippet(text, line),
        suggestion='Put an r before the string: r"…".' if escape else f"Check line {line}.",
        edit=insert_comma_after_tuple(text, line) if "missed a comma" in message else None,
    )


def _locate_error(error: SyntaxError, text: str) -> tuple[int | None, int | None]:
    """Return the 1-based line and column of an error, or None for each that is unknown.

    The compiler reports the end of the file as an extra line, which is replaced by the last line.
    """
    last = text.count("\n") + 1
    line = min(error.lineno, last) if error.lineno and error.lineno > 0 else None
    column = error.offset if line and error.offset and error.offset > 0 else None
    return line, column


def _match_mistake(
    error: SyntaxError, text: str, line: int | None
) -> tuple[_MistakePattern, tuple[str, ...]]:
    shown = get_line(text, line) or ""
    if re.match(r"\s*(```|~~~)", shown):
        return _FENCE_MISTAKE, ()
    if isinstance(error, TabError):
        return _TABS, ()
    for row in _ROWS:
        found = row.pattern.search(error.msg)
        if found:
            return row, tuple(group or "" for group in found.groups())
    return (_INDENTATION if isinstance(error, IndentationError) else _INVALID), ()


def _build_mistake(rule: str, pattern: str, suggestion: str, *proposals: Proposal) -> _MistakePattern:
    return _MistakePattern(
        rule=f"syntax.{rule}", pattern=re.compile(pattern), suggestion=suggestion, proposals=proposals
    )


_FENCE_MISTAKE = _build_mistake(
    "markdown_fence", "", "Remove the markdown fences (```), and submit only the code.", remove_fences
)
_TABS = _build_mistake("tabs", "", "Indent with spaces only: four per level.", expand_tabs)
_INDENTATION = _build_mistake(
    "indentation", "", "Check the indentation of line {line}: four spaces per level."
)
_INVALID = _build_mistake("invalid", "", "Check line {line}, and the end of the line before it.")

_ROWS: tuple[_MistakePattern, ...] = (
    _build_mistake(
        "unterminated_string",
        r"unterminated triple-quoted",
        'Close the string with three quotes (""") after line {line}.',
    ),
    _build_mistake(
        "unterminated_string",
        r"unterminated f?-?string",
        "Add the closing quote of the string on line {line}.",
        insert_missing_quote,
    ),
    _build_mistake(
        "f_string",
        r"^f-string.*backslash",
        "Assign the expression with the backslash to a name first, and use {{name}} in the f-string.",
        repeat_per_line(swap_inner_quotes),
    ),
    _build_mistake(
        "f_string",
        r"^f-string",
        "Simplify the f-string: compute the value first; write {{{{ and }}}} for literal braces.",
        repeat_per_line(swap_inner_quotes),
    ),
    _build_mistake(
        "unclosed_bracket",
        r"'(.)' was never closed",
        "Close the '{0}' opened on line {line}.",
        insert_missing_bracket,
    ),
    _build_mistake(
        "mismatched_bracket",
        r"closing parenthesis '(.)' does not match opening parenthesis '(.)'",
        "Close '{1}' with its counterpart before '{0}'.",
        fix_mismatched_bracket,
    ),
    _build_mistake(
        "mismatched_bracket",
        r"unmatched '(.)'",
        "Remove the '{0}' on line {line}, or open it first.",
        remove_extra_bracket,
    ),
    _build_mistake(
        "missing_colon",
        r"expected ':'",
        "Add a colon at the end of line {line}.",
        repeat_per_line(add_colon),
        repeat_per_line(replace_else_if),
    ),
    _build_mistake(
        "print_statement",
        r"Missing parentheses in call to '(\w+)'",
        "Call it: {0}(…).",
        repeat_per_line(add_print_parentheses),
    ),
    _build_mistake(
        "except_types",
        r"multiple exception types must be parenthesized",
        "Put the exception types in parentheses: except (A, B):",
        repeat_per_line(fix_except_clause),
    ),
    _build_mistake("missing_comma", r"Perhaps you forgot a comma", "Add the missing comma on line {line}."),
    _build_mistake(
        "assignment",
        r"instead of '='|cannot assign to|cannot delete|illegal (?:target|expression)|"
        r"(?:only single target|assignment expression) .*",
        "Use == to compare; a single = assigns to a name.",
    ),
    _build_mistake(
        "invalid_character",
        r"invalid (?:non-printable )?character",
        "Replace the character with plain ASCII (\" ' - and an ordinary space).",
        repeat_per_line(replace_lookalikes),
    ),
    _build_mistake(
        "unicode_escape", r"unicode error", 'Put an r before the string (r"…"), or double its backslashes.'
    ),
    _build_mistake(
        "number",
        r"invalid .*literal|leading zeros|integer string conversion",
        "Check the number on line {line}; a name can't start with a digit.",
    ),
    _build_mistake(
        "too_deep", r"too many nested|too many statically nested|too many levels", "Flatten the nesting."
    ),
    _build_mistake(
        "outside_function",
        r"'?(?:return|yield|await|yield from)'? outside|outside (?:async )?function",
        "Move line {line} into a function; check its indentation.",
    ),
    _build_mistake("outside_loop", r"outside loop|not properly in loop", "Move line {line} into a loop."),
    _build_mistake(
        "arguments",
        r"argument|parameter|\* may appear only once|named arguments must follow",
        "Check the arguments on line {line}: plain ones first, then those with defaults or names, each once.",
    ),
    _build_mistake(
        "indentation",
        r"expected an indented block after (.*) on line (\d+)",
        "Indent the body of the {0} on line {1} by four spaces; write pass if it is empty.",
    ),
    _build_mistake(
        "indentation", r"unexpected indent", "Align line {line} with its block: it is indented too deeply."
    ),
    _build_mistake("indentation", r"unindent does not match", "Align line {line} with its block."),
    _build_mistake(
        "continuation",
        r"line continuation|unexpected EOF|unexpected end",
        "Remove everything after the backslash at the end of the line; use parentheses for long lines.",
    ),
    _build_mistake(
        "missing_block", r"expected 'except' or 'finally'", "Add an except or finally block to the try."
    ),
    _build_mistake(
        "future", r"from __future__|future feature", "Put known __future__ imports first in the file."
    ),
    _build_mistake(
        "scope",
        r"is (?:used|assigned to|annotated) (?:prior to|before)|nonlocal|global declaration|no binding",
        "Declare global or nonlocal names at the start of the function.",
    ),
)


def _iter_rules() -> Iterator[Rule]:
    seen: set[str] = set()
    for row in (_FENCE_MISTAKE, _TABS, _INDENTATION, _INVALID, *_ROWS):
        if row.rule not in seen:
            seen.add(row.rule)
            title = row.rule.removeprefix("syntax.").replace("_", " ").capitalize()
            yield Rule(id=row.rule, title=title, help=re.sub(r"\{+[^}]*\}+", "…", row.suggestion))
    yield Rule(id="syntax.invalid_escape", title="Invalid escape", severity=Severity.WARNING)
    yield Rule(id="syntax.suspicious", title="A compiler warning", severity=Severity.WARNING)


RULES = tuple(_iter_rules())
