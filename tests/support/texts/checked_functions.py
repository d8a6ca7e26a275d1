"""Functions with their checks in one script, as benchmarks of code models have them; ours, for Python 3.9 and later.

Each has the function, what of it is to be exchanged so that it is wrong, and the check that then fails.
"""  # noqa: E501 - it stands alone

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFunction:
    """A correct script; `slip` is a piece of it and its faulty replacement."""

    name: str
    text: str
    slip: tuple[str, str]

    @property
    def wrong(self) -> str:
        """Return the script with the fault."""
        assert self.text.count(self.slip[0]) == 1, self.name
        return self.text.replace(*self.slip)


_TABLE: dict[str, tuple[tuple[str, str], str]] = {
    "longest_run": (
        ("run + 1 if", "run + 2 if"),
        '''
def longest_run(numbers: list) -> int:
    """Length of the longest stretch of equal neighbours."""
    best = run = 0
    for before, after in zip([None] + numbers, numbers):
        run = run + 1 if before == after else 1
        best = max(best, run)
    return best

def check(candidate):
    assert candidate([]) == 0
    assert candidate([1, 1, 2, 2, 2, 1]) == 3
    assert candidate([5]) == 1

check(longest_run)
''',
    ),
    "pair_with_sum": (
        ("seen[wanted], place", "place, seen[wanted]"),
        '''
from typing import List, Optional, Tuple

def pair_with_sum(numbers: List[int], total: int) -> Optional[Tuple[int, int]]:
    """Places of the first two numbers that add up to a total."""
    seen = {}
    for place, number in enumerate(numbers):
        wanted = total - number
        if wanted in seen:
            return seen[wanted], place
        seen[number] = place
    return None

def check(candidate):
    assert candidate([3, 9, 4, 1], 13) == (1, 2)
    assert candidate([], 0) is None
    assert candidate([4, 4], 8) == (0, 1)

check(pair_with_sum)
''',
    ),
    "balanced": (
        ("return not open_ones", "return True"),
        '''
def balanced(text: str) -> bool:
    """Whether each bracket is closed by its own kind."""
    pairs, open_ones = {")": "(", "]": "[", "}": "{"}, []
    for sign in text:
        if sign in pairs.values():
            open_ones.append(sign)
        elif sign in pairs and (not open_ones or open_ones.pop() != pairs[sign]):
            return False
    return not open_ones

def check(candidate):
    assert candidate("{[()]} a (b)")
    assert not candidate("([)]")
    assert not candidate("((")

check(balanced)
''',
    ),
    "caesar": (
        ("% 26", "% 25"),
        '''
def caesar(text: str, by: int) -> str:
    """Move each small letter on by some places."""
    return "".join(chr((ord(c) - 97 + by) % 26 + 97) if "a" <= c <= "z" else c for c in text)

def check(candidate):
    assert candidate("xyz!", 3) == "abc!"
    assert candidate(candidate("hello there", 5), -5) == "hello there"

check(caesar)
''',
    ),
    "median": (
        ("(ordered[half - 1] + ordered[half]) / 2", "ordered[half]"),
        '''
def median(values: list) -> float:
    """The middle of some values, or the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

def check(candidate):
    assert candidate([3, 1, 2]) == 2
    assert abs(candidate([0.5, 4, 1, 2]) - 1.5) < 1e-9

check(median)
''',
    ),
    "roman": (
        ("(4, 'IV'), ", ""),
        """
def roman(number: int) -> str:
    signs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),
             (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
    text = ''
    for worth, sign in signs:
        count, number = divmod(number, worth)
        text += sign * count
    return text

def check(candidate):
    assert candidate(1994) == 'MCMXCIV'
    assert candidate(4) == 'IV'

check(roman)
""",
    ),
    "primes_below": (
        ("step * step", "step * 3"),
        """
import math

def primes_below(limit: int) -> list:
    sieve = [True] * max(limit, 2)
    sieve[0] = sieve[1] = False
    for step in range(2, math.isqrt(max(limit - 1, 0)) + 1):
        for place in range(step * step, limit, step):
            sieve[place] = False
    return [number for number in range(limit) if sieve[number]]

def check(candidate):
    assert candidate(20) == [2, 3, 5, 7, 11, 13, 17, 19]
    assert candidate(2) == []
    assert len(candidate(10_000)) == 1229

check(primes_below)
""",
    ),
    "words_by_count": (
        ("-pair[1]", "pair[1]"),
        """
import re
from collections import Counter

def words_by_count(text: str) -> list:
    counts = Counter(re.findall(r"[a-z]+", text.lower()))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

def check(candidate):
    assert candidate("To be, or not to be") == [("be", 2), ("to", 2), ("not", 1), ("or", 1)]
    assert candidate("") == []

check(words_by_count)
""",
    ),
    "spiral": (
        ("[::-1]", ""),
        """
def spiral(rows: list) -> list:
    seen = []
    while rows:
        seen += rows[0]
        rows = [list(column) for column in zip(*rows[1:])][::-1]
    return seen

def check(candidate):
    assert candidate([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == [1, 2, 3, 6, 9, 8, 7, 4, 5]
    assert candidate([]) == []

check(spiral)
""",
    ),
    "edit_distance": (
        ("above[place] + (a != b)", "above[place] + 1"),
        """
def edit_distance(left: str, right: str) -> int:
    above = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        line = [row]
        for place, b in enumerate(right):
            line.append(min(above[place + 1] + 1, line[place] + 1, above[place] + (a != b)))
        above = line
    return above[-1]

def check(candidate):
    assert candidate("kitten", "sitting") == 3
    assert candidate("", "abc") == 3

check(edit_distance)
""",
    ),
}

CHECKED_FUNCTIONS = [
    CheckedFunction(name=name, text=text, slip=slip) for name, (slip, text) in _TABLE.items()
]
