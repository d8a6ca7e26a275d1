import pytest
import yaml

from assayd.kinds.extractor.rules import FallbackRule, RuleSet, Type, apply, read, write

PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"
RULES = RuleSet(
    extract={
        "client_id": FallbackRule(source="segment(-4)", pattern="CLIENT-(.*)"),
        "year": FallbackRule(source="segment(-3)", type=Type.INTEGER),
        "quarter": FallbackRule(source="segment(-2)", pattern=r"Q(\d)", type=Type.INTEGER),
    },
    notes={"start_month": "NOTE: computed"},
)


def test_rules_take_segments_counted_from_the_end() -> None:
    assert apply(RULES, PATH) == ({"client_id": "ABC", "year": 2024, "quarter": 1}, ())


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
    assert apply(RULES, path)[1] == missing


def test_rules_are_yaml_that_any_library_reads() -> None:
    text = write(RULES)
    assert yaml.safe_load(text)["extract"]["year"] == {"from": "segment(-3)", "type": "integer"}
    assert list(yaml.safe_load(text)) == ["extract", "notes"]
    assert read(text) == RULES


def test_text_of_a_stranger_stays_text() -> None:
    name = "x: !!python/object/apply:os.system [id]\n# \x1b[2J"
    hostile = RuleSet(extract={name: FallbackRule(source="segment(-1)")})
    text = write(hostile)
    assert text.isascii()
    assert "\x1b" not in text
    assert read(text) == hostile


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
        read(text)
