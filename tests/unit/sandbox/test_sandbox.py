"""The machine's count of out-of-memory kills."""

from __future__ import annotations

from pathlib import Path

from assayd.sandbox.sandbox import read_oom_kill_count


def test_count_is_read_from_among_the_others(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("nr_free_pages 100\noom_kill_other 3\noom_kill 12\nlast 1\n")
    assert read_oom_kill_count(counters) == 12


def test_machine_without_the_count_says_none(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    assert read_oom_kill_count(counters) is None
    counters.write_text("nr_free_pages 100\noom_kill \n")
    assert read_oom_kill_count(counters) is None
