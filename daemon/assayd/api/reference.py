"""Builds the API reference at `/openapi.json` in the form that client generators accept.

This module defines the names of operations and models, and describes submissions by one model per kind,
with `kind` as the discriminator. `documents` defines the fields of the models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from assayd.documents import SubmissionBody
from assayd.kind import Kind

_PLACE = "#/components/schemas/"
_SUFFIX = re.compile(rf'"({_PLACE})?(\w+)Document"')
"""Names of models: inside, their suffix tells them from the values that they are made of."""


def name_operations(routes: Iterable[BaseRoute]) -> None:
    """Set the id of each operation to the name of its function."""
    for route in routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.unique_id = route.name


def reference(app: FastAPI, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the OpenAPI document of an application that accepts submissions of the given kinds."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    whole: dict[str, Any] = json.loads(_SUFFIX.sub(r'"\1\2"', json.dumps(document)))
    whole["components"]["schemas"].update(_submission_schemas(kinds))
    return whole


def _submission_schemas(kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the schema of `SubmissionBody`, a union of one model per kind, together with these models."""
    payloads = {kind: validator.payload for kind, validator in sorted(kinds.items())}
    wanted = [(model, "validation") for model in {SubmissionBody, *payloads.values()}]
    found, models = models_json_schema(wanted, ref_template=_PLACE + "{model}")  # type: ignore[arg-type]
    schemas: dict[str, Any] = models["$defs"]
    common = schemas.pop("SubmissionBody")
    refs = {}
    for kind, payload in payloads.items():
        name = f"{_camel_case(kind)}Submission"
        own = {"kind": {"const": kind, "type": "string", "description": "Kind of the submission."}}
        own["payload"] = found[payload, "validation"]
        schemas[name] = {**common, "title": name, "properties": {**common["properties"], **own}}
        refs[kind] = _PLACE + name
    schemas["SubmissionBody"] = {
        "title": "SubmissionBody",
        "description": common["description"],
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "kind", "mapping": refs},
    }
    return schemas


def _camel_case(kind: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]", kind))
