"""The list of tests that don't run on a gateway."""

from __future__ import annotations

from pathlib import Path

from support.cluster.apart import APART

FOLDER = Path(__file__).resolve().parents[2] / "e2e"


def test_every_entry_names_a_test_that_there_is() -> None:
    for name in APART:
        file, _, test = name.partition("::")
        assert f"def {test}" in (FOLDER / file).read_text(), name
