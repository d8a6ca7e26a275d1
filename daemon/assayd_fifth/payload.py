"""Defines the payload of a Fifth submission, and the options of the command line."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, field_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names

MOST_FILES = 100

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]

Path = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200
    ),
]

Label = Annotated[str, StringConstraints(max_length=200)]


class FifthCase(ExpectedCase):
    """A standard input, and the output that the program must print for this input."""

    stdin: str = ""
    expected: str


class FifthPayload(BaseModel):
    """A program in Fifth, with the files and libraries that the program loads."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str = Field(description="The program, or a model's answer with it in fenced blocks.")
    task_type: Label | None = Field(None, description="Purpose; only for the advice.")
    model_source: Label | None = Field(None, description="Model that wrote it; only for the advice.")
    strict_mode: StrictBool = Field(True, description="Report missing parts as errors, not as warnings.")
    libraries: tuple[Name, ...] = Field((), max_length=50, description="Libraries to load first.")
    files: dict[Path, str] = Field({}, max_length=MOST_FILES, description="Files that it may load, by path.")
    execute: StrictBool = Field(False, description="Run the program once, without cases.")
    cases: tuple[FifthCase, ...] = Field(
        (), max_length=CASES, description="Separate runs with their input and expected output."
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[FifthCase, ...]) -> tuple[FifthCase, ...]:
        require_unique_names(cases)
        return cases
