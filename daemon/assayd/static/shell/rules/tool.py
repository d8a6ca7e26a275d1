"""What is known of one tool: its options, and which of its arguments are paths."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from assayd.static.shell.parse.options import Syntax


class Operands(StrEnum):
    """What the operands of a tool are."""

    FILES = "files"
    """Files that are read."""
    TEXT = "text"
    """Text: no operand is a path."""
    LAST_WRITTEN = "last_written"
    """Files; the last is where it writes."""
    SECOND_WRITTEN = "second_written"
    """A file that is read, and one that is written."""
    PATTERN_FIRST = "pattern_first"
    """A pattern, unless an option gave one, then files."""
    ALL_WRITTEN = "all_written"
    """Files that are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool.

    `reads` and `writes` name options whose value is a path; `patterns` those that stand in for a first
    operand; `targets` those that name the folder to write to, so that all operands are read; `texts` those
    that make all operands plain text.
    """

    syntax: Syntax
    operands: Operands = Operands.FILES
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
