r"""Computes the expansions of words and the values of variables, as far as the script determines them.

A value is a string in which three characters represent unknown text: `ANY` for any text, `NUMBER` for
digits, and `HOME` for a leading tilde. The source can't contain control characters, so no other text can be
mistaken for these characters. A variable has every literal value that the script assigns to it, in any
order. The arguments of functions, and values that are read or computed, are unknown: at run time, the
container limits their effect.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, product

from assayd_pipeline.shell.parse.reader import ScriptNode

ANY = "\x00"
NUMBER = "\x01"
HOME = "\x02"
_SPLIT_MARK = "\x03"
"""A space at which the shell splits the word."""

MAX_VALUES = 16
"""A word with more values than this counts as unknown."""
MAX_VALUE_CHARS = 2**20

ENVIRONMENT = {"HOME": "/sandbox", "PWD": "/sandbox", "TMPDIR": "/sandbox/tmp"}
"""The variables of a step's environment that hold a path."""
_NUMBERS = frozenset(["?", "#", "$", "!", "EPOCHSECONDS", "LINENO", "OPTIND", "RANDOM", "SECONDS", "UID"])
_VALUE_BY_KIND = {"ArithmExp": NUMBER, "ProcSubst": f"/dev/fd/{NUMBER}", "ExtGlob": "*"}
_ESCAPE_VALUES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_TEMPORARY = "/sandbox/tmp/"


class AssignmentMethod(StrEnum):
    """The kind of syntax that sets a variable."""

    PLAIN = "plain"
    """``x=1`` as a separate command."""
    PREFIX = "prefix"
    """``x=1 command``: for that command only."""
    DECLARED = "declared"
    """By export, declare, local, readonly or typeset."""
    LOOP = "loop"
    """By for or select."""
    ARITHMETIC = "arithmetic"
    """By an arithmetic expression."""
    EXPANSION = "expansion"
    """By ``${x:=1}``."""
    BUILTIN = "builtin"
    """By a builtin that is passed the name: read, mapfile, printf -v, getopts, unset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSetting:
    """A position at which a variable is set. `value` is None unless the value is a word."""

    name: str
    how: AssignmentMethod
    node: ScriptNode
    value: ScriptNode | None = None
    array: ScriptNode | None = None
    append: bool = False
    indexed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgument:
    """One argument of a command: its possible values, and the word from which it was expanded.

    `loose` is True if the word can also expand to several arguments or to none.
    """

    node: ScriptNode
    values: tuple[str, ...]
    loose: bool = False


class FunctionScopes:
    """The functions of a script, with a fast lookup of the function that contains a position."""

    def __init__(self, nodes: Iterable[ScriptNode] = ()) -> None:
        self._functions = sorted(
            (node for node in nodes if node.kind == "FuncDecl"), key=lambda each: each.start
        )
        self._starts = [function.start for function in self._functions]
        self._parents: list[int] = []
        for index, start in enumerate(self._starts):
            self._parents.append(self._find_enclosing_function(start, index - 1))

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the functions that the script defines."""
        return frozenset(_get_field_value(function, "Name") for function in self._functions)

    def at(self, offset: int) -> ScriptNode | None:
        """Return the innermost function around a position, or None."""
        index = self._find_enclosing_function(offset, bisect_right(self._starts, offset) - 1)
        return self._functions[index] if index >= 0 else None

    def find_function_name_at(self, offset: int) -> str:
        """Return the name of the innermost function around a position, or an empty string."""
        function = self.at(offset)
        return _get_field_value(function, "Name") if function is not None else ""

    def _find_enclosing_function(self, offset: int, index: int) -> int:
        while index >= 0 and self._functions[index].end <= offset:
            index = self._parents[index]
        return index


