"""Submit from a page: the fields of a kind are made of its payload's schema; no kind is known here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd.cli.validate import read_settings
from assayd.client import ClientError, Document, requests
from assayd.errors import AssaydError, RequestError
from assayd_console.daemon import ConsoleDaemon
from assayd_console.forms import read_form
from assayd_console.rendering import page

PREFIX = "payload."
LONG = frozenset({"code", "stdin"})
"""Texts of many lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadField:
    """One field of a kind's payload: how it is typed, and what stands in it."""

    name: str
    form: str
    """`text`, `lines`, `json`, `line` or `choice`."""
    help: str
    required: bool
    value: str


def fields_of(kind: Document, typed: Mapping[str, str] | None) -> Iterator[PayloadField]:
    """Return the fields of a kind, with what was typed; without that, with its example."""
    schema = kind["payload_schema"]
    example = kind["example"] or {}
    for name, described in schema["properties"].items():
        form = _form(name, described)
        given = _written(form, example[name]) if name in example and example[name] is not None else ""
        yield PayloadField(
            name=name,
            form=form,
            help=described.get("description", ""),
            required=name in schema.get("required", ()),
            value=given if typed is None else typed.get(PREFIX + name, ""),
        )


def _form(name: str, described: Document) -> str:
    kind = described.get("type")
    if name in LONG:
        return "text"
    if kind == "array" and described.get("items", {}).get("type") == "string":
        return "lines"
    if kind == "boolean":
        return "choice"
    return "line" if kind == "string" else "json"


def _written(form: str, value: object) -> str:
    if form == "lines" and isinstance(value, list):
        return "\n".join(map(str, value))
    if form in {"text", "line"}:
        return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def submission_of(kind: Document, typed: Mapping[str, str]) -> Document:
    """Return the submission that a form says. Raises: RequestError ``invalid``, with the field."""
    payload = {
        field.name: _read(field)
        for field in fields_of(kind, typed)
        if field.value.strip() or field.form == "text"
    }
    submission: Document = {
        "kind": kind["kind"],
        "payload": {name: value for name, value in payload.items() if value != ""},
        "labels": _labels(typed.get("labels", "")),
        "overrides": read_settings(typed.get("overrides", "").split(), "overrides"),
    }
    optional = {"policy": typed.get("policy"), "intent": typed.get("intent", "").strip()}
    return submission | {name: value for name, value in optional.items() if value}


def _read(field: PayloadField) -> object:
    if field.form == "lines":
        return [line for line in field.value.splitlines() if line.strip()]
    if field.form in {"text", "line"}:
        return field.value
    try:
        return json.loads(field.value)
    except ValueError as error:
        raise RequestError("invalid", f"{field.name} is not JSON: {error}", field=field.name) from error


def _labels(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in text.split()]
    if not all(equals and value for _, equals, value in pairs):
        raise RequestError("invalid", "labels are written key=value, with blanks between", field="labels")
    return {key: value for key, _, value in pairs}


async def show_form(request: Request) -> Response:
    """Show the form of a kind."""
    return await _form_page(request.app.state.daemon, request.query_params.get("kind", ""), None, None)


async def submit(request: Request) -> Response:
    """Submit what a form says, and go where its attempt is followed; a refusal stands in the form."""
    daemon: ConsoleDaemon = request.app.state.daemon
    typed = await read_form(request)
    kind = await _kind(daemon, typed.get("kind", ""))
    try:
        attempt = await daemon.ask(requests.submit(submission_of(kind, typed)))
    except (ClientError, RequestError) as refusal:
        return await _form_page(daemon, kind["kind"], typed, refusal)
    return RedirectResponse(f"/attempts/{attempt['id']}", status_code=303)


async def _form_page(
    daemon: ConsoleDaemon, name: str, typed: Mapping[str, str] | None, refusal: AssaydError | None
) -> Response:
    kind = await _kind(daemon, name)
    policies = (await daemon.ask(requests.policies()))["policies"]
    return page(
        "submit.html",
        status=200 if refusal is None else 422,
        title="Submit",
        kind=kind,
        kinds=[each["kind"] for each in await daemon.kinds()],
        fields=list(fields_of(kind, typed)),
        policies=sorted(policy["name"] for policy in policies),
        typed=typed or {},
        refusal=refusal,
    )


async def _kind(daemon: ConsoleDaemon, name: str) -> Document:
    kinds = await daemon.kinds()
    return next((kind for kind in kinds if kind["kind"] == name), kinds[0])


ROUTES = [Route("/submit", show_form), Route("/submit", submit, methods=["POST"])]
