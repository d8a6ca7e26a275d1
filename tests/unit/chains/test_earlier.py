"""Which earlier answers count as failed for the current passage."""

from datetime import UTC, datetime

from assayd.model.prompting import RepairContext, SourcePart
from assayd_chains.model import Answer, Strategy
from assayd_chains.prompts import build_fix_prompt, extract_rule_ids, list_earlier_answers

REPLACE = "Refused:\n\n1. line 2: Step 2 (load): REPLACE deletes rows [sql.replace]\n   Fix: …\n"
MISSING = "Failed:\n\n1. \u201cStep 3 (count): wc: data/x [a.b]: No such file\u201d [step.file_not_found]\n"


def fix(number: int, error: str, passage: str = "2", **more: object) -> Answer:
    given = {"strategy": Strategy.FIX, "asked_at": datetime(2026, 5, 4, tzinfo=UTC), "digest": str(number)}
    return Answer(
        number=number,
        error=error,
        reason=f"reason {number}",
        passage=passage,
        text=f"answer {number}",
        **{**given, **more},
    )


def test_rules_are_those_at_the_end_of_findings_and_not_those_in_what_code_wrote() -> None:
    assert extract_rule_ids(REPLACE) == ("sql.replace",)
    assert extract_rule_ids(MISSING) == ("step.file_not_found",)


def test_answer_that_cleared_its_failure_has_not_failed() -> None:
    (answer,) = list_earlier_answers([fix(1, REPLACE)], MISSING, name="3", text="wc data/x")
    assert (answer.cleared, answer.failed) == (("sql.replace",), False)


def test_answer_for_another_passage_has_not_failed_on_this_one() -> None:
    (answer,) = list_earlier_answers([fix(1, MISSING, passage="2")], MISSING, name="3", text="wc data/x")
    assert (answer.cleared, answer.failed) == ((), False)


def test_answer_whose_fault_is_found_again_has_failed() -> None:
    (answer,) = list_earlier_answers([fix(1, REPLACE)], REPLACE, name="2", text="answer 1\n")
    assert (answer.cleared, answer.failed, answer.is_passage) == ((), True, True)


def test_duplicate_clears_nothing() -> None:
    (answer,) = list_earlier_answers([fix(1, REPLACE, duplicate=True)], MISSING, name="2")
    assert (answer.cleared, answer.failed) == ((), True)


def test_prompt_names_what_was_cleared_and_does_not_call_it_failed() -> None:
    context = RepairContext(
        passage=SourcePart(name="3", language="bash", text="wc data/x"), failure=MISSING, instructions=()
    )
    earlier = list_earlier_answers([fix(1, REPLACE)], MISSING, name="3", text="wc data/x")
    user = build_fix_prompt(context, Strategy.FIX, earlier=earlier).user
    assert "Answer 1 cleared sql.replace." in user
    assert "FAILED; DO NOT REPEAT" not in user
    assert "answer 1" not in user
