"""What the tools take, each as a model: it checks a call, and its JSON Schema is what an agent is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.documents.generations import GenerationBody
from assayd.documents.repairs import RepairBody
from assayd.documents.submission import SubmissionBody, Ulid

WAIT_S = 120.0
CHAIN_WAIT_S = 300.0
MOST_WAIT_S = 600.0

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Part = Literal["summary", "findings", "cases", "code", "retry_context"]


class Arguments(BaseModel):
    """Arguments of a tool; what is not named is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ValidateArguments(SubmissionBody):
    """A submission, and how long to wait for its verdict."""

    wait_s: float = Field(
        WAIT_S, gt=0, le=MOST_WAIT_S, description="Seconds to wait; then `show` tells how it goes on."
    )


class ShowArguments(Arguments):
    """Which attempt, and which part of it."""

    attempt_id: Ulid = Field(description="The attempt.")
    part: Part = Field("summary", description="`summary`, or all of one list or text of it, page by page.")
    first: int = Field(
        1, ge=1, le=1_000_000, description="Where the page begins: entry or character, from 1."
    )


class LogsArguments(Arguments):
    """Which attempt, and which of its outputs."""

    attempt_id: Ulid = Field(description="The attempt; it has to be finished.")
    stream: Literal["stdout", "stderr"] = Field("stdout", description="Which output.")
    first: int = Field(1, ge=1, le=100_000_000, description="Character to begin with, from 1.")


class RepairArguments(RepairBody):
    """Which failed attempt is to be repaired, and how."""

    attempt_id: Ulid = Field(description="The failed attempt.")
    wait_s: float = Field(CHAIN_WAIT_S, gt=0, le=MOST_WAIT_S, description="Seconds to wait for its end.")


class GenerateArguments(GenerationBody):
    """A request in words, and how long to wait."""

    wait_s: float = Field(CHAIN_WAIT_S, gt=0, le=MOST_WAIT_S, description="Seconds to wait for its end.")


class PolicyArguments(Arguments):
    """Which profile."""

    name: Name | None = Field(None, description="The profile; without it all are listed.")
    module: str | None = Field(
        None, max_length=200, description="With `name`: list the names that may be used of this module."
    )


class KindsArguments(Arguments):
    """Which kind, or which rule of it."""

    kind: Name | None = Field(None, description="The kind; without it all are listed.")
    rule: str | None = Field(None, max_length=200, description="With `kind`: explain this rule.")
