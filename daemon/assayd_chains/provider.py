"""Defines the requests to providers and the answers that they return.

A provider is a model, a program, or the rules' edits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from assayd.model.finding import Edit
from assayd.model.prompting import Document, EditedPart, Proposal, SourcePart
from assayd_chains.model import ReplyCost

Heard = Callable[[str], None]
"""Called with each piece of an answer's text; an empty piece means that the answer restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """A request for one answer. `edits` contains safe fixes, which replace lines of the passage.

    `attempt` is the number of the requested answer, from 1. `findings` contains the unchanged findings of
    the last report. A passage without a name represents a submission that isn't written yet. Streaming
    providers call `heard` with pieces of text, but only the complete reply is used. `questions` is True if
    a question is a permitted reply.
    """

    system: str
    user: str
    passage: SourcePart
    edits: tuple[Edit, ...] = ()
    others: tuple[EditedPart, ...] = ()
    kind: str = ""
    attempt: int = 1
    intent: str | None = None
    findings: tuple[Document, ...] = ()
    heard: Heard = lambda _: None
    questions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a provider. `text` is the raw answer, and one other attribute is its content."""

    code: str = ""
    reason: str
    usage: ReplyCost = ReplyCost()
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Document, ...] = ()
    text: str = ""
    question: str = ""

    @property
    def proposal(self) -> Proposal:
        """Return the content that the reply proposes, such as code or files."""
        return Proposal(code=self.code, files=self.files, steps=self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStep:
    """An answer with its prompt, which is recorded completely before the answer is used.

    `number` is the position of the answer in its repair or generation, from 1.
    """

    number: int
    provider: str
    asked_at: datetime
    system: str
    user: str
    reply: Reply


class Provider(Protocol):
    """The interface of a source of answers: a model, a program, or the rules."""

    @property
    def name(self) -> str:
        """Return the provider's name, by which requests select it."""
        ...

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Return a fix within the timeout, which covers all retries of the provider.

        Raises: ProviderError, if the provider returns no fix.
        """
        ...
