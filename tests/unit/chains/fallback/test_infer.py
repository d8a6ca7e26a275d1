from __future__ import annotations

import pytest

from assayd.kinds.extractor.rules import apply_rules, render_rules
from assayd.model.prompting import ExtractedField
from assayd_chains.fallback import COMPUTED, NOT_FOUND, infer_extraction_rules

PATHS = ("/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2023/Q2/data.csv")


def wanted(*names: str, computed: tuple[str, ...] = ()) -> list[ExtractedField]:
    return [
        *(ExtractedField(name=name, computed=False) for name in names),
        *(ExtractedField(name=name, computed=True) for name in computed),
    ]


def test_fields_get_the_rules_of_what_the_segments_look_like() -> None:
    rules = infer_extraction_rules(
        PATHS, wanted("client_id", "year", "quarter", computed=("start_month", "end_month")), {}
    )
    assert render_rules(rules) == (
        "extract:\n"
        "  client_id:\n"
        "    from: segment(-4)\n"
        "    pattern: CLIENT-(.*)\n"
        "  year:\n"
        "    from: segment(-3)\n"
        "    type: integer\n"
        "  quarter:\n"
        "    from: segment(-2)\n"
        "    pattern: Q(\\d+)\n"
        "    type: integer\n"
        "notes:\n"
        f"  start_month: '{COMPUTED}'\n"
        f"  end_month: '{COMPUTED}'\n"
    )
    assert apply_rules(rules, PATHS[1]) == ({"client_id": "XYZ", "year": 2023, "quarter": 2}, ())


@pytest.mark.parametrize(
    ("paths", "names", "fields"),
    [
        (["/in/2024/03/17/a.log"], ("year", "month", "day"), {"year": 2024, "month": 3, "day": 17}),
        (["/lake/region=eu/date=2024-01-02/p.parquet"], ("region", "date"),
         {"region": "eu", "date": "2024-01-02"}),
        (["/x/2024-01-02/run_7/b.c.txt"], ("date", "run", "filename", "stem", "extension"),
         {"date": "2024-01-02", "run": 7, "filename": "b.c.txt", "stem": "b.c", "extension": "txt"}),
        (["/acct/00123/a.csv", "/acct/00456/b.csv"], ("account_id",), {"account_id": "00123"}),
        (["/2024/99/a"], ("year", "month"), {"year": 2024}),
    ],
)  # fmt: skip
def test_forms_that_are_known(paths, names, fields) -> None:
    assert apply_rules(infer_extraction_rules(paths, wanted(*names), {}), paths[0])[0] == fields


def test_values_that_an_attempt_gave_decide_before_names() -> None:
    known = {PATHS[0]: {"tag": "AB", "period": "Q1", "year": "2024", "n": 1}, PATHS[1]: {"n": 2}}
    rules = infer_extraction_rules(PATHS, wanted("tag", "period", "year", computed=("n",)), known)
    assert apply_rules(rules, PATHS[0])[0] == {"tag": "AB", "period": "Q1", "year": "2024", "n": 1}


def test_field_that_nothing_looks_like_is_noted() -> None:
    rules = infer_extraction_rules(PATHS, wanted("warehouse"), {})
    assert (dict(rules.extract), rules.notes) == ({}, {"warehouse": NOT_FOUND})


def test_without_fields_every_segment_that_means_something_is_taken() -> None:
    rules = infer_extraction_rules(PATHS, [], {})
    assert list(rules.extract) == ["client", "year", "quarter", "filename", "stem", "extension"]


@pytest.mark.parametrize(
    "paths", [["/"], ["/a" * 2000], ["/" + "A-" * 2000], ["/x-(.*)+[\n/Q1"], ["/\x00/\udcff-1/é"]]
)
def test_strange_paths_give_rules_or_none(paths) -> None:
    for path in paths:
        fields, _ = apply_rules(infer_extraction_rules(paths, wanted("x", "filename"), {}), path)
        assert set(fields) <= {"x", "filename"}