class KnownValues:
    """The values of a script's variables.

    Args:
        settings: the positions at which variables are set.
        arguments: the values of ``$1``, ``$2`` … after ``set -- …``, if certain.
        scopes: the functions of the script, in which ``$1`` is unknown.
    """

    def __init__(
        self,
        settings: Iterable[VariableSetting] = (),
        arguments: Sequence[ScriptNode] = (),
        scopes: FunctionScopes | None = None,
    ) -> None:
        self._settings: defaultdict[str, list[VariableSetting]] = defaultdict(list)
        for setting in settings:
            if setting.how is not AssignmentMethod.PREFIX:
                self._settings[setting.name].append(setting)
        self._arguments, self._scopes = arguments, scopes or FunctionScopes()
        self._values: dict[str, tuple[str, ...]] = {}
        self._elements: dict[str, tuple[str, ...] | None] = {}

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the variables that the script sets."""
        return frozenset(self._settings)

    def is_set(self, name: str) -> bool:
        """Return whether the script sets a variable at any position."""
        return name in self._settings

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values that a variable can have, or ``(ANY,)`` if they are unknown."""
        if name not in self._values:
            self._values[name] = (ANY,)  # for a variable that is defined in terms of itself
            settings = self._settings.get(name)
            found = (value for one in settings or () for value in self._list_assigned_values(one))
            self._values[name] = _limit_values(found) if settings else (ENVIRONMENT.get(name, ANY),)
        return self._values[name]

    def list_elements(self, name: str) -> tuple[str, ...] | None:
        """Return the elements of an array, or None unless it is assigned only as a list of literal words."""
        if name not in self._elements:
            self._elements[name] = None  # for an array that is defined in terms of itself
            settings = self._settings.get(name)
            if settings and all(setting.array is not None for setting in settings):
                found = [one for setting in settings for one in self._list_elements(setting)]
                if len(found) <= 4 * MAX_VALUES and not any(
                    len(one.values) > 1 or one.loose for one in found
                ):
                    self._elements[name] = tuple(one.values[0] for one in found)
        return self._elements[name]

    def list_members(self, name: str) -> tuple[str, ...]:
        """Return all values that an array's element can have, or ``(ANY,)`` if they are unknown."""
        key = f"{name}[]"
        if key not in self._values:
            self._values[key] = (ANY,)
            found: list[str] = []
            for setting in self._settings.get(name, ()):
                if setting.array is not None:
                    found += [value for one in self._list_elements(setting) for value in one.values]
                elif setting.value is None or setting.append:
                    found.append(ANY)
                else:
                    found += evaluate_unsplit(setting.value, self)
            self._values[key] = _limit_values(found) if found else (ANY,)
        return self._values[key]

    def list_argument_values(self, number: int, offset: int) -> tuple[str, ...]:
        """Return the values of ``$number`` at an offset, or ``(ANY,)`` if they are unknown."""
        if not 1 <= number <= len(self._arguments) or self._scopes.at(offset) is not None:
            return (ANY,)
        return evaluate_unsplit(self._arguments[number - 1], self)

    def _list_elements(self, setting: VariableSetting) -> list[CommandArgument]:
        elements = setting.array.nodes("Elems") if setting.array is not None else []
        words = [value for one in elements if (value := one.node("Value")) is not None]
        return [one for word in words for one in evaluate_arguments(word, self)]

    def list_settings(self, name: str) -> Sequence[VariableSetting]:
        """Return the positions at which a variable is set."""
        return self._settings.get(name, ())

    def _list_assigned_values(self, setting: VariableSetting) -> Iterable[str]:
        if setting.append or setting.array is not None or setting.indexed:
            return (ANY,)
        if setting.value is None:
            return (NUMBER,) if setting.how is AssignmentMethod.ARITHMETIC else (ANY,)
        if setting.how is AssignmentMethod.LOOP:
            return [value for one in evaluate_arguments(setting.value, self) for value in one.values]
        return evaluate_unsplit(setting.value, self)


def is_known(value: str) -> bool:
    """Return whether a value contains only literal text, without a mark for unknown text."""
    return not any(mark in value for mark in (ANY, NUMBER, HOME))


def to_visible(value: str) -> str:
    """Return a value for messages, with ``…``, ``N`` and ``~`` in place of the marks for unknown text."""
    return value.replace(ANY, "…").replace(NUMBER, "N").replace(HOME, "~")


def evaluate_unsplit(word: ScriptNode, known: KnownValues) -> tuple[str, ...]:
    """Return the values of a word that the shell doesn't split, e.g. the value of an assignment."""
    return tuple(value.replace(_SPLIT_MARK, " ") for value in _Evaluator(known).parts(word, quoted=False))


def evaluate_arguments(word: ScriptNode, known: KnownValues) -> list[CommandArgument]:
    """Return the arguments to which a word in a command expands."""
    elements = _get_array_elements(word, known)
    if elements is not None:
        return [CommandArgument(node=word, values=(text,)) for text in elements]
    evaluator = _Evaluator(known)
    values = evaluator.parts(word, quoted=False)
    pieces = [[piece for piece in value.split(_SPLIT_MARK) if piece] or [""] for value in values]
    if len(pieces) > 1 and all(len(each) == 1 for each in pieces):
        return [CommandArgument(node=word, values=tuple(each[0] for each in pieces), loose=evaluator.loose)]
    split = (piece for each in pieces for piece in each)
    return [CommandArgument(node=word, values=(piece,), loose=evaluator.loose) for piece in split]


