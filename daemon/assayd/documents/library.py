"""Documents of the library, and the request that approves an attempt."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from assayd.documents.base import BaseDocument, Timestamp, serialize_with_raw_members
from assayd.model.records import LibraryEntry

LibraryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class ApproveBody(BaseModel):
    """The request body with the name for an approved attempt."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: LibraryName = Field(description="Letters, digits, `_` and `-`, per user.")


class LibraryEntryDocument(BaseDocument):
    """A validated submission that a user approved under a name."""

    uid: int = Field(description="User id of the owner.")
    name: str = Field(description="The name.")
    version: int = Field(description="The version, from 1.")
    kind: str = Field(description="Kind of the submission.")
    attempt_id: str = Field(description="The attempt that validated it.")
    digest: str = Field(description="SHA-256 of kind and payload.")
    intent: str | None = Field(description="The request in words.")
    chain: list[str] = Field(description="The attempts that led to it, oldest first.")
    approved_by: int = Field(description="User who approved it.")
    approved_at: Timestamp = Field(description="When.")
    bundle: str | None = Field(description="Folder of its files; null after they were deleted to free space.")
    submission: dict[str, Any] | None = Field(description="The submission; null in lists.")


class LibraryPageDocument(BaseDocument):
    """A page of library entries."""

    entries: list[LibraryEntryDocument] = Field(description="The entries, without submissions.")
    next_cursor: str | None = Field(description="Start of the next page.")


def build_library_entry_document(entry: LibraryEntry) -> LibraryEntryDocument:
    """Return the document of an entry without its submission, for lists."""
    return LibraryEntryDocument.from_value(entry, chain=list(entry.chain), submission=None)


def serialize_library_entry(entry: LibraryEntry) -> bytes:
    """Return an entry as JSON text, including its submission.

    The submission, which may be large, is passed as JSON text.
    """
    return serialize_with_raw_members(build_library_entry_document(entry), {"submission": entry.document})
