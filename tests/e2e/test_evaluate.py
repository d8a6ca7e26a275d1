"""The example of an evaluation prints what its verdicts come to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.engines.oci import needs_oci

pytestmark = [
    pytest.mark.engine,
    pytest.mark.parametrize("daemon", [pytest.param("oci", marks=needs_oci)], indirect=True),
]

FOLDER = Path(__file__).resolve().parents[2] / "examples/evaluate"


def test_samples_of_a_model_come_to_pass_at_k(daemon) -> None:
    command = [sys.executable, "pass_at_k.py", "problems.jsonl", "samples.jsonl", "1", "2"]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    done = subprocess.run(command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False)

    assert done.stdout == (FOLDER / "expected.txt").read_text(), done.stderr
    with daemon.client() as client:
        batch = client.batches(limit=1)["batches"][0]
        causes = {each["attempt"]["cause"] for each in client.batch_results(batch["id"])}
    assert "timeout" in causes


def test_program_is_as_short_as_the_page_says(daemon) -> None:
    assert len((FOLDER / "pass_at_k.py").read_text().splitlines()) <= 30
