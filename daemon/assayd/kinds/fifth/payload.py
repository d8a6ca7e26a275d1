"""What the submission of a Fifth program holds, and what options of a command line mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

from assayd.errors import RequestError
from assayd.kinds.fifth.command_line import command_line

MOST_FILES = 100

_OPTIONS = frozenset(option.name for option in command_line.options)

_SWITCHES = {"true": True, "false": False}

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]

Path = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200
    ),
]

Label = Annotated[str, StringConstraints(max_length=200)]


class FifthPayload(BaseModel):
    """`code` is a program, or an answer that has it in fenced blocks; `files` are what it may load.

    `libraries` are loaded before it. `task_type` and `model_source` steer what another try is told, and
    nothing else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str
    task_type: Label | None = None
    model_source: Label | None = None
    strict_mode: StrictBool = True
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[Path, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False


def read_options(options: Mapping[str, str]) -> dict[str, object]:
    """Read the options of the command line. Raises: RequestError ``request.options``."""
    if unknown := set(options) - _OPTIONS:
        message = f"there is no option {min(unknown)!r}; there are {', '.join(sorted(_OPTIONS))}"
        raise RequestError("request.options", message, field=min(unknown))
    read: dict[str, object] = dict(options)
    for name in ("strict_mode", "execute"):
        if name in options:
            if options[name] not in _SWITCHES:
                raise RequestError("request.options", f"{name} is true or false", field=name)
            read[name] = _SWITCHES[options[name]]
    if "libraries" in options:
        read["libraries"] = [each for each in options["libraries"].split(",") if each]
    return read
