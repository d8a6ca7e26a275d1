"""Checks the manifest of a module against its schema; each error has a JSON pointer.

    {"version": "1.0"}              manifest.value     /version
    {"colour": "red"}               manifest.unknown   /colour
    no "module_id"                  manifest.missing   /module_id
    {"capabilities": "current"}     manifest.type      /capabilities

Source: docs/kinds/module.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from assayd.model.finding import Finding, Rule, Severity
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(id="manifest.missing", title="A required field is missing", help="Every module has a version."),
    Rule(id="manifest.unknown", title="An unknown field", help="Bad: colour. Good: description."),
    Rule(
        id="manifest.type",
        title="A field has the wrong type",
        help='Bad: "capabilities": "current". Good: "capabilities": ["current"].',
    ),
    Rule(
        id="manifest.value",
        title="A field value has the wrong form",
        help='Bad: "version": "1.0". Good: "version": "1.0.0".',
    ),
    Rule(
        id="manifest.module_id",
        title="The id doesn't match category and platform",
        severity=Severity.WARNING,
        help="Good: weather/open_meteo for the category weather and the platform open_meteo.",
    ),
    Rule(
        id="manifest.entrypoint",
        title="The entrypoint isn't in the adapter",
        severity=Severity.WARNING,
        help="Good: the name of the adapter's class, or of its file.",
    ),
)

_FORMS = {
    r"^[a-z0-9_]+/[a-z0-9_]+$": "category/platform in lowercase letters, digits and underscores",
    r"^[0-9]+\.[0-9]+\.[0-9]+$": "three numbers separated by dots, e.g. 1.0.0",
    r"^[a-z_]+$": "lowercase letters and underscores",
    r"^[a-z0-9_]+$": "lowercase letters, digits and underscores",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "an identifier, e.g. WeatherAdapter",
}
_EXAMPLES: Mapping[int | str, str] = {
    "module_id": '"weather/open_meteo"',
    "version": '"1.0.0"',
    "category": '"weather"',
    "platform": '"open_meteo"',
    "entrypoint": '"OpenMeteo"',
    "capabilities": '["current", "forecast"]',
    "auth": '{"type": "api_key", "required_credentials": ["key"]}',
    "pagination": '{"supported": true, "type": "page", "max_page_size": 100}',
    "rate_limits": '{"requests_per_minute": 60}',
    "outputs": '{"mime_types": ["application/json"]}',
    "artifacts": '{"produces": ["file"]}',
}
_ID, _VERSION, _WORD, _WORD_WITH_DIGITS, _IDENTIFIER = _FORMS


def _text_constraints(pattern: str) -> StringConstraints:
    return StringConstraints(pattern=pattern)


class _ManifestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Auth(_ManifestModel):
    """The authentication of the platform, as described in a manifest."""

    type: Literal["none", "api_key", "oauth2", "basic"]
    required_credentials: list[str] = Field(default_factory=list)


class Pagination(_ManifestModel):
    """The pagination of responses, as described in a manifest."""

    supported: bool = True
    type: Literal["offset", "cursor", "page"] | None = None
    max_page_size: int | None = Field(None, ge=1)


class Outputs(_ManifestModel):
    """The output of the adapter, as described in a manifest."""

    schema_ref: str | None = None
    mime_types: list[str] = Field(default_factory=list)


class Artifacts(_ManifestModel):
    """The artifacts of the adapter, as described in a manifest."""

    produces: list[Literal["chart", "file", "log", "report"]] = Field(default_factory=list)


class Manifest(_ManifestModel):
    """The complete manifest of a module."""

    module_id: Annotated[str, _text_constraints(_ID)]
    version: Annotated[str, _text_constraints(_VERSION)]
    category: Annotated[str, _text_constraints(_WORD)]
    platform: Annotated[str, _text_constraints(_WORD_WITH_DIGITS)]
    entrypoint: Annotated[str, _text_constraints(_IDENTIFIER)]
    capabilities: Annotated[list[Annotated[str, _text_constraints(_WORD)]], Field(min_length=1)]
    description: str | None = Field(None, max_length=500)
    auth: Auth | None = None
    pagination: Pagination | None = None
    rate_limits: dict[str, object] | None = None
    outputs: Outputs | None = None
    artifacts: Artifacts | None = None


def check_manifest(manifest: Mapping[str, object]) -> Iterator[Finding]:
    """Yield all findings about a manifest, in the order of the schema."""
    try:
        read = Manifest.model_validate(dict(manifest))
    except ValidationError as problem:
        for error in problem.errors(include_url=False):
            yield _manifest_finding(error)
        return
    expected = f"{read.category}/{read.platform}"
    if read.module_id != expected:
        yield Finding(
            rule="manifest.module_id",
            category="schema_error",
            severity=Severity.WARNING,
            message=shorten_text(
                f"The module_id is {read.module_id!r}; category and platform say {expected!r}."
            ),
            context="/module_id",
            suggestion=f'Write "module_id": "{shorten_text(expected, 100)}".',
        )


def entrypoint_finding(entrypoint: str, known: list[str]) -> Finding:
    """Return the warning for a manifest's entrypoint that has an unknown name."""
    return Finding(
        rule="manifest.entrypoint",
        category="schema_error",
        severity=Severity.WARNING,
        message=f"The entrypoint {shorten_text(entrypoint, 100)!r} isn't in the adapter.",
        context="/entrypoint",
        suggestion=f"Name one of {', '.join(known)}.",
    )


def _manifest_finding(error: ErrorDetails) -> Finding:
    pointer = "".join(f"/{_escape_pointer(str(part))}" for part in error["loc"])
    rule, what, suggestion = _explain_error(error)
    return Finding(
        rule=rule,
        category="schema_error",
        message=shorten_text(f"manifest {pointer}: {what}."),
        context=shorten_text(pointer, 200),
        suggestion=shorten_text(suggestion),
    )


def _explain_error(error: ErrorDetails) -> tuple[str, str, str]:
    """Return the rule, message and fix for one error."""
    field, kind, limits = str(error["loc"][-1]), error["type"], error.get("ctx", {})
    match kind:
        case "missing":
            return "manifest.missing", "is missing", f'Add "{field}".'
        case "extra_forbidden":
            names = ", ".join(Manifest.model_fields) if len(error["loc"]) == 1 else "those of the schema"
            return "manifest.unknown", "isn't a field of the manifest", f"Remove it; fields are {names}."
        case "string_pattern_mismatch":
            form, given = _FORMS[limits["pattern"]], shorten_text(str(error["input"]), 60)
            return "manifest.value", f"{given!a} isn't {form}", f"Write {form}.{_format_example(error)}"
        case "literal_error":
            return "manifest.value", "isn't a known value", f"Use one of {limits['expected']}."
        case "string_too_long" | "greater_than_equal" | "too_short":
            return (
                "manifest.value",
                error["msg"][:1].lower() + error["msg"][1:],
                "Change the value accordingly.",
            )
        case _:
            wanted = error["msg"].removeprefix("Input should be ")
            return "manifest.type", f"should be {wanted}", f"Write {wanted}.{_format_example(error)}"


def _format_example(error: ErrorDetails) -> str:
    """Return an example value of a valid field."""
    field = error["loc"][0]
    return f' For example: "{field}": {_EXAMPLES[field]}' if field in _EXAMPLES else ""


def _escape_pointer(part: str) -> str:
    """Return a key escaped for a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1")
