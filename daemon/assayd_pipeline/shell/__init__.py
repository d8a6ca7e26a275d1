"""Checks bash scripts: whether a text is bash, what it runs, and what that reads and writes.

    text ─reader─> tree (nodes) ─variables─> Script ─rules─> findings

`check_script` gives everything about one script. The rules explain; the container is the wall.
"""

from assayd_pipeline.shell.check import RULES, ShellCheck, check_script, parse_script
from assayd_pipeline.shell.files import WorkFiles

__all__ = ["RULES", "ShellCheck", "WorkFiles", "check_script", "parse_script"]
