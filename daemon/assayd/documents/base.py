"""What every document of the contract is: a frozen model that writes the JSON and describes it.

A value of the model whose fields are the document's is its own document (`model.document`).

Inside, a document is made from the model's values with `from_value`, unchecked: they are our own, and what
a guest wrote among them may hold lone surrogates, which pydantic refuses. Clients read documents, checked.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from assayd.documents.strict_json import members_of
from assayd.errors import AssaydError

Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time as RFC 3339 in UTC, to the microsecond."""


class BaseDocument(BaseModel):
    """A JSON object of which every field is known. `canonical` and `compact` write it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_value(cls, value: object, **others: object) -> Self:
        """Return the document of a value: its attributes of the same names, and `others` for the rest."""
        members: dict[str, object] = {}
        for name in cls.__pydantic_fields__:
            member = others[name] if name in others else getattr(value, name)
            members[name] = written_time(member) if isinstance(member, datetime) else member
        # What `model_construct` does, which looks for aliases and defaults of each field first.
        document = cls.__new__(cls)
        object.__setattr__(document, "__dict__", members)
        object.__setattr__(document, "__pydantic_fields_set__", set(members))
        object.__setattr__(document, "__pydantic_extra__", None)
        object.__setattr__(document, "__pydantic_private__", None)
        return document


def timestamp(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC."""
    return None if moment is None else written_time(moment)


def written_time(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def milliseconds(seconds: float) -> float:
    """Return a duration in milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)


def plain(value: Any) -> Any:  # JSON has no narrower type
    """Return a document as dictionaries and lists; other values stay unchanged."""
    if (members := members_of(value)) is not None:
        return {name: plain(part) for name, part in members.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


class ErrorDetail(BaseDocument):
    """Why a request was refused."""

    code: str = Field(description="Stable name of the reason.")
    message: str = Field(description="One sentence for a person.")
    field: str | None = Field(description="The field or parameter at fault.")
    retryable: bool = Field(description="Whether the same request may succeed later.")


class ErrorDocument(BaseDocument):
    """Every answer that is not a success."""

    error: ErrorDetail = Field(description="Why.")


def error_document(error: AssaydError) -> ErrorDocument:
    """Return the answer for an error."""
    return ErrorDocument.model_construct(error=ErrorDetail.from_value(error))
