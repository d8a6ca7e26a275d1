"""Creates paths similar to the sample paths, with a different number or name at one position.

    /data/ACME/2024/report.csv   ->   /data/ACME/2023/report.csv, /data/BDNF/2024/report.csv, …

An extractor that reads the path returns different fields for these paths, whereas an extractor with
hard-coded results doesn't. Pure and deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

MOST_OF_FIRST, MOST_OF_SECOND = 6, 2
"""Maximum similar paths of the first and of the second sample path; a single sample gets both numbers."""
_MOST_NAMED = 4
"""Maximum pieces that the code also contains: they come first, because they may be hard-coded."""
_CODE_CHARS = 50_000
_LONGEST_CHARS = 512
"""Characters above which sample paths are skipped, because their cost grows with their length."""
_PIECE = re.compile(r"[^\W\d_]+|\d+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_WHOLE_CHARS = 3
"""Characters up to which pieces are replaced only as whole words, because longer words may contain them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarPath:
    """A sample path in which every occurrence of `old` is replaced by a piece of the same form."""

    path: str
    sample: str
    old: str
    new: str

    @property
    def is_number(self) -> bool:
        """Return whether a number was replaced."""
        return self.old.isdecimal()

    @property
    def is_year(self) -> bool:
        """Return whether a year was replaced by another year."""
        return _YEAR.fullmatch(self.old) is not None


def similar_paths(samples: Sequence[str], code: str = "") -> tuple[SimilarPath, ...]:
    """Return paths similar to the first two sample paths; first vary the pieces that the code contains."""
    found: list[SimilarPath] = []
    chosen = list(dict.fromkeys(samples))[:2]
    room = (MOST_OF_FIRST, MOST_OF_SECOND) if len(chosen) > 1 else (MOST_OF_FIRST + MOST_OF_SECOND,)
    for sample, most in zip(chosen, room, strict=True):
        if len(sample) <= _LONGEST_CHARS:
            found += islice(_vary_path(sample, code[:_CODE_CHARS]), most)
    return tuple(found)


def pieces(text: str) -> list[str]:
    """Return the sequences of letters and of digits in a string, in order."""
    return _PIECE.findall(text)


def _vary_path(sample: str, code: str) -> Iterator[SimilarPath]:
    """Yield paths with one replaced piece: first pieces that occur in the code, then the others."""
    known = list(dict.fromkeys(reversed(pieces(sample))))
    named = [piece for piece in known if len(piece) > 1 and piece in code][:_MOST_NAMED]
    for old in dict.fromkeys((*_alternate(named), *_alternate(known))):
        new = _neighboring_number(old) if old.isdecimal() else _shift_letters(old)
        changed = _replace_piece(sample, old, new)
        if changed != sample:
            yield SimilarPath(path=changed, sample=sample, old=old, new=new)


def _alternate(known: Sequence[str]) -> Iterator[str]:
    """Yield the given names and numbers alternately."""
    numbers = [piece for piece in known if piece.isdecimal()]
    names = [piece for piece in known if not piece.isdecimal()]
    return (piece for pair in zip_longest(names, numbers) for piece in pair if piece is not None)


def _replace_piece(path: str, old: str, new: str) -> str:
    if len(old) >= _WHOLE_CHARS:
        return path.replace(old, new)
    return _PIECE.sub(lambda piece: new if piece[0] == old else piece[0], path)


def _neighboring_number(digits: str) -> str:
    """Return the next or previous number of the same length; most months and days stay valid."""
    number = int(digits)
    other = number - 1 if number % 10 > 1 or (number % 10 and number > 1) else number + 1
    return f"{other:0{len(digits)}d}"


def _shift_letters(name: str) -> str:
    """Return a name of the same length and case, with each letter replaced by the next one."""
    return "".join(_next_letter(letter) for letter in name)


def _next_letter(letter: str) -> str:
    if letter in "zZ":
        return "a" if letter == "z" else "A"
    return chr(ord(letter) + 1) if letter.isascii() else letter
