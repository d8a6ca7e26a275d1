"""The benchmark: what an attempt costs, beside what the engine alone costs, in one run."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeVar

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(os.environ.get("BENCH_RESULTS", ROOT / "bench/results"))
"""Folder for figures; BENCH_RESULTS names another one."""
PAGES = Path(os.environ.get("BENCH_PAGES", ROOT / "docs"))
"""Folder for pages and charts made of them; BENCH_PAGES names another one."""
ROUGH = "BENCH_ROUGH" in os.environ
"""Skip warm-ups, pauses and repetitions: for tests of the scripts, where figures don't count."""


class _OfKind(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def cheat(self) -> str | None: ...


One = TypeVar("One", bound=_OfKind)


def at_most(cases: Iterable[One], each: int | None) -> list[One]:
    """Return so many cases of each kind, first those with a cheat; all for None."""
    if each is None:
        return list(cases)
    counts: Counter[str] = Counter()
    kept = []
    for case in sorted(cases, key=lambda one: not one.cheat):
        counts[case.kind] += 1
        if counts[case.kind] <= each:
            kept.append(case)
    return kept
