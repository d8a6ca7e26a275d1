"""Golden pages; `ASSAY_GOLDEN=write` updates them."""

import io
import json
import os

import pytest

from assayd.findings.source_text import get_snippet
from assayd_client.cli.report import MAX_CASES, MAX_FINDINGS, UNKNOWN, SubmissionOrigin, iter_report_lines
from assayd_client.cli.terminal import TerminalOutput, format_duration
from support.daemons.fake_service import GOLDEN


def page(attempt, origin: SubmissionOrigin = UNKNOWN, **screen) -> str:
    file = io.StringIO()
    TerminalOutput(file, **screen).lines(iter_report_lines(attempt, origin))
    return file.getvalue()


def golden(name: str):
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
def test_a_report_is_shown_as_recorded(name: str) -> None:
    shown = page(golden(name))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ASSAY_GOLDEN") == "write":
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused"])
@pytest.mark.parametrize(
    ("bundle", "why"), [(None, "deleted to free disk space"), ("c/p/b", "missing or damaged")]
)
def test_verdict_is_shown_when_the_bundle_is_gone(name: str, bundle: str | None, why: str) -> None:
    """Regression: showing a validated attempt without its bundle ended in a traceback."""
    attempt = golden(name) | {"report": None, "execution": None, "bundle": bundle}
    shown = page(attempt)
    assert ("✓ Passed" if name == "validated" else "✗ Failed") in shown
    assert why in shown


def test_what_would_act_on_a_terminal_is_shown_as_its_code() -> None:
    attempt = golden("failed_at_run")
    hostile = "\x1b]0;owned\x07\x9b2J\u202egnp.exe[bold]x[/bold]\r"
    attempt["report"]["findings"][0] |= {"message": hostile, "snippet": hostile, "suggestion": hostile}
    attempt["report"]["runtime_results"]["cases"][0] |= {"name": hostile, "message": hostile}
    attempt["report"]["runtime_results"]["cases"][1] |= {"result": {hostile: hostile}, "preview": hostile}
    shown = page(attempt)
    assert not set("\x1b\x07\x9b\u202e\r") & set(shown)
    assert "[bold]x[/bold]" in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_table_of_a_result_is_shown_below_its_case() -> None:
    attempt = golden("validated")
    table = {"$py": "dataframe", "value": {}, "type": "2 x 1"}
    attempt["report"]["runtime_results"]["cases"][0] |= {
        "result": {"sums": table},
        "result_text": None,
        "preview": "sums: dataframe, 2 rows × 1 column\n   n\n0  5",
    }

    _, _, below = page(attempt).partition("→ {sums: dataframe (2 x 1)}\n")

    assert below.startswith("      sums: dataframe, 2 rows × 1 column\n         n\n      0  5\n")


def with_cases(*cases: tuple[str, str, object]):
    """Return an attempt with cases that have a name, a status and a result."""
    attempt = golden("failed_at_run")
    results = attempt["report"]["runtime_results"]
    first = results["cases"][0]
    results["cases"] = [
        first | {"name": name, "status": status, "result": result, "result_text": None}
        for name, status, result in cases
    ]
    return attempt


def test_paths_of_a_shape_without_fields_are_named() -> None:
    reports = [(f"/d/{year}/a.csv", "passed", {"year": year}) for year in range(2020, 2026)]
    failing = ("/d/old/a.csv", "failed", None)
    empty = ("/d/2024.txt", "passed", {})

    _, _, below = page(with_cases(*reports, failing, empty)).partition("Fields extracted from ")

    shown = below.split("\n")
    assert shown[0] == "1 of 3 shapes of paths"
    assert shown[1:3] == ["  ✗ 0/1 path like /d/old/a.csv", "  ✗ 0/1 path like /d/2024.txt"]


def test_few_paths_and_paths_of_one_shape_are_not_grouped() -> None:
    few = [("/a", "passed", {"a": 1}), ("/a.b", "passed", {"a": 1})]
    alike = [(f"/d/{year}/a.csv", "passed", {"year": year}) for year in range(2020, 2026)]
    for cases in (few, alike):
        assert "shapes of paths" not in page(with_cases(*cases))


def test_failed_case_is_shown_behind_many_that_passed() -> None:
    passed = [(f"/d/{number}", "passed", {"a": number}) for number in range(MAX_CASES + 5)]
    shown = page(with_cases(*passed, ("/d/bad", "failed", None)))
    assert "✗ bad" in shown
    assert "… and 6 more" in shown


def test_peak_above_the_limit_says_what_it_includes() -> None:
    attempt = golden("failed_at_run")
    attempt["execution"]["peak_memory_bytes"] = 132 * 2**20
    assert "peak 132 MiB, " in page(attempt)
    attempt["execution"]["cause"] = "out_of_memory"
    assert "peak 132 MiB with the runner, " in page(attempt)


def test_long_lists_are_cut_and_say_so() -> None:
    attempt = golden("failed_at_run")
    report = attempt["report"]
    [finding] = report["findings"]
    report["findings"] = [finding | {"message": f"message {n}"} for n in range(MAX_FINDINGS + 3)]
    report["runtime_results"]["cases"] *= MAX_CASES
    shown = page(attempt)
    assert "… and 3 more findings" in shown
    assert f"… and {MAX_CASES} more" in shown


def test_findings_that_say_the_same_are_one_with_their_lines() -> None:
    attempt = golden("failed_at_run")
    [finding] = attempt["report"]["findings"]
    same = [finding | {"line": n} for n in range(12, 12 + 27)]
    attempt["report"]["findings"] = [*same, finding | {"severity": "warning"}]
    shown = page(attempt)
    assert shown.count("error[runtime.exception]") == 1
    assert "   = also: lines 13, 14, 15," in shown
    assert " 32 and 6 more\n" in shown
    assert shown.count("warning[runtime.exception]") == 1


