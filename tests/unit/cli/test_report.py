"""Golden pages; `ASSAY_GOLDEN=write` writes them anew."""

import io
import json
import os

import pytest
from rich.console import Console

from assayd.cli.report import MAX_CASES, MAX_FINDINGS, duration, render
from support.daemons.fake_service import GOLDEN


def page(attempt) -> str:
    console = Console(file=io.StringIO(), width=100, record=True, highlight=False, soft_wrap=True)
    for line in render(attempt):
        console.print(line)
    return console.export_text()


def golden(name: str):
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
def test_a_report_is_shown_as_recorded(name: str) -> None:
    shown = page(golden(name))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ASSAY_GOLDEN") == "write":
        path.write_text(shown)
    assert shown == path.read_text()


def test_what_would_act_on_a_terminal_is_shown_as_its_code() -> None:
    attempt = golden("failed_at_run")
    hostile = "\x1b]0;owned\x07\x9b2J\u202egnp.exe[bold]x[/bold]\r"
    attempt["report"]["findings"][0] |= {"message": hostile, "snippet": hostile, "suggestion": hostile}
    attempt["report"]["runtime_results"]["cases"][0] |= {"name": hostile, "message": hostile}
    attempt["report"]["runtime_results"]["cases"][1] |= {"result": {hostile: hostile}}
    shown = page(attempt)
    assert not set("\x1b\x07\x9b\u202e\r") & set(shown)
    assert "[bold]x[/bold]" in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_long_lists_are_cut_and_say_so() -> None:
    attempt = golden("failed_at_run")
    report = attempt["report"]
    report["findings"] = report["findings"] * (MAX_FINDINGS + 3)
    report["runtime_results"]["cases"] *= MAX_CASES
    shown = page(attempt)
    assert "… and 3 more findings" in shown
    assert f"… and {MAX_CASES} more" in shown


def test_of_several_files_the_one_at_fault_is_named() -> None:
    attempt = golden("failed_at_run")
    attempt["report"]["findings"][0]["file"] = "adapter.py"
    attempt["report"]["runtime_results"]["cases"][0]["file"] = "adapter.py"
    shown = page(attempt)
    assert "  in adapter.py\n  12 │     quarter" in shown
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
    assert duration(ms) == text
