"""Where fixes come from: a model behind an API, a program of the operator, or the rules' safe fixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assayd.model.finding import Edit
from assayd.model.repair import ReplyCost
from assayd.ports.repairable import Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """A request for one fix. `edits` are safe fixes: replacements in the passage."""

    system: str
    user: str
    passage: Passage
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A provider's fix."""

    code: str
    reason: str
    usage: ReplyCost = ReplyCost()


class Provider(Protocol):
    """One configured provider."""

    @property
    def name(self) -> str:
        """The name that requests use."""
        ...

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Return a fix within the time, the provider's own retries included.

        Raises: ProviderError when none can be had.
        """
        ...
