"""Explains how a unit that timed out spent its time: computing, waiting, or starved of processor time.

    while True: pass        … ran out of time (limit 5 s): it used 5 s of processor time.
    time.sleep(60)          … (limit 5 s): it waited 5 s without computing (a sleep, a lock or a read?).
    (a very busy machine)   … (limit 5 s): it waited 14 s for a processor.

It decides nothing. Figures have two digits, so that a repeated run reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from assayd.findings.runs import cause_finding
from assayd.findings.source_text import snippet
from assayd.model.finding import Finding
from assayd.model.run import Cause, UnitEnd, UnitResult
from assayd.model.text_limits import shorten

COMPUTING = "Look for a loop that never ends, or a pattern that backtracks."
WAITING = "Look for a sleep, a lock or a read that never ends."
STARVED = "The machine was busy. Submit it again, or start fewer processes."
_SHARE = 0.2
_MOST_OF_IT = 0.5
_LOOP = re.compile(r"\s*while\b")
_MOST_LOOPS = 3
_MOST_LINES = 5000
"""Loops are shown only for shorter sources: each unit that timed out scans all lines."""
_THREADS = (
    "A running thread keeps the program from ending. Stop it (put None into its queue), "
    "or start it with daemon=True. Otherwise look for a sleep, a lock or a read that never ends."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShare:
    """A share of the unit's time, with its wording and its fix."""

    seconds: float
    words: str
    hint: str


def timeout_finding(unit: UnitResult, what: str) -> Finding:
    """Return the finding for a unit that reached its time limit. Args: what: the subject of the sentence."""
    return replace(
        cause_finding(Cause.TIMEOUT, what),
        message=shorten(f"{what} ran out of time ({_format_limit(unit)}){describe_time_use(unit)}."),
        suggestion=time_hint(unit),
    )


def describe_time_use(unit: UnitResult) -> str:
    """Return how the time was spent, as the end of a sentence; empty if unknown."""
    said = [f"{spent.words.format(f'{spent.seconds:.2g} s')}" for spent in _time_shares(unit)]
    return f": it {' and '.join(said)}" if said else ""


def time_hint(unit: UnitResult) -> str:
    """Return the fix for a timeout, by what took most of the time."""
    return next((spent.hint for spent in _time_shares(unit)), COMPUTING)


def _format_limit(unit: UnitResult) -> str:
    whole = unit.end is UnitEnd.INTERRUPTED
    limit_s = unit.outcome.evidence.get("timeout_s" if whole else "limit_s")
    said = f" {limit_s:.3g} s" if isinstance(limit_s, float | int) else " of the unit" * (not whole)
    return f"limit of the whole attempt{',' * bool(said)}{said}" if whole else f"limit{said}"


def _time_shares(unit: UnitResult) -> Iterator[TimeShare]:
    """Yield what most of the time was spent on, the largest part first."""
    usage = unit.usage
    parts: tuple[TimeShare, ...] = (
        TimeShare(seconds=usage.cpu_s, words="used {} of processor time", hint=COMPUTING),
        TimeShare(
            seconds=usage.waited_s,
            words="waited {} without computing (a sleep, a lock or a read?)",
            hint=WAITING,
        ),
        TimeShare(seconds=usage.starved_s, words="waited {} for a processor", hint=STARVED),
    )
    whole_s = sum(part.seconds for part in parts)
    limit_s = unit.outcome.evidence.get("limit_s")
    own_s = usage.cpu_s + usage.waited_s
    if isinstance(limit_s, float | int) and own_s > limit_s * _MOST_OF_IT:
        parts, whole_s = parts[:2], own_s  # It would also have reached its limit on an idle machine.
    for part in sorted(parts, key=lambda part: -part.seconds):
        # Waiting for a processor doesn't count against the limit; it is the reason only if it took most of
        # the time.
        if part.seconds > whole_s * (_MOST_OF_IT if part.hint is STARVED else _SHARE):
            yield part


def add_endless_parts(finding: Finding, text: str) -> Finding:
    """Add the parts of a Python source that may never end: its `while` loops or its threads."""
    if finding.suggestion == WAITING and "threading.Thread(" in text:
        return replace(finding, suggestion=_THREADS)
    if finding.suggestion != COMPUTING or text.count("\n") >= _MOST_LINES:
        return finding
    lines = [number for number, line in enumerate(text.split("\n"), 1) if _LOOP.match(line)]
    if not 0 < len(lines) <= _MOST_LOOPS:
        return finding
    shown = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    line = lines[0] if len(lines) == 1 else None
    words = f"Check the loop on {shown}: every iteration must move closer to its exit condition."
    return replace(finding, suggestion=words, line=line, snippet=snippet(text, line))
