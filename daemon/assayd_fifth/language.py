"""The language Fifth: its words, their stack effects, and how effects are combined.

This module reads the definition of the language from data files: words, effects, rules and hints. A new word,
library or rule of an existing type requires only a change of data, because this module contains no such
names.

It also reads stack comments: the number of cells that a word takes and leaves, if it can be determined. Data
files define the meaning of names. A comment without a countable number of cells has no effect:

    ( addr u -- flag )      takes 2, leaves 1
    ( title$ -- )           takes 2: a name that ends in $ is a string, address and length
    ( title -- )            takes 1 or 2: the name is unknown
    ( i*x xt -- j*x )       can't be counted
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from assayd.errors import ConfigError
from assayd_fifth.rules import FifthRule, FifthRules, add_operator_documents, parse_rules

if TYPE_CHECKING:
    from assayd_fifth.tokens import Token

_NUMBERED = re.compile(r"['’!]*[0-9]*['’]*\Z")
_CALCULATED_PATTERN = re.compile(r"\w+[*+/-].+|[0-9]+")
_UNCOUNTABLE_PATTERN = re.compile(r"\.{2,}|…|[a-z]\*x\Z|xu\Z")
_SPLIT_PATTERN = re.compile(r"(?<!\S)--(?!\S)")

MOST_CELLS = 31
"""Maximum number of cells on one side of a stack effect."""


class EffectSide(NamedTuple):
    """One side of an effect: the names, and the minimum and maximum number of cells."""

    names: tuple[str, ...] = ()
    least: int = 0
    most: int = 0

    @property
    def counted(self) -> bool:
        """Return whether the exact number of cells is known."""
        return self.least == self.most


class StackEffect(NamedTuple):
    """The cells that a word takes from the stack and leaves on it."""

    takes: EffectSide
    leaves: EffectSide

    @property
    def counted(self) -> bool:
        """Return whether the numbers of cells on both sides are known exactly."""
        return self.takes.counted and self.leaves.counted


@dataclass(frozen=True, slots=True, kw_only=True)
class CellNames:
    """The meanings of names in stack comments. `other_most` applies to names that are in no list."""

    one: frozenset[str]
    two: frozenset[str]
    one_suffixes: tuple[str, ...]
    two_suffixes: tuple[str, ...]
    other_most: int = 2

    def get_width(self, name: str) -> tuple[int, int]:
        """Return the minimum and the maximum number of cells that a name represents.

        They differ for an unknown name.
        """
        plain = _NUMBERED.sub("", name.lower()) or name
        if plain.endswith(self.two_suffixes) or plain in self.two:
            return 2, 2
        if plain in self.one or plain.endswith(self.one_suffixes) or _CALCULATED_PATTERN.fullmatch(name):
            return 1, 1
        return 1, self.other_most


@cache
def build_unnamed_effect(takes: int, leaves: int) -> StackEffect:
    """Return an effect that has these numbers of cells and no names."""
    return StackEffect(
        takes=EffectSide(least=takes, most=takes), leaves=EffectSide(least=leaves, most=leaves)
    )


def is_stack_comment(comment: str) -> bool:
    """Return whether a comment's text has the form of a stack comment."""
    return _SPLIT_PATTERN.search(comment) is not None


def read_effect(comment: str, cells: CellNames) -> StackEffect | None:
    """Parse the text between the parentheses, or return None if its cells can't be counted."""
    parts = _SPLIT_PATTERN.split(comment, maxsplit=1)
    if len(parts) != 2:
        return None
    takes, leaves = _read_side(parts[0], cells), _read_side(parts[1], cells)
    if takes is None or leaves is None or max(takes.most, leaves.most) > MOST_CELLS:
        return None
    return StackEffect(takes=takes, leaves=leaves)


def describe_effect(takes: int, leaves: int) -> str:
    """Return an effect as text that contains only the numbers of cells."""
    if max(takes, leaves) > MOST_CELLS:
        return "( … -- … )"
    before = _list_numbered_names("x", 1, takes)
    after = _list_numbered_names("x", takes + 1, leaves)
    return " ".join(["(", *before, "--", *after, ")"])


def _read_side(text: str, cells: CellNames) -> EffectSide | None:
    """Parse one side of an effect, or return None if its cells can't be counted.

    Alternatives (``addr u | 0``) extend the range of the cell count.
    """
    alternatives = [_build_side(part.split(), cells) for part in text.split("|")]
    read = [side for side in alternatives if side is not None]
    if len(read) < len(alternatives):
        return None
    return EffectSide(
        names=read[0].names, least=min(side.least for side in read), most=max(side.most for side in read)
    )


