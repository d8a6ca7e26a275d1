"""Which answers each route gives, as the reference shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from assayd.api import batch_schemas, health_schemas, repair_schemas, schemas

Responses = dict[int | str, dict[str, Any]]
"""The framework's own type for descriptions of answers."""


def _json(model: type[BaseModel], description: str) -> dict[str, Any]:
    return {"model": model, "description": description}


def _raw(media_type: str, description: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content}


ERRORS: Responses = {
    status: _json(schemas.Error, description)
    for status, description in {
        400: "Malformed request",
        403: "Peer not allowed",
        404: "Not found, or somebody else's",
        422: "Invalid value",
        500: "Our own trouble",
    }.items()
}
_LOCATED = {"headers": {"Location": {"description": "The attempt's own path.", "schema": {"type": "string"}}}}
SUBMITTED: Responses = {
    200: {**_json(schemas.Attempt, "The finished attempt, or the one accepted before"), **_LOCATED},
    202: {**_json(schemas.Attempt, "Accepted; not finished yet"), **_LOCATED},
    409: _json(schemas.Error, "The id or key belongs to another submission"),
    408: _json(schemas.Error, "The body does not come"),
    413: _json(schemas.Error, "Body or source too large"),
    429: _json(schemas.Error, "Queue or quota full; see Retry-After"),
    503: _json(schemas.Error, "Not ready; see Retry-After"),
}
ATTEMPT: Responses = {200: _json(schemas.Attempt, "The attempt")}
ATTEMPT_PAGE: Responses = {200: _json(schemas.AttemptPage, "A page of attempts")}
CANCELLED: Responses = {
    202: _json(schemas.Attempt, "It will end"),
    409: _json(schemas.Error, "It is finished"),
}
REPLAYED: Responses = {
    200: {**_json(schemas.Attempt, "The finished replay"), **_LOCATED},
    202: {**_json(schemas.Attempt, "Accepted; not finished yet"), **_LOCATED},
    409: _json(schemas.Error, "The attempt has no verdict yet"),
    429: _json(schemas.Error, "Queue or quota full; see Retry-After"),
    503: _json(schemas.Error, "Not ready; see Retry-After"),
}


def _events(description: str) -> Responses:
    event = {
        "type": "object",
        "description": "One event; its data has the same id and kind.",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "What `Last-Event-ID` sends back."},
            "event": {"type": "string", "description": "The kind."},
            "data": {"type": "string", "contentMediaType": "application/json", "description": "JSON."},
        },
    }
    content = {"text/event-stream": {"schema": event}}
    return {200: {"description": f"{description}.", "content": content}}


EVENTS = _events(
    "Events `state`, `stage`, `stdout`, `stderr`, `unit`, `finished`, and `gap` where some are gone"
)
ALL_EVENTS = _events("Events `state`, `stage`, `unit`, `finished` of all attempts, and `gap`")
BATCH_EVENTS = _events("Events `progress` with the counts as they are then, and `finished`")
BATCH_RECEIVED: Responses = {
    202: {**_json(batch_schemas.Batch, "What was taken in; it is being run"), **_LOCATED},
    408: _json(schemas.Error, "The body does not come; what has come stays"),
    413: _json(schemas.Error, "Too many lines; those before stay"),
    429: _json(schemas.Error, "Too many unfinished batches; see Retry-After"),
    503: _json(schemas.Error, "Not ready; see Retry-After"),
}
BATCH: Responses = {200: _json(batch_schemas.Batch, "The batch")}
BATCH_PAGE: Responses = {200: _json(batch_schemas.BatchPage, "A page of batches")}
ITEM_PAGE: Responses = {200: _json(batch_schemas.ItemPage, "A page of items")}
BATCH_CANCELLED: Responses = {
    202: _json(batch_schemas.Batch, "Nothing more is started"),
    409: _json(schemas.Error, "It is finished"),
}
RESULTS: Responses = {
    200: {
        "description": "A line per item: what `…/items` gives, and `attempt`, an Attempt or null.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}
GARBAGE: Responses = {200: _json(schemas.Garbage, "What was removed, or would be")}
ARTIFACT_LIST: Responses = {200: _json(schemas.ArtifactList, "The files of the bundle")}
ARTIFACT: Responses = {200: _raw("application/octet-stream", "The file")}
BUNDLE: Responses = {200: _raw("application/x-tar", "All files")}
KIND_LIST: Responses = {200: _json(schemas.KindList, "The kinds")}
KIND: Responses = {200: _json(schemas.Kind, "The kind")}
POLICY_LIST: Responses = {200: _json(schemas.PolicyList, "The profiles")}
POLICY: Responses = {
    200: {"description": "The profile", "content": {"application/json": {"schema": {"type": "object"}}}}
}
EXAMINATION: Responses = {
    200: _json(health_schemas.Examination, "What was found"),
    403: _json(schemas.Error, "For operators, until one of them has asked"),
    429: _json(schemas.Error, "Somebody is being told already; see Retry-After"),
}
ALIVE: Responses = {200: _json(health_schemas.Status, "The daemon answers")}
READY: Responses = {
    200: _json(health_schemas.Status, "Attempts can be run"),
    503: _json(schemas.Error, "They can't, and why"),
}
METRICS: Responses = {
    200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}
}

REPAIR: Responses = {200: _json(repair_schemas.Repair, "The repair")}
REPAIR_STARTED: Responses = {
    202: {**_json(repair_schemas.Repair, "It is under way"), **_LOCATED},
    409: _json(schemas.Error, "The attempt did not fail, or a repair of it is under way"),
}
REPAIR_LIST: Responses = {200: _json(repair_schemas.RepairPage, "Repairs")}
REPAIR_CANCELLED: Responses = {
    202: _json(repair_schemas.Repair, "It will end"),
    409: _json(schemas.Error, "It has ended"),
}
FALLBACK_ACCEPTED: Responses = {
    200: _json(repair_schemas.Repair, "The repair, with the time at which its rules were taken"),
    409: _json(schemas.Error, "It offers nothing"),
}
RULES: Responses = {200: _raw("application/yaml", "The rules")}
REPAIR_EVENTS = _events("Events `repair`, each with the whole repair as it is then, and `finished`")
REPAIR_BODY: dict[str, Any] = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": repair_schemas.RepairBody.model_json_schema()}},
    }
}

BATCH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "One SubmissionBody per line; blank lines count."}
            }
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
