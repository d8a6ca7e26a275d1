"""The OpenAPI descriptions of each route's responses, and the API reference at `/openapi.json`.

The reference has the form that client generators accept. This module defines the names of operations and
models, and describes submissions by one model per kind, with `kind` as the discriminator. `documents`
defines the fields of the models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from assayd.documents import SubmissionBody
from assayd.documents.attempts import (
    ArtifactListDocument,
    AttemptDocument,
    AttemptPageDocument,
    SummaryDocument,
)
from assayd.documents.base import ErrorDocument
from assayd.documents.batches import BatchDocument, BatchPageDocument, ItemPageDocument
from assayd.documents.discovery import (
    DaemonDocument,
    ExaminationDocument,
    GarbageDocument,
    KindDocument,
    KindListDocument,
    PolicyCheckDocument,
    PolicyListDocument,
    ReadinessDocument,
    StatusDocument,
)
from assayd.documents.library import ApproveBody, LibraryEntryDocument, LibraryPageDocument
from assayd.documents.policy_review import ExplanationDocument, SuggestionDocument
from assayd.documents.reports import StaticCheckDocument
from assayd.kind import Kind

Responses = dict[int | str, dict[str, Any]]
"""FastAPI's type for the descriptions of a route's responses."""


def describe_json_responses(model: type[BaseModel], description: str) -> Responses:
    """Return the description of a route that always responds with a single document."""
    return {200: describe_json_response(model, description)}


def describe_json_response(model: type[BaseModel], description: str) -> dict[str, Any]:
    """Return the OpenAPI description of a response that is a single document."""
    return {"model": model, "description": description}


def describe_raw_response(media_type: str, description: str) -> dict[str, Any]:
    """Return the OpenAPI description of a response that isn't a JSON document."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content}