def _build_side(names: Sequence[str], cells: CellNames) -> EffectSide | None:
    kept: list[str] = []
    least = most = 0
    for name in names:
        if name.upper() in {"R:", "F:", "C:", "S:"}:  # the names after this belong to another stack
            break
        if name[0] in "\"'<" and name[-1] in "\"'>":  # taken from the source text, not from the stack
            continue
        if _UNCOUNTABLE_PATTERN.search(name):
            return None
        low, high = cells.get_width(name)
        least, most = least + low, most + high
        kept.append(name)
    return EffectSide(names=tuple(kept), least=least, most=most)


def _list_numbered_names(letter: str, first: int, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(first, first + count)]


ALWAYS_LOADED = ("engine", "boot")
PROGRAM = "program"
"""The library name of words that the submission defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FifthWord:
    """The behavior of a word during the walk. Words with the same behavior can share an object.

    `effect` is None if the effect on the stack is unknown. `moves` applies to a word that only moves cells:
    it contains the number of the taken cell for each cell that the word leaves. `keeps` does the same for a
    word that changes its cells, with -1 for a new cell. `certain` is True if the effect is certain. `opens`,
    `adds`, `gives` and `overwrites` contain names of string buffers.
    """

    library: str
    effect: StackEffect | None
    takes: int = 0
    leaves: int = 0
    moves: tuple[int, ...] | None = None
    keeps: tuple[int, ...] = ()
    certain: bool = False
    role: str | None = None
    parses: int = 0
    defines: bool = False
    """Whether the word defines another word under the name that it reads; `child` is that word's effect, if
    known.
    """
    child: StackEffect | None = None
    constant: bool = False
    """Whether the word is a constant of the program."""
    rule: str | None = None
    """The id of the rule that reports each use of the word, or None."""
    defect: tuple[str, str] | None = None
    """The id of a rule and the word's known fault, or None."""
    compile_only: bool = False
    watched: frozenset[str] = frozenset()
    """The ids of the flow rules for which the word is a source."""
    plain: bool = False
    """Whether the word has no behavior other than its effect."""
    told: bool = False
    """Whether any use of the word can be a finding."""
    touches: bool = False
    """Whether the word works on a buffer, or is a source."""
    opens: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    hands: frozenset[int] = frozenset()
    """Numbers of the taken cells, counted from the top, that a word of the program passes to SQL."""
    brings: tuple[tuple[int, Token], ...] = ()
    """The cells that the word leaves as strings with single quotes, each with the token of the string."""

    @property
    def signature(self) -> str:
        """Return the word's stack effect as ``( a b -- c )``, or ``( … )`` if the effect is unknown."""
        if self.effect is None:
            return "( … )"
        takes, leaves = self.effect.takes, self.effect.leaves
        if not takes.names and not leaves.names:
            return describe_effect(takes.most, leaves.most)
        return " ".join(["(", *takes.names, "--", *leaves.names, ")"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPattern:
    """A pattern for unknown words, and the hint for a matching word."""

    matches: re.Pattern[str]
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWords:
    """The words of gforth and other languages, with their Fifth equivalents and hints."""

    gforth: frozenset[str]
    gforth_hints: Mapping[str, str]
    replacements: Mapping[str, str]
    meanings: Mapping[str, str]
    """Words of other languages, with the Fifth words of the same meaning."""
    imagined: Mapping[str, str]
    forms: tuple[WordPattern, ...]
    literals: tuple[WordPattern, ...]
    hints: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """The definition of Fifth that the checks use: words, buffers, libraries, rules and guide."""

    words: Mapping[str, Mapping[str, FifthWord]]
    """The words by library, then by name."""
    buffers: Mapping[str, str]
    """The names of buffers in messages, by buffer."""
    brings: Mapping[str, tuple[str, ...]]
    """The libraries that each library loads."""
    missing: Mapping[str, tuple[str, ...]]
    """The words that each library needs and doesn't define."""
    rules: FifthRules
    guide: Mapping[str, str]
    """The sections of the guide, by name."""
    cells: CellNames
    foreign: ForeignWords
    prelude: bytes
    """The file that gforth loads before a Fifth program."""
    plain_strings: tuple[str, ...]
    escaped_strings: tuple[str, ...]
    taking: tuple[str, ...]
    takes_name: frozenset[str]
    takes_word: frozenset[str]
    takes_path: frozenset[str]
    at_once: frozenset[str]
    beginners: frozenset[str]
    constants: frozenset[str]
    sql: frozenset[str]
    tags: frozenset[str]
    """The words that are HTML tags. Models often write no space after them."""
    companions: frozenset[str]
    """The words that companion rules are about."""
    libraries_by_word: Mapping[str, str] = field(default_factory=dict)
    """The first library that defines each word, for words that aren't loaded."""

    def find_suspected_rules(self, parameter: str) -> tuple[FifthRule, ...]:
        """Return the rules that treat a parameter with this name as external data."""
        name = parameter.lower()
        return tuple(rule for rule in self.rules.flows if rule.parameters and rule.parameters.fullmatch(name))

    def resolve_dependencies(self, libraries: Iterable[str]) -> list[str]:
        """Return libraries and the libraries that they load, each once and after its dependencies."""
        found: dict[str, None] = {}
        for name in libraries:
            for each in (*self.resolve_dependencies(self.brings.get(name, ())), name):
                found.setdefault(each)
        return list(found)


_folders: tuple[Path, ...] = ()
"""Folders with the operator's additions."""


def add_language_folders(folders: Iterable[Path]) -> None:
    """Add the tables in these folders to the language of this process.

    Raises: ConfigError ``fifth.tables``, if a table can't be read or is invalid.
    """
    global _folders  # noqa: PLW0603 - one language for each process, set before its first use
    _folders = tuple(folders)
    get_language.cache_clear()
    if _folders:
        get_language()


@cache
def get_language() -> Language:
    """Return the language that the package defines, with the operator's additions.

    Raises: ConfigError ``fifth.tables``, if an addition is invalid.
    """
    folder = resources.files(__package__) / "data"
    names = ("language", "vocabulary", "rules")
    about, vocabulary, rules = (tomllib.loads((folder / f"{name}.toml").read_text("utf-8")) for name in names)
    about["guide"] = tomllib.loads((folder / "guide.toml").read_text("utf-8"))["section"]
    add_operator_documents(about, vocabulary, rules, _folders)
    try:
        return _read_data_files(about, vocabulary, rules, folder)
    except (TypeError, ValueError, KeyError, re.error) as problem:
        if not _folders:
            raise
        where = ", ".join(map(str, _folders))
        raise ConfigError("fifth.tables", f"{where}: invalid rule or word: {problem}") from problem


def _read_data_files(
    about: Mapping[str, Any], vocabulary: Mapping[str, Any], rules: Mapping[str, Any], folder: Traversable
) -> Language:
    return read_language(about, vocabulary, rules, prelude=(folder / "prelude.fs").read_bytes())


def read_language(
    about: Mapping[str, Any], vocabulary: Mapping[str, Any], rules: Mapping[str, Any], *, prelude: bytes = b""
) -> Language:
    """Build the language from the parsed data files for the language, vocabulary and rules."""
    takes = about["takes"]
    read = parse_rules(rules)
    maker = _WordBuilder(about, vocabulary, read)
    words = {library: maker.words(library, entries) for library, entries in vocabulary["words"].items()}
    words["engine"] = {**words["engine"], **maker.words("engine", about["effects"])}
    return Language(
        words=MappingProxyType(words),
        buffers={name: lists["called"] for name, lists in about["buffers"].items()},
        brings={name: tuple(brought) for name, brought in about["libraries"].items()},
        missing={name: tuple(words) for name, words in about["missing"].items()},
        rules=read,
        guide=MappingProxyType(dict(about.get("guide", {}))),
        cells=_read_cell_names(about),
        foreign=_read_foreign_words(about),
        prelude=prelude,
        plain_strings=tuple(about["strings"]["plain"]),
        escaped_strings=tuple(about["strings"]["escaped"]),
        taking=tuple(word for group in _PARSING_GROUPS for word in takes[group]),
        takes_name=frozenset(takes["names"]),
        takes_word=frozenset(takes["words"]),
        takes_path=frozenset(takes["paths"]),
        at_once=frozenset(takes["at_once"]),
        beginners=frozenset(takes["begin_definition"]),
        constants=frozenset(about["words"]["constants"]),
        sql=frozenset(about["words"]["sql"]),
        tags=frozenset(name for name in words["html"] if _TAG(name)),
        companions=frozenset(word for rule in read.companions for word in (*rule.words, *rule.needs)),
        libraries_by_word={name: library for library, entries in reversed(words.items()) for name in entries},
    )


class _WordBuilder:
    """Builds the `FifthWord` of each entry of the data files, with its stack effect and its rule."""

    def __init__(self, about: Mapping[str, Any], vocabulary: Mapping[str, Any], rules: FifthRules) -> None:
        self._about, self._rules = about, rules
        self._cells = replace(_read_cell_names(about), other_most=1)
        self._wrong_effect = _fold_keys(vocabulary["wrong_effect"])
        self._wrong_result = _fold_keys(vocabulary["wrong_result"])
        self._unsure = {*self._wrong_effect, *about["words"]["unknown"]}
        self._roles = {word: role for role, words in about["roles"].items() for word in words}

    def words(self, library: str, entries: Mapping[str, str]) -> dict[str, FifthWord]:
        return {name.lower(): self._build_word(name.lower(), library, text) for name, text in entries.items()}

    def _build_word(self, name: str, library: str, text: str) -> FifthWord:
        effect = None if name in self._unsure else read_effect(_extract_first_group(text), self._cells)
        if effect is not None and not effect.counted:
            effect = None
        rule = self._rules.by_word.get(name)
        word = FifthWord(
            library=library,
            effect=effect,
            takes=effect.takes.least if effect else 0,
            leaves=effect.leaves.least if effect else 0,
            moves=_map_kept_cells(effect, self._cells)
            if effect and name in self._about["words"]["shuffles"]
            else None,
            keeps=_map_kept_cells(effect, self._cells) if effect else (),
            certain=effect is not None and library in ALWAYS_LOADED,
            role=self._roles.get(name),
            defines=name in self._about["makes"],
            child=build_unnamed_effect(0, cells)
            if (cells := self._about["makes"].get(name, -1)) >= 0
            else None,
            parses=int(
                any(name in names for key, names in self._about["takes"].items() if key in _PARSING_GROUPS)
            ),
            rule=rule.id if rule else None,
            defect=self._find_defect(name),
            compile_only=name in self._about["words"]["compile_only"],
            opens=self._find_buffers(name, "open"),
            adds=self._find_buffers(name, "add"),
            gives=self._find_buffers(name, "gives"),
            overwrites=self._find_buffers(name, "uses"),
        )
        sources = frozenset(rule.id for rule in self._rules.flows if name in rule.sources)
        watched = any(name in {*rule.words, *rule.needs} for rule in self._rules.companions)
        return replace(
            word,
            watched=sources,
            touches=any((word.opens, word.adds, word.gives, word.overwrites, sources)),
            told=any((word.rule, word.defect, watched)),
            plain=self._is_plain(name, word) and not watched,
        )

    def _is_plain(self, name: str, word: FifthWord) -> bool:
        special = (word.role, word.rule, word.defect, word.compile_only, word.parses)
        strings = (word.opens, word.adds, word.gives, word.overwrites)
        flows = any(name in {*rule.sources, *rule.through, *rule.sinks} for rule in self._rules.flows)
        text = name in {*self._about["strings"]["plain"], *self._about["strings"]["escaped"]}
        sql = name in self._about["words"]["sql"]
        return word.effect is not None and not (any(special) or any(strings) or flows or text or sql)

    def _find_defect(self, name: str) -> tuple[str, str] | None:
        if name in self._wrong_effect:
            return "structure.library_defect", self._wrong_effect[name]
        return ("structure.library_result", self._wrong_result[name]) if name in self._wrong_result else None

    def _find_buffers(self, name: str, key: str) -> tuple[str, ...]:
        """Return the buffers whose entries list the word under a key, in the order of the data."""
        buffers = self._about["buffers"].items()
        return tuple(buffer for buffer, lists in buffers if name in lists.get(key, ()))


_TAG = re.compile(r"</?\w+[.#/]*>").fullmatch
_PARSING_GROUPS = ("names", "words", "characters", "paths")


def _extract_first_group(text: str) -> str:
    """Return the text between the first parentheses of ``( x -- ) ( R: -- x )``."""
    return text.removeprefix("( ").partition(" )")[0]


def _map_kept_cells(effect: StackEffect, cells: CellNames) -> tuple[int, ...]:
    """Return, for each cell that a word leaves, the number of the taken cell with its name, or -1."""
    taken = _expand_cells(effect.takes.names, cells)
    return tuple(
        taken.index(name) if name in taken else -1 for name in _expand_cells(effect.leaves.names, cells)
    )


def _expand_cells(names: Sequence[str], cells: CellNames) -> list[str]:
    return [f"{name}.{cell}" for name in names for cell in range(cells.get_width(name)[0])]


def _read_cell_names(about: Mapping[str, Any]) -> CellNames:
    return CellNames(
        one=frozenset(about["cells"]["one"]),
        two=frozenset(about["cells"]["two"]),
        one_suffixes=tuple(about["cells"]["one_suffixes"]),
        two_suffixes=tuple(about["cells"]["two_suffixes"]),
    )


def _read_foreign_words(about: Mapping[str, Any]) -> ForeignWords:
    return ForeignWords(
        gforth=frozenset(about["gforth"]["words"].split()),
        gforth_hints=about["gforth"]["hints"],
        replacements=about["gforth"]["replace"],
        meanings={**about["gforth"]["replace"], **about["imagined"]["replace"]},
        imagined=about["imagined"]["words"],
        forms=_compile_patterns(about["imagined"]["forms"]),
        literals=_compile_patterns(about["literals"]),
        hints=about["hints"],
    )


def _compile_patterns(entries: Sequence[Mapping[str, str]]) -> tuple[WordPattern, ...]:
    return tuple(WordPattern(matches=re.compile(e["pattern"], re.DOTALL), hint=e["hint"]) for e in entries)


def _fold_keys(entries: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in entries.items()}
