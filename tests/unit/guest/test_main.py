"""What a template relies on: importing the runner's start under another name starts nothing."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import assayd.guest.__main__ as start
before = set(sys.modules)
start.warm()
from assayd.guest.programs import find_programs
find_programs()
print(callable(start.main), set(sys.modules) - before != set())
known = set(sys.modules)
find_programs()
print(set(sys.modules) == known)
"""


def test_importing_the_start_loads_the_runner_and_starts_nothing() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert said.split() == ["True", "True", "True"]
