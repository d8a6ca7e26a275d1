r"""Splits a program into words, strings, comments and definitions by the rules of the language.

White space is the only separator, and case doesn't matter. A `\` comment ends with its line, and a `(`
comment at the next `)` on the line. String words read the text up to the next quote on the line; parsing
words read the next word of the line. Other modules know the meaning of words.

    .\" never closed        vocabulary.string_open
    ( over two lines        vocabulary.comment_open
    : a 1                   vocabulary.definition_open
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import NamedTuple, cast

from assayd_fifth.language import Language

NAME_CHARS = 31


class TokenKind(IntEnum):
    """The lexical type of a token, which determines the text that belongs to the token."""

    WORD = 0
    """A single word or number."""
    STRING = 1
    """A string word with its text."""
    TAKING = 2
    """A parsing word with the word that it reads."""


WORD, STRING, TAKING = TokenKind
"""The kinds as constants, because a lookup in the class takes as long as creating a token."""


class Token(NamedTuple):
    """One word with the text that it reads. `word` is lowercase, and `start` is an offset in the source."""

    word: str
    start: int
    kind: TokenKind = WORD
    text: str = ""


@dataclass(slots=True, kw_only=True)
class ProgramSegment:
    """A definition, or the code between definitions. `comments` directly follow the definition's name."""

    opener: Token | None = None
    tokens: list[Token] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    @property
    def awaits_comment(self) -> bool:
        """Return whether the next comment can be the stack comment of the current definition."""
        return self.opener is not None and not self.tokens


_token = partial(tuple.__new__, Token)
"""Creates a token faster than the class does, because programs have very many tokens."""

Report = Callable[..., None]
"""Called with the id of a rule, an offset, and the values for the placeholders of the rule's message."""


