"""What the submission of a solution holds: the code, and the tests that it must not see."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, refuse_twins

MOST_TESTS = 500

EntryPoint = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class Reveal(StrEnum):
    """How much of the hidden tests reports, retry contexts and repair prompts may show."""

    NONE = "none"
    """How many passed."""
    NAMES = "names"
    """The names of the tests as well."""
    MESSAGES = "messages"
    """What each failed test said as well."""
    ALL = "all"
    """Everything, the tests' text and what the solution printed included."""

    def shows(self, other: Reveal) -> bool:
        """Return whether what the other level shows is shown."""
        order = list(Reveal)
        return order.index(self) >= order.index(other)


class SolutionCase(ExpectedCase):
    """What a call of the entry point has to return."""

    args: list[object] = Field(default_factory=list, max_length=100)
    kwargs: dict[str, object] = Field(default_factory=dict, max_length=100)
    expected: object


class SolutionPayload(BaseModel):
    """`code` is Python, or an answer that holds it; `tests` or `cases` call its `entry_point`.

    `tests` is Python: a function `check(candidate)`, `unittest` classes, pytest functions, or assertions,
    which may also be a list. `context` is run before both, e.g. imports and helpers of the prompt. `reveal`
    says how much of the tests is shown; with `trust_objects`, objects of the solution may compare themselves.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str
    entry_point: EntryPoint
    tests: str | Annotated[tuple[str, ...], Field(max_length=MOST_TESTS)] | None = None
    cases: Annotated[tuple[SolutionCase, ...], Field(max_length=CASES)] = ()
    context: str = ""
    reveal: Annotated[Reveal, Field(strict=False)] = Reveal.NONE
    trust_objects: bool = False

    @field_validator("cases")
    @classmethod
    def _name_each(cls, cases: tuple[SolutionCase, ...]) -> tuple[SolutionCase, ...]:
        refuse_twins(cases)
        return cases

    @model_validator(mode="after")
    def _one_form(self) -> SolutionPayload:
        if bool(self.tests) == bool(self.cases):
            raise ValueError("pass either tests or cases, and not both")
        return self


class HiddenTest(BaseModel):
    """One test: its name, and the container's request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    do: str
    details: dict[str, object] = Field(default_factory=dict)


class PreparedSolution(SolutionPayload):
    """The payload with the code that an answer means, and the tests by name.

    `names` are those that the tests use and don't define, `modules` those that they import the solution from,
    `needed` the modules to load before anything is forked.
    """

    model_config = ConfigDict(extra="forbid", strict=False, frozen=True, cache_strings="none")

    hidden: tuple[HiddenTest, ...] = ()
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
