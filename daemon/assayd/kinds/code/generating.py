"""The request for generating a code node: a description, inputs, cases and libraries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.expected import CASES, describe_cases
from assayd.kinds.code.payload import CodeCase, Module
from assayd.model.prompting import Document, Example, PromptContext, Proposal

_SHOWN_CHARS = 2000
TASK = "Write a code node: Python that computes `result` from its inputs, which are given as variables."

EXAMPLE = Example(
    request="Number of words longer than `least` in `text`.",
    context={"inputs": {"text": "a short line", "least": 4}},
    answer=Proposal(
        code="""\
text: str
least: int

result: int = sum(len(word) > least for word in text.split())
"""
    ),
    reason="Counts the words by their length.",
)


class CodeContext(BaseModel):
    """The context of a generated code node: its inputs, the cases that it must pass, and useful modules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    cases: Annotated[tuple[CodeCase, ...], Field(max_length=CASES)] = ()
    libraries: Annotated[tuple[Module, ...], Field(max_length=50)] = ()


def build_base_payload(context: CodeContext) -> Document:
    """Return the payload's inputs, cases and required modules, without code."""
    cases = [case.model_dump(mode="json") for case in context.cases]
    base: dict[str, object] = {"inputs": context.inputs}
    if cases:
        base["cases"] = cases
    if context.libraries:
        base["requires"] = list(context.libraries)
    return base


def describe_surroundings(inputs: Mapping[str, object], cases: Sequence[CodeCase]) -> list[PromptContext]:
    """Return the inputs and the cases. Without inputs, return only the cases, with their inputs."""
    found = [_describe_inputs(inputs)] if inputs or not cases else []
    if cases:
        told = describe_cases((case, case.inputs, case.expected) for case in cases)
        found.append(PromptContext(title="cases that must pass: inputs -> result", text=told))
    return found


def _describe_inputs(inputs: Mapping[str, object]) -> PromptContext:
    """Return the type and up to 2,000 characters of the value of each input."""
    shown = [
        f"{name}: {type(value).__name__} = {json.dumps(value, ensure_ascii=False)[:_SHOWN_CHARS]}"
        for name, value in inputs.items()
    ]
    return PromptContext(title="inputs", text="\n".join(shown) or "none")


def describe_request_context(context: CodeContext) -> list[PromptContext]:
    """Return the context that the generated code must fit."""
    return describe_surroundings(context.inputs, context.cases)
