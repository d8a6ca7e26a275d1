r"""Cuts a text into words, strings, comments and definitions by the language's own rules.

Blanks are the only separator; cases are not told apart. `\` comments to the end of the line, `(` to the next
`)` on it; a string word takes the text up to the next quote on the line; parsing words take the next word of
the line. What the words mean is left to others.

    .\" never closed        vocabulary.string_open
    ( over two lines        vocabulary.comment_open
    : a 1                   vocabulary.definition_open
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, partial
from typing import NamedTuple

from assayd.checks.fifth.language import Language

NAME_CHARS = 31


class Kind(IntEnum):
    """What a token is."""

    WORD = 0
    """A word or a number, by itself."""
    STRING = 1
    """A string word with its text."""
    TAKING = 2
    """A parsing word with the word that it takes."""


class Token(NamedTuple):
    """One word with what belongs to it. `word` is folded; `start` is its offset in the text."""

    word: str
    start: int
    kind: Kind = Kind.WORD
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Segment:
    """A definition, or what stands between two. `comments` are those right behind a definition's name."""

    opener: Token | None = None
    tokens: list[Token] = field(default_factory=list)
    comments: list[tuple[str, int]] = field(default_factory=list)


_token = partial(tuple.__new__, Token)
"""Makes a token faster than its class does; there are very many."""

Report = Callable[..., None]
"""Called with the id of a rule, an offset, and what the rule's message names."""


