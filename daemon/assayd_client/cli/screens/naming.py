"""Validates and proposes names of library entries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_WORDS = 4
_CHARS = 40
_SAY_LITTLE = """
a an and are as at be by can compute each every find for from get give gives has have i in into is it its me
must of on or out please return should take that the their them then this to what when which with write
"""
_FILLERS = frozenset(_SAY_LITTLE.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveTarget:
    """The name (chosen or proposed) under which to save the result, and the optional file."""

    name: str
    out: Path | None = None


def propose_name(intent: str, kind: str) -> str:
    """Return a name that consists of the first meaningful words, e.g. ``quarter_folder_start_end``."""
    words = [word for word in re.findall(r"[a-z0-9]+", intent.lower()) if word not in _FILLERS]
    name = "_".join(words[:_WORDS])[:_CHARS].strip("_")
    return name if NAME.fullmatch(name) else kind


def find_name_problem(name: str) -> str:
    """Return the reason why a name is invalid, or an empty string if the name is valid."""
    return "" if NAME.fullmatch(name) else "Use a-z, 0-9, _ and -, at most 64 characters."
