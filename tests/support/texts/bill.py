"""Bills of materials against the schema of CycloneDX."""

from __future__ import annotations


def schema_problem(document: bytes) -> object:
    """Return what the schema says against a document; None if it fits."""
    # Their import takes seconds of every process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(document.decode())
