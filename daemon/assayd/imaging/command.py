"""Runs the programs that a build needs."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from assayd.errors import ConfigError

_MAX_TAIL_LINES = 5
_LINE_CHARACTERS = 160


def build_plain_environment() -> dict[str, str]:
    """Return this process's environment, changed for English messages and non-interactive package tools."""
    return {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def run_command(
    command: Sequence[str], *, code: str, timeout_s: float, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end and return its output.

    Args:
        command: the program and its arguments; no shell is used.
        code: the error code for failures.
        timeout_s: the time in seconds after which the program is killed.
        environment: the complete environment. Default: `build_plain_environment`.

    Raises:
        ConfigError: `code`, with the last lines of the output, if the program is missing, fails or times
            out.
    """
    try:
        done = subprocess.run(
            command,
            check=True,
            env=build_plain_environment() if environment is None else environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stdout + error.stderr).strip().splitlines()
        # apt prints the cause first and its consequences after it.
        lines = [line for line in lines if line.startswith("E: ")][:_MAX_TAIL_LINES] or lines[
            -_MAX_TAIL_LINES:
        ]
        message = f"{command[0]} ended with {error.returncode}: " + " / ".join(
            line[:_LINE_CHARACTERS] for line in lines
        )
        raise ConfigError(code, message) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(code, f"{command[0]}: {error}") from error
    return done.stdout
