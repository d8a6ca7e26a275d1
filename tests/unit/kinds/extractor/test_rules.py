import pytest
import yaml

from assayd.analysis.worker import run_stages
from assayd.kinds.extractor.rules import (
    FieldRule,
    RuleSet,
    Type,
    apply_rules,
    check_rules,
    extract_rules_text,
    parse_rules,
    render_python,
    render_rules,
)
from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.report import StageStatus
from assayd.model.run import Limits

LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"
RULES = RuleSet(
    extract={
        "client_id": FieldRule(source="segment(-4)", pattern="CLIENT-(.*)"),
        "year": FieldRule(source="segment(-3)", type=Type.INTEGER),
        "quarter": FieldRule(source="segment(-2)", pattern=r"Q(\d)", type=Type.INTEGER),
    },
    notes={"start_month": "NOTE: computed"},
)


def test_rules_take_segments_counted_from_the_end() -> None:
    assert apply_rules(RULES, PATH) == ({"client_id": "ABC", "year": 2024, "quarter": 1}, ())


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/data/OTHER/2024/Q1/a.csv", ("client_id",)),
        ("/data/CLIENT-A/now/Q10/a.csv", ("year", "quarter")),
        ("a.csv", ("client_id", "year", "quarter")),
        ("/CLIENT-A/٢٠٢٤/Q٣/a.csv", ("year", "quarter")),
    ],
)
def test_rule_that_does_not_fit_gives_nothing(path: str, missing: tuple[str, ...]) -> None:
    assert apply_rules(RULES, path)[1] == missing


def test_rules_are_yaml_that_any_library_reads() -> None:
    text = render_rules(RULES)
    assert yaml.safe_load(text)["extract"]["year"] == {"from": "segment(-3)", "type": "integer"}
    assert list(yaml.safe_load(text)) == ["extract", "notes"]
    assert parse_rules(text) == RULES


def test_text_of_a_stranger_stays_text() -> None:
    name = "x: !!python/object/apply:os.system [id]\n# \x1b[2J"
    hostile = RuleSet(extract={name: FieldRule(source="segment(-1)")})
    text = render_rules(hostile)
    assert text.isascii()
    assert "\x1b" not in text
    assert parse_rules(text) == hostile


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "extract: 1",
        "extract: {a: {from: segment(0)}}",
        "extract: {a: {from: segment(-1), pattern: '('}}",
        "extract: {a: {from: segment(-1), pattern: 'no group'}}",
        "extract: {a: {from: segment(-1), more: 1}}",
        "!!python/object/apply:os.getcwd []",
    ],
)
def test_what_are_no_rules_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid extraction rules"):
        parse_rules(text)


TEXT = render_rules(RULES)


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "/data/OTHER/2024/Q1/a.csv",
        "/data/CLIENT-A/now/Q10/a.csv",
        "a.csv",
        "/CLIENT-A/٢٠٢٤/Q٣/a.csv",
        "//CLIENT-A//0012//Q3//a.csv",
    ],
)
def test_python_of_rules_gives_what_the_rules_give(path: str) -> None:
    names: dict[str, object] = {}
    exec(render_python(TEXT), names)

    assert names["extract"](path) == apply_rules(RULES, path)[0]  # type: ignore[operator]


@pytest.mark.parametrize(
    "answer",
    [TEXT, "\ufeff# reports\r\n" + TEXT, f"---\n{TEXT}", f"These rules:\n\n```yaml\n{TEXT}```\nDone."],
)
def test_rules_are_found_in_an_answer(answer: str) -> None:
    found = extract_rules_text(answer)

    assert found is not None
    assert parse_rules(found) == RULES


@pytest.mark.parametrize(
    "answer",
    [
        f'"""Rules:\n\n```yaml\n{TEXT}```\n"""\ndef extract(path):\n    return {{}}\n',
        "def extract(path):\n    return {}\n",
        "extract: dict = {}\n",
        "```yaml\nname: x\n```",
        "",
        "# only\n",
    ],
)
def test_other_text_is_not_rules(answer: str) -> None:
    assert extract_rules_text(answer) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("extract:\n  a: {from: segment(1)}\n", 2, "extract.a.from"),
        ("extract:\n  a: {from: segment(-1)}\n  b:\n    from: segment(-1)\n    pattern: Q(\n", 5, "pattern"),
        ("extract:\n  a: {from: segment(-1), pattern: Q}\n", 2, "0 groups"),
        ("extract:\n  a: [\n", 3, "aren't valid YAML"),
        ("extract: {}\n", 1, "name no field"),
        ("extract:\n  a: {from: segment(-1)}\nmore: 1\n", 3, "more"),
        ("extract:\n" + "  a: {from: segment(-1)}\n" * 5000, 1, "the limit is 65536"),
        ("extract:\n  a: " + "[" * 30_000 + "\n", 1, "aren't valid YAML"),
        ("extract:\n  a: !!bool x\n", 2, "tags aren't allowed"),
        ("extract:\n  a: !!int ''\n", 2, "tags aren't allowed"),
        ("extract:\n  a: !!timestamp x\n", 2, "tags aren't allowed"),
        ("extract:\n  a: &a {from: segment(-1)}\n  b: *a\n", 3, "aliases aren't allowed"),
        ("extract:\n  a: {<<: {from: segment(-1)}}\n", 2, "merge keys aren't allowed"),
        ("extract:\n  a: 2024-13-45\n", 1, "aren't valid YAML"),
    ],
)
def test_invalid_rules_are_refused_with_their_line(text: str, line: int, message: str) -> None:
    found = list(check_rules(text))

    assert [finding.rule for finding in found] == ["rules.invalid"]
    assert (found[0].line, message in found[0].message) == (line, True), found[0].message


def test_valid_rules_have_no_findings() -> None:
    assert list(check_rules(TEXT)) == []


def test_rules_pass_the_static_stages_and_are_run_as_python(extractor_policy) -> None:
    payload = ExtractorPayload(code=TEXT, sample_paths=(PATH,))

    stages = run_stages(validator, payload, extractor_policy)

    assert {stage.status for stage in stages} == {StageStatus.PASSED}
    assert "def extract(path" in validator.prepare(payload).code


def test_only_real_rules_are_exempt_from_similar_paths(extractor_policy) -> None:
    rules = ExtractorPayload(code=TEXT, sample_paths=(PATH,))
    python = ExtractorPayload(code=render_python(TEXT), sample_paths=(PATH,))

    planned = [validator.plan(validator.prepare(one), extractor_policy, LIMITS) for one in (rules, python)]

    assert ["again" in plan.units[-1].arguments for plan in planned] == [False, True]


def test_rules_are_the_passage_of_a_repair() -> None:
    passage = validator.passage(ExtractorPayload(code=TEXT, sample_paths=(PATH,)))

    assert (passage.name, passage.language, passage.text) == ("rules.yaml", "yaml", TEXT)
