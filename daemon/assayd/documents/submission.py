"""Parses an untrusted submission into a `Submission`, or rejects it with the field's name.

Parts larger than their cap (`PayloadCaps`) are rejected before they are copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, assert_never, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from assayd import did_you_mean
from assayd.documents.base import (
    MAX_ERROR_PATH_CHARS,
    canonical,
    digest,
    format_error_path,
    message_of,
    parse_json,
    reject_excess_errors,
)
from assayd.errors import RequestError
from assayd.model.hosts import MOST_CHARS
from assayd.model.submission import JsonValue, RepairOptions, Submission

if TYPE_CHECKING:  # The client reads documents but doesn't have these modules.
    from assayd.kind import Cap, Kind

LARGE_DOCUMENT_BYTES = 64 * 2**10
"""Bytes above which a document is parsed in a thread, and stays in the store while it waits."""

MAX_INTENT_BYTES = 16 * 2**10
"""Maximum bytes of the request in words."""

_LABEL_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
_FREE_LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$"
_FOLDER_LABELS = frozenset({"category", "platform"})
"""Labels that name folders of the bundle, and so allow fewer characters."""
LabelText = Annotated[str, StringConstraints(pattern=_LABEL_PATTERN)]
FreeLabelText = Annotated[str, StringConstraints(pattern=_FREE_LABEL_PATTERN)]


def _check_intent(text: str) -> str:
    if len(text.encode()) > MAX_INTENT_BYTES:
        raise ValueError(f"is larger than {MAX_INTENT_BYTES} bytes; shorten it")
    if not text.strip():
        raise ValueError("is empty; omit it")
    return text


IntentText = Annotated[str, Field(max_length=MAX_INTENT_BYTES), AfterValidator(_check_intent)]
WebhookText = Annotated[str, Field(max_length=MOST_CHARS)]
Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]


class Resources(BaseModel):
    """Tighter limits for this attempt. A value above the policy's limit is rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    timeout_s: float | None = Field(None, gt=0, description="Seconds for the whole attempt.")
    unit_timeout_s: float | None = Field(
        None, gt=0, description="Seconds for one path, step, test or code node."
    )
    memory_mb: int | None = Field(None, gt=0, description="Memory for the code, in MiB.")
    max_processes: int | None = Field(None, gt=0, description="Processes and threads of the code.")


class Overrides(BaseModel):
    """A request's changes to its policy. `policies` ensures that they only tighten it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    enforcement: Literal["enforce", "report"] | None = Field(
        None, description="`enforce`, for a profile that only reports broken rules."
    )
    resources: Resources | None = Field(None, description="Tighter limits.")
    network: dict[str, object] | None = Field(None, description="A more restrictive network.")
    imports: dict[str, object] | None = Field(None, description="Fewer or stricter imports.")
    commands: dict[str, object] | None = Field(None, description="Fewer commands for bash steps.")
    sql: dict[str, object] | None = Field(None, description="Less SQL in a step, fewer rows kept.")


class RepairRequest(BaseModel):
    """A request for a repair that starts if the attempt fails."""

    model_config = ConfigDict(extra="forbid", strict=True)

    provider: str = Field(description="Name of a configured provider.")
    max_attempts: int | None = Field(
        None, ge=1, le=10, description="Maximum number of fixes; null: `repair.max_attempts`."
    )


class SubmissionBody(BaseModel):
    """The body of a submission: one piece of code, with options for its validation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str = Field(description="Kind of the submission; `GET /v1/kinds` lists them.")
    payload: dict[str, object] = Field(description="The code and its inputs, in the kind's schema.")
    policy: str | None = Field(None, description="Profile name; null: the kind's default.")
    overrides: Overrides = Field(default_factory=Overrides, description="Limits that tighten the profile.")
    labels: dict[LabelText, FreeLabelText] = Field(
        default_factory=dict,
        max_length=32,
        description="Any labels; `category` and `platform` name the bundle's folder.",
    )
    intent: IntentText | None = Field(None, description="The purpose in words, for repairs; at most 16 KiB.")
    repair: RepairRequest | None = Field(None, description="A repair to start if the attempt fails.")
    parent_id: Ulid | None = Field(None, description="The attempt that this one follows.")
    webhook: WebhookText | None = Field(
        None, description="URL to send the verdict to; the operator must have listed it."
    )

    @field_validator("labels")
    @classmethod
    def _check_folder_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for name in sorted(_FOLDER_LABELS & labels.keys()):
            if re.fullmatch(_LABEL_PATTERN, labels[name]) is None:
                raise ValueError(f"{name} names a folder, so it must match {_LABEL_PATTERN}")
        return labels


MAX_SOURCE_BYTES = 2**20
"""Maximum bytes of one source text, which limits the cost of its analysis."""

MAX_GROWTH_FACTOR = 4
"""Maximum growth factor of JSON in canonical form: each `1e15,` becomes 3.8 times as long."""

_NAME_CHARS = 200
"""The maximum number of a name's characters in an error message."""

