"""Suggests what helps against an exception of submitted code: by its type, its text, and what came nearest.

All of that is the guest's word: it chooses words, and an edit of the guest's own line.

    AttributeError: 'list' object has no attribute 'appned'     Did you mean 'append'?
    KeyError: 'prcie'                                           Did you mean 'price'? …
    AttributeError: 'NoneType' object has no attribute 'x'      The value is None: …
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from assayd.findings.source_text import line_at
from assayd.guest_results.record import Raised
from assayd.model.finding import Edit
from assayd.model.text_limits import EDITED_LINE_CHARS

_HINTS: Mapping[str, str] = {
    "AttributeError": "Check that the value is of the type that it is taken for.",
    "EOFError": "There is nothing to read; take the value as an input, or check for the end.",
    "Error": "The text is not what the decoder expects: check it before, or handle the error.",
    "ImportError": "Use only the modules that the policy allows.",
    "IndexError": "There are fewer elements than that: check the length before taking one.",
    "JSONDecodeError": "The text is not JSON: check it before, or handle the error.",
    "KeyError": "Use .get() or check that the key is there.",
    "MemoryError": "Build less at once.",
    "ModuleNotFoundError": "Use only the modules that the policy allows.",
    "NameError": "Define or import the name before it is used.",
    "PermissionError": "The policy refuses this operation; do without it.",
    "RecursionError": "Replace the recursion by a loop, or give it an end.",
    "SystemExit": "Return a value instead of ending the process.",
    "TypeError": "Check the types of the values: None, or text where a number is expected.",
    "UnboundLocalError": "Give the variable a value on every way to its use.",
    "UnicodeDecodeError": "Decode with errors='replace', or check the bytes before.",
    "UnicodeEncodeError": "Encode with errors='replace'.",
    "ValueError": "Check the text before converting it: match a pattern and use its group.",
    "ZeroDivisionError": "Check the divisor.",
    "error": "Check the pattern, or escape what is taken from data with re.escape().",
}
_NO_HINT = "Handle this case in the code."
_NONE = re.compile(r"\bNoneType\b")
_BY_TEXT: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "TypeError",
        re.compile(r"can only concatenate str|must be str, not |unsupported operand type\(s\) for \+.*'str'"),
        "Convert the number to text with str(…), or the text to a number with int(…).",
    ),
    ("TypeError", re.compile(r"object is not callable"), "It is a value: leave the brackets out."),
    ("TypeError", re.compile(r"missing \d+ required|positional arguments? but|unexpected keyword"),
     "Give the function the arguments that its def line names."),
    ("TypeError", re.compile(r"unhashable type"), "Use a tuple, or text, as the key."),
    ("ValueError", re.compile(r"(?:not enough|too many) values to unpack"),
     "Check how many parts there are, or take the rest with a star: first, *rest = parts."),
    ("OSError", re.compile(r"No such file"), "There is no such file: files are those that were submitted."),
    ("FileNotFoundError", re.compile(r""), "There is no such file: take the data as an input."),
    ("PermissionError", re.compile(r"open \("), "Only files of the work directory can be opened."),
)  # fmt: skip
_MISSING = re.compile(r"has no attribute '([^']{1,80})'$|^cannot import name '([^']{1,80})'")


def hint_for(error_type: str) -> str:
    """Return what helps against an exception of this type."""
    return _HINTS.get(error_type.rpartition(".")[2], _NO_HINT)


def exception_hint(record: Raised) -> str:
    """Return what helps against this exception."""
    error_type = record.error_type.rpartition(".")[2]
    if record.meant is not None:
        other = " Else use .get(), or check that the key is there." if error_type == "KeyError" else ""
        return f"Did you mean '{record.meant}'?{other}"
    if error_type in {"AttributeError", "TypeError"} and _NONE.search(record.message):
        return "The value is None: a match that fails gives that, and a function that ends without return."
    for name, pattern, hint in _BY_TEXT:
        if name == error_type and pattern.search(record.message):
            return hint
    return hint_for(record.error_type)


def misspelling_edit(record: Raised, text: str) -> Edit | None:
    """Write the name that was meant, where it is certain and the line has the other one once."""
    line = line_at(text, record.line)
    wrong = _misspelt(record)
    if record.meant is None or not record.certain or line is None or wrong is None or record.line is None:
        return None
    if len(line) > EDITED_LINE_CHARS:
        return None
    pattern, replacement = (
        (rf"(['\"]){re.escape(wrong)}\1", rf"\g<1>{record.meant}\g<1>")
        if record.error_type == "KeyError"
        else (rf"(?<!\w){re.escape(wrong)}(?!\w)", record.meant)
    )
    if not record.meant.isidentifier() and not re.fullmatch(r"[\w .-]+", record.meant):
        return None
    if len(re.findall(pattern, line)) != 1:
        return None
    changed = re.sub(pattern, replacement, line)
    return Edit(start_line=record.line, end_line=record.line, replacement=changed)


def _misspelt(record: Raised) -> str | None:
    if record.error_type == "KeyError":
        found = re.fullmatch(r"'([^'\\]{1,80})'", record.message)
        return None if found is None else found[1]
    found = _MISSING.search(record.message)
    return None if found is None else found[1] or found[2]