def lowercase_ascii(text: str) -> str:
    """Return the text with `A` to `Z` in lowercase, without changing any offsets."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def iter_segments(text: str, language: Language, report: Report) -> Iterator[ProgramSegment]:
    """Yield the definitions and the code between them, in the order of the source."""
    return _Scanner(text, language, report).run()


def is_number(word: str) -> bool:
    """Return whether the engine reads a lowercase word as a decimal number."""
    return _match_number(word) is not None


_match_number = re.compile(r"[+-]?(?:[0-9]+|\$[0-9a-f]+|#[0-9]+|%[01]+|0x[0-9a-f]+)").fullmatch

_NO_OFFSET = 2**62
_INDENT = 200
"""Maximum number of spaces before a definition that begins its line."""
_NEXT_DEFINITION = re.compile(r"^[ \t]*:[ \t]", re.MULTILINE)


def _compile_match(pattern: str) -> Callable[[str, int], re.Match[str]]:
    """Compile a pattern whose first group, which can be empty, is the result of a match."""
    return cast("Callable[[str, int], re.Match[str]]", re.compile(pattern).match)


_iter_words = re.compile(r"[^\x00-\x20]+").finditer
_LINE = _compile_match(r"([^\n]*)")
_COMMENT = _compile_match(r"([^)\n]*)(\))?")
_PLAIN = _compile_match(r'[ ]?([^"\n]*)(")?')
_ESCAPED = _compile_match(r'[ ]?((?:[^"\\\n]|\\[^\n])*)(")?')
_NAME = _compile_match(r"[\x00-\x09\x0b-\x20]*([^\x00-\x20]+)?")
_LINE_ENDS = re.compile(r"[\x00-\x09\x0b-\x20]*(?:\\[\x00-\x20]|\(|\n|\Z)").match
_MATCH_UNSPACED = {
    "\\": re.compile(r"[^\n]*").match,
    "(": re.compile(r"[^)\x00-\x20]{1,200}+[\x00-\x09\x0b-\x20][^)\n]{0,200}+\)").match,
}
_match_joined_string = re.compile(r'[^"\n]*"').match


class _Scanner:
    """A scanner of words. A table maps a word to its method, or to None if the word is only added."""

    def __init__(self, text: str, language: Language, report: Report) -> None:
        self._text = text
        self._folded = lowercase_ascii(text)
        self._report = report
        self._language = language
        self._named: set[str] = set()
        """Names defined so far."""
        strings = (*language.plain_strings, *language.escaped_strings)
        self._near = ("(", "\\", *sorted(strings, key=len, reverse=True))
        """Words after which writers easily forget a space."""
        self._acts: dict[str, _WordHandler | None] = {
            **dict.fromkeys(language.taking, _Scanner._scan_parsing_word),
            **dict.fromkeys(language.plain_strings, _Scanner._add_plain_word),
            **dict.fromkeys(language.escaped_strings, _Scanner._scan_escaped_string),
            "\\": _Scanner._skip_line_comment,
            "(": _Scanner._skip_comment,
            ".(": _Scanner._skip_comment,
        }
        self._now = ProgramSegment()
        self._shut = self._next_definition = 0

    def run(self) -> Iterator[ProgramSegment]:
        """Yield one segment at a time, so that only the tokens of one segment are in memory."""
        act_of, meet, now, position = self._acts.get, _Scanner._classify_word, self._now, 0
        while True:
            for match in _iter_words(self._folded, position):
                word = match[0]
                act = act_of(word, meet)
                if act is None:
                    now.tokens.append(_token((word, match.start(), WORD, "")))
                    continue
                position = act(self, word, match.start(), match.end())
                if self._now is not now:
                    if now.opener is not None or now.tokens:
                        yield now
                    now = self._now
                if position != match.end():
                    break
            else:
                break
        if now.opener is not None:
            self._report("vocabulary.definition_open", now.opener.start, word=now.opener.text)
        yield now

    # Methods of words: each adds or skips something, and returns the offset to continue at.

    def _classify_word(self, word: str, start: int, end: int) -> int:
        """Find the method for a word that is in no list, cache the method, and call it."""
        if word.startswith(self._near):
            act: _WordHandler | None = _Scanner._report_missing_space
        elif (
            word[: word.find(">") + 1] in self._language.tags and word not in self._language.libraries_by_word
        ):
            act = _Scanner._split_tag
        else:
            act = _Scanner._scan_semicolon if word[-1] == ";" else None
        self._acts[word] = act
        return (act or _Scanner._add_word)(self, word, start, end)

    def _add_word(self, word: str, start: int, end: int) -> int:
        self._now.tokens.append(Token(word, start))
        return end

    def _scan_semicolon(self, word: str, start: int, end: int) -> int:
        """End the definition at a `;`, even if it is joined to a line's last word. Add any other word."""
        hangs = word != ";"
        if self._now.opener is None or word[-1] != ";" or (hangs and not _LINE_ENDS(self._folded, end)):
            return self._add_word(word, start, end)
        if hangs:
            self._report_spacing(start, end - 1, word=word, left=word[:-1], right=";")
            self._add_word(word[:-1], start, end)
        self._forget_parsing_word(self._now.opener.text.lower())
        self._now = ProgramSegment()
        return end

    def _forget_parsing_word(self, name: str) -> None:
        """Treat a parsing word as an ordinary word, because the program has redefined it."""
        if name in self._language.taking and name not in self._language.beginners:
            self._acts[name] = None

    def _split_tag(self, word: str, start: int, end: int) -> int:
        """Split a tag from a word that begins with this tag, unless the program defines the word."""
        if word in self._named:
            return self._scan_semicolon(word, start, end)
        close = word.find(">") + 1
        self._report_spacing(start, start + close, word=word, left=word[:close], right=word[close:])
        return self._add_word(word[:close], start, start + close)

    def _scan_parsing_word(self, word: str, start: int, end: int) -> int:
        """Add a parsing word. Inside a definition, most parsing words are treated as ordinary words."""
        taken, inside = _NAME(self._folded, end), self._now.opener is not None
        if word in self._language.beginners and (not inside or self._begins_definition(start, taken[1])):
            self._begin_definition(word, start, taken[1])
            return taken.end()
        if inside and word not in self._language.at_once:
            return self._add_word(word, start, end)
        if taken[1] is None:
            self._report("vocabulary.name_missing", start, word=word)
        self._now.tokens.append(_token((word, start, TAKING, self._get_original_text(taken))))
        return taken.end()

    def _begin_definition(self, word: str, start: int, name: str | None) -> None:
        if self._now.opener is not None:
            self._report("vocabulary.definition_open", self._now.opener.start, word=self._now.opener.text)
        if name is None:
            self._report("vocabulary.name_missing", start, word=word)
        self._named.add(name or "")
        self._now = ProgramSegment(opener=Token(word, start, TAKING, name or ""))

    def _begins_definition(self, end: int, name: str | None) -> bool:
        """Return whether a `:` inside a definition begins a new definition."""
        begin = max(0, end - _INDENT)
        line = self._folded.rfind("\n", begin, end)
        alone = (line >= 0 or begin == 0) and not self._folded[max(line + 1, begin) : end].strip()
        return name != ";" and alone

    def _skip_line_comment(self, _: str, __: int, end: int) -> int:
        """Skip a comment up to the end of the line."""
        comment = _LINE(self._folded, end)
        if self._now.awaits_comment:
            self._now.comments.append(self._get_original_text(comment))
        return comment.end()

    def _skip_comment(self, word: str, start: int, end: int) -> int:
        """Skip a comment in parentheses, or text to print, which must end on its line."""
        comment, kept = _COMMENT(self._folded, end), word == "(" and self._now.awaits_comment
        if comment[2] is not None:
            if kept:
                self._now.comments.append(self._get_original_text(comment))
            return comment.end()
        self._report("vocabulary.comment_open", start)
        shut, after = self._find_next_places(comment.end())
        closed = shut < after  # skip the text that was meant to be inside
        if kept:
            self._now.comments.append(self._text[end : shut if closed else comment.end()])
        return shut + 1 if closed else comment.end()

    def _find_next_places(self, start: int) -> tuple[int, int]:
        """Return the offsets of the next `)` and the next definition, each searched only once."""
        if self._shut < start:
            found = self._folded.find(")", start)
            self._shut = found if found >= 0 else _NO_OFFSET
        if self._next_definition < start:
            begun = _NEXT_DEFINITION.search(self._folded, start)
            self._next_definition = begun.start() if begun is not None else _NO_OFFSET
        return self._shut, self._next_definition

    def _add_plain_word(self, word: str, start: int, end: int) -> int:
        return self._add_string(word, start, _PLAIN(self._folded, end))

    def _scan_escaped_string(self, word: str, start: int, end: int) -> int:
        return self._add_string(word, start, _ESCAPED(self._folded, end))

    def _add_string(self, word: str, start: int, text: re.Match[str]) -> int:
        if text[2] is None:
            self._report("vocabulary.string_open", start, word=word)
        self._now.tokens.append(_token((word, start, STRING, self._get_original_text(text))))
        return text.end()

    def _report_missing_space(self, word: str, start: int, end: int) -> int:
        """Report a missing space after the beginning of a comment or string."""
        near = next(each for each in self._near if word.startswith(each))
        blank = start + len(near)
        rest = _MATCH_UNSPACED.get(near, _match_joined_string)(self._folded, blank)
        if rest is None:
            return self._scan_semicolon(word, start, end)
        right = self._text[blank : rest.end()]
        self._report_spacing(
            start, blank, word=self._text[start : rest.end()].split()[0], left=near, right=right
        )
        if near not in _MATCH_UNSPACED:
            self._now.tokens.append(Token(near, start, STRING, right[:-1]))
        elif near == "(" and self._now.awaits_comment:
            self._now.comments.append(right[:-1])
        return rest.end()

    def _report_spacing(self, start: int, blank: int, **names: str) -> None:
        self._report("required.word_spacing", start, edit=(blank, blank, " "), **names)

    def _get_original_text(self, match: re.Match[str]) -> str:
        """Return the match in its original case, or an empty string if nothing matched."""
        start, end = match.span(1)
        return self._text[start:end]


_WordHandler = Callable[[_Scanner, str, int, int], int]
"""Called with a word, its offset and its end."""
