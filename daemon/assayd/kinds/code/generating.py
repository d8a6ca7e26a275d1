"""The request for writing a code node: words, inputs, cases, libraries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import code_example
from assayd.findings.expected import CASES, cases_told
from assayd.kinds.code.payload import CodeCase, Module
from assayd.kinds.code.samples import SAMPLES
from assayd.model.prompting import Document, Surrounding

_SHOWN_CHARS = 2000
TASK = "Write a code node: Python that computes `result` from its inputs, which are given as variables."

EXAMPLE = code_example(
    SAMPLES[0],
    request="Total of the paid orders by customer, for customers with a total of at least `least`.",
    reason="Adds the totals of paid orders by customer and drops customers below the minimum.",
)


class CodeContext(BaseModel):
    """The inputs that it receives, cases to pass, and modules that it may need."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    cases: Annotated[tuple[CodeCase, ...], Field(max_length=CASES)] = ()
    libraries: Annotated[tuple[Module, ...], Field(max_length=50)] = ()


def base_of(context: CodeContext) -> Document:
    """Return the payload without code."""
    cases = [case.model_dump(mode="json") for case in context.cases]
    base: dict[str, object] = {"inputs": context.inputs}
    if cases:
        base["cases"] = cases
    if context.libraries:
        base["requires"] = list(context.libraries)
    return base


def shown_inputs(inputs: Mapping[str, object]) -> Surrounding:
    """Return each input with its type and at most 2,000 characters of its value."""
    shown = [
        f"{name}: {type(value).__name__} = {json.dumps(value, ensure_ascii=False)[:_SHOWN_CHARS]}"
        for name, value in inputs.items()
    ]
    return Surrounding(title="inputs", text="\n".join(shown) or "none")


def around(context: CodeContext) -> list[Surrounding]:
    """Return the context that the code must fit."""
    found = [shown_inputs(context.inputs)]
    if context.cases:
        told = cases_told((case, case.inputs, case.expected) for case in context.cases)
        found.append(Surrounding(title="cases that have to pass: inputs -> result", text=told))
    return found
