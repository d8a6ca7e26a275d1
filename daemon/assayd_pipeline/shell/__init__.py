"""Checks the syntax and the commands of bash scripts, and the paths that the scripts read and write.

    text ─reader─> tree (nodes) ─variables─> Script ─rules─> findings

`check_script` checks one script. The rules only explain faults early; the container provides the isolation.
"""

from assayd_pipeline.shell.check import RULES, ShellCheck, check_script, parse_script
from assayd_pipeline.shell.files import WorkFiles

__all__ = ["RULES", "ShellCheck", "WorkFiles", "check_script", "parse_script"]
