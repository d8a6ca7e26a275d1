"""The submission of an INI file, and its construction from files on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions

FieldName = Annotated[str, StringConstraints(pattern=r"^[^.\s]{1,64}\.[^.\s]{1,64}$")]
FieldType = Literal["str", "int", "float", "bool"]

_SWITCHES = {"true": True, "false": False}


class IniContext(BaseModel):
    """The context of a generated INI file: the fields that it must have."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    fields: Annotated[dict[FieldName, FieldType], Field(min_length=1, max_length=200)]


class IniPayload(BaseModel):
    """`text` is the file, `fields` are types by ``section.key``; `complete` forbids other fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    text: str
    fields: Annotated[dict[FieldName, FieldType], Field(min_length=1, max_length=200)]
    complete: bool = False


def payload_of(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Build a payload of one file, and of the fields that ``--input`` or ``--option fields`` declares.

    Raises: RequestError.
    """
    if len(files) != 1:
        raise RequestError("request.files", f"an INI file is one file, not {len(files)}", field="files")
    if unknown := options.extra.keys() - {"fields", "complete"}:
        message = f"there is no option {min(unknown)!r}; there are fields and complete"
        raise RequestError("request.options", message, field=min(unknown))
    complete = options.extra.get("complete", "false")
    if complete not in _SWITCHES:
        raise RequestError("request.options", f"--option complete is true or false, not {complete!r}")
    pairs = (pair.partition(":") for pair in filter(None, options.extra.get("fields", "").split(",")))
    declared = {name: kind for name, _, kind in pairs}
    [content] = files.values()
    return {
        "text": content.decode("utf-8", "replace"),
        "fields": {**(options.input or {}), **declared},
        "complete": _SWITCHES[complete],
    }