def fold(text: str) -> str:
    """Give the text with A to Z as a to z; every character keeps its place."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def scan(text: str, language: Language, report: Report) -> Iterator[Segment]:
    """Cut a text into segments, in order."""
    return _Scanner(text, language, report).run()


def is_number(word: str) -> bool:
    """Tell whether the engine reads a folded word as a number, in base ten."""
    return _NUMBER(word) is not None


_NUMBER = re.compile(r"[+-]?(?:[0-9]+|\$[0-9a-f]+|#[0-9]+|%[01]+|0x[0-9a-f]+)").fullmatch

_NOWHERE = 2**62
_INDENT = 200
"""How many blanks may stand before a definition for it to begin its line."""
_CLOSED = frozenset({"closed", "ended"})
_STRINGS = frozenset({"open", "opened", *_CLOSED})
_NEXT_DEFINITION = re.compile(r"^[ \t]*:[ \t]", re.MULTILINE)
_LINE_ENDS = re.compile(r"[\x00-\x09\x0b-\x20]*(?:\\[\x00-\x20]|\(|\n|\Z)").match


@cache
def _pattern(
    plain: Sequence[str], escaped: Sequence[str], taking: Sequence[str]
) -> Callable[[str, int], Iterator[re.Match[str]]]:
    """Build the one expression that finds the next token; the last group that matched says what it is."""
    end = r"(?=[\x00-\x20]|\Z)"
    return re.compile(
        rf"""
          \\{end}(?P<line>[^\n]*)
        | \({end}(?P<paren>[^)\n]*)(?P<shut>\))?
        | \.\({end}(?P<print>[^)\n]*)(?P<printed>\))?
        | (?P<string>{_any(plain)}){end}[ ]?(?P<open>[^"\n]*)(?P<closed>")?
        | (?P<escaped>{_any(escaped)}){end}[ ]?(?P<opened>(?:[^"\\\n]|\\[^\n])*)(?P<ended>")?
        | (?P<near>\((?=[^\x00-\x20)])|\\(?=[^\x00-\x20])|(?:{_any((*plain, *escaped))})(?=[^\x00-\x20]))
          (?P<glued>(?<=\()[^)\x00-\x20]{{1,200}}+[\x00-\x09\x0b-\x20][^)\n]{{0,200}}+\)|(?<=\\)[^\n]*|(?<=")[^"\n]*")
        | (?P<takes>{_any(taking)}){end}[\x00-\x09\x0b-\x20]*(?P<name>[^\x00-\x20]+)?
        | (?P<word>[^\x00-\x20]+)
        """,
        re.VERBOSE,
    ).finditer


def _any(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


class _Scanner:
    def __init__(self, text: str, language: Language, report: Report) -> None:
        self._text = text
        self._folded = fold(text)
        self._report = report
        self._language = language
        self._named: set[str] = set()
        """Names of definitions so far."""
        self._find = _pattern(language.plain_strings, language.escaped_strings, language.taking)
        self._now = Segment()
        self._awaiting = False
        """Whether the next comment may be the stack comment of the definition that has just begun."""
        self._shut = self._next_definition = 0

    def run(self) -> Iterator[Segment]:
        """Give the segments one by one, so that few tokens are alive at a time."""
        position: int | None = 0
        while position is not None:
            position = yield from self._run_from(position)
        if self._now.opener is not None:
            self._report("vocabulary.definition_open", self._now.opener.start, word=self._now.opener.text)
        yield self._now

    def _run_from(self, position: int) -> Generator[Segment, None, int | None]:
        """Scan on; give where to go on when a match has to be cut shorter, None at the end."""
        now = self._now
        add = now.tokens.append
        for match in self._find(self._folded, position):
            group = match.lastgroup
            if group == "word":
                word = match[0]
                self._awaiting = False
                if word[0] == "<" and (cut := self._cut(match, word)):
                    return cut
                if word[-1] != ";" or not self._ends(match, word):
                    add(_token((word, match.start(), Kind.WORD, "")))
                    continue
                self._now = Segment()
            elif group in _STRINGS:
                self._string(match)
                continue
            else:
                position = self._other(match, str(group))
                if position:
                    return position
            if self._now is not now:
                yield now
                now = self._now
                add = now.tokens.append
        return None

    def _other(self, match: re.Match[str], group: str) -> int:
        """Take a comment or a parsing word; give where to go on when it is not behind the match, else 0."""
        if group in {"name", "takes"}:
            return self._take(match)
        if group == "glued":
            self._glued(match)
        elif group in {"paren", "print"}:
            return self._open_comment(match, group)
        elif self._awaiting:
            self._comment(match, "line" if group == "line" else "paren")
        return 0

    def _cut(self, match: re.Match[str], word: str) -> int:
        """Cut a tag off a word that begins with one; give where to go on, 0 when it is a word as it is."""
        close = word.find(">") + 1
        if not 0 < close < len(word) or word in self._language.wheres or word in self._named:
            return 0
        if word[:close] not in self._language.tags:
            return 0
        blank = match.start() + close
        self._space(match.start(), blank, word=word, left=word[:close], right=word[close:])
        self._now.tokens.append(Token(word[:close], match.start()))
        return blank

    def _ends(self, match: re.Match[str], word: str) -> bool:
        """Tell whether a word ends the definition; it may hang on the last word of a line."""
        if self._now.opener is None or (word != ";" and not _LINE_ENDS(self._folded, match.end())):
            return False
        if word != ";":
            self._space(match.start(), match.end() - 1, word=word, left=word[:-1], right=";")
            self._now.tokens.append(Token(word[:-1], match.start()))
        return True

    def _take(self, match: re.Match[str]) -> int:
        """Add a parsing word; inside a definition most of them are words like others."""
        word, inside = match["takes"], self._now.opener is not None
        if word in self._language.beginners and (not inside or self._begins_line(match)):
            self._begin(match)
            return 0
        if inside and word not in self._language.at_once:
            self._awaiting = False
            self._now.tokens.append(Token(word, match.start()))
            return match.end("takes")
        self._awaiting = False
        if match["name"] is None:
            self._report("vocabulary.name_missing", match.start(), word=word)
        self._now.tokens.append(Token(word, match.start(), Kind.TAKING, self._exactly(match, "name")))
        return 0

    def _begin(self, match: re.Match[str]) -> None:
        if self._now.opener is not None:
            self._report("vocabulary.definition_open", self._now.opener.start, word=self._now.opener.text)
        if match["name"] is None:
            self._report("vocabulary.name_missing", match.start(), word=match["takes"])
        name = match["name"] or ""
        self._named.add(name)
        self._now = Segment(opener=Token(match["takes"], match.start(), Kind.TAKING, name))
        self._awaiting = True

    def _begins_line(self, match: re.Match[str]) -> bool:
        """Tell whether a `:` inside a definition begins another one, rather than being a word of it."""
        end = match.start()
        begin = max(0, end - _INDENT)
        line = self._folded.rfind("\n", begin, end)
        alone = (line >= 0 or begin == 0) and not self._folded[max(line + 1, begin) : end].strip()
        return match["name"] != ";" and alone

    def _comment(self, match: re.Match[str], group: str) -> None:
        if match[group] is not None:
            self._now.comments.append((self._exactly(match, group), match.start()))

    def _open_comment(self, match: re.Match[str], group: str) -> int:
        """Report a comment that its line does not close, and pass over what was meant to be in it."""
        self._report("vocabulary.comment_open", match.start())
        shut, after = self._places_from(match.end())
        closed = shut < after
        if self._awaiting and group == "paren":
            start = match.start("paren")
            self._now.comments.append((self._text[start : shut if closed else match.end()], match.start()))
        return shut + 1 if closed else match.end()

    def _places_from(self, start: int) -> tuple[int, int]:
        """Give the places of the next `)` and of the next definition, each looked for once."""
        if self._shut < start:
            found = self._folded.find(")", start)
            self._shut = found if found >= 0 else _NOWHERE
        if self._next_definition < start:
            begun = _NEXT_DEFINITION.search(self._folded, start)
            self._next_definition = begun.start() if begun is not None else _NOWHERE
        return self._shut, self._next_definition

    def _glued(self, match: re.Match[str]) -> None:
        """Report a blank that is missing behind the beginning of a comment or a string, and go on."""
        near, blank = match["near"], match.end("near")
        right = self._exactly(match, "glued")
        self._space(match.start(), blank, word=match[0].split()[0], left=near, right=right)
        if near == "(" and self._awaiting:
            self._now.comments.append((right[:-1], match.start()))
        elif near not in {"(", "\\"}:
            self._awaiting = False
            self._now.tokens.append(Token(near, match.start(), Kind.STRING, right[:-1]))

    def _space(self, start: int, blank: int, **names: str) -> None:
        self._report("required.word_spacing", start, edit=(blank, blank, " "), **names)

    def _string(self, match: re.Match[str]) -> None:
        self._awaiting = False
        plain, escaped, group = match["string"], match["escaped"], match.lastgroup
        if group not in _CLOSED:
            self._report("vocabulary.string_open", match.start(), word=plain or escaped)
        start, end = match.span("open" if plain else "opened")
        self._now.tokens.append(_token((plain or escaped, match.start(), Kind.STRING, self._text[start:end])))

    def _exactly(self, match: re.Match[str], group: str) -> str:
        """Give a part of the text as it was written."""
        start, end = match.span(group)
        return "" if start < 0 else self._text[start:end]
