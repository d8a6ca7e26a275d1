from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from assayd.kinds.extractor.quality import ExtraCalls, collect_results, judge_results, plan_extra_calls
from assayd.model.finding import Severity
from assayd.model.policy import ExecutionPolicy, NetworkMode, NetworkPolicy, QualityPolicy, RuleLevel
from assayd.model.submission import JsonValue

A, B = "/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2023/Q3/report.csv"
POLICY = ExecutionPolicy(name="p")
CODE = "x = 'CLIENT-ABC'\n"
VARYING = f"import time\n{CODE}"
Extract = Callable[[str], JsonValue]
COUNTED = iter(range(1000))


def rules(extract: Extract, *paths: str, policy: ExecutionPolicy = POLICY) -> list[str]:
    return [finding.rule for finding in findings(extract, paths or (A, B), policy)]


def findings(extract: Extract, paths: Sequence[str] = (A, B), policy: ExecutionPolicy = POLICY):
    again = plan_extra_calls(paths, paths[-1], VARYING, policy)
    samples = {path: result for path in paths if isinstance(result := extract(path), dict)}
    returned = [_or_none(extract, *args) for args in again.calls] if again else []
    results = collect_results(samples, samples[paths[-1]], again, returned)
    return list(judge_results(results, CODE))


def _or_none(extract: Extract, path: str) -> JsonValue:
    try:
        return extract(path)
    except (IndexError, KeyError, ValueError):
        return None


def parts(path: str) -> list[str]:
    return path.split("/")


FOUND: Mapping[str, Extract] = {
    "all_none": lambda _: {"client": None, "tags": [], "more": {"id": ""}},
    "echo": lambda path: {"path": path.upper(), "parts": parts(path)[1:]},
    "constant": lambda _: {"status": "ok"},
    "hard_coded": lambda path: {"client": "CLIENT-ABC", "year": int(parts(path)[3])},
    "not_from_path": lambda path: {"id": f"C{sum(map(ord, path)) % 97}", "score": sum(map(ord, path)) * 7},
    "types_differ": lambda path: {"name": parts(path)[2], "year": 2024 if "2024" in path else parts(path)[3]},
    "varying": lambda path: {"client": parts(path)[2], "at": next(COUNTED)},
}
IGNORED: Mapping[str, Extract] = {
    "all_none": lambda path: {"client": parts(path)[2], "late": None},
    "echo": lambda path: {"path": path, "name": parts(path)[-1]},
    "constant": lambda path: {"kind": "table" if path.endswith(".csv") else "other"},
    "hard_coded": lambda path: {"kind": "quarterly", "client": parts(path)[2], "ending": path[-3:]},
    "not_from_path": lambda path: {"client": parts(path)[2], "key": hash(path)},
    "types_differ": lambda path: {"name": parts(path)[2], "late": 3 if "Q3" in path else None},
    "varying": lambda path: {"client": parts(path)[2], "at": len(path)},
}


@pytest.mark.parametrize("name", FOUND)
def test_a_worthless_result_is_found(name: str) -> None:
    assert rules(FOUND[name]) == [f"quality.{name}"]


@pytest.mark.parametrize("name", IGNORED)
def test_a_good_result_that_looks_like_it_is_left_alone(name: str) -> None:
    assert rules(IGNORED[name]) == []


def test_a_hard_coded_field_is_told_with_its_line_and_the_fields_that_change() -> None:
    [finding] = findings(FOUND["hard_coded"])
    assert (finding.severity, finding.line) == (Severity.WARNING, 1)
    assert finding.message == "The field 'client' stays 'CLIENT-ABC' when 'ABC' in the path becomes 'BCD'."
    assert "fields that change with the path: year" in (finding.context or "")


def test_a_table_of_the_samples_is_found() -> None:
    known: dict[str, JsonValue] = {A: {"client": "CLIENT-ABC"}, B: {"client": "CLIENT-XYZ"}}
    assert rules(lambda path: known.get(path, {})) == ["quality.hard_coded"]


def test_one_sample_is_enough_to_find_what_is_written_out() -> None:
    assert rules(lambda _: {"client": "CLIENT-ABC", "year": 2024}, A) == ["quality.constant"]


def test_an_extractor_that_refuses_other_paths_is_left_alone() -> None:
    def strict(path: str) -> JsonValue:
        if parts(path)[2] not in {"CLIENT-ABC", "CLIENT-XYZ"} or not path.endswith("/report.csv"):
            raise ValueError(path)
        return {"client": parts(path)[2], "year": int(parts(path)[3])}

    assert rules(strict) == []


