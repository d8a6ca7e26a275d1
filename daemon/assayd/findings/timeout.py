"""Explains how a unit that timed out spent its time: computing, waiting, or in run-queue delay.

    while True: pass        … ran out of time (limit 5 s): it used 5 s of processor time.
    time.sleep(60)          … (limit 5 s): it waited 5 s without computing.
    (a very busy machine)   … (limit 5 s): it computed for 0.9 s and waited 14 s for a processor.

On a busy host, an endless loop looks like a program that only waits. Therefore, the suggestion always names
the loops of the source. The explanation affects no decision. Figures have two digits, so that repeated runs
produce the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assayd.findings.runs import cause_finding
from assayd.findings.source_text import snippet
from assayd.model.finding import Finding
from assayd.model.run import Cause, UnitEnd, UnitResult
from assayd.model.text_limits import shorten

COMPUTING = "Look for a loop that never ends, or a pattern that backtracks."
WAITING = "Look for a sleep, a lock or a read that never ends."
STARVED = "The machine was busy. Submit it again, or start fewer processes."
SLOWED = "Check that each loop ends. If each does, submit it again: the machine was busy."
_AFTER_LOOP = {
    WAITING: "look for a sleep, a lock or a read that never ends",
    STARVED: "submit it again: the machine was busy",
    SLOWED: "submit it again: the machine was busy",
}
"""What to do if the loops end, by the suggestion for a source without loops."""
_SHARE = 0.2
_MOST_OF_IT = 0.5
_NOTICEABLE = 0.02
"""The share of computing from which a unit that waited for a processor may be in an endless loop."""
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
    """A share of the unit's time, with the wording and the fix for it."""

    seconds: float
    words: str
    hint: str


def timeout_finding(unit: UnitResult, what: str) -> Finding:
    """Return the finding for a unit that reached its time limit. Args: `what` is the sentence's subject."""
    return replace(
        cause_finding(Cause.TIMEOUT, what),
        message=shorten(f"{what} ran out of time ({_format_limit(unit)}){describe_time_use(unit)}."),
        suggestion=time_hint(unit),
    )


def describe_time_use(unit: UnitResult) -> str:
    """Return a description of how the time was spent, as the end of a sentence; empty if unknown."""
    said = [spent.words.format(f"{spent.seconds:.2g} s") for spent in _time_shares(unit)]
    return f": it {' and '.join(said)}" if said else ""


def time_hint(unit: UnitResult) -> str:
    """Return the fix for a timeout, based on what took most of the time."""
    return next((spent.hint for spent in _time_shares(unit)), COMPUTING)


def _format_limit(unit: UnitResult) -> str:
    whole = unit.end is UnitEnd.INTERRUPTED
    limit_s = unit.outcome.evidence.get("timeout_s" if whole else "limit_s")
    said = f" {limit_s:.3g} s" if isinstance(limit_s, float | int) else " of the unit" * (not whole)
    return f"limit of the whole attempt{',' * bool(said)}{said}" if whole else f"limit{said}"


def _time_shares(unit: UnitResult) -> Iterator[TimeShare]:
    """Yield the largest shares of the time in descending order; computing precedes run-queue delay."""
    usage = unit.usage
    parts: tuple[TimeShare, ...] = (
        TimeShare(seconds=usage.cpu_s, words="used {} of processor time", hint=COMPUTING),
        TimeShare(seconds=usage.waited_s, words="waited {} without computing", hint=WAITING),
        TimeShare(seconds=usage.starved_s, words="waited {} for a processor", hint=STARVED),
    )
    whole_s = sum(part.seconds for part in parts)
    limit_s = unit.outcome.evidence.get("limit_s")
    own_s = usage.cpu_s + usage.waited_s
    if isinstance(limit_s, float | int) and own_s > limit_s * _MOST_OF_IT:
        parts, whole_s = parts[:2], own_s  # It would also have reached its limit on an idle machine.
    # Waiting for a processor doesn't count against the limit; it is the reason only if it took most of it.
    if parts[-1].hint is STARVED and parts[-1].seconds > whole_s * _MOST_OF_IT:
        if usage.cpu_s > whole_s * _NOTICEABLE:
            yield TimeShare(seconds=usage.cpu_s, words="computed for {}", hint=SLOWED)
        yield parts[-1]
        parts = parts[1:2]
    for part in sorted(parts, key=lambda part: -part.seconds):
        if part.hint is not STARVED and part.seconds > whole_s * _SHARE:
            yield part


def add_endless_parts(finding: Finding, text: str) -> Finding:
    """Add the parts of a Python source that can run endlessly: its `while` loops or its threads."""
    if finding.suggestion == WAITING and "threading.Thread(" in text:
        return replace(finding, suggestion=_THREADS)
    if text.count("\n") >= _MOST_LINES:
        return finding
    return add_loops(finding, text, [n for n, line in enumerate(text.split("\n"), 1) if _LOOP.match(line)])


def add_loops(finding: Finding, text: str, lines: Sequence[int]) -> Finding:
    """Name the loops on `lines` of `text` as the first cause, and place the finding at the only one."""
    if not lines and finding.suggestion == SLOWED:
        return replace(finding, suggestion=STARVED)
    if not 0 < len(lines) <= _MOST_LOOPS:
        return finding
    one = len(lines) == 1
    line = lines[0] if one else None
    shown = f"{'loop on line' if one else 'loops on lines'} {', '.join(map(str, lines))}"
    after = _AFTER_LOOP.get(finding.suggestion or "")
    words = f"Check the {shown}: every iteration must move closer to its exit condition."
    if after is not None:
        ends, does = ("ends", "it does") if one else ("end", "they do")
        words = f"Check that the {shown} {ends}. If {does}, {after}."
    return replace(finding, suggestion=words, line=line, snippet=snippet(text, line))
