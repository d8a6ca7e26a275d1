r"""What a word comes to when the shell expands it, as far as the text alone tells.

A value is a text in which some characters stand for what is not known beforehand: ANY for any text, NUMBER
for digits, HOME for a leading tilde. The source holds no control character, so that nothing else can mean
them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Protocol

from assayd.static.shell.parse.nodes import Node

ANY = "\x00"
NUMBER = "\x01"
HOME = "\x02"
_OPEN, _COMMA, _CLOSE, _BLANK = "\x03", "\x04", "\x05", "\x06"
_UNMARK = str.maketrans({_OPEN: "{", _COMMA: ",", _CLOSE: "}", _BLANK: " "})
_MARK = str.maketrans({"{": _OPEN, ",": _COMMA, "}": _CLOSE})
_MARKS = frozenset((ANY, NUMBER, HOME, _OPEN, _COMMA, _CLOSE, _BLANK))

VALUES = 16
"""How many values a word may have before it counts as unknown."""
VALUE_CHARS = 2**20
TRIMMED_CHARS = 256
BRACES = 16

NUMBERS = frozenset(
    [
        "BASHPID",
        "BASH_SUBSHELL",
        "EPOCHSECONDS",
        "EUID",
        "LINENO",
        "OPTIND",
        "PPID",
        "RANDOM",
        "SECONDS",
        "SHLVL",
        "SRANDOM",
        "UID",
        "?",
        "#",
        "$",
        "!",
    ]
)

_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})"
    r"|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_FIXED = {"ArithmExp": NUMBER, "ProcSubst": f"/dev/fd/{NUMBER}", "ExtGlob": "*"}
_TRIMS = frozenset(("#", "##", "%", "%%"))


class Variables(Protocol):
    """What is known of the variables of a script."""

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values that a variable may have; ``(ANY,)`` when they are not known."""
        ...

    def elements(self, name: str) -> tuple[str, ...] | None:
        """Return the elements of an array in order, or None."""
        ...

    def members(self, name: str) -> tuple[str, ...]:
        """Return all values that any element of an array may have."""
        ...

    def parameter(self, number: int, offset: int) -> tuple[str, ...]:
        """Return all values that ``$1``, ``$2`` … may have at a place."""
        ...

    def parameters(self, offset: int) -> tuple[str, ...] | None:
        """Return what ``"$@"`` comes to at a place, or None."""
        ...

    def always_set(self, name: str) -> bool:
        """Return whether a variable has a value that is not empty wherever it is read."""
        ...

    @property
    def splitters(self) -> frozenset[str]:
        """Return the characters beside blanks at which words may be split."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What becomes of a word among the arguments of a command.

    `values` are alternatives. `loose` tells that an unquoted unknown may become several arguments or none,
    `many` that a list does.
    """

    node: Node
    values: tuple[str, ...]
    loose: bool = False
    many: bool = False

    @property
    def unknown(self) -> bool:
        """Return whether nothing at all is known of it."""
        return self.values == (ANY,)


def is_known(value: str) -> bool:
    """Return whether a value is plain text."""
    return not any(mark in value for mark in (ANY, NUMBER, HOME))


def visible(value: str) -> str:
    """Word a value for a message."""
    return value.replace(ANY, "…").replace(NUMBER, "N").replace(HOME, "~")


def values_of(word: Node, known: Variables) -> tuple[str, ...]:
    """Return the values of a word that is not split: an assignment's, a redirection's, a here-document's."""
    return _limited(value.translate(_UNMARK) for value in _Evaluator(known).parts(word, quoted=False))


def arguments_of(word: Node, known: Variables) -> list[Argument]:
    """Return the arguments that a word of a command becomes."""
    elements = _elements(word, known)
    if elements is not None:
        return [Argument(node=word, values=(text,), many=True) for text in elements]
    evaluator = _Evaluator(known)
    split = [list(_split(value)) for value in evaluator.parts(word, quoted=False)]
    if len(split) == 1:
        texts: Iterable[tuple[str, ...]] = ((text,) for text in split[0])
    elif all(len(pieces) == 1 for pieces in split):
        texts = [tuple(pieces[0] for pieces in split)]
    else:
        texts = ((text,) for pieces in split for text in pieces)
    loose, many = evaluator.loose, evaluator.many
    return [Argument(node=word, values=_limited(values), loose=loose, many=many) for values in texts]


def literal(word: Node | None) -> str | None:
    """Return the text of a word without any expansion; None when it has one."""
    if word is None:
        return None
    values = values_of(word, _Nothing())
    return values[0] if len(values) == 1 and is_known(values[0]) else None