ERRORS: Responses = {
    status: describe_json_response(ErrorDocument, description)
    for status, description in {
        400: "Malformed request",
        403: "Peer not allowed",
        404: "Not found, or another user's",
        422: "Invalid value",
        500: "An internal error",
    }.items()
}
_LOCATION_HEADERS = {
    "headers": {"Location": {"description": "Path of the attempt.", "schema": {"type": "string"}}}
}
SUBMITTED: Responses = {
    200: {
        **describe_json_response(AttemptDocument, "The finished attempt, or the attempt accepted earlier"),
        **_LOCATION_HEADERS,
    },
    202: {**describe_json_response(AttemptDocument, "Accepted; not finished yet"), **_LOCATION_HEADERS},
    409: describe_json_response(ErrorDocument, "The id or key belongs to another submission"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    413: describe_json_response(ErrorDocument, "Body or source too large"),
    429: describe_json_response(ErrorDocument, "Queue or quota full; see Retry-After"),
    503: describe_json_response(ErrorDocument, "Not ready; see Retry-After"),
}
ATTEMPT: Responses = {200: describe_json_response(AttemptDocument, "The attempt")}
SUMMARY_RESPONSES: Responses = {200: describe_json_response(SummaryDocument, "Counts of attempts by result")}
ATTEMPT_PAGE: Responses = {200: describe_json_response(AttemptPageDocument, "A page of attempts")}
CANCELLED: Responses = {
    202: describe_json_response(AttemptDocument, "The attempt is being cancelled"),
    409: describe_json_response(ErrorDocument, "Already finished"),
}
REPLAYED_RESPONSES: Responses = {
    200: {**describe_json_response(AttemptDocument, "The finished replay"), **_LOCATION_HEADERS},
    202: {**describe_json_response(AttemptDocument, "Accepted; not finished yet"), **_LOCATION_HEADERS},
    409: describe_json_response(ErrorDocument, "The attempt has no verdict yet"),
    429: describe_json_response(ErrorDocument, "Queue or quota full; see Retry-After"),
    503: describe_json_response(ErrorDocument, "Not ready; see Retry-After"),
}


def describe_event_stream(description: str) -> Responses:
    """Return the responses of a route that streams events."""
    stream = "Server-sent events: `id`, `event` (the kind), and `data`, JSON with the same id and kind."
    content = {"text/event-stream": {"schema": {"description": stream}}}
    return {200: {"description": f"{description}.", "content": content}}


EVENTS_RESPONSES = describe_event_stream(
    "Events `state`, `stage`, `stdout`, `stderr`, `unit`, `finished`, and `gap` if events are missing"
)
ALL_EVENTS_RESPONSES = describe_event_stream(
    "Events `state`, `stage`, `unit`, `finished` of all attempts, and `gap`"
)
BATCH_EVENTS_RESPONSES = describe_event_stream("Events `progress` with the current counts, and `finished`")
BATCH_RECEIVED_RESPONSES: Responses = {
    202: {**describe_json_response(BatchDocument, "Accepted and started"), **_LOCATION_HEADERS},
    408: describe_json_response(
        ErrorDocument, "The body didn't arrive in time; the lines received so far are kept"
    ),
    413: describe_json_response(ErrorDocument, "Too many lines; the lines before are kept"),
    429: describe_json_response(ErrorDocument, "Too many unfinished batches; see Retry-After"),
    503: describe_json_response(ErrorDocument, "Not ready; see Retry-After"),
}
BATCH: Responses = {200: describe_json_response(BatchDocument, "The batch")}
BATCH_PAGE_RESPONSES: Responses = {200: describe_json_response(BatchPageDocument, "A page of batches")}
ITEM_PAGE_RESPONSES: Responses = {200: describe_json_response(ItemPageDocument, "A page of items")}
BATCH_CANCELLED_RESPONSES: Responses = {
    202: describe_json_response(BatchDocument, "No further attempts start"),
    409: describe_json_response(ErrorDocument, "Already finished"),
}
BATCH_RETRIED_RESPONSES: Responses = {
    202: describe_json_response(
        BatchDocument, "They run again; unchanged if no item has the verdict `error`"
    ),
    409: describe_json_response(ErrorDocument, "It was cancelled"),
    503: describe_json_response(ErrorDocument, "Not ready; see Retry-After"),
}
RESULTS: Responses = {
    200: {
        "description": "One line per item: the fields of `…/items`, and `attempt` (an Attempt or null).",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
ATTESTATION: Responses = {
    200: describe_raw_response("application/json", "A DSSE envelope with an in-toto statement"),
    404: describe_json_response(ErrorDocument, "Unknown batch, or this daemon doesn't sign"),
    409: describe_json_response(ErrorDocument, "Items have no verdict yet"),
}
AUDIT_RESPONSES: Responses = {
    200: {
        "description": (
            "One line per change: actor, action, object; `previous` is the SHA-256 of the previous line."
        ),
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    },
    403: describe_json_response(ErrorDocument, "For operators"),
}
GARBAGE_RESPONSES: Responses = {
    200: describe_json_response(GarbageDocument, "Removed attempts and bundles, or a preview")
}
ARTIFACT_LIST_RESPONSES: Responses = {
    200: describe_json_response(ArtifactListDocument, "The files of the bundle")
}
ARTIFACT: Responses = {200: describe_raw_response("application/octet-stream", "The file")}
BUNDLE: Responses = {200: describe_raw_response("application/x-tar", "All files")}
KIND_LIST_RESPONSES: Responses = {200: describe_json_response(KindListDocument, "The kinds")}
KIND: Responses = {200: describe_json_response(KindDocument, "The kind")}
POLICY_CHECK_RESPONSES: Responses = {
    200: describe_json_response(PolicyCheckDocument, "The effective values of the profile"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    429: describe_json_response(ErrorDocument, "Bodies of other users take too much memory; see Retry-After"),
}
TRIAL_RESPONSES: Responses = {
    **describe_event_stream("Events `progress` and `finished`, each with the current state of the trial"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    409: describe_json_response(ErrorDocument, "Nodes judge attempts: ask a node's daemon"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    429: describe_json_response(ErrorDocument, "Another trial of the caller is running"),
}
SUGGESTION_RESPONSES: Responses = {
    200: describe_json_response(SuggestionDocument, "The additions"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    409: describe_json_response(ErrorDocument, "Nodes judge attempts: ask a node's daemon"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    429: describe_json_response(ErrorDocument, "Another trial of the caller is running"),
}
EXPLANATION_RESPONSES: Responses = {
    200: describe_json_response(ExplanationDocument, "The findings"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    409: describe_json_response(ErrorDocument, "Nodes judge attempts: ask a node's daemon"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    429: describe_json_response(ErrorDocument, "Another trial of the caller is running"),
}
CHECKED: Responses = {
    200: describe_json_response(StaticCheckDocument, "The stages and their findings"),
    408: describe_json_response(ErrorDocument, "The body didn't arrive in time"),
    409: describe_json_response(ErrorDocument, "Nodes judge attempts: ask a node's daemon"),
    413: describe_json_response(ErrorDocument, "Body too large"),
    422: describe_json_response(ErrorDocument, "The submission doesn't fit its kind"),
}
POLICY_LIST_RESPONSES: Responses = {200: describe_json_response(PolicyListDocument, "The profiles")}
POLICY: Responses = {
    200: {"description": "The profile", "content": {"application/json": {"schema": {"type": "object"}}}}
}
EXAMINATION_RESPONSES: Responses = {
    200: describe_json_response(ExaminationDocument, "Results of the checks"),
    403: describe_json_response(ErrorDocument, "Operators only, until an operator has requested it once"),
    429: describe_json_response(ErrorDocument, "An examination is already being sent; see Retry-After"),
}
DAEMON: Responses = {
    200: describe_json_response(DaemonDocument, "The daemon"),
    403: describe_json_response(ErrorDocument, "For operators"),
}
ALIVE_RESPONSES: Responses = {200: describe_json_response(StatusDocument, "The daemon answers")}
READY: Responses = {
    200: describe_json_response(ReadinessDocument, "Ready to run attempts"),
    503: describe_json_response(ErrorDocument, "Not ready, with the reason"),
}
METRICS: Responses = {
    200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
    403: describe_json_response(ErrorDocument, "Operators only, from another host"),
}

APPROVED: Responses = {
    200: describe_json_response(LibraryEntryDocument, "The entry"),
    409: describe_json_response(ErrorDocument, "The attempt isn't validated"),
    429: describe_json_response(ErrorDocument, "The user's library is full"),
}
LIBRARY_REMOVED_RESPONSES: Responses = {
    200: describe_json_response(LibraryPageDocument, "The entries that were removed")
}
LIBRARY_LIST_RESPONSES: Responses = {200: describe_json_response(LibraryPageDocument, "Entries")}
LIBRARY_ENTRY_RESPONSES: Responses = {200: describe_json_response(LibraryEntryDocument, "The entry")}


def describe_request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a request body that the route, not the framework, reads."""
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


APPROVE_BODY = describe_request_body(ApproveBody)
_LINES = "One SubmissionBody per line; empty lines count."
BATCH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string", "description": _LINES}},
            # Clients from generators that don't know JSON lines would omit the route without this type.
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary", "description": _LINES}
            },
        },
    }
}
_PROFILE = "A profile, as TOML."
TOML_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/plain": {"schema": {"type": "string", "description": _PROFILE}},
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary", "description": _PROFILE}
            },
        },
    }
}
SUBMISSION_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/SubmissionBody"}}},
    }
}
"""The description of a submission as a request body, which the route reads instead of the framework."""


_SCHEMA_PREFIX = "#/components/schemas/"
_MODEL_PATTERN = re.compile(rf'"({_SCHEMA_PREFIX})?(\w+)Document"')
"""Matches the names of models, from which the API reference omits the suffix `Document`."""


def set_operation_ids(routes: Iterable[BaseRoute]) -> None:
    """Set the id of each operation to the name of its function."""
    for route in routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.unique_id = route.name


def build_api_reference(app: FastAPI, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the OpenAPI document of an application that accepts submissions of the given kinds."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    whole: dict[str, Any] = json.loads(_MODEL_PATTERN.sub(r'"\1\2"', json.dumps(document)))
    whole["components"]["schemas"].update(_build_submission_schemas(kinds))
    return whole


def _build_submission_schemas(kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the schema of `SubmissionBody`, a union of one model per kind, together with these models."""
    payloads = {kind: validator.payload for kind, validator in sorted(kinds.items())}
    wanted = [(model, "validation") for model in {SubmissionBody, *payloads.values()}]
    found, models = models_json_schema(wanted, ref_template=_SCHEMA_PREFIX + "{model}")  # type: ignore[arg-type]
    schemas: dict[str, Any] = models["$defs"]
    common = schemas.pop("SubmissionBody")
    refs = {}
    for kind, payload in payloads.items():
        name = f"{_to_camel_case(kind)}Submission"
        own = {"kind": {"const": kind, "type": "string", "description": "Kind of the submission."}}
        own["payload"] = found[payload, "validation"]
        schemas[name] = {**common, "title": name, "properties": {**common["properties"], **own}}
        refs[kind] = _SCHEMA_PREFIX + name
    schemas["SubmissionBody"] = {
        "title": "SubmissionBody",
        "description": common["description"],
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "kind", "mapping": refs},
    }
    return schemas


def _to_camel_case(kind: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]", kind))
