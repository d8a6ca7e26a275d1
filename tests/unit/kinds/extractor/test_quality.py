from __future__ import annotations

from assayd.findings.units import JudgedUnit
from assayd.guest_results import Note, TypedValue
from assayd.kinds.extractor.quality import judge_quality
from assayd.model.finding import Severity
from assayd.model.report import Case, CaseStatus
from assayd.model.submission import JsonValue


def tried(value: dict[str, JsonValue], *notes: Note, name: str = "/a") -> JudgedUnit:
    case = Case(name=name, status=CaseStatus.PASSED, result=value)
    return JudgedUnit(case=case, value=TypedValue(value=value, type_name="dict", notes=notes))


def test_full_results_with_plain_names_have_no_finding() -> None:
    assert list(judge_quality([tried({"client_id": "ABC", "größe": None}), tried({"x": 0})])) == []


def test_all_empty_is_an_error_and_the_only_finding() -> None:
    [finding] = judge_quality([tried({}), tried({})])
    assert (finding.rule, finding.severity) == ("quality.all_empty", Severity.ERROR)


def test_some_empty_is_a_warning_that_names_the_first() -> None:
    [finding] = judge_quality([tried({"a": 1}), tried({}, name="/b"), tried({}, name="/c")])
    assert (finding.rule, finding.severity, finding.context) == (
        "quality.some_empty",
        Severity.WARNING,
        "/b and 1 more",
    )
    assert "2 of 3" in finding.message


def test_field_names_that_are_no_identifiers_are_told_once_each() -> None:
    results = [
        tried({"start date": 1, "ok": 2}),
        tried({"start date": 3}),
        tried({"x" * 500 + "-": 1, "1a": 2}),
    ]
    findings = list(judge_quality(results))
    assert [(f.rule, f.severity) for f in findings] == [("quality.key", Severity.WARNING)] * 3
    assert all(len(f.message) < 150 for f in findings)


def test_very_many_odd_field_names_are_told_up_to_a_cap() -> None:
    assert len(list(judge_quality([tried({f"{n}": n for n in range(500)})]))) == 20


def test_values_that_are_not_json_are_told_once_each() -> None:
    when = Note(path="$.when", problem="datetime is not a JSON value")
    findings = list(judge_quality([tried({"when": "<datetime>"}, when), tried({"when": "<datetime>"}, when)]))
    assert [(f.rule, f.severity) for f in findings] == [("quality.not_json", Severity.WARNING)]
    assert "$.when" in findings[0].message


def test_a_tuple_loses_nothing_and_is_for_information() -> None:
    parts = Note(path="$.parts", problem="a tuple, shown as an array")
    [finding] = judge_quality([tried({"parts": ["a"]}, parts)])
    assert finding.severity is Severity.INFO


def test_match_that_begins_behind_the_slash_is_told() -> None:
    [finding] = judge_quality([tried({})], "re.compile('data/').match(path)")
    assert "use search()" in (finding.suggestion or "")
    [other] = judge_quality([tried({})], "re.search('data/', path)")
    assert "search()" not in (other.suggestion or "")