def pieces_of(word: Node) -> str:
    """Return the text of a word with ANY for every part that is expanded."""
    values = values_of(word, _Nothing())
    return values[0] if len(values) == 1 else ANY


class _Nothing:
    def values(self, name: str) -> tuple[str, ...]:
        return (ANY,)

    def elements(self, name: str) -> tuple[str, ...] | None:
        return None

    def members(self, name: str) -> tuple[str, ...]:
        return (ANY,)

    def parameter(self, number: int, offset: int) -> tuple[str, ...]:
        return (ANY,)

    def parameters(self, offset: int) -> tuple[str, ...] | None:
        return None

    def always_set(self, name: str) -> bool:
        return False

    splitters: frozenset[str] = frozenset()


class _Evaluator:
    def __init__(self, known: Variables) -> None:
        self._known = known
        self.loose = False
        self.many = False

    def parts(self, word: Node, *, quoted: bool) -> tuple[str, ...]:
        """Return the values of all parts of a word or of a double-quoted text, joined."""
        pieces = [self._part(part, quoted, index == 0) for index, part in enumerate(word.nodes("Parts"))]
        return _limited("".join(choice) for choice in islice(product(*pieces), VALUES + 1))

    def _part(self, part: Node, quoted: bool, first: bool) -> tuple[str, ...]:
        match part.kind:
            case "Lit" | "SglQuoted":
                return (_text(part, quoted, first),)
            case "DblQuoted":
                return self.parts(part, quoted=True)
            case "ParamExp":
                return self._parameter(part, quoted)
            case kind if kind in _FIXED:
                return (_FIXED[kind],)
            case "CmdSubst" if (printed := _printed(part)) is not None:
                self.loose = self.loose or not quoted
                return (printed,)
            case _:
                self.loose = self.loose or not quoted
                return (ANY,)

    def _parameter(self, part: Node, quoted: bool) -> tuple[str, ...]:
        values = self._expanded(part)
        if quoted:
            return values
        # What is known is split at blanks; what is not may be anything.
        if any(mark in value for value in values for mark in self._known.splitters):
            values = (ANY,)
        self.loose = self.loose or any(ANY in value for value in values)
        return tuple(re.sub(r"[ \t\n]+", _BLANK, value) for value in values)

    def _expanded(self, part: Node) -> tuple[str, ...]:
        name = _name(part)
        if part.flag("Length") or name in NUMBERS:
            return (NUMBER,)
        if part.flag("Excl") or part.node("Repl") or part.node("Slice") or name in {"@", "*"}:
            self.many = self.many or name in {"@", "*"}
            return (ANY,)
        values = self._indexed(part, name)
        expansion = part.node("Exp")
        if expansion is None or (self._known.always_set(name) and expansion.text("Op") in {":-", "-"}):
            return values
        return self._operated(values, expansion)

    def _indexed(self, part: Node, name: str) -> tuple[str, ...]:
        index = part.node("Index")
        if index is None:
            number = int(name) if name.isascii() and name.isdigit() and len(name) < 6 else 0
            return self._known.parameter(number, part.start) if number else self._known.values(name)
        if literal(index) in {"@", "*"} and self._known.elements(name) is None:
            self.many = True
            return (ANY,)
        elements = self._known.elements(name) or self._known.members(name)
        return _limited(elements) or ("",)

    def _operated(self, values: tuple[str, ...], expansion: Node) -> tuple[str, ...]:
        operator, word = expansion.text("Op"), expansion.node("Word")
        given = self.parts(word, quoted=True) if word is not None else ("",)
        if operator in {":-", "-", ":=", "="}:
            return _limited((*values, *given))
        if operator in {":+", "+"}:
            return _limited(("", *given))
        if operator in {":?", "?"}:
            return values
        if operator in _TRIMS and len(given) == 1 and all(map(_can_trim, (*values, *given))):
            return _limited(_trim(value, operator, given[0]) for value in values)
        return (ANY,)


def _name(part: Node) -> str:
    parameter = part.node("Param")
    return parameter.text("Value") if parameter is not None else ""


def _elements(word: Node, known: Variables) -> tuple[str, ...] | None:
    """Return the elements when a word is ``"${name[@]}"`` of a known array."""
    parts = word.nodes("Parts")
    if len(parts) == 1 and parts[0].kind == "DblQuoted":
        parts = parts[0].nodes("Parts")
    if len(parts) != 1 or parts[0].kind != "ParamExp":
        return None
    part = parts[0]
    index = part.node("Index")
    if _name(part) == "@" and index is None and _is_plain(part):
        return known.parameters(part.start)
    if not _is_plain(part) or index is None or literal(index) not in {"@", "*"}:
        return None
    return known.elements(_name(part))


