"""What generations need to be kept, and what the API asks of them; the library beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from assayd.model.attempt import Attempt
from assayd.model.generation import Generation, LibraryEntry
from assayd.model.repair import Repair
from assayd.model.submission import Peer
from assayd.ports.llm import ProviderStep

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """What somebody asks for in words."""

    kind: str
    intent: str
    context: Document = field(default_factory=dict)
    policy: str | None = None
    provider: str | None = None
    max_attempts: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationView:
    """A generation with the repairs that its drafts went into, by id.

    `heard` is what was heard of the answer that is under way, where its provider streams.
    """

    generation: Generation
    repairs: Mapping[str, Repair] = field(default_factory=dict)
    heard: str = ""


class GenerationStore(Protocol):
    """Where generations are kept."""

    async def save(self, generation: Generation) -> None:
        """Record a generation as it is now, durably."""
        ...

    async def get(self, generation_id: str) -> Generation | None:
        """Look a generation up."""
        ...

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Generation]:
        """Return generations, newest first."""
        ...

    async def of_attempt(self, attempt: Attempt) -> Generation | None:
        """Return the generation whose last attempt this is."""
        ...

    async def unfinished(self) -> Sequence[Generation]:
        """Return every generation without an outcome, oldest first."""
        ...

    async def save_step(self, generation_id: str, step: ProviderStep) -> None:
        """Record an answer whole, durably; one that is there already stays."""
        ...

    async def step(self, generation_id: str, number: int) -> ProviderStep | None:
        """Look an answer up."""
        ...


class Generations(Protocol):
    """The generations of a daemon, as its API sees them; whose they are, the API checks."""

    @property
    def writers(self) -> Sequence[str]:
        """Return the names of the providers that write."""
        ...

    async def start(self, request: GenerationRequest, peer: Peer) -> GenerationView:
        """Begin.

        Raises: RequestError ``generation.unsupported``, ``generation.provider``, ``webhook.not_allowed``,
        ``invalid``.
        """
        ...

    async def get(self, generation_id: str) -> GenerationView | None:
        """Look a generation up."""
        ...

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[GenerationView]:
        """List generations, newest first."""
        ...

    async def diffs(self, view: GenerationView) -> Sequence[str | None]:
        """Return what each of its attempts changed in the one before, as they are numbered in its document.

        None for the first, for one that was not submitted, or is not kept any more.
        """
        ...

    async def step(self, view: GenerationView, number: int) -> ProviderStep | None:
        """Return prompt and answer of one of its attempts, as they are numbered in its document."""
        ...

    async def hint(
        self, view: GenerationView, hint: str, uid: int, *, attempt: Attempt | None = None
    ) -> GenerationView:
        """Go on with a person's hint and a full budget, from its last attempt or from that one.

        Raises: RequestError ``generation.running``.
        """
        ...

    async def cancel(self, view: GenerationView) -> None:
        """End a generation, and what it has under way. Raises: RequestError ``generation.finished``."""
        ...

    def follow(self, generation_id: str) -> AsyncGenerator[GenerationView, None]:
        """Return a generation each time that it changes, up to its end."""
        ...


class Library(Protocol):
    """What was approved, by user and name. Where several are returned, they come without their documents."""

    async def approve(self, attempt: Attempt, name: str, approved_by: int) -> LibraryEntry:
        """Put a validated attempt under a name, as its next version; the same attempt again changes nothing.

        Raises: RequestError ``library.not_validated``.
        """
        ...

    async def list(self, *, uid: int | None, after: str | None, limit: int) -> Sequence[LibraryEntry]:
        """Return the newest version of each name, by name."""
        ...

    async def history(self, uid: int, name: str) -> Sequence[LibraryEntry]:
        """Return all versions of a name, newest first."""
        ...

    async def entry(self, uid: int, name: str, version: int) -> LibraryEntry | None:
        """Return one version of a name with its document; None where there is none."""
        ...

    async def of_attempts(self, attempt_ids: Sequence[str]) -> Sequence[LibraryEntry]:
        """Return the entries that these attempts are."""
        ...
