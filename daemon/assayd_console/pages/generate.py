"""The form that starts a generation, with a request and the context fields of the kind's schema."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd.errors import AssaydError, RequestError
from assayd_client import ClientError, Document, requests
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import FormField, build_fields, parse_form, read_form
from assayd_console.pages.submit import find_kind
from assayd_console.rendering import render_page

NO_CONTEXT: Document = {"properties": {}}
ANSWERS = {"properties": {"max_attempts": {"type": "integer", "description": "Answers, at most 10."}}}


async def show_form(request: Request) -> Response:
    """Show an empty form for a kind."""
    daemon: ConsoleDaemon = request.app.state.daemon
    return await _render_form(daemon, await find_kind(daemon, request.query_params.get("kind", "")), {})


async def start_generation(request: Request) -> Response:
    """Start a generation and redirect to its page; in case of errors, show them next to their fields."""
    daemon: ConsoleDaemon = request.app.state.daemon
    typed = await read_form(request)
    kind = await find_kind(daemon, typed.get("kind", ""))
    try:
        begun = await daemon.ask(requests.generate(**parse_generation(kind, typed)))
    except (ClientError, RequestError) as refusal:
        return await _render_form(daemon, kind, typed, refusal)
    return RedirectResponse(f"/generations/{begun['id']}", status_code=303)


def parse_generation(kind: Document, typed: Mapping[str, str]) -> Document:
    """Return the generation request in a form.

    Raises: RequestError ``invalid``, with the name of the field.
    """
    return {
        "kind": kind["kind"],
        "intent": typed.get("intent", ""),
        "context": parse_form(kind["context_schema"] or NO_CONTEXT, typed, "context"),
        "provider": typed.get("provider") or None,
        **parse_form(ANSWERS, typed, "limit"),
    }


async def _render_form(
    daemon: ConsoleDaemon, kind: Document, typed: Mapping[str, str], refusal: AssaydError | None = None
) -> Response:
    fields: list[FormField] = build_fields(kind["context_schema"] or NO_CONTEXT, typed, "context")
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


ROUTES = [Route("/generate", show_form), Route("/generate", start_generation, methods=["POST"])]
