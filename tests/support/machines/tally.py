"""A pytest plugin: at the end, a line for each file of tests and each engine, with how many passed."""

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
