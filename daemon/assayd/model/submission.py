"""A submission whose form has been validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from assayd.model.document import DOCUMENT, about

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
    """The provider and the maximum number of fixes for a repair, if the attempt fails.

    Without a number, the settings determine it.
    """

    provider: str
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The sender of a submission, as reported by the kernel (SO_PEERCRED)."""

    __pydantic_config__ = DOCUMENT

    uid: int = field(metadata=about("User id."))
    gid: int = field(metadata=about("Primary group id."))
    pid: int = field(metadata=about("Process id when the connection was opened."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A submission that a validator carries as a self-test.

    `payload` is the plain JSON payload; the report's findings must include all of `rules`. `needs_container`
    is false if the static stages decide. `unit_timeout_s` limits each unit of a sample that never ends, so
    that the test stays short. `own_image` means that it needs the contents of the kind's own image.
    """

    name: str
    payload: Mapping[str, object]
    verdict: str
    rules: frozenset[str] = frozenset()
    needs_container: bool = False
    unit_timeout_s: float | None = None
    own_image: bool = False
