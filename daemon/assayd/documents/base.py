"""The base class of all documents: a frozen model that can serialize and describe itself.

If a value of the model has exactly the fields of its document, the value itself is the document
(`model.document`).

The daemon builds documents with `from_value`, without validation, because its values are correct, and
because guest text in them may contain lone surrogates, which pydantic rejects. Clients validate the
documents that they read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from assayd.documents.strict_json import members_of
from assayd.errors import AssaydError

Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time as RFC 3339 in UTC, with microseconds."""


class BaseDocument(BaseModel):
    """A JSON object that has only known fields. `canonical` and `compact` serialize it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_value(cls, value: object, **others: object) -> Self:
        """Return the document of a value: attributes with the same names, and `others` for other fields."""
        members: dict[str, object] = {}
        for name in cls.__pydantic_fields__:
            member = others[name] if name in others else getattr(value, name)
            members[name] = format_time(member) if isinstance(member, datetime) else member
        # As `model_construct`, without its lookup of aliases and defaults for each field.
        document = cls.__new__(cls)
        object.__setattr__(document, "__dict__", members)
        object.__setattr__(document, "__pydantic_fields_set__", set(members))
        object.__setattr__(document, "__pydantic_extra__", None)
        object.__setattr__(document, "__pydantic_private__", None)
        return document


def timestamp(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC; None for None."""
    return None if moment is None else format_time(moment)


def format_time(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def milliseconds(seconds: float) -> float:
    """Return a duration in milliseconds, rounded to microseconds."""
    return round(seconds * 1000, 3)


def plain(value: Any) -> Any:  # any, because a type for JSON isn't narrower
    """Return a document as dictionaries and lists; return other values unchanged."""
    if (members := members_of(value)) is not None:
        return {name: plain(part) for name, part in members.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


class ErrorDetail(BaseDocument):
    """The details of an error: why a request was rejected."""

    code: str = Field(description="Stable name of the reason.")
    message: str = Field(description="One sentence for a person.")
    field: str | None = Field(description="The field or parameter at fault.")
    retryable: bool = Field(description="Whether the same request may succeed later.")


class ErrorDocument(BaseDocument):
    """The body of every error response."""

    error: ErrorDetail = Field(description="Why.")


def error_document(error: AssaydError) -> ErrorDocument:
    """Return the response body that describes an error."""
    return ErrorDocument.model_construct(error=ErrorDetail.from_value(error))