def _is_plain(part: Node) -> bool:
    """Return whether an expansion is nothing but the variable."""
    return not any(part.fields.get(name) for name in ("Excl", "Length", "Slice", "Repl", "Exp"))


_TEMPORARY = "/sandbox/tmp/"


def _printed(part: Node) -> str | None:
    """Return what ``$(mktemp)`` and ``$(pwd)`` print, as far as it is known."""
    statements = part.nodes("Stmts")
    call = statements[0].node("Cmd") if len(statements) == 1 else None
    texts = [literal(word) for word in call.nodes("Args")] if call is not None else []
    if texts == ["pwd"]:
        return "/sandbox"
    if texts[:1] != ["mktemp"] or any(text is None for text in texts):
        return None
    options = [text for text in texts[1:] if text is not None and text.startswith("-")]
    named = [text for text in texts[1:] if text is not None and not text.startswith("-")]
    if not set(options) <= {"-d", "-q", "-t", "-u", "-dq", "-qd", "-dt", "-td"} or len(named) > 1:
        return None
    return (
        named[0].rstrip("X") + ANY if named and not any("t" in text for text in options) else _TEMPORARY + ANY
    )


def _text(part: Node, quoted: bool, first: bool) -> str:
    text = part.text("Value")
    if part.kind == "SglQuoted":
        return _ansi(text) if part.flag("Dollar") else text
    return re.sub(r"\\([$`\"\\])", r"\1", text) if quoted else _unquoted(text, first)


def _unquoted(text: str, first: bool) -> str:
    """Remove the backslashes of an unquoted text, and mark what the shell still expands."""
    pieces = re.findall(r"\\.|[^\\]+|\\", text, re.DOTALL)
    joined = "".join(piece[1:] if piece[0] == "\\" else piece.translate(_MARK) for piece in pieces)
    return HOME + joined[1:] if first and text.startswith("~") else joined


def _ansi(text: str) -> str:
    """Decode what stands inside ``$'…'``; a character that serves as a mark becomes unknown."""
    decoded = _ANSI.sub(_ansi_character, text)
    return "".join(ANY if character in _MARKS else character for character in decoded)


def _ansi_character(found: re.Match[str]) -> str:
    letter, octal, *hexadecimal, control = found.groups()
    if letter is not None:
        return _ANSI_LETTERS.get(letter, letter)
    if control is not None:
        return ANY
    digits = next((text for text in hexadecimal if text is not None), None)
    number = int(octal, 8) & 0xFF if octal is not None else int(digits or "0", 16)
    return chr(number) if number < 0xD800 else ANY


def _can_trim(value: str) -> bool:
    return is_known(value) and len(value) <= TRIMMED_CHARS


def _trim(value: str, operator: str, pattern: str) -> str:
    """Remove the shortest or longest fitting beginning (``#``) or end (``%``)."""
    fits = re.compile(fnmatch.translate(pattern)).match
    ends = range(len(value) + 1)
    if operator[0] == "#":
        cuts: Sequence[int] = ends if len(operator) == 1 else ends[::-1]
        return next((value[cut:] for cut in cuts if fits(value[:cut])), value)
    cuts = ends[::-1] if len(operator) == 1 else ends
    return next((value[:cut] for cut in cuts if fits(value[cut:])), value)


def _split(value: str) -> Iterator[str]:
    """Split a marked value at unquoted blanks and expand its braces."""
    pieces = value.split(_BLANK) if _BLANK in value else [value]
    for piece in pieces:
        if piece or len(pieces) == 1:
            yield from (text.translate(_UNMARK) for text in islice(_braces(piece), 4 * VALUES))


def _braces(value: str) -> Iterator[str]:
    """Expand ``{a,b}``; a range such as ``{1..9}`` counts as a number."""
    if value.count(_OPEN) > BRACES:
        yield ANY
        return
    found = re.search(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}", value)
    if found is None:
        yield value
        return
    inside = found.group(1)
    if _COMMA in inside:
        choices = inside.split(_COMMA)
    else:
        choices = [NUMBER] if ".." in inside else ["{" + inside + "}"]
    for choice in choices:
        yield from _braces(value[: found.start()] + choice + value[found.end() :])


def _limited(values: Iterable[str]) -> tuple[str, ...]:
    """Keep what is distinct; too many or too long values count as unknown."""
    kept = tuple(dict.fromkeys(islice(values, VALUES + 1)))
    if len(kept) > VALUES or any(len(value) > VALUE_CHARS for value in kept):
        return (ANY,)
    return kept
