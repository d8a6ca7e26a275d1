"""Finds the change that makes a source valid Python, provided that only one change does.

Each kind of change is tried at every possible position and then compiled. The result is an edit only if all
changes that compile produce the same program:

    if x                        if x:
    else if x:                  elif x:
    print "x"                   print("x")            (not print "x", or print >>f: other meanings)
    except A, B:                except (A, B):
    except A, error:            except A as error:
    x = “abc”                   x = "abc"
    f"{a["b"]}"                 f"{a['b']}"
    x = int(s                   x = int(s)            (not x = f(a, b: that may be f(a), b)
    x = [1, 2)                  x = [1, 2]
    x = int(s))                 x = int(s)
    split("/)                   split("/")
    a tab under eight spaces    spaces                (if four and eight per tab mean the same)
    ```python … ```             …
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from assayd.findings.source_text import get_line
from assayd.model.finding import Edit
from assayd.static.python.work import is_slow_to_compile

ChangeLine = Callable[[str], str | None]
"""Returns the corrected line, or None."""
Proposal = Callable[[SyntaxError, str], Iterator[str]]
"""Yields candidates for the whole corrected text."""

MAX_TRIED_CHARS = 500_000
"""Total characters of tried candidates, e.g. 250 places in 2,000 characters; beyond it, no edit is made."""
MOST_LINES = 50
"""Maximum lines with the same mistake."""

_CLOSING_BY_OPEN = {"(": ")", "[": "]", "{": "}"}
_TOKEN_PATTERN = re.compile(r"\w+|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|\n|[^\w\s]")
# An unterminated string matches to the end; otherwise the search would restart at every quote in it.
_STRING_OR_COMMENT_PATTERN = re.compile(r"""'(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?|#""")
_TRAILING_COMMA_PATTERN = re.compile(r"[ \t]*,[ \t]*(?:#.*)?(?:\n|\Z)")
_FENCES_PATTERN = re.compile(r"(?:```++|~~~++)[^`\n]*")


@dataclass(slots=True)
class CompileBudget:
    """The number of characters that may still be compiled to check edits.

    `is_used_up` is True after a refusal, because the search for edits is then incomplete.
    """

    left: int
    is_used_up: bool = False

    @classmethod
    def for_texts(cls, texts: Iterable[str]) -> CompileBudget:
        """Return a budget for several sources, which suffices to check one edit in any of them."""
        return cls(left=max(MAX_TRIED_CHARS, max(map(len, texts), default=0)))

    def try_spend(self, text: str) -> bool:
        """Return whether the budget allows compiling `text`, and subtract its length if so."""
        allowed = len(text) <= self.left
        self.left -= len(text) if allowed else 0
        self.is_used_up |= not allowed
        return allowed


_explaining: ContextVar[CompileBudget | None] = ContextVar("_explaining", default=None)


@contextmanager
def limit_explanation() -> Iterator[CompileBudget]:
    """Limit the characters that the body parses and compiles to `MAX_TRIED_CHARS` (at most 0.3 s).

    Yield the budget, which shows whether the limit was reached.
    """
    budget = CompileBudget(left=MAX_TRIED_CHARS)
    token = _explaining.set(budget)
    try:
        yield budget
    finally:
        _explaining.reset(token)


def _try_spend_explanation(text: str) -> bool:
    """Charge one pass over `text` to the current explanation's budget. Return False if it is used up.

    Outside explanations, return True.
    """
    budget = _explaining.get()
    return budget is None or budget.try_spend(text)