Part = tuple[str, object]
"""The dotted path of a part, and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadCaps:
    """The maximum sizes of the parts of a payload. Each field has the name of a `Cap`."""

    source_bytes: int = MAX_SOURCE_BYTES
    inputs_bytes: int = 12 * 2**20
    sample_paths: int = 100
    steps: int = 100


def reject_large_parts(
    validator: Kind, payload: Mapping[str, object], caps: PayloadCaps, *, body_bytes: int
) -> None:
    """Check that no part of a payload exceeds its cap. `body_bytes` is the size of the request body.

    Raises: RequestError ``too_large``, with the part's path.
    """
    from assayd.kind import Cap

    for (field, value), cap in _find_capped_parts(validator, payload):
        if cap is Cap.INPUTS and body_bytes * MAX_GROWTH_FACTOR <= caps.inputs_bytes:
            continue
        excess = _describe_excess(value, cap, getattr(caps, cap.value))
        if excess:
            raise RequestError("too_large", f"{field} {excess}", field=field)


def find_texts(payload: Mapping[str, object], paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return the strings at the given dotted paths of a payload, each with its location. Omit other values.

    A location is a dotted path, e.g. ``files.adapter.py``.
    """
    parts = [part for path in paths for part in _find_parts(("", payload), path)]
    return [(field.removeprefix("."), text) for field, text in parts if isinstance(text, str)]


def find_checked_texts(validator: Kind, prepared: BaseModel) -> list[tuple[str, str]]:
    """Return the texts to check and run, with their locations. Omit data and the prose around code.

    `prepared` is the payload that `Kind.prepare` has returned.
    """
    paths = validator.checked_parts or (validator.code_field,)
    wanted = {path.partition(".")[0] for path in paths}
    return find_texts(prepared.model_dump(mode="json", include=wanted), paths)


def _find_capped_parts(validator: Kind, payload: Mapping[str, object]) -> list[tuple[Part, Cap]]:
    """Return all parts of a payload that have a cap, each with its cap."""
    from assayd.kind import Cap

    if validator.bounded is None:
        return [(part, Cap.SOURCE) for part in _iter_strings(("payload", payload))]
    bounded = validator.bounded.items()
    return [(part, cap) for path, cap in bounded for part in _find_parts(("payload", payload), path)]


def _describe_excess(value: object, cap: Cap, most: int) -> str:
    """Return a description of the excess.

    The result is empty if the part fits, or if pydantic will reject it.
    """
    from assayd.kind import Cap

    match cap:
        case Cap.SOURCE:
            large = isinstance(value, str) and (len(value) > most or len(value.encode()) > most)
            return f"is larger than {_format_size(most)}" if large else ""
        case Cap.INPUTS:
            return f"is larger than {_format_size(most)}" if len(canonical(value)) > most else ""
        case Cap.SAMPLE_PATHS | Cap.STEPS:
            return f"has more than {most} entries" if isinstance(value, list) and len(value) > most else ""
    assert_never(cap)


def _format_size(count: int) -> str:
    """Return a size as text, in MiB if that is an integer."""
    return f"{count >> 20} MiB" if count and count % 2**20 == 0 else f"{count} bytes"


def _find_parts(whole: Part, path: str) -> list[Part]:
    """Return the parts of a payload that match a path, or an empty list if none matches."""
    parts = [whole]
    for name in path.split("."):
        parts = [inner for part in parts for key, inner in _list_child_parts(part) if name in {"*", key}]
    return parts


def _iter_strings(whole: Part) -> Iterator[Part]:
    """Yield every string at any depth, including keys."""
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        if isinstance(part[1], str):
            yield part
        if isinstance(part[1], dict):
            yield from ((part[0], key) for key in part[1])
        waiting.extend(inner for _, inner in _list_child_parts(part))


