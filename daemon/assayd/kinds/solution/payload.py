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
    """A function or class, and the hidden tests or cases that call it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str = Field(description="Python, or a model's answer with it.")
    entry_point: EntryPoint = Field(description="Name of the function or class that the tests call.")
    tests: str | Annotated[tuple[str, ...], Field(max_length=MOST_TESTS)] | None = Field(
        None,
        description="Python: `check(candidate)`, unittest classes, pytest functions, or assertions.",
    )
    cases: tuple[SolutionCase, ...] = Field(
        (), max_length=CASES, description="Calls with expected results, instead of `tests`."
    )
    context: str = Field("", description="Python that runs first: imports and helpers of the prompt.")
    reveal: Annotated[Reveal, Field(strict=False)] = Field(
        Reveal.NONE, description="How much of the tests the report shows."
    )
    trust_objects: bool = Field(
        False, description="Let objects of the solution compare themselves with expected values."
    )

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
