"""The benchmark's harder requests and repairs: their form, and that prompts exist for them."""

from __future__ import annotations

import json

import pytest
from bench.generate import intents
from bench.generate.chains import load
from bench.generate.intents import Intent
from bench.prompts import first_request
from bench.repair import cases
from bench.repair.cases import Case, merged

from assayd.kinds import registry


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(intents.hard()) >= 15
    assert len(cases.hard()) >= 10
    ids = [chain.id for chain in load()]
    assert len(ids) == len(set(ids)) == 80 + len(intents.hard()) + len(cases.hard())
    assert sum(one.startswith("request-") for one in ids) == 40 + len(intents.hard())


@pytest.mark.parametrize("intent", intents.hard(), ids=lambda one: one.name)
def test_right_answer_of_a_request_is_a_submission_and_no_prompt_has_it(intent: Intent) -> None:
    kind = registry.find_validator(intent.kind)
    context = kind.generation_context
    assert context is not None
    base = kind.base(context.model_validate_json(json.dumps(intent.context)))
    right = {name: part for name, part in intent.right.items() if name != "reason"}
    for hidden in ({}, intent.held_out):
        kind.payload.model_validate_json(json.dumps(merged(merged(base, right), hidden)))
    prompt = first_request(intent)
    assert json.dumps(right)[:200] not in prompt.user


@pytest.mark.parametrize("case", cases.hard(), ids=lambda one: one.name)
def test_texts_of_a_repair_differ_and_are_submissions(case: Case) -> None:
    assert case.broken != case.right
    for text in (case.broken, case.right):
        submission = case.submission(text)
        registry.find_validator(str(submission["kind"])).payload.model_validate_json(
            json.dumps(submission["payload"])
        )
