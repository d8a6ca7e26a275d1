"""Defines a submission whose form has been validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from assayd.model.document import DOCUMENT, document_field

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One piece of code to validate.

    `payload` is an instance of the kind's payload model. `input_digest` is the SHA-256 of the canonical
    JSON of {kind, payload}. `document` is the canonical JSON of the whole accepted submission; the store
    keeps it, and a replay submits it again. `intent` is the natural-language request. `webhook` is a URL
    that receives the verdict.
    """

    kind: str
    policy: str
    payload: BaseModel
    input_digest: str
    document: bytes
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    parent_id: str | None = None
    intent: str | None = None
    repair: RepairOptions | None = None
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """The options of a repair that begins if the attempt fails: the provider and the number of fixes.

    If no number is given, the settings determine the maximum.
    """

    provider: str
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The sender of a submission, as reported by the kernel (SO_PEERCRED)."""

    __pydantic_config__ = DOCUMENT

    uid: int = field(metadata=document_field("User id."))
    gid: int = field(metadata=document_field("Primary group id."))
    pid: int = field(metadata=document_field("Process id when the connection was opened."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A submission that a validator provides as a self-test.

    `payload` is the payload as plain JSON; the report's findings must include all of `rules`.
    `needs_container` is false if the static stages decide. `unit_timeout_s` limits each unit of a sample
    that never ends, so that the test stays short. `own_image` is true if the sample needs the contents of
    the kind's image.
    """

    name: str
    payload: Mapping[str, object]
    verdict: str
    rules: frozenset[str] = frozenset()
    needs_container: bool = False
    unit_timeout_s: float | None = None
    own_image: bool = False