def _list_child_parts(part: Part) -> list[tuple[str, Part]]:
    """Return the direct children of a part, by key."""
    field, value = part
    if isinstance(value, dict):
        return [(name, (f"{field}.{name[:_NAME_CHARS]}", inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [(str(number), (f"{field}.{number}", inner)) for number, inner in enumerate(value)]
    return []


_USUAL = PayloadCaps()
_ACCEPTED_CAPS = PayloadCaps(inputs_bytes=2**40)
"""Caps without a limit on inputs, because an accepted submission satisfied the limits of its time."""


def read_submission(body: bytes, kinds: Mapping[str, Kind], *, caps: PayloadCaps = _USUAL) -> Submission:
    """Parse a request body.

    If the resulting `document` is parsed again, the submission is equal.

    Raises:
        RequestError: ``malformed`` for invalid JSON; ``too_large`` for a part above one of the `caps`;
            ``kind.unknown``; ``invalid``, with the field's path, for any other error.
    """
    raw = parse_json(body)
    if not isinstance(raw, dict):
        raise RequestError("malformed", "a submission must be a JSON object")
    envelope = _read_envelope(raw)
    validator = _find_kind(envelope.kind, kinds)
    reject_large_parts(validator, envelope.payload, caps, body_bytes=len(body))
    reject_excess_errors(validator.payload, envelope.payload, "payload.")
    payload_text = canonical(envelope.payload)
    policy = envelope.policy or validator.default_policy
    overrides = envelope.overrides.model_dump(exclude_none=True)
    document = _serialize_canonical_document(envelope, policy, overrides, payload_text)
    # Release the parsed body, which would otherwise be in memory twice.
    for read_before in (envelope.payload, raw):
        read_before.clear()
    payload = _read_payload(validator, payload_text)
    return Submission(
        kind=envelope.kind,
        policy=policy,
        payload=payload,
        input_digest=digest(b'{"kind":' + canonical(envelope.kind) + b',"payload":' + payload_text + b"}"),
        document=document,
        overrides=overrides,
        labels={**_derive_labels(validator, payload), **envelope.labels},
        parent_id=envelope.parent_id,
        intent=envelope.intent,
        repair=RepairOptions(**envelope.repair.model_dump()) if envelope.repair is not None else None,
        webhook=envelope.webhook,
    )


def _serialize_canonical_document(
    envelope: SubmissionBody, policy: str, overrides: Mapping[str, object], payload_text: bytes
) -> bytes:
    """Return the submission in canonical form. Its payload, which may be large, already has this form."""
    before: dict[str, object] = {
        "kind": envelope.kind,
        "labels": envelope.labels,
        "overrides": overrides,
        "parent_id": envelope.parent_id,
    }
    if envelope.intent is not None:
        before["intent"] = envelope.intent
    after: dict[str, object] = {"policy": policy}
    if envelope.repair is not None:
        after["repair"] = envelope.repair.model_dump()
    if envelope.webhook is not None:
        after["webhook"] = envelope.webhook
    return b"".join((canonical(before)[:-1], b',"payload":', payload_text, b",", canonical(after)[1:]))


def add_payload_fields(
    document: bytes, fields: Mapping[str, object], kinds: Mapping[str, Kind]
) -> Submission:
    """Add fields to a submission's payload, and parse the result as a new request.

    Raises: the same errors as `read_submission`.
    """
    read = json.loads(document)
    read["payload"] |= fields
    return read_submission(canonical(read), kinds)


def read_accepted(document: bytes, kinds: Mapping[str, Kind]) -> Submission:
    """Parse an accepted submission, without a limit on inputs.

    Raises: the same errors as `read_submission`.
    """
    return read_submission(document, kinds, caps=_ACCEPTED_CAPS)


def _read_envelope(raw: dict[str, JsonValue]) -> SubmissionBody:
    reject_excess_errors(SubmissionBody, raw)
    try:
        return SubmissionBody.model_validate(raw)
    except ValidationError as error:
        _raise_request_error(error, SubmissionBody, prefix=())


def _read_payload(validator: Kind, text: bytes) -> BaseModel:
    try:
        # From text rather than objects, so that strict models accept arrays for tuples, and nothing else.
        payload: BaseModel = validator.payload.model_validate_json(text)
    except ValidationError as error:
        _raise_request_error(error, validator.payload, prefix=("payload",))
    return payload


def _derive_labels(validator: Kind, payload: BaseModel) -> dict[str, str]:
    """Return the labels that a payload implies, without invalid labels."""
    implied = validator.labels(payload)
    return {name: value for name, value in implied.items() if re.fullmatch(_LABEL_PATTERN, value)}


def _find_kind(kind: str, kinds: Mapping[str, Kind]) -> Kind:
    if kind not in kinds:
        known = ", ".join(sorted(kinds))
        raise RequestError("kind.unknown", f"unknown kind {kind[:64]!r}; use one of {known}", field="kind")
    return kinds[kind]


def _raise_request_error(
    error: ValidationError, model: type[BaseModel], *, prefix: tuple[str, ...]
) -> NoReturn:
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    field = format_error_path((*prefix, *first["loc"])) or None
    more = f" (and {len(others)} more)" if others else ""
    fault = message_of(first)
    if first["type"] == "extra_forbidden":
        *within, name = first["loc"]
        close = did_you_mean.format_did_you_mean_hint(
            str(name)[:MAX_ERROR_PATH_CHARS], _list_field_names(model, within)
        )
        fault = f"unknown field{close}"
    raise RequestError("invalid", f"{field or 'the submission'}: {fault}{more}", field=field) from error


def _list_field_names(model: type[BaseModel], within: Sequence[object]) -> list[str]:
    """Return the field names of a model, or of the model nested at `within`.

    The result is empty if there is none.
    """
    for part in within:
        field = model.model_fields.get(str(part))
        inner = (field.annotation, *get_args(field.annotation)) if field is not None else ()
        models = [each for each in inner if isinstance(each, type) and issubclass(each, BaseModel)]
        if not models:
            return []
        model = models[0]
    return list(model.model_fields)
