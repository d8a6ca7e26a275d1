"""What a repair loop needs of a kind to serve it without knowing it. Optional beside `Validator`.

All of them parse text of strangers, so they are called in an analysis worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from assayd.model.finding import Edit
from assayd.model.policy import ExecutionPolicy
from assayd.ports.validator import P_contra

Document = Mapping[str, object]


class Worth(StrEnum):
    """How far another try is likely to help, by the stage that failed."""

    HIGH = "high"
    """A small and well-described fault: the smallest change is asked for."""
    MEDIUM = "medium"
    """A wrong result or a limit: the approach itself may be wrong."""


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


@runtime_checkable
class Repairable(Protocol[P_contra]):
    """A kind whose failed submissions can be repaired."""

    def context(
        self, payload: P_contra, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return what is to be fixed, given the submitted payload, its failed report and effective policy."""
        ...

    def patch(self, payload: P_contra, passage: str, code: str) -> Mapping[str, object]:
        """Return the payload, as plain JSON, with the named passage replaced."""
        ...

    def normal_form(self, payload: P_contra) -> bytes:
        """Return what stays the same when a fix changes only layout and comments."""
        ...


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


@runtime_checkable
class Simplifiable(Protocol[P_contra]):
    """A kind whose submissions take fields out of texts, which rules without code can do in part."""

    def taken(self, payload: P_contra) -> Taken:
        """Return which fields a submission takes out of which texts."""
        ...