def find_certain_edit(error: SyntaxError, text: str, proposals: tuple[Proposal, ...]) -> Edit | None:
    """Return the edit if all proposals that compile produce the same program, otherwise None."""
    most = max(MAX_TRIED_CHARS // max(len(text), 1), 1)
    first: tuple[str, ast.Module] | None = None
    meaning: str | None = None
    for number, candidate in enumerate(c for propose in proposals for c in propose(error, text)):
        if number == most:
            return None
        tree = parse_or_none(candidate)
        if tree is None:
            continue
        if first is None:
            first = candidate, tree
            continue
        meaning = meaning or ast.dump(first[1])
        if ast.dump(tree) != meaning:
            return None
    return None if first is None else build_edit(text, first[0])


def parse_or_none(text: str) -> ast.Module | None:
    """Return the syntax tree of a source, or None if it doesn't compile or takes too long to compile.

    The result is also None if the budget of the current explanation is used up.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text) if _try_spend_explanation(text) else None
            # Counting names and compiling take about twice as long as parsing.
            if tree is None or not (_try_spend_explanation(text) and _try_spend_explanation(text)):
                return None
            if is_slow_to_compile(tree):
                return None
            compile(tree, "changed.py", "exec", dont_inherit=True)
            return tree
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None


def fails_after_line(text: str, number: int) -> bool:
    """Return whether the parser accepts a source up to a 1-based line number, but rejects a later line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if _try_spend_explanation(text):
                ast.parse(text)
        except SyntaxError as error:
            return (error.lineno or 0) > number
        except (ValueError, RecursionError, MemoryError):
            return False
    return False


def build_edit(old: str, new: str) -> Edit | None:
    """Return the edit, in whole lines, that turns one text into another, or None if the texts are equal."""
    before, after = old.split("\n"), new.split("\n")
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    if head == len(before) == len(after):
        return None
    replaced = after[head : len(after) - tail]
    # The last line feed of a replacement doesn't count, so an empty last line needs another one.
    text = "\n".join(replaced) + ("\n" if replaced and not replaced[-1] else "")
    return Edit(start_line=head + 1, end_line=len(before) - tail, replacement=text)


def repeat_per_line(change: ChangeLine) -> Proposal:
    """Return a proposal that changes the line of the error, and further lines while the error recurs."""

    def propose(error: SyntaxError, text: str) -> Iterator[str]:
        lines, at, complaint = text.split("\n"), error.lineno, _build_message_pattern(error)
        for _ in range(MOST_LINES):
            if at is None or not 0 < at <= len(lines) or _build_message_pattern(error) != complaint:
                return
            changed = change(lines[at - 1])
            if changed is None:
                return
            lines[at - 1] = changed
            changed = "\n".join(lines)
            if not _try_spend_explanation(changed):
                return
            following = _get_syntax_error(changed)
            if following is None:
                yield changed
                return
            if following.lineno is None or following.lineno <= at:
                return
            error, at = following, following.lineno

    return propose


def _build_message_pattern(error: SyntaxError) -> str:
    """Return the compiler's message without the quoted parts, which differ between sources."""
    return re.sub(r"'[^']*'|U\+\w+", "", error.msg)


def _get_syntax_error(text: str) -> SyntaxError | None:
    """Return the parser's error for a source, or None if it can be parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError, OverflowError):
            return SyntaxError("the text cannot be read")
    return None


def add_colon(line: str) -> str | None:
    """Add a colon to a line, before its comment: ``if x  # why`` -> ``if x:  # why``."""
    code, comment = _split_comment(line)
    return f"{code.rstrip()}:{code[len(code.rstrip()) :]}{comment}"


def replace_else_if(line: str) -> str | None:
    """Change ``else if x:`` to ``elif x:``, or return None for other lines."""
    found = re.fullmatch(r"(\s*)else\s+if\b(.*)", line)
    return f"{found[1]}elif{found[2]}" if found else None


def add_print_parentheses(line: str) -> str | None:
    """Change ``print "x"`` to ``print("x")``, or return None if no equivalent call exists."""
    code, comment = _split_comment(line)
    said = code.rstrip()
    found = re.fullmatch(r"(\s*)print\s+(\S.*)", said)
    if found is None or found[2].startswith(">>") or found[2].endswith(","):
        return None
    return f"{found[1]}print({found[2]}){code[len(said) :]}{comment}"


def fix_except_clause(line: str) -> str | None:
    """Change ``except A, B:`` to ``except (A, B):``, and ``except A, error:`` to ``except A as error:``.

    Return None for other lines.
    """
    found = re.fullmatch(r"(\s*except\s+)([\w.]+(?:\s*,\s*[\w.]+)+)(\s*:.*)", line)
    if found is None:
        return None
    names = [name.strip() for name in found[2].split(",")]
    classes = [name.rpartition(".")[2][:1].isupper() for name in names]
    if all(classes):
        return f"{found[1]}({found[2]}){found[3]}"
    if classes == [True, False] and "." not in names[1]:
        return f"{found[1]}{names[0]} as {names[1]}{found[3]}"
    return None


_ASCII_BY_LOOKALIKE = str.maketrans(
    {
        "“": '"', "”": '"', "„": '"', "‟": '"', "‘": "'", "’": "'", "‚": "'",
        "–": "-", "—": "-", "−": "-", "×": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=",
        "，": ",", "：": ":", "；": ";", "（": "(", "）": ")", "\u00a0": " ", "\u3000": " ",
        "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "",
    }
)  # fmt: skip


def replace_lookalikes(line: str) -> str | None:
    """Change ``x = “a”`` to ``x = "a"``, or return None for other lines."""
    plain = line.translate(_ASCII_BY_LOOKALIKE)
    return plain if plain != line else None


def swap_inner_quotes(line: str) -> str | None:
    """Change ``f"{a["b"]}"``, which needs Python 3.12, to ``f"{a['b']}"``; None for other lines."""
    changed = line
    for quote, other in (('"', "'"), ("'", '"')):
        plain = rf"[^{quote}{{}}\\\n]"
        field = rf"\{{[^{other}{{}}\\\n]*\}}"
        literal = re.compile(rf"\b([fF][rR]?|[rR][fF]){quote}((?:{plain}|{field})*){quote}")
        inside = re.compile(r"\{[^{}]*\}")

        def turned(found: re.Match[str], quote: str = quote, other: str = other) -> str:
            body = inside.sub(lambda part: part[0].replace(quote, other), found[2])  # noqa: B023
            return f"{found[1]}{quote}{body}{quote}"

        changed = literal.sub(turned, changed)
    return changed if changed != line else None


def _split_comment(line: str) -> tuple[str, str]:
    """Split a line into code and comment. A ``#`` in a simple string literal doesn't start a comment."""
    for found in _STRING_OR_COMMENT_PATTERN.finditer(line):
        if found[0] == "#":
            return line[: found.start()], line[found.start() :]
    return line, ""


def insert_missing_bracket(error: SyntaxError, text: str) -> Iterator[str]:
    """Change ``x = int(s`` to ``x = int(s)`` by inserting the closing bracket after each word in turn."""
    start = _find_error_offset(error, text)
    if start is None or text[start] not in _CLOSING_BY_OPEN:
        return
    for place in _iter_word_ends(text, start + 1):
        # A comma at the end of the statement would make it a tuple, which isn't intended.
        if not _TRAILING_COMMA_PATTERN.match(text, place):
            yield text[:place] + _CLOSING_BY_OPEN[text[start]] + text[place:]


def fix_mismatched_bracket(error: SyntaxError, text: str) -> Iterator[str]:
    """Change ``[1, 2)`` to ``[1, 2]``, and ``f([1, 2)`` to ``f([1, 2])``."""
    end = _find_error_offset(error, text)
    opener = re.search(r"does not match opening parenthesis '(.)'", error.msg)
    if end is None or opener is None or opener[1] not in _CLOSING_BY_OPEN:
        return
    closer = _CLOSING_BY_OPEN[opener[1]]
    yield text[:end] + closer + text[end + 1 :]
    start = text.rfind(opener[1], 0, end)
    for place in _iter_word_ends(text, start + 1):
        if place <= end:
            yield text[:place] + closer + text[place:]


def remove_extra_bracket(error: SyntaxError, text: str) -> Iterator[str]:
    """Change ``x = int(s))`` to ``x = int(s)`` by removing each bracket of that kind in turn."""
    end = _find_error_offset(error, text)
    if end is None:
        return
    start = text.rfind("\n", 0, end) + 1
    for found in re.finditer(re.escape(text[end]), text[start : end + 1]):
        yield text[: start + found.start()] + text[start + found.end() :]


def insert_missing_quote(error: SyntaxError, text: str) -> Iterator[str]:
    """Change ``split("/)`` to ``split("/")`` by trying each position of the line for the quote."""
    start = _find_error_offset(error, text)
    line_end = text.find("\n", start or 0)
    if start is None or not error.msg.startswith("unterminated string"):
        return
    found = re.compile(r"[bBfFrRuU]*(['\"])").match(text, start)
    if found is None:
        return
    for place in range(found.end(), (line_end if line_end >= 0 else len(text)) + 1):
        yield text[:place] + found[1] + text[place:]


def expand_tabs(_: SyntaxError, text: str) -> Iterator[str]:
    """Yield the text with indentation tabs expanded, first with a tab size of four, then of eight."""
    for width in (4, 8):
        lines = (_split_indentation(line) for line in text.split("\n"))
        yield "\n".join(indent.expandtabs(width) + rest for indent, rest in lines)


def _split_indentation(line: str) -> tuple[str, str]:
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)], rest


