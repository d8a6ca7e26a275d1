"""Errors: the answer that is not a success."""

from __future__ import annotations

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.errors import AssaydError


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
