from __future__ import annotations

import pytest

from assayd.model.prompting import ExtractedField, ExtractedFields
from assayd_chains.fallback import (
    MOST_SHOWN,
    EarlierAttempt,
    OfferTrigger,
    build_fallback_offer,
    determine_offer_trigger,
)
from assayd_chains.model import Outcome

COMPUTED = ExtractedFields(
    texts=("/CLIENT-A/2024/x.csv", "/CLIENT-B/soon/y.csv"),
    fields=(
        ExtractedField(name="client", computed=False),
        ExtractedField(name="year", computed=False),
        ExtractedField(name="age", computed=True),
    ),
)
PLAIN = ExtractedFields(texts=COMPUTED.texts, fields=COMPUTED.fields[:2])


def tried(stage: str, *rules: str, cause: str | None = None) -> EarlierAttempt:
    return EarlierAttempt(
        cause=cause, report={"stage_reached": stage, "findings": [{"rule": rule} for rule in rules]}
    )


REFUSED, RAISED = tried("security"), tried("sandbox", "sandbox.raised")
LATE, CAUGHT = tried("sandbox", "sandbox.timeout"), tried("sandbox", cause="policy_violation")


@pytest.mark.parametrize(
    ("outcome", "tries", "taken", "trigger"),
    [
        (Outcome.EXHAUSTED, [RAISED, RAISED], COMPUTED, OfferTrigger.COMPUTED_FIELDS),
        (Outcome.STUCK, [RAISED, RAISED], COMPUTED, OfferTrigger.COMPUTED_FIELDS),
        (Outcome.EXHAUSTED, [RAISED, RAISED], PLAIN, None),
        (Outcome.PROVIDER_FAILED, [RAISED], COMPUTED, None),
        (Outcome.EXHAUSTED, [REFUSED, REFUSED], PLAIN, OfferTrigger.SECURITY),
        (Outcome.TERMINAL, [CAUGHT], PLAIN, OfferTrigger.SECURITY),
        (Outcome.PROVIDER_FAILED, [REFUSED], PLAIN, None),
        (Outcome.EXHAUSTED, [REFUSED, RAISED], PLAIN, None),
        (Outcome.EXHAUSTED, [RAISED, LATE], PLAIN, OfferTrigger.TIMEOUT),
        (Outcome.PROVIDER_FAILED, [LATE], PLAIN, OfferTrigger.TIMEOUT),
        (Outcome.TIMEOUT, [tried("sandbox", cause="timeout")], PLAIN, OfferTrigger.TIMEOUT),
        (Outcome.VALIDATED, [LATE], COMPUTED, None),
        (Outcome.CANCELLED, [LATE], COMPUTED, None),
    ],
)
def test_rules_are_offered_for_three_reasons(outcome, tries, taken, trigger) -> None:
    assert determine_offer_trigger(outcome, tries, taken) is trigger


def test_offer_says_what_its_rules_give_for_the_sample_paths() -> None:
    found = build_fallback_offer(OfferTrigger.COMPUTED_FIELDS, [RAISED], COMPUTED)
    assert list(found["notes"]) == ["year", "age"]
    assert "from: segment(-3)" in found["rules"]
    assert (found["trigger"], found["accepted_at"]) == ("computed_fields", None)
    assert found["applied"] == {
        "paths": 2,
        "complete": 2,
        "shown": [
            {"path": COMPUTED.texts[0], "fields": {"client": "A"}, "missing": []},
            {"path": COMPUTED.texts[1], "fields": {"client": "B"}, "missing": []},
        ],
    }


def test_offer_uses_what_an_attempt_gave() -> None:
    case = {"name": COMPUTED.texts[0], "status": "passed", "result": {"age": "A", "year": 2024}}
    report = {"stage_reached": "sandbox", "runtime_results": {"cases": [case]}}
    found = build_fallback_offer(OfferTrigger.TIMEOUT, [EarlierAttempt(cause=None, report=report)], COMPUTED)
    assert found["applied"]["complete"] == 1
    assert found["applied"]["shown"][0]["fields"] == {"client": "A", "year": 2024, "age": "A"}
    assert found["applied"]["shown"][1]["missing"] == ["year"]


def test_many_paths_are_counted_and_some_shown() -> None:
    many = ExtractedFields(texts=tuple(f"/CLIENT-{n}/x.csv" for n in range(100)), fields=PLAIN.fields[:1])
    applied = build_fallback_offer(OfferTrigger.TIMEOUT, [LATE], many)["applied"]
    assert (applied["paths"], len(applied["shown"])) == (100, MOST_SHOWN)


def test_without_a_single_field_nothing_is_offered() -> None:
    nothing = ExtractedFields(texts=("/a",), fields=(ExtractedField(name="b", computed=True),))
    assert build_fallback_offer(OfferTrigger.TIMEOUT, [LATE], nothing) is None
