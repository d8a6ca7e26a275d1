"""What a model is asked with when it writes or repairs a submission, and what it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assayd.model.finding import Edit

Document = Mapping[str, object]


class Worth(StrEnum):
    """How far another try is likely to help, by the stage that failed."""

    HIGH = "high"
    """A small and well-described fault."""
    MEDIUM = "medium"
    """The approach itself may be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The text of a submission that is to be replaced as a whole, e.g. one step of a pipeline.

    Without a name there is no text that could be fixed.
    """

    name: str
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedPassage:
    """Another text of a submission, with replacements in it that are certain to be right."""

    passage: Passage
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrounding:
    """Something that a fix has to fit into: tables with their columns, files with their first lines, ..."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairContext:
    """What a fix is asked for with.

    `failure` words what failed, findings included. `instructions` are ours, all else may hold guest text.
    `edits` are replacements in the passage that are certain to be right, `others` the same of other passages.
    """

    passage: Passage
    failure: str
    instructions: tuple[str, ...]
    surroundings: tuple[Surrounding, ...] = ()
    worth: Worth = Worth.HIGH
    edits: tuple[Edit, ...] = ()
    others: tuple[EditedPassage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenField:
    """A field that code takes out of a text. A computed one is more than a part of the text."""

    name: str
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Texts that a submission is tried on, and the fields that it takes out of each."""

    texts: tuple[str, ...]
    fields: tuple[TakenField, ...]


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
class Briefing:
    """What a model is told before it writes.

    `task` is the contract of the kind, `rules` are what the effective policy allows and what to keep in mind,
    `example` is one good answer: all three are ours. `schema` is the JSON Schema of the answer.
    """

    task: str
    rules: tuple[str, ...]
    example: str
    schema: Document
    surroundings: tuple[Surrounding, ...] = ()
