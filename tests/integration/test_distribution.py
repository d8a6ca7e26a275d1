"""Several processes run the tests so that each file's fixtures are made once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_all_tests_of_a_file_run_in_one_process() -> None:
    files = ("tests/unit/test_clock.py", "tests/unit/test_keys.py")
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadscope", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    ran = re.findall(r"^\[(gw\d)\] .* PASSED (\S+?)::", done.stdout, re.MULTILINE)
    assert {file for _, file in ran} == set(files)
    assert len(set(ran)) == len(files)