def get_literal_text(word: ScriptNode | None) -> str | None:
    """Return the text of a word, or None if the word is None or contains expansions."""
    text = join_literal_pieces(word) if word is not None else ANY
    return text if is_known(text) else None


def join_literal_pieces(word: ScriptNode) -> str:
    """Return the text of a word with `ANY` in place of expansions, or `ANY` if several texts are possible."""
    values = evaluate_unsplit(word, _NOTHING_KNOWN)
    return values[0] if len(values) == 1 else ANY


def strip_double_quotes(word: ScriptNode) -> list[ScriptNode]:
    """Return the parts of a word without the double quotes around the whole word."""
    parts = word.nodes("Parts")
    return parts[0].nodes("Parts") if len(parts) == 1 and parts[0].kind == "DblQuoted" else parts


_NOTHING_KNOWN = KnownValues()


class _Evaluator:
    def __init__(self, known: KnownValues) -> None:
        self._known = known
        self.loose = False

    def parts(self, word: ScriptNode, *, quoted: bool) -> tuple[str, ...]:
        """Return the joined values of the parts of a word or a double-quoted text."""
        pieces = [
            self._evaluate_part(part, quoted, index == 0) for index, part in enumerate(word.nodes("Parts"))
        ]
        return _limit_values("".join(choice) for choice in islice(product(*pieces), MAX_VALUES + 1))

    def _evaluate_part(self, part: ScriptNode, quoted: bool, first: bool) -> tuple[str, ...]:
        match part.kind:
            case "Lit" | "SglQuoted":
                return (_get_part_text(part, quoted, first),)
            case "DblQuoted":
                return self.parts(part, quoted=True)
            case kind if kind in _VALUE_BY_KIND:
                return (_VALUE_BY_KIND[kind],)
            case "ParamExp":
                values = self._evaluate_parameter(part)
            case _:
                values = (_get_known_output(part) or ANY,)
        if not quoted:
            self.loose = self.loose or any(ANY in value for value in values)
            values = tuple(re.sub(r"[ \t\n]+", _SPLIT_MARK, value) for value in values)
        return values

    def _evaluate_parameter(self, part: ScriptNode) -> tuple[str, ...]:
        name = get_parameter_name(part)
        if part.get_flag("Length") or name in _NUMBERS:
            return (NUMBER,)
        if part.get_flag("Excl") or part.node("Repl") or part.node("Slice"):
            return (ANY,)
        if name in {"@", "*"}:
            self.loose = True
        index, expansion = part.node("Index"), part.node("Exp")
        if name.isascii() and name.isdigit():
            values = self._known.list_argument_values(int(name[:6]), part.start)
        else:
            values = self._known.values(name) if index is None else self._known.list_members(name)
        return values if expansion is None else self._apply_expansion(name, values, expansion)

    def _apply_expansion(self, name: str, values: tuple[str, ...], expansion: ScriptNode) -> tuple[str, ...]:
        operator, word = expansion.text("Op"), expansion.node("Word")
        given = self.parts(word, quoted=True) if word is not None else ("",)
        match operator:
            case ":-" | "-" | ":=" | "=":
                always_set = name in ENVIRONMENT and not self._known.list_settings(name)
                return values if always_set else _limit_values((*values, *given))
            case ":+" | "+":
                return _limit_values(("", *given))
            case ":?" | "?":
                return values
            case "%" | "%%":  # removing a suffix keeps the folder
                return _limit_values(value[: value.rfind("/") + 1] + ANY for value in values)
            case _:
                return (ANY,)


def get_parameter_name(part: ScriptNode) -> str:
    """Return the name of the variable that an expansion reads."""
    return _get_field_value(part, "Param")


def is_plain_variable(part: ScriptNode) -> bool:
    """Return whether an expansion contains only a variable: ``$x``, ``${x}`` or ``${x[1]}``."""
    modified = any(part.fields.get(name) for name in ("Excl", "Length", "Slice", "Repl", "Exp"))
    return part.kind == "ParamExp" and not modified


