"""What can be submitted: kinds with their payloads and rules, and the profiles."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.model.finding import Severity
from assayd.ports.validator import Validator


class RuleDocument(BaseDocument):
    """A rule that a validator applies."""

    id: str = Field(description="Name in findings.")
    title: str = Field(description="What it is about.")
    severity: Severity = Field(description="What a finding of it weighs.")
    help: str = Field(description="What is wrong, and what would be right.")


class KindDocument(BaseDocument):
    """A kind of submission."""

    kind: str = Field(description="Its name.")
    default_policy: str = Field(description="The profile that it takes unless told otherwise.")
    image: str = Field(description="The image that it runs in.")
    stages: list[str] = Field(description="Its stages, in order.")
    payload_schema: dict[str, Any] = Field(description="JSON Schema of the payload.")
    rules: list[RuleDocument] = Field(description="Its rules.")


class KindListDocument(BaseDocument):
    """The kinds that can be submitted."""

    kinds: list[KindDocument] = Field(description="The kinds.")


class PolicyListDocument(BaseDocument):
    """The profiles."""

    policies: list[dict[str, Any]] = Field(description="The profiles with effective values.")


def kind_document(validator: Validator) -> KindDocument:
    """Return the document of a kind, for people and programs that prepare submissions."""
    return KindDocument.from_value(
        validator,
        stages=[*(stage.name for stage in validator.stages), *validator.runtime_stages],
        payload_schema=validator.payload.model_json_schema(),
        rules=[RuleDocument.from_value(rule) for rule in validator.rules],
    )