def remove_fences(_: SyntaxError, text: str) -> Iterator[str]:
    """Remove the fences if they are the first and the last line and the text contains no other fence."""
    inside = extract_fenced_text(text)
    if inside is not None:
        yield inside


def extract_fenced_text(text: str) -> str | None:
    """Return the text between fences on the first and last lines, or None if there are other fences."""
    lines = text.strip().split("\n")
    fences = [n for n, line in enumerate(lines) if _FENCES_PATTERN.fullmatch(line.strip())]
    if len(lines) < 3 or fences != [0, len(lines) - 1]:
        return None
    return "\n".join(lines[1:-1]) + "\n"


def insert_comma_after_tuple(text: str, line: int) -> Edit | None:
    """Return the edit that inserts a comma between tuples on successive lines.

    Return None if no tuple on this line is called, or if other code follows the tuple.
    """
    tree = parse_or_none(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    for call in calls:
        shown = get_line(text, call.func.end_lineno)
        if call.lineno != line or not isinstance(call.func, ast.Tuple) or shown is None:
            continue
        if shown.encode()[call.func.end_col_offset :].strip():
            continue  # Other code follows on that line, so it isn't a list of lines.
        last = call.func.end_lineno or line
        return Edit(start_line=last, end_line=last, replacement=f"{shown.rstrip()},")
    return None


def _find_error_offset(error: SyntaxError, text: str) -> int | None:
    """Return the text's offset at which the compiler reports the error, or None if it is unknown."""
    line = get_line(text, error.lineno)
    if line is None or error.lineno is None or not error.offset:
        return None
    start = sum(len(each) + 1 for each in text.split("\n")[: error.lineno - 1])
    place = start + error.offset - 1
    return place if place < len(text) else None


def _iter_word_ends(text: str, start: int) -> Iterator[int]:
    """Yield `start`, and then the offset of the end of every later word or sign in the text."""
    yield start
    for found in _TOKEN_PATTERN.finditer(text, start):
        if found[0] != "\n":
            yield found.end()