def test_findings_of_no_line_that_say_the_same_are_counted() -> None:
    attempt = golden("failed_at_run")
    [finding] = attempt["report"]["findings"]
    attempt["report"]["findings"] = [finding | {"line": None, "snippet": None}] * 3
    assert "   = also: 2 more of the same\n" in page(attempt)


def test_of_several_files_the_one_at_fault_is_named() -> None:
    attempt = golden("failed_at_run")
    attempt["report"]["findings"][0]["file"] = "adapter.py"
    attempt["report"]["runtime_results"]["cases"][0]["file"] = "adapter.py"
    shown = page(attempt)
    assert "  --> adapter.py:12\n  12 │     quarter" in shown
    assert "'Q1' (adapter.py line 12)" in shown


def test_cases_with_the_same_last_name_are_told_apart() -> None:
    attempt = golden("validated")
    for case, name in zip(
        attempt["report"]["runtime_results"]["cases"], ["/a/x.csv", "/b/x.csv"], strict=True
    ):
        case["name"] = name
    assert "/a/x.csv →" in page(attempt)


@pytest.mark.parametrize(
    ("ms", "text"), [(0.04, "0.0ms"), (2.34, "2.3ms"), (250.4, "250ms"), (1500, "1.50s"), (61_000, "61.00s")]
)
def test_durations_are_written_for_people(ms: float, text: str) -> None:
    assert format_duration(ms) == text


def test_memory_that_was_not_measured_is_said_to_be_so() -> None:
    attempt = golden("validated")
    attempt["execution"]["peak_memory_bytes"] = None
    assert ", memory not measured, " in page(attempt)


def test_what_the_code_printed_stands_below_the_findings() -> None:
    attempt = golden("failed_at_run")
    attempt["execution"] |= {"stdout": "first\nsecond\n", "stderr": "\x1b[2Jcareful\n"}
    shown = page(attempt)
    assert "\nPrinted (stdout)\n  first\n  second\n" in shown
    assert "\nPrinted (stderr)\n  \\x1b[2Jcareful\n" in shown
    assert shown.index("Preview") < shown.index("Printed (stdout)") < shown.index("Cause: ")


def test_of_long_output_the_end_is_shown_with_how_to_see_the_rest() -> None:
    attempt = golden("validated")
    attempt["execution"]["stdout"] = "".join(f"line {n}\n" for n in range(100)) + "x" * 2000
    shown = page(attempt)
    assert "line 80\n" not in shown
    assert "line 81\n" in shown
    assert f"… 81 lines before; all: assay logs {attempt['id']} --stream stdout" in shown
    assert "x" * 500 + "…\n" in shown


def test_fields_of_a_result_keep_the_order_of_the_code() -> None:
    attempt = golden("validated")
    attempt["report"]["runtime_results"]["cases"][0] |= {
        "result": {"a": 1, "b": 2},
        "result_text": '{"b":2,"a":1}',
    }
    assert "→ {b: 2, a: 1}\n" in page(attempt)


def test_finding_names_the_file_and_line_of_the_command_line() -> None:
    attempt = golden("failed_at_run")
    attempt["report"]["findings"][0] |= {"line": 2, "snippet": "y = int(x)"}
    shown = page(
        attempt, SubmissionOrigin(paths={"x.py": "src/x.py"}, texts={"x.py": b"x = 1\ny = int(x)\n"})
    )
    assert "\n  --> src/x.py:2\n" in shown


LONG = "    x = '" + "y" * 300 + "' + name.attribute"
PLACED = {"line": 1, "column": LONG.index("name") + 1, "snippet": get_snippet(LONG, 1)}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_finding_far_to_the_right_of_a_long_line_has_its_place_and_its_name_underlined(
    ascii_only: bool,
) -> None:
    attempt = golden("failed_at_run")
    attempt["report"]["findings"][0] |= PLACED
    shown = page(
        attempt,
        SubmissionOrigin(paths={"x.py": "x.py"}, texts={"x.py": LONG.encode()}),
        ascii_only=ascii_only,
    )
    _, place, source, marks, *_ = shown[shown.index("error[") :].splitlines()
    assert place == f"  --> x.py:1:{PLACED['column']}"
    assert source[marks.index("^") : marks.rindex("^") + 1] == "name.attribute"


def test_column_beyond_what_the_report_has_of_a_line_is_not_marked() -> None:
    attempt = golden("failed_at_run")
    attempt["report"]["findings"][0] |= PLACED
    assert "^" not in page(attempt)


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
@pytest.mark.parametrize("width", [80, 40])
def test_report_fits_the_terminal_but_for_what_is_copied(name: str, width: int) -> None:
    rows = page(golden(name), width=width).splitlines()
    assert [row for row in rows if len(row) > width and not row.startswith("Bundle: ")] == []


def test_report_is_all_ascii_where_the_locale_is() -> None:
    shown = page(golden("failed_at_run"), ascii_only=True)
    assert shown.isascii()
    assert "|- sandbox    x 12.0ms" in shown
    assert "`- quality    - skipped" in shown


def test_bundle_is_a_folder_that_the_reader_has(tmp_path) -> None:
    attempt = golden("validated")
    attempt["bundle_path"] = str(tmp_path)
    assert f"Bundle: {tmp_path}\n" in page(attempt)
    attempt["bundle_path"] = str(tmp_path / "nothing")
    assert f"Bundle: assay artifacts {attempt['id']} --extract DIR\n" in page(attempt)
