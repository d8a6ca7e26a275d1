"""What a Fifth program is written from: words, task type, libraries, files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from assayd.kinds.fifth.payload import MOST_FILES, Label, Name, Path
from assayd.ports.generatable import Document
from assayd.ports.repairable import Surrounding

TASK = (
    "Write a program in Fifth, a Forth dialect: words between blanks, definitions before their use, and a "
    "stack comment ( before -- after ) in every definition."
)


class FifthContext(BaseModel):
    """Libraries that are loaded, files that it may load, whether it is run; what steers what is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task_type: Label | None = None
    model_source: Label | None = None
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[Path, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False


def base_of(context: FifthContext) -> Document:
    """Return the payload without the code."""
    return context.model_dump(mode="json", exclude_unset=True)


def around(context: FifthContext) -> list[Surrounding]:
    """Return what the code has to fit."""
    loaded = Surrounding(title="libraries that are loaded", text=", ".join(context.libraries) or "none")
    files = [Surrounding(title=f"file {path}", text=text) for path, text in sorted(context.files.items())]
    return [loaded, *files]
