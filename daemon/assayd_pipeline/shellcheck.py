"""Runs ShellCheck, which explains mistakes in bash. Without ShellCheck, findings have no such explanations.

Checking a script takes one process and about five milliseconds. Script, output and time are limited more
strictly than for shfmt, because only hints depend on the answer: a script that exceeds these limits gets no
hints.
"""

from __future__ import annotations

import json
import shutil
from functools import cache

from assayd_pipeline.bounded_program import ProgramLimits, ask
from assayd_pipeline.shell.parse.linter import LinterComment

TEXT_BYTES = 64 * 2**10
"""Maximum bytes of a script to explain; ShellCheck's time grows faster than the script."""
_MOST_COMMENTS = 200
_LIMITS = ProgramLimits(cpu_s=1, wall_s=2.0, output_bytes=2**20)
# GHC's runtime reserves address space by itself; the cap keeps it below the worker's limit.
_ENVIRONMENT = {"LANG": "C.UTF-8", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
_FOUND_SOMETHING = (0, 1)
"""The exit codes for a script that was read; others mean that ShellCheck failed."""


@cache
def program() -> str | None:
    """Return the path of ShellCheck; None if ShellCheck isn't installed."""
    return shutil.which("shellcheck", path="/usr/bin:/usr/local/bin:/bin")


def lint_shell(text: str) -> tuple[LinterComment, ...]:
    """Return ShellCheck's comments on a script; empty if it isn't installed or the script is too large."""
    found, content = program(), text.encode("utf-8", "replace")
    if found is None or len(content) > TEXT_BYTES:
        return ()
    command = (found, "--norc", "--shell=bash", "--format=json1", "-")
    try:
        answer = ask(command, content, limits=_LIMITS, environment=_ENVIRONMENT)
    except OSError:
        return ()  # removed or replaced since it was found: hints are optional
    if answer.status not in _FOUND_SOMETHING or len(answer.output) > _LIMITS.output_bytes:
        return ()
    return _parse_comments(answer.output)


def _parse_comments(output: bytes) -> tuple[LinterComment, ...]:
    """Parse the comments; return an empty tuple if one of them lacks a required field."""
    try:
        told = json.loads(output).get("comments", [])
        return tuple(
            LinterComment(
                code=int(each["code"]),
                line=int(each["line"]),
                column=int(each["column"]),
                end_line=int(each["endLine"]),
                end_column=int(each["endColumn"]),
            )
            for each in told[:_MOST_COMMENTS]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()  # another version's form: hints are optional
