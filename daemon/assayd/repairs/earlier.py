"""Decides what the next prompt says of earlier answers. Pure.

An answer is shown as failed only if a fault of the passage in question outlived it. One that cleared its
fault is named in a line with the rules that it cleared: its change is part of the code, and must stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from assayd.model.repair import Fix

_RULE = re.compile(r"^\d+\. .*\[([a-z_]+(?:\.[a-z_]+)+)\]$", re.MULTILINE)
"""The rule at the end of a finding's first line, as findings/retry_context.py writes it."""

NO_PROBLEMS: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswer:
    """An earlier answer, its reason, and what was found after it.

    `cleared` are the rules that it put right. `failed` says whether a fault of the passage in question
    outlived it; `is_passage` whether it is the passage that is shown anyway.
    """

    number: int
    text: str
    reason: str
    failure: str
    cleared: tuple[str, ...] = ()
    failed: bool = True
    is_passage: bool = False


def earlier_answers(
    fixes: Sequence[Fix],
    failure: str,
    *,
    name: str = "",
    text: str = "",
    problems: Mapping[int, str] = NO_PROBLEMS,
) -> list[EarlierAnswer]:
    """Return the answers so far.

    Args:
        fixes: the fixes so far.
        failure: the newest failure.
        name: the passage in question.
        text: its text.
        problems: why fixes could not be used, by number.
    """
    found = [*(fix.error for fix in fixes), failure]
    return [
        _unusable(fix, problems[fix.number])
        if fix.number in problems
        else _earlier(fix, found[n], found[n + 1], name, text)
        for n, fix in enumerate(fixes)
    ]


def _unusable(fix: Fix, problem: str) -> EarlierAnswer:
    failure = f"The answer could not be used: {problem}"
    return EarlierAnswer(number=fix.number, text=fix.patched_code, reason=fix.reason, failure=failure)


def _earlier(fix: Fix, before: str, after: str, name: str, text: str) -> EarlierAnswer:
    had, has = rules_in(before), rules_in(after)
    cleared = () if fix.duplicate else tuple(rule for rule in had if rule not in has)
    elsewhere = fix.form == "code" and bool(name) and fix.passage != name
    return EarlierAnswer(
        number=fix.number,
        text=fix.patched_code,
        reason=fix.reason,
        failure=after,
        cleared=cleared,
        failed=not elsewhere and (not had or len(cleared) < len(had)),
        is_passage=fix.patched_code.strip() == text.strip(),
    )


def rules_in(failure: str) -> tuple[str, ...]:
    """Return the rules that a failure names, each once."""
    return tuple(dict.fromkeys(_RULE.findall(failure)))
