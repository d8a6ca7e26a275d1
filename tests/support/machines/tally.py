"""A pytest plugin that prints a line per test file and engine, with the number of passed tests."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

import pytest

ENGINES = ("oci-templates", "oci")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print ``tally: NAME on ENGINE: PASSED of ALL``."""
    passed: Counter[tuple[str, str]] = Counter()
    tried: Counter[tuple[str, str]] = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            file, _, rest = report.nodeid.partition("::")
            engine = next((each for each in ENGINES if each in rest), "no engine")
            tried[PurePosixPath(file).stem, engine] += 1
            passed[PurePosixPath(file).stem, engine] += outcome == "passed"
    for key, count in sorted(tried.items()):
        terminalreporter.line(f"tally: {key[0]} on {key[1]}: {passed[key]} of {count}")
