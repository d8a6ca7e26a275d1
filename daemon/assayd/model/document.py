"""Marks dataclasses as documents of the wire contract: one definition of fields, meanings and JSON.

Such a class has ``__pydantic_config__ = DOCUMENT`` and passes `about` to each field. pydantic uses both to
validate and document the class, although the model doesn't import pydantic. `documents.base` writes
the fields in their order of definition. A value with times or durations has a separate document class,
which expresses them as strings and milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DOCUMENT: Final = {"extra": "forbid", "json_schema_serialization_defaults_required": True}


def document_field(meaning: str) -> Mapping[str, str]:
    """Return the metadata that documents a field."""
    return {"description": meaning}
