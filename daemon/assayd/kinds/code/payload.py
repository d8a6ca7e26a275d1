"""The payload of a code node, and the facts read from its code."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names

Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]


class CodeCase(ExpectedCase):
    """The expected `result` for given inputs; the listed fields must be equal, others are ignored."""

    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    expected: object


class CodePayload(BaseModel):
    """A code node: Python with typed inputs and one typed result."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str = Field(description="Python, or a model's answer with it.")
    inputs: dict[str, object] = Field(
        default_factory=dict,
        max_length=100,
        description="Values of its declared names; values without a JSON form are tagged objects.",
    )
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Tightens the policy's `unit_timeout_s`."
    )
    requires: tuple[Module, ...] = Field((), max_length=50, description="Modules that the code needs.")
    cases: tuple[CodeCase, ...] = Field(
        (),
        max_length=CASES,
        description="Runs with their own inputs and expected results; without `inputs`, the only ones.",
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[CodeCase, ...]) -> tuple[CodeCase, ...]:
        require_unique_names(cases)
        return cases

    def merge_inputs(self) -> dict[str, object]:
        """Return the inputs of all runs by name, with the first value of each input."""
        given: dict[str, object] = dict(self.inputs)
        for case in self.cases:
            given = {**case.inputs, **given}
        return given


class PreparedCode(CodePayload):
    """A payload with the facts read from its code, so that the code isn't parsed again."""

    model_config = ConfigDict(strict=False, cache_strings="none")

    result_types: frozenset[str] = frozenset()
    result_annotation: str = ""
    result_line: int | None = None
    awaited: tuple[str, ...] = ()
