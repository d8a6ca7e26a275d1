"""What daemon and analysis worker say to each other, as JSON over frames.

The worker has read hostile text: its answer is validated like any other input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Briefing, Proposal, RepairContext, Taken
from assayd.model.report import StageReport

T = TypeVar("T")

POLICY: TypeAdapter[ExecutionPolicy] = TypeAdapter(ExecutionPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    """What a worker says: how each static stage ended, and what preparing the payload changed.

    `prepared` holds only the fields that differ.
    """

    stages: tuple[StageReport, ...]
    prepared: dict[str, object] | None


ANSWER: TypeAdapter[WorkerAnswer] = TypeAdapter(WorkerAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A submission whose repair begins or goes on, with the report that says what failed."""

    payload: dict[str, object]
    report: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patching:
    """A fix for a submission: a new text for one passage, or the proposal's files or steps."""

    payload: dict[str, object]
    passage: str
    proposal: Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The request for a fix, and the digest of the submission's normal form."""

    context: RepairContext
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """The payload with the fix in its place, and the digest of its normal form; or why it does not fit."""

    payload: dict[str, object]
    digest: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefed:
    """The kind's part of a generation prompt, and the payload without the generated parts."""

    briefing: Briefing
    base: dict[str, object]


FAILED: TypeAdapter[Failed] = TypeAdapter(Failed)
PATCHING: TypeAdapter[Patching] = TypeAdapter(Patching)
DESCRIBED: TypeAdapter[Described] = TypeAdapter(Described)
PATCHED: TypeAdapter[Patched] = TypeAdapter(Patched)
TAKEN: TypeAdapter[Taken] = TypeAdapter(Taken)
BRIEFED: TypeAdapter[Briefed] = TypeAdapter(Briefed)

EXHAUSTED = 86
"""Exit status of a worker that a source has driven out of memory or too deep."""

POLICIES_REMEMBERED = 64
"""How many policies a worker keeps, newest first sent; the daemon counts along."""


def remember(known: dict[str, T], digest: str, value: T) -> None:
    """Add a policy to those known and forget the oldest beyond the limit; same rule on both sides."""
    known[digest] = value
    if len(known) > POLICIES_REMEMBERED:
        del known[next(iter(known))]
