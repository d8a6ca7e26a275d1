"""The forms that submit code or start a generation, with fields from the schema of the kind."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd.documents.submission import Resources
from assayd.errors import AssaydError, RequestError
from assayd_client import ClientError, Document, requests
from assayd_client.cli.submitting import parse_settings
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import FormField, build_fields, build_typed_values, parse_form, read_form
from assayd_console.pages.attempts import load_submission
from assayd_console.rendering import build_sources, find_first_error, format_labels, render_page

LIMITS = Resources.model_json_schema()
LIMIT_FIELD_PREFIX = "overrides.resources"


def read_submission(kind: Document, typed: Mapping[str, str]) -> Document:
    """Return the submission that a form describes.

    Raises: RequestError ``invalid``, with the name of the field.
    """
    overrides = parse_settings(typed.get("overrides", "").split(), "overrides")
    limits = parse_form(LIMITS, typed, LIMIT_FIELD_PREFIX)
    submission: Document = {
        "kind": kind["kind"],
        "payload": parse_form(kind["payload_schema"], typed),
        "labels": _parse_labels(typed.get("labels", "")),
        "overrides": overrides | ({"resources": limits} if limits else {}),
    }
    optional = {name: typed.get(name, "").strip() for name in ("policy", "intent", "parent_id")}
    return submission | {name: value for name, value in optional.items() if value}


def _parse_labels(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in text.split()]
    if not all(equals and value for _, equals, value in pairs):
        raise RequestError("invalid", "write labels as key=value, separated by spaces", field="labels")
    return {key: value for key, _, value in pairs}


async def show_submit_form(request: Request) -> Response:
    """Show the form of a kind, filled with the kind's example or another attempt's submission."""
    daemon: ConsoleDaemon = request.app.state.daemon
    parent, first = request.query_params.get("parent"), None
    if parent is None:
        kind = await find_kind(daemon, request.query_params.get("kind", ""))
        example = build_typed_values(kind["payload_schema"], kind["example"] or {})
        typed = {name: text.lstrip("\n") for name, text in example.items()}
    else:
        attempt = await daemon.ask(requests.attempt(parent))
        kind = await find_kind(daemon, attempt["kind"])
        submission = await load_submission(daemon, attempt)
        typed = _refill_form(kind, attempt["id"], submission)
        findings = (attempt["report"] or {}).get("findings") or []
        texts, _ = build_sources(submission["payload"], findings)
        first = find_first_error(texts, findings)
    return await _render_submit_form(daemon, kind, typed, first=first)


def _refill_form(kind: Document, attempt_id: str, submission: Mapping[str, Document]) -> dict[str, str]:
    """Return the form values for resubmitting an attempt.

    Raises: RequestError ``too_large``, if its submission was removed or is too large.
    """
    if not submission:
        raise RequestError(
            "too_large", f"the submission of {attempt_id} was removed, or is too large for a form"
        )
    overrides = dict(submission.get("overrides") or {})
    limits = overrides.pop("resources", None) or {}
    words = [f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in overrides.items()]
    return {
        **build_typed_values(kind["payload_schema"], submission["payload"]),
        **build_typed_values(LIMITS, limits, LIMIT_FIELD_PREFIX),
        "parent_id": attempt_id,
        "policy": str(submission.get("policy") or ""),
        "labels": format_labels(submission.get("labels") or {}),
        "intent": str(submission.get("intent") or ""),
        "overrides": " ".join(words),
    }


async def submit_form(request: Request) -> Response:
    """Submit a form and redirect to its attempt, or show errors next to their fields."""
    daemon: ConsoleDaemon = request.app.state.daemon
    typed = await read_form(request)
    kind = await find_kind(daemon, typed.get("kind", ""))
    try:
        attempt = await daemon.ask(requests.submit(read_submission(kind, typed)))
    except (ClientError, RequestError) as refusal:
        return await _render_submit_form(daemon, kind, typed, refusal)
    return RedirectResponse(f"/attempts/{attempt['id']}", status_code=303)


async def _render_submit_form(
    daemon: ConsoleDaemon,
    kind: Document,
    typed: Mapping[str, str],
    refusal: AssaydError | None = None,
    *,
    first: tuple[Document, str] | None = None,
) -> Response:
    policies = (await daemon.ask(requests.policies()))["policies"]
    chosen = typed.get("policy") or kind["default_policy"]
    return render_page(
        "submit.html",
        status=200 if refusal is None else 422,
        title="Edit and submit again" if typed.get("parent_id") else "Submit",
        kind=kind,
        kinds=[each["kind"] for each in await daemon.kinds()],
        fields=build_fields(kind["payload_schema"], typed),
        limits=build_fields(LIMITS, typed, LIMIT_FIELD_PREFIX),
        policies=sorted(policy["name"] for policy in policies),
        usual=next((each["resources"] for each in policies if each["name"] == chosen), {}),
        typed=typed,
        refusal=refusal,
        first=first,
    )


async def find_kind(daemon: ConsoleDaemon, name: str) -> Document:
    """Return the kind with this name, or the first kind if the name is unknown."""
    kinds = await daemon.kinds()
    return next((kind for kind in kinds if kind["kind"] == name), kinds[0])


_SUBMIT_ROUTES = [Route("/submit", show_submit_form), Route("/submit", submit_form, methods=["POST"])]

EMPTY_CONTEXT_SCHEMA: Document = {"properties": {}}
ANSWERS = {"properties": {"max_attempts": {"type": "integer", "description": "Answers, at most 10."}}}


async def show_generate_form(request: Request) -> Response:
    """Show an empty form for a kind."""
    daemon: ConsoleDaemon = request.app.state.daemon
    return await _render_generate_form(
        daemon, await find_kind(daemon, request.query_params.get("kind", "")), {}
    )


async def start_generation(request: Request) -> Response:
    """Start a generation and redirect to its page, or show errors next to their fields."""
    daemon: ConsoleDaemon = request.app.state.daemon
    typed = await read_form(request)
    kind = await find_kind(daemon, typed.get("kind", ""))
    try:
        begun = await daemon.ask(requests.generate(**parse_generation(kind, typed)))
    except (ClientError, RequestError) as refusal:
        return await _render_generate_form(daemon, kind, typed, refusal)
    return RedirectResponse(f"/generations/{begun['id']}", status_code=303)


def parse_generation(kind: Document, typed: Mapping[str, str]) -> Document:
    """Return the generation request that a form describes.

    Raises: RequestError ``invalid``, with the name of the field.
    """
    return {
        "kind": kind["kind"],
        "intent": typed.get("intent", ""),
        "context": parse_form(kind["context_schema"] or EMPTY_CONTEXT_SCHEMA, typed, "context"),
        "provider": typed.get("provider") or None,
        **parse_form(ANSWERS, typed, "limit"),
    }


async def _render_generate_form(
    daemon: ConsoleDaemon, kind: Document, typed: Mapping[str, str], refusal: AssaydError | None = None
) -> Response:
    fields: list[FormField] = build_fields(kind["context_schema"] or EMPTY_CONTEXT_SCHEMA, typed, "context")
    return render_page(
        "generate.html",
        status=200 if refusal is None else 422,
        title="Generate",
        kind=kind,
        kinds=[each["kind"] for each in await daemon.kinds()],
        fields=fields + build_fields(ANSWERS, typed, "limit"),
        typed=typed,
        refusal=refusal,
    )


_GENERATE_ROUTES = [
    Route("/generate", show_generate_form),
    Route("/generate", start_generation, methods=["POST"]),
]

ROUTES = [*_SUBMIT_ROUTES, *_GENERATE_ROUTES]
