"""Marks values that are documents of the contract: one definition of fields, meanings and JSON.

Such a class has ``__pydantic_config__ = DOCUMENT``, and `about` with each field. pydantic checks and shows
the class by these, and the model imports no pydantic for it. `documents.strict_json` writes the fields in
their order. Values with times or durations have separate documents, with strings and milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DOCUMENT: Final = {"extra": "forbid", "json_schema_serialization_defaults_required": True}


def about(meaning: str) -> Mapping[str, str]:
    """Return the metadata of a field with this meaning."""
    return {"description": meaning}
