"""Defines the name, the description, the arguments, the answers and the action of each tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel

from assayd_client.cli.mcp import acts, answers


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool. The attribute `gives` contains the one or two types of answers that the tool returns."""

    name: str
    title: str
    description: str
    takes: type[BaseModel]
    gives: tuple[type[BaseModel], ...]
    act: Callable[[acts.ToolCall, Any], Awaitable[BaseModel]]
    read_only: bool
    open_world: bool = False
    """Whether it may reach a model outside of this machine."""

    def to_tool(self) -> Tool:
        """Return the description of the tool for agents."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.takes.model_json_schema(),
            output_schema=_build_union_schema(self.gives),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=False,
                idempotent_hint=self.read_only,
                open_world_hint=self.open_world,
            ),
        )


def _build_union_schema(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    """Return the schema of an answer.

    If there are two types, each is marked as an object for earlier protocols.
    """
    schemas = [model.model_json_schema(mode="serialization") for model in models]
    if len(schemas) == 1:
        return schemas[0]
    definitions: dict[str, Any] = {}
    for schema in schemas:
        definitions |= schema.pop("$defs", {})
    return {"type": "object", "anyOf": schemas, "$defs": definitions}


TOOLS = (
    AgentTool(
        name="validate",
        title="Validate code",
        description=(
            "Run untrusted code through static checks and a throwaway container, and get a verdict with "
            "findings, safe edits, cases and advice for the next attempt. Call `kinds` first "
            "for the schema of "
            "`payload`. Validate every version of your code before you say that it works."
        ),
        takes=acts.ValidateArguments,
        gives=(answers.AttemptAnswer, answers.ChainAnswer),
        act=acts.validate,
        read_only=False,
    ),
    AgentTool(
        name="show",
        title="Show an attempt",
        description="Show an attempt again, or one complete part of it (findings, cases, code), page by "
        "page.",
        takes=acts.ShowArguments,
        gives=(answers.AttemptAnswer, answers.PageAnswer),
        act=acts.show,
        read_only=True,
    ),
    AgentTool(
        name="logs",
        title="Show the output of code",
        description="Show standard output or standard error of a finished attempt, page by page.",
        takes=acts.LogsArguments,
        gives=(answers.PageAnswer,),
        act=acts.logs,
        read_only=True,
    ),
    AgentTool(
        name="repair",
        title="Repair a failed attempt",
        description=(
            "Repair a failed attempt until it passes or further attempts would not help: with the provider "
            "`rules` (safe edits, no model), or with one that the operator has configured."
        ),
        takes=acts.RepairArguments,
        gives=(answers.ChainAnswer,),
        act=acts.repair,
        read_only=False,
        open_world=True,
    ),
    AgentTool(
        name="generate",
        title="Generate code from a request",
        description=(
            "Let a configured model write code from a request in natural language, then validate and "
            "repair the code. This tool doesn't approve the result; a person does."
        ),
        takes=acts.GenerateArguments,
        gives=(answers.ChainAnswer,),
        act=acts.generate,
        read_only=False,
        open_world=True,
    ),
    AgentTool(
        name="policy",
        title="Allowed imports and hosts",
        description="List the profiles, or show what one currently allows: imports, network, commands and "
        "limits.",
        takes=acts.PolicyArguments,
        gives=(answers.PolicyAnswer,),
        act=acts.policy,
        read_only=True,
    ),
    AgentTool(
        name="kinds",
        title="Kinds of submissions",
        description=(
            "List the kinds of submission, show the contract of one (schema of its payload, a good example, "
            "its rules), or explain a rule."
        ),
        takes=acts.KindsArguments,
        gives=(answers.KindsAnswer,),
        act=acts.kinds,
        read_only=True,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
