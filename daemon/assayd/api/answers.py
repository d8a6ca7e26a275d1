"""Which answers each route gives, as the reference shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from assayd.documents.attempts import ArtifactListDocument, AttemptDocument, AttemptPageDocument
from assayd.documents.base import ErrorDocument
from assayd.documents.batches import BatchDocument, BatchPageDocument, ItemPageDocument
from assayd.documents.discovery import KindDocument, KindListDocument, PolicyCheckDocument, PolicyListDocument
from assayd.documents.generations import (
    ApproveBody,
    GenerationBody,
    GenerationDocument,
    GenerationPageDocument,
    HintBody,
    LibraryEntryDocument,
    LibraryPageDocument,
)
from assayd.documents.operations import DaemonDocument, ExaminationDocument, GarbageDocument, StatusDocument
from assayd.documents.repairs import RepairBody, RepairDocument, RepairPageDocument, StepDocument
from assayd.documents.summary import SummaryDocument

Responses = dict[int | str, dict[str, Any]]
"""The framework's own type for descriptions of answers."""


def of(model: type[BaseModel], description: str) -> Responses:
    """Return the answers of a route that always gives one document."""
    return {200: _json(model, description)}


def _json(model: type[BaseModel], description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


def _raw(media_type: str, description: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content}


ERRORS: Responses = {
    status: _json(ErrorDocument, description)
    for status, description in {
        400: "Malformed request",
        403: "Peer not allowed",
        404: "Not found, or another user's",
        422: "Invalid value",
        500: "An internal error",
    }.items()
}
_LOCATED = {"headers": {"Location": {"description": "The attempt's own path.", "schema": {"type": "string"}}}}
SUBMITTED: Responses = {
    200: {**_json(AttemptDocument, "The finished attempt, or the one accepted before"), **_LOCATED},
    202: {**_json(AttemptDocument, "Accepted; not finished yet"), **_LOCATED},
    409: _json(ErrorDocument, "The id or key belongs to another submission"),
    408: _json(ErrorDocument, "The body does not come"),
    413: _json(ErrorDocument, "Body or source too large"),
    429: _json(ErrorDocument, "Queue or quota full; see Retry-After"),
    503: _json(ErrorDocument, "Not ready; see Retry-After"),
}
ATTEMPT: Responses = {200: _json(AttemptDocument, "The attempt")}
SUMMARY: Responses = {200: _json(SummaryDocument, "What attempts came to")}
ATTEMPT_PAGE: Responses = {200: _json(AttemptPageDocument, "A page of attempts")}
CANCELLED: Responses = {
    202: _json(AttemptDocument, "It will end"),
    409: _json(ErrorDocument, "It is finished"),
}
REPLAYED: Responses = {
    200: {**_json(AttemptDocument, "The finished replay"), **_LOCATED},
    202: {**_json(AttemptDocument, "Accepted; not finished yet"), **_LOCATED},
    409: _json(ErrorDocument, "The attempt has no verdict yet"),
    429: _json(ErrorDocument, "Queue or quota full; see Retry-After"),
    503: _json(ErrorDocument, "Not ready; see Retry-After"),
}


def _events(description: str) -> Responses:
    stream = "Server-sent events: `id`, `event` (the kind), and `data`, JSON with the same id and kind."
    content = {"text/event-stream": {"schema": {"description": stream}}}
    return {200: {"description": f"{description}.", "content": content}}


EVENTS = _events(
    "Events `state`, `stage`, `stdout`, `stderr`, `unit`, `finished`, and `gap` where some are gone"
)
ALL_EVENTS = _events("Events `state`, `stage`, `unit`, `finished` of all attempts, and `gap`")
BATCH_EVENTS = _events("Events `progress` with the counts as they are then, and `finished`")
BATCH_RECEIVED: Responses = {
    202: {**_json(BatchDocument, "Accepted; it runs"), **_LOCATED},
    408: _json(ErrorDocument, "The body doesn't arrive; lines that arrived stay"),
    413: _json(ErrorDocument, "Too many lines; those before stay"),
    429: _json(ErrorDocument, "Too many unfinished batches; see Retry-After"),
    503: _json(ErrorDocument, "Not ready; see Retry-After"),
}
BATCH: Responses = {200: _json(BatchDocument, "The batch")}
BATCH_PAGE: Responses = {200: _json(BatchPageDocument, "A page of batches")}
ITEM_PAGE: Responses = {200: _json(ItemPageDocument, "A page of items")}
BATCH_CANCELLED: Responses = {
    202: _json(BatchDocument, "Nothing more is started"),
    409: _json(ErrorDocument, "It is finished"),
}
RESULTS: Responses = {
    200: {
        "description": "A line per item: what `…/items` gives, and `attempt`, an Attempt or null.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
GARBAGE: Responses = {200: _json(GarbageDocument, "Removed attempts and bundles, or a preview")}
ARTIFACT_LIST: Responses = {200: _json(ArtifactListDocument, "The files of the bundle")}
ARTIFACT: Responses = {200: _raw("application/octet-stream", "The file")}
BUNDLE: Responses = {200: _raw("application/x-tar", "All files")}
KIND_LIST: Responses = {200: _json(KindListDocument, "The kinds")}
KIND: Responses = {200: _json(KindDocument, "The kind")}
POLICY_CHECK: Responses = {
    200: _json(PolicyCheckDocument, "What the profile would come to"),
    408: _json(ErrorDocument, "The body does not come"),
    413: _json(ErrorDocument, "Body too large"),
    429: _json(ErrorDocument, "Bodies of other users take too much memory; see Retry-After"),
}
POLICY_LIST: Responses = {200: _json(PolicyListDocument, "The profiles")}
POLICY: Responses = {
    200: {"description": "The profile", "content": {"application/json": {"schema": {"type": "object"}}}}
}
EXAMINATION: Responses = {
    200: _json(ExaminationDocument, "Results of the checks"),
    403: _json(ErrorDocument, "For operators, until one of them has asked"),
    429: _json(ErrorDocument, "An examination is already being sent; see Retry-After"),
}
DAEMON: Responses = {
    200: _json(DaemonDocument, "The daemon"),
    403: _json(ErrorDocument, "For operators"),
}
ALIVE: Responses = {200: _json(StatusDocument, "The daemon answers")}
READY: Responses = {
    200: _json(StatusDocument, "Attempts can be run"),
    503: _json(ErrorDocument, "They can't, and why"),
}
METRICS: Responses = {
    200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
    403: _json(ErrorDocument, "From another host, for operators"),
}

REPAIR: Responses = {200: _json(RepairDocument, "The repair")}
STEP: Responses = {200: _json(StepDocument, "Prompt and answer")}
REPAIR_STARTED: Responses = {
    202: {**_json(RepairDocument, "It is under way"), **_LOCATED},
    409: _json(ErrorDocument, "The attempt did not fail, or a repair of it is under way"),
}
REPAIR_LIST: Responses = {200: _json(RepairPageDocument, "Repairs")}
REPAIR_CANCELLED: Responses = {
    202: _json(RepairDocument, "It will end"),
    409: _json(ErrorDocument, "It has ended"),
}
_STARTED_WHERE = {"headers": {"Location": {"description": "Its own path.", "schema": {"type": "string"}}}}
GENERATION: Responses = {200: _json(GenerationDocument, "The generation")}
GENERATION_STARTED: Responses = {
    202: {**_json(GenerationDocument, "It is under way"), **_STARTED_WHERE},
    408: _json(ErrorDocument, "The body does not come"),
    413: _json(ErrorDocument, "Body too large"),
    429: _json(ErrorDocument, "Too many of this user are under way"),
}
GENERATION_LIST: Responses = {200: _json(GenerationPageDocument, "Generations")}
GENERATION_CANCELLED: Responses = {
    202: _json(GenerationDocument, "It will end, or goes on"),
    409: _json(ErrorDocument, "It has ended, or is under way"),
}
GENERATION_EVENTS = _events(
    "Events `state`, `attempt`, `fix` and `finished`, each with the whole generation, `stage` and `answer`"
)
APPROVED: Responses = {
    200: _json(LibraryEntryDocument, "The entry"),
    409: _json(ErrorDocument, "It is not validated"),
    429: _json(ErrorDocument, "The library of its user is full"),
}
LIBRARY_REMOVED: Responses = {200: _json(LibraryPageDocument, "The entries that were removed")}
LIBRARY_LIST: Responses = {200: _json(LibraryPageDocument, "Entries")}
LIBRARY_ENTRY: Responses = {200: _json(LibraryEntryDocument, "The entry")}


def _body_of(model: type[BaseModel]) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


GENERATION_BODY = _body_of(GenerationBody)
HINT_BODY = _body_of(HintBody)
APPROVE_BODY = _body_of(ApproveBody)
FALLBACK_ACCEPTED: Responses = {
    200: _json(RepairDocument, "The repair, with the time at which its rules were taken"),
    409: _json(ErrorDocument, "It offers nothing"),
}
RULES: Responses = {200: _raw("application/yaml", "The rules")}
REPAIR_EVENTS = _events("Events `repair`, each with the current repair, and `finished`")
REPAIR_BODY: dict[str, Any] = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": RepairBody.model_json_schema()}},
    }
}

_LINES = "One SubmissionBody per line; empty lines count."
BATCH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string", "description": _LINES}},
            # The same for generators of clients that know no lines of JSON: they would leave the route out.
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
"""Read by `wire`, not by the framework, which therefore has to be told."""
