"""What a provider is asked and answers: a model behind an API, an operator's program, or the rules' edits."""

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

    `attempt` counts the answers that were asked for, from 1; `findings` are those of the last report, as it
    has them. A passage without a name stands for a submission that is still to be written. `heard` is called
    by providers that stream; what counts is the whole reply. `questions` says whether the reply may be a
    question.
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
        """Return what it proposes."""
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
    """A configured provider."""

    @property
    def name(self) -> str:
        """The name that requests use."""
        ...

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Return a fix within the time, the provider's own retries included.

        Raises: ProviderError when none can be had.
        """
        ...
