"""Tables that fit the terminal."""

from __future__ import annotations

import io

from assayd_client.cli.listing import (
    ARTIFACT_COLUMNS,
    ATTEMPT_COLUMNS,
    build_artifact_row,
    build_attempt_row,
    build_display_attempt_row,
    iter_check_lines,
)
from assayd_client.cli.terminal import TerminalOutput, print_table

ATTEMPT = {
    "id": "01M7YHKFHWZP7YKVWXC96QNKT7",
    "kind": "extractor",
    "verdict": "failed",
    "error": None,
    "rules": ["case.failed", "name.undefined"],
    "state": "finished",
    "created_at": "2026-11-21T07:54:45.180747Z",
    "timings_ms": {"total": 12345.0},
    "labels": {"category": "weather", "platform": "open_meteo", "run": "nightly-2026-11-21"},
}
ARTIFACT = {
    "name": "validation_20261121T075445.180747Z.json",
    "bytes": 123456,
    "media_type": "text/plain; charset=utf-8",
    "sha256": "0123456789abcdef" * 4,
}


def table(heads, rows, width: int | None) -> list[str]:
    file = io.StringIO()
    print_table(TerminalOutput(file, width=width), heads, rows)
    return file.getvalue().splitlines()


def test_attempts_fit_eighty_columns_with_what_went_wrong_and_the_beginning_of_their_labels() -> None:
    shown = table(ATTEMPT_COLUMNS, [build_display_attempt_row(ATTEMPT, "2026-11-22", wide=False)] * 2, 80)
    assert max(map(len, shown)) <= 80
    assert shown[1].split() == [
        "01M7YHKFHWZP7YKVWXC96QNKT7",
        "extractor",
        "failed",
        "2026-11-21",
        "12.35s",
    ]
    assert shown[2] == "  case.failed +1  category=weather platform=open_meteo ru…"


def test_wide_list_has_all_rules_and_labels() -> None:
    assert build_display_attempt_row(ATTEMPT, "2026-11-21", wide=True)[3:] == [
        "07:54:45Z",
        "12.35s",
        "case.failed name.undefined  category=weather platform=open_meteo run=nightly-2026-11-21",
    ]


def test_file_of_an_attempt_comes_before_its_other_labels() -> None:
    named = {**ATTEMPT, "labels": {"category": "weather", "file": "total.py"}}
    assert (
        build_display_attempt_row(named, "2026-11-21", wide=False)[-1]
        == "case.failed +1  total.py  category=weather"
    )


def test_attempt_for_a_program_has_whole_times_and_rules_after_its_labels() -> None:
    assert build_attempt_row(ATTEMPT)[3:] == [
        "2026-11-21T07:54:45Z",
        "12.35s",
        "category=weather platform=open_meteo run=nightly-2026-11-21",
        "case.failed name.undefined",
        "",
    ]


def test_attempt_under_report_only_says_so_in_its_last_cell() -> None:
    reported = {**ATTEMPT, "enforcement": "report"}
    assert build_attempt_row(reported)[-1] == "report-only"
    assert build_display_attempt_row(reported, "2026-11-21", wide=False)[-1].startswith("report-only  ")


def test_attempt_that_ended_in_our_error_is_listed_with_its_code() -> None:
    broken = {**ATTEMPT, "error": {"code": "engine.unreachable"}, "rules": [], "labels": {}}
    assert build_attempt_row(broken)[-2] == "engine.unreachable"
    assert build_display_attempt_row(broken, "2026-11-21", wide=False)[-1] == "engine.unreachable"


def test_artifacts_fit_eighty_columns_and_keep_their_names() -> None:
    shown = table(ARTIFACT_COLUMNS, [build_artifact_row(ARTIFACT, whole=False)], 80)
    assert max(map(len, shown)) <= 80
    assert shown[1].split() == [ARTIFACT["name"], "123456", "text/plain", "0123456789"]


def test_long_cells_are_wrapped_within_their_columns() -> None:
    shown = table(("check", "seen", "remedy"), [["engine", "it " * 30, "do this " * 10]], 60)
    assert max(map(len, shown)) <= 60
    assert " ".join(" ".join(shown).split()).count("it") == 30


def test_first_column_is_whole_even_where_it_is_wider_than_the_screen() -> None:
    assert table(("id", "x"), [["0" * 40, "y"]], 20)[1].startswith("0" * 40)


def test_piped_rows_are_separated_by_tabs() -> None:
    assert table(("a", "b"), [["1\n", "2\t"]], None) == ["1 \t2 "]


def test_check_is_a_line_with_its_remedy_below_and_the_number_of_bad_ones_is_last() -> None:
    checks = [
        {"status": "ok", "check": "engine", "detail": "Docker 24", "remedy": "", "took_ms": 0},
        {
            "status": "fail",
            "check": "canary",
            "detail": "no\x1b",
            "remedy": "assay images build",
            "took_ms": 1500,
        },
    ]
    assert [each.plain for each in iter_check_lines(checks)] == [
        "ok    engine  Docker 24",
        "fail  canary  no\\x1b  1.5 s",
        "      fix: assay images build",
        "",
        "2 checks: 1 failed, 0 warnings",
    ]
