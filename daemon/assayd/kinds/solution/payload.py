"""The payload of a solution (code, and tests that it must not see), and samples for the self-test."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.submission import Sample

MAX_HIDDEN_TESTS = 500

EntryPoint = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class RevealLevel(StrEnum):
    """The amount of hidden-test data that reports, retry contexts and repair prompts reveal."""

    NONE = "none"
    """Only the number of passed tests."""
    NAMES = "names"
    """The names of the tests, too."""
    MESSAGES = "messages"
    """The messages of failed tests, too."""
    ALL = "all"
    """Everything, including the source of the tests and the solution's output."""

    def includes(self, other: RevealLevel) -> bool:
        """Return whether this level reveals at least as much as another level."""
        order = list(RevealLevel)
        return order.index(self) >= order.index(other)


class SolutionCase(ExpectedCase):
    """The arguments of a call to the entry point, and its expected result."""

    args: list[object] = Field(default_factory=list, max_length=100)
    kwargs: dict[str, object] = Field(default_factory=dict, max_length=100)
    expected: object


class SolutionPayload(BaseModel):
    """A function or class, and the hidden tests or cases that call it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str = Field(description="Python, or a model's answer with it.")
    entry_point: EntryPoint = Field(description="Name of the function or class that the tests call.")
    tests: str | Annotated[tuple[str, ...], Field(max_length=MAX_HIDDEN_TESTS)] | None = Field(
        None,
        description="Python: `check(candidate)`, unittest classes, pytest functions, or assertions.",
    )
    cases: tuple[SolutionCase, ...] = Field(
        (), max_length=CASES, description="Calls with expected results, instead of `tests`."
    )
    context: str = Field("", description="Python that runs first: imports and helpers of the prompt.")
    reveal: Annotated[RevealLevel, Field(strict=False)] = Field(
        RevealLevel.NONE, description="How much of the tests the report shows."
    )
    trust_objects: bool = Field(
        False, description="Let objects of the solution compare themselves with expected values."
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[SolutionCase, ...]) -> tuple[SolutionCase, ...]:
        require_unique_names(cases)
        return cases

    @model_validator(mode="after")
    def _require_one_form(self) -> SolutionPayload:
        if bool(self.tests) == bool(self.cases):
            raise ValueError("pass either tests or cases, and not both")
        return self


class HiddenTest(BaseModel):
    """A hidden test: its name, and the request that is sent to the container."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    do: str
    details: dict[str, object] = Field(default_factory=dict)


class PreparedSolution(SolutionPayload):
    """A payload with the code extracted from the answer, and the tests by name.

    `names` lists the names that the tests use but don't define. `modules` lists the modules from which the
    tests import the solution, and `needed` lists the modules to load before the first fork.
    """

    model_config = ConfigDict(extra="forbid", strict=False, frozen=True, cache_strings="none")

    hidden: tuple[HiddenTest, ...] = ()
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


_VALID_SOLUTION = "def double(values):\n    return [2 * value for value in values]\n"
_CHECK = "def check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n    assert candidate([]) == []\n"
_CASES = [{"name": "two", "args": [[1, 2]], "expected": [2, 4]}]


def _build_sample(
    name: str,
    *rules: str,
    code: str = _VALID_SOLUTION,
    verdict: str = "failed",
    runs: bool = True,
    **more: object,
) -> Sample:
    tests = {} if "cases" in more else {"tests": _CHECK}
    return Sample(
        name=name,
        payload={"code": code, "entry_point": "double", **tests, **more},
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        unit_timeout_s=1.0 if name == "endless" else None,
    )


SAMPLES = (
    _build_sample("good", verdict="validated"),
    _build_sample(
        "asserts", tests=["assert double([3]) == [6]", "assert double([]) == []"], verdict="validated"
    ),
    _build_sample("cases", cases=_CASES, verdict="validated"),
    _build_sample("wrong", "solution.test_failed", code="def double(values):\n    return values\n"),
    _build_sample(
        "equals_everything",
        "solution.test_failed",
        code="class All:\n    def __eq__(self, _): return True\n\ndef double(values):\n    return All()\n",
    ),
    _build_sample("leaves", "solution.test_failed", code="import os\ndef double(values):\n    os._exit(0)\n"),
    _build_sample("endless", "solution.test_failed", code="def double(values):\n    while True: pass\n"),
    _build_sample("raises", "sandbox.raised", code="raise RuntimeError('no')\ndef double(values): ...\n"),
    _build_sample(
        "revealed", "solution.not_comparable", code="def double(values):\n    return object()\n", reveal="all"
    ),
    _build_sample("no_entry", "entry_point.missing", code="def triple(values): ...\n", runs=False),
    _build_sample("syntax", "syntax.missing_colon", code="def double(values)\n    return 1\n", runs=False),
    _build_sample("tests_syntax", "tests.syntax", tests="assert double([1]) = [2]", runs=False),
    _build_sample("no_tests", "tests.missing", tests="limit = 3\n", runs=False),
)
