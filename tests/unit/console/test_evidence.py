"""The usage of a run: one row for each measured figure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assayd_console.pages.attempts import iter_resource_use
from support.daemons.fake_service import GOLDEN


@pytest.mark.parametrize(("peak", "shown"), [(30 * 2**20, ["30 MiB"]), (None, [])])
def test_memory_has_a_row_where_it_was_measured(peak: int | None, shown: list[str]) -> None:
    attempt: dict[str, Any] = json.loads((GOLDEN / "validated.json").read_text())
    attempt["execution"]["peak_memory_bytes"] = peak
    assert [row.shown for row in iter_resource_use(attempt) if row.name == "memory"] == shown
