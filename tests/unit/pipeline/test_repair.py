from collections.abc import Mapping

from assayd.kinds import registry
from assayd.model.prompting import RepairContext, RetryBenefit

KIND = registry.find_validator("pipeline")
STEPS = [
    {"name": "clean", "type": "bash", "content": "grep -v , data/a.csv > tmp/a.csv"},
    {"name": "load", "type": "sql", "content": "SELECT 1"},
    {"name": "count", "type": "bash", "content": "x" * 5000},
]


def context_for(step: int, rule: str = "step.file_not_found", **more: object) -> RepairContext:
    label = f"Step {step} ({STEPS[step - 1]['name']})"
    payload = KIND.payload.model_validate({"steps": STEPS, **more})
    finding: Mapping[str, object] = {"severity": "error", "rule": rule, "message": f"{label}: it failed"}
    report = {"stage_reached": "sandbox", "findings": [finding], "retry_context": "data/b.csv is missing"}
    return KIND.context(payload, report)  # type: ignore[attr-defined, no-any-return]


def test_all_other_steps_are_shown_and_long_ones_say_how_much_of_them() -> None:
    titles = [one.title for one in context_for(1).surroundings]
    assert titles == ["Step 2 (load), sql", "Step 3 (count), bash, first 4000 of 5000 characters"]


def test_only_files_that_step_or_failure_names_are_shown_in_full() -> None:
    files = {"data/a.csv": "a\n" * 1000, "data/b.csv": "b\n", "data/c.csv": "c\n"}
    shown = {one.title: one.text for one in context_for(1, files=files).surroundings}
    assert len(shown["file data/a.csv (first 1024 of 2000 bytes)"]) == 1024
    assert shown["file data/b.csv (2 bytes)"] == "b\n"
    assert shown["other files, not shown"] == "data/c.csv"


def test_tables_are_shown_to_sql_steps_alone() -> None:
    database = {"schema_sql": "CREATE TABLE t (a);"}
    tables = [
        step
        for step in (1, 2)
        if any(one.title == "tables" for one in context_for(step, database=database).surroundings)
    ]
    assert tables == [2]


def test_approach_is_in_question_after_a_wrong_result_or_a_limit_and_not_after_a_slip() -> None:
    assert context_for(1).worth is RetryBenefit.HIGH
    assert context_for(1, "step.timeout").worth is RetryBenefit.MEDIUM
    assert context_for(2, "step.data_validation").worth is RetryBenefit.MEDIUM
