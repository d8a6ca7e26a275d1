"""Decides the next step of a chain, and recognizes repeated failures. Performs no I/O.

    validated ────────────────────────────> stop: validated
    an end that code can't fix ───────────> stop: terminal
    timeout reached ──────────────────────> stop: timeout
    provider asked something in return ───> stop: question
    budget used up ───────────────────────> stop: exhausted
    same failure for the third time ──────> stop: stuck
    no submission has failed yet ─────────> ask: write
    last fix was a duplicate ─────────────> ask: different
    same failure for the second time ─────> ask: rethink
    otherwise ────────────────────────────> ask: fix

Source: docs/repair.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from assayd.model.report import Verdict
from assayd.model.run import Cause
from assayd_chains.model import Answer, Chain, ChainRound, Outcome, Strategy

TERMINAL_CAUSES = frozenset({Cause.POLICY_VIOLATION.value, Cause.INFRASTRUCTURE.value, Cause.CANCELLED.value})
"""Causes after which no fix is tried: a violated policy, an infrastructure error, or a cancellation."""

MAX_EQUAL_FAILURES = 3
"""Number of consecutive equal failures that end a chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProvider:
    """A decision to request an answer from the provider."""

    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StopChain:
    """A decision to end the chain."""

    outcome: Outcome
    detail: str | None = None


def decide_next_step(chain: Chain, now: datetime) -> AskProvider | StopChain:
    """Return the next step of a chain whose last attempt, if any, has a verdict."""
    outcome = _choose_outcome(chain, now)
    if outcome is None:
        return AskProvider(strategy=_choose_strategy(chain.round))
    return StopChain(outcome=outcome, detail=_describe_outcome(chain.round, outcome))


def _choose_outcome(chain: Chain, now: datetime) -> Outcome | None:
    """Return the outcome for the most important reason to stop, or None if there isn't a reason.

    Success takes precedence. A failure takes precedence over an exceeded limit, because it is more
    informative.
    """
    current = chain.round
    reasons = (
        (Outcome.VALIDATED, current.last is not None and current.last.verdict is Verdict.VALIDATED),
        (Outcome.TERMINAL, _has_terminal_cause(current)),
        (Outcome.TIMEOUT, now >= chain.ends_at),
        (Outcome.QUESTION, current.last is not None and current.last.is_question),
        (Outcome.EXHAUSTED, len(current.answers) >= chain.max_attempts),
        (Outcome.STUCK, _count_repeats(current.fingerprints) >= MAX_EQUAL_FAILURES),
    )
    return next((outcome for outcome, holds in reasons if holds), None)


def _choose_strategy(current: ChainRound) -> Strategy:
    if current.failure is None:
        return Strategy.WRITE
    if current.last is not None and current.last.duplicate:
        return Strategy.DIFFERENT
    return Strategy.RETHINK if _count_repeats(current.fingerprints) > 1 else Strategy.FIX


def _has_terminal_cause(current: ChainRound) -> bool:
    """Return whether the last attempt has an outcome that new code can't change."""
    ended = _find_last_judged_answer(current)
    if ended is None:
        return current.failure is not None and current.failure.cause in TERMINAL_CAUSES
    return ended.verdict in {Verdict.ERROR, Verdict.CANCELLED} or ended.cause in TERMINAL_CAUSES


def _find_last_judged_answer(current: ChainRound) -> Answer | None:
    return next((answer for answer in reversed(current.answers) if answer.verdict is not None), None)


def _describe_outcome(current: ChainRound, outcome: Outcome) -> str | None:
    """Return a sentence that explains an outcome to users, or None if there is nothing to explain."""
    if outcome is Outcome.QUESTION and current.last is not None:
        return current.last.text
    if current.failure is not None:
        problem = current.fixes[-1].problem if current.fixes else None
        return f"the last fix can't be used: {problem}" if problem else None
    ended = _find_last_judged_answer(current)
    if outcome is Outcome.TERMINAL and ended is not None and ended.verdict is not None:
        return f"the attempt ended as {ended.verdict.value}"
    details = {
        Outcome.TIMEOUT: describe_step_timeout(current),
        Outcome.EXHAUSTED: "no answer was a submission",
    }
    return details.get(outcome)


def describe_step_timeout(current: ChainRound) -> str:
    """Return the outcome detail of a round whose time ended during a step."""
    return f"the time for the {'generation' if current.failure is None else 'repair'} is over"


def _count_repeats(fingerprints: Sequence[str]) -> int:
    """Return the number of consecutive occurrences of the last failure."""
    count = 0
    for found in reversed(fingerprints):
        if found != fingerprints[-1]:
            break
        count += 1
    return count


FIRST = 5
"""Number of findings, and of cases, in a fingerprint; later ones are often consequences of the first."""

_VARYING_PATTERNS = (
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"), "…"),
    (re.compile(r"(?<![\w.])(?:\.{0,2}/)[^\s:,;]+"), "/"),
    (re.compile(r"0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?"), "0"),
    (re.compile(r"\s+"), " "),
)


def compute_fingerprint(report: Mapping[str, object]) -> str:
    """Return the SHA-256 digest that identifies the failure in a report in wire format.

    The digest covers rules, cases and the shape of messages, but not line numbers, because every fix
    changes line numbers.
    """
    parts = "\n".join("\t".join(part) for part in _iter_fingerprint_parts(report))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def remove_variable_parts(message: str) -> str:
    """Return a message without its variable parts: ``line 12: 'Q1' is bad`` -> ``line 0: … is bad``."""
    for pattern, blank in _VARYING_PATTERNS:
        message = pattern.sub(blank, message)
    return message.strip()


def _iter_fingerprint_parts(report: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    yield ("stage", str(report.get("stage_reached")))
    errors = [f for f in _filter_dicts(report.get("findings")) if f.get("severity") == "error"]
    for finding in errors[:FIRST]:
        yield ("finding", str(finding.get("rule")), remove_variable_parts(str(finding.get("message"))))
    runtime = report.get("runtime_results")
    cases = _filter_dicts(runtime.get("cases")) if isinstance(runtime, dict) else []
    for case in [case for case in cases if case.get("status") in {"failed", "error"}][:FIRST]:
        yield ("case", str(case.get("name")), str(case.get("error_type")))


def _filter_dicts(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
