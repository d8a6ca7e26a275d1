"""What the submission of a code node holds, and what is read out of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]


class CodePayload(BaseModel):
    """`code` is Python, or an answer that holds it; `inputs` are the values of its declared names, as JSON.

    What JSON has no form for goes as a tagged object. `timeout_s` tightens the policy's `unit_timeout_s`;
    `requires` names the modules that the code needs.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str
    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    requires: Annotated[tuple[Module, ...], Field(max_length=50)] = ()


class PreparedCode(CodePayload):
    """A payload with what was read out of its code, so that nothing needs to parse it again."""

    model_config = ConfigDict(strict=False, cache_strings="none")

    result_types: frozenset[str] = frozenset()
    result_annotation: str = ""
    result_line: int | None = None
    awaited: tuple[str, ...] = ()
