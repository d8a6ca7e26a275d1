"""What a client asks for in words, and how a generation is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assayd.model.generation import Generation
from assayd.model.repair import Repair

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
