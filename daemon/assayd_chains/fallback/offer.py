"""Decides whether to offer rules instead of code, and formulates the offer. Performs no I/O.

    the policy refused every attempt ────────────────> security: rules run no code
    the last attempt timed out ──────────────────────> timeout: rules need no run time
    fixes used up, and a field is computed ──────────> computed_fields: rules extract the other fields

Source: docs/repair.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assayd.kinds.extractor.rules import apply, read, write
from assayd.model.prompting import Taken
from assayd.model.run import Cause
from assayd_chains.fallback.infer import draft
from assayd_chains.model import Outcome

Report = Mapping[str, object]

MOST_SHOWN = 20
"""So many paths are shown with what the rules give for them; counted are all."""
_GIVEN_UP = frozenset({Outcome.EXHAUSTED, Outcome.STUCK})
_NEVER = frozenset({Outcome.VALIDATED, Outcome.CANCELLED})


class Trigger(StrEnum):
    """The reason why fallback rules are offered."""

    SECURITY = "security"
    """The policy refused every attempt."""
    TIMEOUT = "timeout"
    """The code exceeds its time limit."""
    COMPUTED_FIELDS = "computed_fields"
    """All fixes failed, and a field is computed, which is where code fails most."""


_REASONS = {
    Trigger.SECURITY: "The policy refused every attempt. Rules need no code.",
    Trigger.TIMEOUT: "The code exceeds its time limit. Rules need no code.",
    Trigger.COMPUTED_FIELDS: "No fix worked. Rules can extract fields that aren't computed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    """An attempt of a repair, with its cause and its report."""

    cause: str | None
    report: Report


def trigger_of(outcome: Outcome, tries: Sequence[EarlierAttempt], taken: Taken) -> Trigger | None:
    """Return the reason for an offer of rules, or None if rules aren't to be offered."""
    if outcome in _NEVER or not tries:
        return None
    retried = len(tries) > 1 or outcome is Outcome.TERMINAL
    if retried and all(_violates_policy(one) for one in tries):
        return Trigger.SECURITY
    if _has_timed_out(tries[-1]):
        return Trigger.TIMEOUT
    if outcome in _GIVEN_UP and any(field.computed for field in taken.fields):
        return Trigger.COMPUTED_FIELDS
    return None


def offer(trigger: Trigger, tries: Sequence[EarlierAttempt], taken: Taken) -> Mapping[str, object] | None:
    """Return the offer, or None if no rule was found for any field."""
    text = write(draft(taken.texts, taken.fields, _known_values(tries)))
    rules = read(text)
    if not rules.extract:
        return None
    applied = [(path, *apply(rules, path)) for path in taken.texts]
    return {
        "trigger": trigger.value,
        "reason": _REASONS[trigger],
        "rules": text,
        "notes": dict(rules.notes),
        "applied": {
            "paths": len(applied),
            "complete": sum(not missing for _, _, missing in applied),
            "shown": [
                {"path": path, "fields": dict(fields), "missing": list(missing)}
                for path, fields, missing in applied[:MOST_SHOWN]
            ],
        },
        "accepted_at": None,
        "attempt_id": None,
    }


def _violates_policy(tried: EarlierAttempt) -> bool:
    return tried.cause == Cause.POLICY_VIOLATION.value or tried.report.get("stage_reached") == "security"


def _has_timed_out(tried: EarlierAttempt) -> bool:
    rules = (finding.get("rule") for finding in _get_objects(tried.report.get("findings")))
    return tried.cause == Cause.TIMEOUT.value or any(str(rule).endswith(".timeout") for rule in rules)


def _known_values(tries: Sequence[EarlierAttempt]) -> Mapping[str, Mapping[str, object]]:
    """Return the values that attempts extracted from each path. Later attempts take precedence."""
    known: dict[str, Mapping[str, object]] = {}
    for tried in tries:
        results = tried.report.get("runtime_results")
        for case in _get_objects(results.get("cases") if isinstance(results, dict) else None):
            result = case.get("result")
            if case.get("status") == "passed" and isinstance(result, dict):
                known[str(case.get("name"))] = result
    return known


def _get_objects(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
