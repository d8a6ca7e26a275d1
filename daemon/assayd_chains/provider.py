"""Defines requests to providers and their answers.

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
"""Receives an answer's text piece by piece; an empty piece means that the answer starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """A request for one answer. `edits` are safe fixes: replacements in the passage.

    `attempt` counts the requested answers, from 1. `findings` are the findings of the last report,
    unchanged. A passage without a name represents a submission that isn't written yet. Providers that
    stream call `heard` with pieces of text, but only the complete reply is used. `questions` is True if the
    reply may be a question.
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
    """A provider's answer: `code`, `files`, `steps` or a `question`. `text` is the raw answer."""

    code: str = ""
    reason: str
    usage: ReplyCost = ReplyCost()
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Document, ...] = ()
    text: str = ""
    question: str = ""

    @property
    def proposal(self) -> Proposal:
        """Return the content that the reply proposes."""
        return Proposal(code=self.code, files=self.files, steps=self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStep:
    """One answer with its prompt, recorded completely before it is used.

    `number` counts the answers of a repair or a generation, from 1.
    """

    number: int
    provider: str
    asked_at: datetime
    system: str
    user: str
    reply: Reply


class Provider(Protocol):
    """The interface of a configured provider."""

    @property
    def name(self) -> str:
        """The name by which requests select the provider."""
        ...

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Return a fix within the timeout, which includes the provider's own retries.

        Raises: ProviderError, if the provider returns no fix.
        """
        ...
