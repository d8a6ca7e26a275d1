"""The payload of a Fifth submission, and the options of the command line."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, field_validator

from assayd.findings.expected import CASES, ExpectedCase, refuse_twins

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
    """A standard input, and the output that the program must print for it."""

    stdin: str = ""
    expected: str


class FifthPayload(BaseModel):
    """`code` is a program, or an answer with it in fenced blocks; `files` are the files that it may load.

    `libraries` are loaded before it. Each of `cases` is a separate run; without cases, `execute` requests one
    run. `task_type` and `model_source` influence only the advice for another try.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str
    task_type: Label | None = None
    model_source: Label | None = None
    strict_mode: StrictBool = True
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[Path, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False
    cases: Annotated[tuple[FifthCase, ...], Field(max_length=CASES)] = ()

    @field_validator("cases")
    @classmethod
    def _name_each(cls, cases: tuple[FifthCase, ...]) -> tuple[FifthCase, ...]:
        refuse_twins(cases)
        return cases
