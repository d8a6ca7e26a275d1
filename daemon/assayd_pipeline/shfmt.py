"""Runs shfmt, which checks the syntax of bash and returns the syntax tree for the rules.

Each text takes one process and a few milliseconds. The process inherits the limits of the analysis worker
(memory, processor time, no written files), and its output is limited, because the size of a tree grows with
the square of its depth.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from assayd.errors import AssaydError
from assayd_pipeline.bounded_program import ProgramLimits, ask
from assayd_pipeline.shell.parse.reader import Reading

TREE_BYTES = 64 * 2**20
"""Maximum bytes of a tree, which has about ninety bytes for each byte of an ordinary script."""
WALL_S = 10.0
CPU_S = 5
_LIMITS = ProgramLimits(cpu_s=CPU_S, wall_s=WALL_S, output_bytes=TREE_BYTES)

_COMPLAINT = re.compile(rb"(?:<standard input>:)?(?P<line>\d+):(?P<column>\d+): (?P<message>[^\n]*)")
_ENVIRONMENT = {"GOMAXPROCS": "1", "GOTRACEBACK": "none"}


def read_shell(text: str) -> Reading:
    """Parse a valid UTF-8 text.

    Raises: AssaydError ``analysis.no_shfmt``, if the program isn't installed.
    """
    command = (_find_shfmt(), "--language-dialect=bash", "--to-json")
    try:
        answer = ask(command, text.encode(), limits=_LIMITS, environment=_ENVIRONMENT)
    except OSError as problem:
        raise AssaydError("analysis.no_shfmt", f"shfmt can't be run: {problem.strerror}") from problem
    if answer.status == 0 and len(answer.output) <= TREE_BYTES:
        return Reading(tree=answer.output)
    found = _COMPLAINT.match(answer.output) if answer.status > 0 else None
    if found is None:
        return Reading(message="it is too large or too deeply nested to read")
    message = found["message"].decode("utf-8", "replace")
    return Reading(message=message, line=int(found["line"]), column=int(found["column"]))


@cache
def _find_shfmt() -> str:
    """Return the path of shfmt from the package shfmt-py or from PATH. Raises: AssaydError."""
    folders = (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))
    beside = (str(folder / "shfmt") for folder in folders if (folder / "shfmt").is_file())
    found = next(beside, None) or shutil.which("shfmt")
    if found is None:
        raise AssaydError("analysis.no_shfmt", "shfmt isn't installed; run: pip install shfmt-py")
    return found
