"""The page about long batches, written from the measurements of `make day`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bench.figures import machine, spread

from support.daemons.under_load import write_page

DAY = {
    "items": 20,
    "with_container": 2,
    "took_s": 9.5,
    "verdicts": {"validated": 20},
    "errors": {},
    "run_again": 0,
    "outages": [{"what": "daemon killed", "took_s": 2.0}],
    "daemon_peak_mb": 100.0,
    "client_peak_mb": 50.0,
    "interactive_verdicts": {"validated": 1},
    "interactive": asdict(spread([1.0])),
    "problems": 0,
    "measured_at": "2026-11-26",
    "machine": machine(),
}


def test_short_day_without_a_quiet_moment_is_written_down(tmp_path: Path) -> None:
    """Regression: writing the record crashed without a quiet moment to summarize."""
    (tmp_path / "day.json").write_text(json.dumps({**DAY, "interactive_without_outages": None}))

    write_page(tmp_path, tmp_path / "page.md")

    page = (tmp_path / "page.md").read_text()
    assert "all (1)" in page
    assert "without an outage" not in page
