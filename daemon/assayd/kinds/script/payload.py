"""The payload of a script: code, or a program with its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.static.work_paths import FileContent

_MOST_ARGUMENTS = 256

_MOST_ARGUMENT_BYTES = 65_536


def _check_argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character")
    return text


class ScriptCase(ExpectedCase):
    """The expected output of the program when it reads `stdin` as its standard input."""

    stdin: str = ""
    expected: str


class ScriptPayload(BaseModel):
    """A program with its files and input: either `code`, or a program of the image in `argv`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str | None = Field(None, description="Python, or a model's answer with it.")
    files: Mapping[str, FileContent] = Field(
        default_factory=dict, description="Files of the start directory, by path."
    )
    argv: tuple[Annotated[str, AfterValidator(_check_argument)], ...] = Field(
        (),
        max_length=_MOST_ARGUMENTS,
        description="A program of the image and its arguments, instead of `code`.",
    )
    stdin: str = Field("", description="Standard input of the first run.")
    collect: tuple[str, ...] = Field((), description="Paths that must exist at the end.")
    cases: tuple[ScriptCase, ...] = Field(
        (),
        max_length=CASES,
        description="Runs with their own input and expected output; without `stdin`, the only ones.",
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[ScriptCase, ...]) -> tuple[ScriptCase, ...]:
        require_unique_names(cases)
        return cases

    @model_validator(mode="after")
    def _require_one_program(self) -> ScriptPayload:
        if (self.code is None) == (not self.argv):
            raise ValueError("pass either code, or argv (with files), not both")
        if self.argv and not self.argv[0]:
            raise ValueError("argv must start with the name of a program")
        if sum(len(argument.encode()) for argument in self.argv) > _MOST_ARGUMENT_BYTES:
            raise ValueError(f"argv has more than {_MOST_ARGUMENT_BYTES} bytes; use stdin or a file")
        return self