def test_without_similar_paths_the_samples_decide() -> None:
    plain = ExecutionPolicy(name="p", quality=QualityPolicy(generalization=False))
    assert plan_extra_calls([A], A, CODE, plain) is None
    assert rules(FOUND["hard_coded"], policy=plain) == ["quality.hard_coded"]
    assert rules(FOUND["varying"], policy=plain) == ["quality.varying"]
    assert rules(IGNORED["hard_coded"], policy=plain) == []


def test_nothing_is_called_again_where_rules_are_off_or_code_reaches_hosts() -> None:
    off = ExecutionPolicy(name="p", quality=QualityPolicy(severity=RuleLevel.OFF))
    listed = ExecutionPolicy(name="p", network=NetworkPolicy(mode=NetworkMode.ALLOWLIST))
    assert plan_extra_calls([A], A, CODE, off) is plan_extra_calls([A], A, CODE, listed) is None
    assert isinstance(plan_extra_calls([A], A, CODE, POLICY), ExtraCalls)


def test_what_a_guest_returns_for_similar_paths_may_be_anything() -> None:
    again = plan_extra_calls([A], A, CODE, POLICY)
    odd: list[JsonValue] = ["text", 7, None, {"client": {"deep": [{}, [None]]}}, [], True]
    results = collect_results({A: {"client": "ABC"}}, {"client": "ABC"}, again, odd)
    assert all(finding.severity is Severity.WARNING for finding in judge_results(results, ""))


FURTHER: Mapping[str, tuple[str, Extract]] = {
    "a path and a flag": ("echo", lambda path: {"input": path, "ok": True}),
    "a list with one part": ("hard_coded", lambda path: {"labels": ["CLIENT-ABC", parts(path)[3]]}),
    "a numbered part as the name of a field": ("types_differ", lambda path: {parts(path)[4]: parts(path)[2]}),
}


@pytest.mark.parametrize("name", FURTHER)
def test_other_forms_of_worthless_results_are_found(name: str) -> None:
    rule, extract = FURTHER[name]
    assert f"quality.{rule}" in rules(extract)


def test_a_length_alone_is_found_with_paths_of_different_lengths() -> None:
    assert rules(lambda path: {"length": 1000 + len(path)}, A, f"{B}.gz") == ["quality.not_from_path"]
    kind: Extract = lambda path: {"length": len(path), "gz": path.endswith(".gz"), "day": parts(path)[3]}  # noqa: E731
    assert rules(kind, A, f"{B}.gz") == []


def test_names_that_a_path_states_are_left_alone() -> None:
    stated: Extract = lambda path: dict([parts(path)[2].split("=")])  # noqa: E731
    assert rules(stated, "/data/region=north/a.csv", "/data/zone=south/b.csv") == []


def test_a_numbered_part_as_the_name_of_a_field_is_found_in_the_samples_alone() -> None:
    paths = tuple(f"/export/plant_{plant}/2024-05-01/hall/line/rack/{what}.csv" for plant, what in
                  (("07", "heat"), ("11", "light")))  # fmt: skip
    plain = ExecutionPolicy(name="p", quality=QualityPolicy(generalization=False))
    assert rules(lambda path: {parts(path)[2]: parts(path)[3]}, *paths, policy=plain) == [
        "quality.types_differ"
    ]
    assert rules(lambda path: {parts(path)[-1][:-4]: parts(path)[2]}, *paths, policy=plain) == []


def test_types_that_differ_with_the_number_of_digits_are_found() -> None:
    def number(path: str) -> JsonValue:
        text = path.split("-")[1][:-5]
        return {"project": parts(path)[2][:3], "number": int(text) if len(text) < 3 else text}

    assert rules(number, "/tickets/OPS-17.json", "/tickets/DEV-918.json") == ["quality.types_differ"]


NEIGHBOURS: Mapping[str, Extract] = {
    "a path and its kind": lambda path: {"path": path, "kind": "table" if path.endswith("csv") else "other"},
    "a list that is read": lambda path: {"labels": parts(path)[2:4]},
    "names that the kind decides": lambda path: {f"q_{'csv' if '.csv' in path else 'x'}": parts(path)[3]},
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_good_results_that_look_like_them_are_left_alone(name: str) -> None:
    assert rules(NEIGHBOURS[name]) == []


def test_a_part_that_the_code_names_is_tried_although_it_is_far_from_the_end() -> None:
    deep = "/export/CLIENT-ABC/2024/05/01/north/hall/rack/slot/temperature_s12.csv"
    assert rules(lambda path: {"client": "CLIENT-ABC", "rest": parts(path)[-1]}, deep) == [
        "quality.hard_coded"
    ]


def test_code_that_mentions_chance_is_called_more_often() -> None:
    plain, chance = (plan_extra_calls([A], A, code, POLICY) for code in ("", "import random"))
    assert plain is not None
    assert chance is not None
    assert (plain.calls.count([A]), chance.calls.count([A])) == (2, 6)