def _get_array_elements(word: ScriptNode, known: KnownValues) -> tuple[str, ...] | None:
    """Return the elements of a known array in ``"${name[@]}"``, or None for any other word."""
    parts = strip_double_quotes(word)
    index = parts[0].node("Index") if len(parts) == 1 and is_plain_variable(parts[0]) else None
    return (
        known.list_elements(get_parameter_name(parts[0])) if get_literal_text(index) in {"@", "*"} else None
    )


def _get_known_output(part: ScriptNode) -> str | None:
    """Return the known part of the output of ``$(mktemp)`` or ``$(pwd)``, or None."""
    statements = part.nodes("Stmts")
    call = statements[0].node("Cmd") if len(statements) == 1 else None
    texts = [get_literal_text(word) for word in call.nodes("Args")] if call is not None else []
    if texts == ["pwd"]:
        return "/sandbox"
    named = [text for text in texts[1:] if text is None or not text.startswith("-")]
    in_tmp = "-t" in texts or not named
    return _TEMPORARY + ANY if texts[:1] == ["mktemp"] and in_tmp else None


def _get_part_text(part: ScriptNode, quoted: bool, first: bool) -> str:
    text = part.text("Value")
    if part.kind == "SglQuoted":
        return re.sub(r"\\(.)", _unescape, text, flags=re.DOTALL) if part.get_flag("Dollar") else text
    if quoted:
        return re.sub(r"\\([$`\"\\])", r"\1", text)
    plain = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    return HOME + plain[1:] if first and text.startswith("~") else plain


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPE_VALUES.get(found[1], ANY)


def _limit_values(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct values, or ``(ANY,)`` if they are too many or too long."""
    kept = tuple(dict.fromkeys(islice(values, MAX_VALUES + 1)))
    if len(kept) > MAX_VALUES or any(len(value) > MAX_VALUE_CHARS for value in kept):
        return (ANY,)
    return kept or ("",)


def find_settings(nodes: Iterable[ScriptNode]) -> list[VariableSetting]:
    """Return the settings that the syntax tree shows, in source order, without those by builtins."""
    found = [setting for node in nodes for setting in _find_node_settings(node)]
    return sorted(found, key=lambda setting: setting.node.start)


def _find_node_settings(node: ScriptNode) -> Iterator[VariableSetting]:
    match node.kind:
        case "CallExpr":
            how = AssignmentMethod.PREFIX if node.nodes("Args") else AssignmentMethod.PLAIN
            yield from (_build_setting(each, how) for each in node.nodes("Assigns"))
        case "DeclClause":
            named = (each for each in node.nodes("Args") if each.node("Name") is not None)
            yield from (_build_setting(each, AssignmentMethod.DECLARED) for each in named)
        case "WordIter":
            yield from _iter_loop_settings(node)
        case "BinaryArithm" | "UnaryArithm":
            yield from _iter_arithmetic_settings(node)
        case "ParamExp":
            expansion = node.node("Exp")
            if expansion is not None and expansion.text("Op") in {":=", "="}:
                word = expansion.node("Word")
                yield VariableSetting(
                    name=_get_field_value(node, "Param"),
                    how=AssignmentMethod.EXPANSION,
                    node=node,
                    value=word,
                )


def _get_field_value(node: ScriptNode, field: str) -> str:
    found = node.node(field)
    return found.text("Value") if found is not None else ""


def _build_setting(assign: ScriptNode, how: AssignmentMethod) -> VariableSetting:
    return VariableSetting(
        name=_get_field_value(assign, "Name"),
        how=how,
        node=assign,
        value=assign.node("Value"),
        array=assign.node("Array"),
        append=assign.get_flag("Append"),
        indexed=assign.node("Index") is not None,
    )


def _iter_loop_settings(loop: ScriptNode) -> Iterator[VariableSetting]:
    variable, items = _get_field_value(loop, "Name"), loop.nodes("Items")
    for item in items:
        yield VariableSetting(name=variable, how=AssignmentMethod.LOOP, node=loop, value=item)
    if not items:
        yield VariableSetting(name=variable, how=AssignmentMethod.BUILTIN, node=loop)


_ASSIGNMENT_OPERATORS = frozenset(
    ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")
)


def _iter_arithmetic_settings(node: ScriptNode) -> Iterator[VariableSetting]:
    target = node.node("X")
    if node.text("Op") not in _ASSIGNMENT_OPERATORS or target is None:
        return
    for part in target.nodes("Parts"):
        name = _get_field_value(part, "Param") or part.text("Value")
        yield VariableSetting(name=name.partition("[")[0], how=AssignmentMethod.ARITHMETIC, node=node)
