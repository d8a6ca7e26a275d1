"""What writing a submission from words needs of a kind. Optional beside `Validator`, as `Repairable` is.

All of it reads what strangers sent or a model wrote, so it is called in an analysis worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from assayd.model.policy import ExecutionPolicy
from assayd.ports.repairable import Surrounding

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a model proposes: one text, whole files by name, or all steps."""

    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Document, ...] = ()

    @property
    def form(self) -> str:
        """Name which of the three it is."""
        if self.steps:
            return "steps"
        return "files" if self.files else "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Another request, its context as a `generation_context` document, and an answer that is validated."""

    request: str
    context: Document
    answer: Proposal
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """The parts of a prompt that a kind supplies.

    `task` is the contract of the kind, `rules` state what the effective policy allows and how the answer is
    judged; `task`, `rules` and `example` are our own words. `schema` is the JSON Schema of the answer.
    """

    task: str
    rules: tuple[str, ...]
    example: Example
    schema: Document
    surroundings: tuple[Surrounding, ...] = ()


@runtime_checkable
class Generatable(Protocol):
    """A kind whose submissions can be written from a request in words."""

    @property
    def generation_context(self) -> type[BaseModel]:
        """The strict model of what may come with the words."""
        ...

    @property
    def forms(self) -> frozenset[str]:
        """The forms of a `Proposal` that it takes: ``code``, ``files``, ``steps``."""
        ...

    def brief(self, context: Any, policy: ExecutionPolicy) -> Briefing:
        """Return what a model is told, given the context and the effective policy."""
        ...

    def base(self, context: Any) -> Document:
        """Return what the context says of the payload, as plain JSON: all but the answer."""
        ...

    def answered(self, base: Document, proposal: Proposal) -> Document:
        """Return a payload, as plain JSON, with a proposal in it."""
        ...
