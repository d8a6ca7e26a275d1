"""Reads a program in one pass and in the engine's order: definitions, libraries and uses of words.

A word is known from the end of its definition; the newest definition of a name applies. Findings are
reported in the order of the source. Unknown words are stored until all names in the program have been read.

    : double 2 * ;          required.stack_comment
    s" a" str+              vocabulary.library_not_loaded
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from assayd_fifth.language import (
    ALWAYS_LOADED,
    PROGRAM,
    FifthWord,
    Language,
    StackEffect,
    build_unnamed_effect,
    describe_effect,
    is_stack_comment,
    read_effect,
)
from assayd_fifth.places import FindingCollector
from assayd_fifth.tokens import NAME_CHARS, TAKING, WORD, ProgramSegment, Token, is_number, iter_segments
from assayd_fifth.walk import Walk, WalkResult

_LIBRARY_PREFIXES = ("lib:", "pkg:")
_LIBRARY_SUFFIX = ".fs"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownWord:
    """A word that was unknown when it was used. `inside` is the definition that contains the use."""

    token: Token
    before: str
    inside: ProgramSegment | None
    blind: bool
    """Whether a file with unknown definitions was loaded before the use."""


class _DeclaredEffect(NamedTuple):
    """The content of a stack comment. `suspicious` is True if it contains a name of external data."""

    text: str
    effect: StackEffect | None
    suspicious: bool


@dataclass(slots=True, kw_only=True)
class FifthProgram:
    """The state of reading a program: known words, libraries, uses and unknown words."""

    language: Language
    tell: FindingCollector
    files: Mapping[str, str] = field(default_factory=dict)
    known: dict[str, FifthWord] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)
    defined: dict[str, Token] = field(default_factory=dict)
    """The names that the program defines. Each has the token of its first definition: the name itself, or the
    word that reads it.
    """
    used: dict[str, Token] = field(default_factory=dict)
    """The used words of companion rules, with their first uses."""
    unknowns: list[UnknownWord] = field(default_factory=list)
    _text: str = ""
    _inside: ProgramSegment | None = None
    _newest: str = ""
    _blind: bool = False
    _base_may_differ: bool = False
    _comments: dict[str, _DeclaredEffect | None] = field(default_factory=dict)
    _plain: dict[tuple[StackEffect | None, bool, bool], FifthWord] = field(default_factory=dict)
    _folder: str = "lib/"
    _loaded_files: set[str] = field(default_factory=set)

    def read(self, text: str, libraries: Iterable[str]) -> None:
        """Read a program, with `libraries` loaded before it, and report its faults."""
        self._text = text
        for library in (*ALWAYS_LOADED, *libraries):
            self._load_library(library, 0)
        outside = Walk(self, self.tell)
        for segment in iter_segments(text, self.language, self.tell):
            self._inside = segment if segment.opener is not None else None
            if segment.opener is None:
                outside.run(segment.tokens)
            else:
                self._read_definition(segment, segment.opener)
        outside.end(Token("", len(text)))

    def check_companion_words(self) -> None:
        """Report words that are used without their required companions."""
        for rule in self.language.rules.companions:
            used = [self.used[word] for word in rule.words if word in self.used]
            first = min(used, default=None, key=_get_token_start)
            if first is not None and not any(word in self.used for word in rule.needs):
                self.tell(rule.id, first.start, word=first.word)

    def get_library_path(self, library: str) -> str:
        """Return the path for loading a library, in the same folder as the program's other libraries."""
        return f"{self._folder}{library}{_LIBRARY_SUFFIX}"

    # The interface for walks

    def use(self, token: Token) -> None:
        """Record the use of a word to which a companion rule applies."""
        self.used.setdefault(token.word, token)

    def is_number_in_base(self, word: str) -> bool:
        """Return whether a word is a number in another base, if the base can have changed."""
        return self._base_may_differ and word.isalnum()

    def record_unknown(self, token: Token, before: str) -> None:
        """Store an unknown word, to report it after all names have been read."""
        self.unknowns.append(UnknownWord(token=token, before=before, inside=self._inside, blind=self._blind))

    def apply_parsing_word(self, token: Token) -> None:
        """Apply a parsing word to the word that it reads from the source."""
        if token.word in self.language.takes_path:
            self.load(token.text, self._find_name_offset(token))
        elif token.word in self.language.takes_name:
            self.add_created_word(token.text, token, self.known[token.word])
        elif token.word in self.language.takes_word and token.text:
            self._look_up_word(Token(token.text.lower(), self._find_name_offset(token)), token.word)

    def apply_role(self, role: str) -> None:
        """Apply a word's effect on the program, such as a change of the number base."""
        match role:
            case "hex" | "base":
                self._base_may_differ = True
            case "decimal":
                self._base_may_differ = False
            case "immediate" if self._newest in self.known:
                word = self.known[self._newest]
                self.known[self._newest] = replace(word, effect=None, plain=False, role="macro")
            case _:
                pass

    def add_created_word(self, name: str, by: Token, maker: FifthWord) -> None:
        """Add the word that a defining word creates. `by` is the name or the word that reads the name."""
        self._add_word(name.lower(), self._build_child_word(maker), by)

    def included(self, token: Token, path: str) -> None:
        """Report a file that is loaded by a string, and load the file."""
        if path:
            self.tell("required.require", token.start, word=token.word, path=path)
        self.load(path, token.start)

    # Loading

    def load(self, path: str, start: int) -> None:
        """Load a library or a submitted file.

        Any other file is reported, and its definitions are treated as unknown.
        """
        plain = path.removeprefix("./")
        for prefix in _LIBRARY_PREFIXES:
            plain = plain.removeprefix(prefix)
        name = PurePosixPath(plain).name
        library = name.removesuffix(_LIBRARY_SUFFIX).lower()
        file = next((known for known in (plain, name) if known in self.files), None)
        if file is not None:
            self._load_file(file)
        elif library in self.language.brings:
            self._folder = path[: len(path) - len(name)] if "/" in path else self._folder
            self._load_library(library, start)
        elif path:
            self._blind = True
            self.tell("vocabulary.file_unknown", start, word=path, path=path)

    def _load_library(self, name: str, start: int) -> None:
        if name not in ALWAYS_LOADED and name not in self.language.brings:
            self._blind = True
        for each in self.language.resolve_dependencies([name]):
            if each not in self.libraries:
                self.libraries.append(each)
                self._check_missing_words(each, start)
                self.known.update(self.language.words.get(each, {}))

    def _check_missing_words(self, library: str, start: int) -> None:
        """Report a library that the engine can't load, because the library uses undefined words."""
        missing = [word for word in self.language.missing.get(library, ()) if word not in self.known]
        if missing:
            words = " and ".join(missing)
            self.tell("vocabulary.library_fails", start, word=library, missing=words)

    def _load_file(self, name: str) -> None:
        """Add the names and stack comments that a file defines, without checking the file.

        Do nothing if it is already loaded.
        """
        if name in self._loaded_files:
            return
        self._loaded_files.add(name)
        for segment in iter_segments(self.files[name], self.language, _ignore_report):
            for token in segment.tokens:
                self._import_word(token, inside=segment.opener is not None)
            if segment.opener is not None and segment.opener.text:
                comment = self._find_declared_effect(segment)
                effect = comment.effect if comment is not None else None
                self._newest = segment.opener.text.lower()
                self.known[self._newest] = self._build_word(effect, None)

    def _import_word(self, token: Token, *, inside: bool) -> None:
        """Import the definitions or the file of a word outside definitions."""
        if not inside and token.word == "immediate":
            self.apply_role("immediate")
        if inside or token.kind is not TAKING or not token.text:
            return
        if token.word in self.language.takes_path:
            self.load(token.text, 0)
        elif token.word in self.language.takes_name:
            maker = self.language.words[self.language.libraries_by_word[token.word]][token.word]
            self.known[token.text.lower()] = self._build_child_word(maker)

    # Definitions

    def _read_definition(self, segment: ProgramSegment, opener: Token) -> None:
        """Read one definition, whose name becomes known only after its end."""
        if opener.word not in self.known:
            self.record_unknown(Token(opener.word, opener.start), "")
        comment = self._find_declared_effect(segment)
        declared = comment.effect if comment is not None else None
        suspicious = comment is not None and comment.suspicious
        walk = Walk(
            self,
            self.tell,
            opener=opener,
            declared=declared,
            suspicious=suspicious,
            placed=self._passes_sql(segment),
        )
        walk.run(segment.tokens)
        walk.end(Token(";", opener.start))
        found = walk.found[0]
        if comment is None:
            self._report_missing_comment(segment, opener, found)
        elif declared is not None and found.exact and not found.agrees and not walk.state.macro:
            self._report_wrong_comment(opener, found, declared, comment.text)
        if not opener.text:
            return
        made = walk.found[-1] if len(walk.found) > 1 else None
        trusted = declared if found.agrees or not found.exact else None
        self._add_word(opener.text.lower(), self._build_word(trusted, found, walk, made), opener)

    def _passes_sql(self, segment: ProgramSegment) -> bool:
        """Return whether a word of a definition passes a string to SQL, directly or through other words."""
        words, sql = self.known, self.language.sql
        if not any(word in words for word in sql):  # the reverse would visit all words
            return False
        return any(t.word in sql or ((w := words.get(t.word)) and w.hands) for t in segment.tokens)

    def _add_word(self, name: str, word: FifthWord, by: Token) -> None:
        """Add a word that is known from here on, under the name that `by` is or reads."""
        if not name:
            return
        if len(name) > NAME_CHARS:
            start = self._find_name_offset(by)
            written = self._text[start : start + len(name)]
            self.tell("vocabulary.name_too_long", start, word=written, length=len(name))
        self.defined.setdefault(name, by)
        self.known[name] = word
        self._newest = name

    def _find_declared_effect(self, segment: ProgramSegment) -> _DeclaredEffect | None:
        """Return the content of a definition's stack comment, or None if it has none.

        It can also be a line comment.
        """
        for comment in segment.comments:
            if comment not in self._comments:
                self._comments[comment] = self._read_comment(comment)
            if (declared := self._comments[comment]) is not None:
                return declared
        return None

    def _read_comment(self, comment: str) -> _DeclaredEffect | None:
        """Parse a comment, or return None if it isn't a stack comment."""
        if not is_stack_comment(comment):
            return None
        text = comment.partition(")")[0].rpartition("(")[2].strip()
        effect = read_effect(text, self.language.cells)
        names = effect.takes.names if effect else ()
        return _DeclaredEffect(text, effect, any(map(self.language.find_suspected_rules, names)))

    def _report_missing_comment(self, segment: ProgramSegment, opener: Token, found: WalkResult) -> None:
        """Report a definition without a stack comment. A separate rule applies to constants."""
        if not opener.text:
            return
        constant = bool(segment.tokens) and found.exact and not found.takes
        constant = constant and all(map(self._is_constant, segment.tokens))
        effect, edit = "( … -- … )", None
        if found.exact:
            text = constant and found.leaves == 2
            effect = "( -- addr u )" if text else describe_effect(found.takes, found.leaves)
            end = self._find_name_offset(opener) + len(opener.text)
            edit = (end, end, f" {effect}") if not segment.comments else None
        rule = "required.stack_comment_constant" if constant else "required.stack_comment"
        self.tell(rule, self._find_name_offset(opener), word=opener.text, effect=effect, edit=edit)

    def _is_constant(self, token: Token) -> bool:
        word = self.known.get(token.word)
        if word is None:
            return is_number(token.word)
        if token.kind is not WORD:
            return token.word != "postpone" and word.leaves > 0
        return word.constant or token.word in self.language.constants

    def _report_wrong_comment(
        self, opener: Token, found: WalkResult, declared: StackEffect, comment: str
    ) -> None:
        """Report a definition whose effect contradicts its stack comment."""
        certain = found.certain and declared.counted
        does = describe_effect(found.takes, found.leaves)
        self.tell(
            "vocabulary.wrong_signature" if certain else "structure.stack_effect",
            self._find_name_offset(opener),
            word=opener.text,
            problem=f"'{opener.text}' is declared as ( {comment} ), but its effect is {does}.",
            remedy=_suggest_agreement(found, declared, does),
        )

    def _look_up_word(self, token: Token, by: str) -> None:
        """Look up a word whose name a parsing word reads, and report or store an unknown word."""
        word = self.known.get(token.word)
        rule = self.language.rules.by_word.get(token.word) if word is None else None
        if rule is not None:
            self.tell(rule.id, token.start, word=token.word, at=token)
        elif word is None:
            self.record_unknown(token, by)

    def _find_name_offset(self, token: Token) -> int:
        """Return the offset of the word that a parsing word reads, or of a word without an argument."""
        start = token.start + (len(token.word) if token.kind is TAKING else 0)
        while start < len(self._text) and self._text[start] <= " ":
            start += 1
        return start

    # Words of the program

    def _build_word(
        self,
        declared: StackEffect | None,
        found: WalkResult | None,
        walk: Walk | None = None,
        made: WalkResult | None = None,
    ) -> FifthWord:
        """Build the word that a definition creates, as other definitions use it.

        Its effect is the declared one or, without a countable stack comment, the one found by the walk.
        """
        effect = declared if declared is not None and declared.counted else None
        known = found is not None and found.is_countable and found.agrees
        if effect is None and found is not None and known:
            effect = build_unnamed_effect(found.takes, found.leaves)
        certain = known and found is not None and found.certain
        strings = walk is not None and (
            walk.flow.given or walk.flow.overwritten or walk.flow.handed or walk.quoted_string_cells
        )
        if walk is None or not (walk.parses or strings):
            return self._get_plain_word(effect, certain=certain)
        child = walk.child if made is None else None
        if made is not None and made.is_countable:
            child = build_unnamed_effect(made.takes, made.leaves)
        return FifthWord(
            library=PROGRAM,
            effect=effect,
            takes=effect.takes.least if effect else 0,
            leaves=effect.leaves.least if effect else 0,
            certain=certain,
            parses=walk.parses,
            defines=walk.defines,
            child=child,
            gives=tuple(sorted(walk.flow.given)),
            overwrites=tuple(sorted(walk.flow.overwritten)),
            hands=frozenset(walk.flow.handed) if declared is not None and declared.counted else frozenset(),
            brings=tuple(
                each for each in walk.quoted_string_cells if effect and each[0] < effect.leaves.least
            ),
            touches=True,
        )

    def _build_child_word(self, maker: FifthWord) -> FifthWord:
        """Build the word that a defining word creates: a constant, if the defining word takes a value."""
        return self._get_plain_word(maker.child, certain=maker.child is not None, constant=maker.takes > 0)

    def _get_plain_word(
        self, effect: StackEffect | None, *, certain: bool, constant: bool = False
    ) -> FifthWord:
        """Return a word that has only an effect. Words with the same effect share one object."""
        key = effect, certain, constant
        if key not in self._plain:
            self._plain[key] = FifthWord(
                library=PROGRAM,
                effect=effect,
                takes=effect.takes.least if effect else 0,
                leaves=effect.leaves.least if effect else 0,
                certain=certain,
                constant=constant,
                plain=effect is not None,
            )
        return self._plain[key]


def _get_token_start(token: Token) -> int:
    return token.start


def _ignore_report(rule: str, start: int, **names: object) -> None:
    """Do nothing, because additional files aren't checked."""


def _suggest_agreement(found: WalkResult, declared: StackEffect, does: str) -> str:
    """Return a hint for making a body agree with its stack comment.

    It depends on whether the body leaves too many or too few items.
    """
    more = (found.leaves - found.takes) - (declared.leaves.least - declared.takes.least)
    items = "item" if abs(more) == 1 else "items"
    if more > 0:
        drops = " ".join(["drop"] * more) if more <= 3 else "drop"
        return f"The body leaves {more} {items} too many. Add `{drops}` before `;`, or write `{does}`."
    return f"The body leaves {-more} {items} too few. Push the missing items, or write `{does}`."
