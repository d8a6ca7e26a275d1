"""Values for asking a model to write or repair a submission, and for its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assayd.model.finding import Edit

Document = Mapping[str, object]


class Worth(StrEnum):
    """How far another try is likely to help, by the stage that failed."""

    HIGH = "high"
    """A small and well-described fault: ask for the smallest change."""
    MEDIUM = "medium"
    """A wrong result or a limit: the approach itself may be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The text of a submission to replace as a whole, e.g. one step of a pipeline.

    Without a name, no text can be fixed. `beginning` is a pattern for the start of a program in that
    language, if no parser for it exists here.
    """

    name: str
    language: str
    text: str
    beginning: str = ""


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
    """The request for a fix.

    `failure` words what failed, findings included. `instructions` are ours, all else may hold guest text.
    `edits` are replacements in the passage that are certain to be right, `others` the same of other passages.
    `title` names the passage for a reader; default: its name. `other_forms` are our words on further forms
    of an answer, and when to use them.
    """

    passage: Passage
    failure: str
    instructions: tuple[str, ...]
    surroundings: tuple[Surrounding, ...] = ()
    worth: Worth = Worth.HIGH
    edits: tuple[Edit, ...] = ()
    others: tuple[EditedPassage, ...] = ()
    title: str = ""
    other_forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenField:
    """A field that code extracts from a text. A computed field is more than a part of the text."""

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
class Example:
    """Another request, its context as a `generation_context` document, and an answer that is validated."""

    request: str
    context: Document
    answer: Proposal
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Rules, and perhaps another example, for requests that contain one of these words, in lowercase."""

    words: tuple[str, ...]
    rules: tuple[str, ...]
    example: Example | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """The parts of a prompt that a kind supplies.

    `task` is the contract of the kind, `rules` state what the effective policy allows and how the answer is
    judged; `task`, `rules`, `topics` and `example` are our own words. `form` shows the JSON form of the
    answer.
    """

    task: str
    rules: tuple[str, ...]
    example: Example
    form: str
    surroundings: tuple[Surrounding, ...] = ()
    topics: tuple[Topic, ...] = ()
