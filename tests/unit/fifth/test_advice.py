"""The formula of confidence, and the content of the retry context."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from assayd.model.finding import Finding
from assayd_fifth import judging
from assayd_fifth.analysis import analyze_program
from assayd_fifth.judging import build_feedback, compute_confidence
from assayd_fifth.language import get_language

Check = Callable[..., list[Finding]]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (": f ( -- ) cr ;", 1.0),
        (": a 1 ;", 0.9),
        (": a 1 ;\n: b 2 ;", 0.81),
        ("require x.fs\n: f ( -- ) help ;", 0.45),
        ("require x.fs\n: f ( -- ) help me ;", 0.225),
    ],
    ids=["clean", "one warning", "two warnings", "an unknown word", "two unknown words"],
)
def test_confidence_falls_by_warnings_and_unknown_words(check: Check, code: str, value: float) -> None:
    assert compute_confidence(check(code)) == pytest.approx(value)


def test_what_is_only_for_information_costs_no_confidence() -> None:
    found = analyze_program(": f ( row$ -- ) 0 sql-field type 2drop ;", libraries=["sql"]).findings[
        "structure"
    ]
    assert [finding.rule for finding in found] == ["structure.library_result"]
    assert compute_confidence(found) == 1.0


def test_feedback_of_a_failure_follows_what_was_found(check: Check) -> None:
    given = build_feedback(check(': f s" a" s" b" s+ ;'), get_language())
    assert given["add_emphasis"] == [
        "s+ is FORBIDDEN: build strings with str-reset, str+ and str$",
        "EVERY definition has a stack comment ( before -- after ) after its name",
    ]
    assert given["expand_sections"] == ["buffer_system", "stack_discipline"]
    assert given["priority_fixes"] == ["Buffer pattern not s+", "Stack effect comments"]
    assert given["notes"] == []


def test_profile_of_the_model_and_task_only_add_to_the_emphasis(check: Check) -> None:
    found = check(": f 1 drop ;")
    plain = build_feedback(found, get_language())
    steered = build_feedback(found, get_language(), model_source="openai/gpt4o-mini", task_type="html_pages")

    assert steered["priority_fixes"] == plain["priority_fixes"] == ["Stack effect comments"]
    added = set(steered["add_emphasis"]) - set(plain["add_emphasis"])
    assert any("text" in text for text in added)
    assert any("functions" in text for text in added)
    assert "html_output" in steered["expand_sections"]
    assert set(plain["lens_warnings"]) < set(steered["lens_warnings"])


def test_feedback_of_a_pass_has_notes_and_nothing_to_stress(check: Check) -> None:
    given = build_feedback(check(": a 1 ;"), get_language(), model_source="gpt-4", task_type="sql")
    assert given["add_emphasis"] == given["priority_fixes"] == given["lens_warnings"] == []
    assert given["notes"] == [
        "The program uses nothing forbidden",
        "Control words are balanced, and stack effects match the code",
        "Every used word exists",
    ]


def test_guide_has_every_section_that_a_rule_or_task_asks_for() -> None:
    rules = get_language().rules
    wanted = {rule.section for rule in (*rules.by_id.values(), *rules.run.values()) if rule.section}
    assert wanted | {section for task in rules.tasks for section in task.sections} <= set(
        get_language().guide
    )


def test_scaffolds_of_the_guide_use_words_that_exist() -> None:
    for section, text in get_language().guide.items():
        for scaffold in re.findall(r"`([^`…]*)`", text):
            code = scaffold.replace("['] row ", "['] noop ")
            found = analyze_program(code, libraries=["str", "html", "sql"]).findings.get("vocabulary", ())
            assert [one.message for one in found if one.rule == "vocabulary.unknown_word"] == [], section


def test_next_prompt_holds_the_sections_and_warnings_that_feedback_names(check: Check) -> None:
    given = build_feedback(check(': f s" a" s" b" s+ ;'), get_language(), model_source="gpt-4o")
    told = judging.describe_feedback(given, get_language())
    assert [line.partition(":")[0] for line in told if line.startswith("Guide")] == [
        "Guide, buffer system",
        "Guide, stack discipline",
    ]
    assert "Known from similar answers: Tends to s+." in told
    assert judging.describe_feedback(None, get_language()) == ()


def test_first_prompt_begins_with_what_the_task_needs_and_ends_with_the_slips_of_the_model() -> None:
    lens = judging.build_first_prompt_guide("qwen2", "html pages", get_language())
    assert lens[0].startswith("Guide, html output: ")
    assert lens[-1] == "Known from similar models: Allocates memory."
    assert [line.partition(":")[0] for line in judging.build_first_prompt_guide("", "", get_language())] == [
        "Guide, stack discipline",
        "Guide, syntax basics",
        "Guide, vocabulary",
        "Guide, definitions",
        "Guide, control flow",
    ]
