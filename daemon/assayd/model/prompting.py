"""The values in prompts for generating or repairing a submission, and in the model's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assayd.model.finding import Edit

Document = Mapping[str, object]


class RetryBenefit(StrEnum):
    """The expected benefit of another try, estimated from the failed stage."""

    HIGH = "high"
    """A small, well-described fault: request the smallest change."""
    MEDIUM = "medium"
    """A wrong result or an exceeded limit: the approach itself may be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePart:
    """The part of a submission to replace as a whole, e.g. one step of a pipeline.

    If no part can be fixed, the name is empty. `beginning` is a pattern for the first line of a program in
    the part's language, and is used for languages without a parser in this project.
    """

    name: str
    language: str
    text: str
    beginning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedPart:
    """Another part of a submission, with edits that are certain to be correct."""

    passage: SourcePart
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContext:
    """Context that a fix must fit, such as tables with their columns, or files with their first lines."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairContext:
    """A request for a fix.

    `failure` describes the failure, including its findings. `instructions` are the daemon's text; all other
    fields can contain guest text. `edits` and `others` are replacements that are certain to be correct, in
    the passage and in other passages. `title` names the passage for readers (default: the passage's name).
    `other_forms` are the daemon's description of alternative answer formats and when to use them.
    """

    passage: SourcePart
    failure: str
    instructions: tuple[str, ...]
    surroundings: tuple[PromptContext, ...] = ()
    worth: RetryBenefit = RetryBenefit.HIGH
    edits: tuple[Edit, ...] = ()
    others: tuple[EditedPart, ...] = ()
    title: str = ""
    other_forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedField:
    """A field that code extracts from a string. A computed field isn't a substring of the string."""

    name: str
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFields:
    """The strings on which a submission is tried, and the fields that it extracts from them."""

    texts: tuple[str, ...]
    fields: tuple[ExtractedField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A model's proposal, which contains one text, whole files by name, or all steps."""

    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Document, ...] = ()

    @property
    def form(self) -> str:
        """Return the form of the proposal: "steps", "files" or "code"."""
        if self.steps:
            return "steps"
        return "files" if self.files else "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example request, with its context (a `generation_context` document) and a validated answer."""

    request: str
    context: Document
    answer: Proposal
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTopic:
    """Rules and an optional example for requests that contain one of the given lowercase words."""

    words: tuple[str, ...]
    rules: tuple[str, ...]
    example: Example | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """The parts of a prompt that a kind supplies.

    `task` describes the contract of the kind. `rules` describe what the effective policy allows and how the
    answer is judged. `task`, `rules`, `topics` and `example` contain no guest text. `form` shows the JSON
    format of the answer.
    """

    task: str
    rules: tuple[str, ...]
    example: Example
    form: str
    surroundings: tuple[PromptContext, ...] = ()
    topics: tuple[PromptTopic, ...] = ()
