"""The pages of the policies and of their review, the library, and the health checks of the daemon."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd.errors import RequestError
from assayd.model.policy import ImportPolicy, SubmoduleRule
from assayd_client import Document, requests, wing_requests
from assayd_client.cli.listing import iter_policy_values
from assayd_client.cli.policy import build_review_query, explain_access
from assayd_console import charts
from assayd_console.daemon import ConsoleDaemon
from assayd_console.fields import read_form
from assayd_console.rendering import build_sources, render_page

PAGE = 100
RUNS = 10
"""Number of attempts to show in which an entry was applied to paths."""
PIPELINE_RUNS, MAX_CHARTS = 30, 12
TIGHTENABLE_PREFIXES = ("resources.", "imports.", "network.")
"""Prefixes of the values that a request can tighten."""


async def list_policies(request: Request) -> Response:
    """Show all profiles."""
    found = (await request.app.state.daemon.ask(requests.policies()))["policies"]
    return render_page(
        "policies.html", title="Policies", policies=sorted(found, key=lambda each: str(each["name"]))
    )


async def show_policy(request: Request) -> Response:
    """Show one profile and, on request, whether it allows a URL or an import."""
    daemon: ConsoleDaemon = request.app.state.daemon
    policy = await daemon.ask(requests.policy(request.path_params["name"]))
    url, module = (request.query_params.get(name, "").strip() for name in ("url", "module"))
    return render_page(
        "policy.html",
        title=f"Policy {policy['name']}",
        policy=policy,
        rows=[(*row, row[0].startswith(TIGHTENABLE_PREFIXES)) for row in iter_policy_values(policy)],
        url=url,
        module=module,
        said=_explain_url(policy, url) if url else None,
        said_of_import=explain_import(policy, module) if module else None,
    )


def _explain_url(policy: Document, url: str) -> tuple[bool, str]:
    try:
        return explain_access(policy, url, "GET")
    except RequestError as error:
        return False, error.message


def explain_import(policy: Document, module: str) -> tuple[bool, str]:
    """Return whether a profile allows an import, and which value of the profile determines this."""
    shown = policy["imports"]
    rules = ImportPolicy(
        allowed=frozenset(shown["allowed"]),
        denied=frozenset(shown["denied"]),
        submodules=SubmoduleRule(shown["submodules"]),
        enforce_forbidden=shown["enforce_forbidden"],
    )
    if not rules.allows(module):
        denied = replace(rules, enforce_forbidden=False).allows(module)
        why = "it is in imports.denied" if denied else "it isn't in imports.allowed"
        return False, f"{policy['name']} does not allow {module}: {why} (imports.mode is {shown['mode']})."
    names = shown["names"].get(module)
    only = f", but only these names: {', '.join(names)}" if names else ""
    return True, f"{policy['name']} allows {module}{only}."


async def list_library(request: Request) -> Response:
    """Show the newest version of each name in the library."""
    cursor = request.query_params.get("cursor")
    found = await request.app.state.daemon.ask(requests.library(cursor=cursor, limit=PAGE))
    return render_page(
        "library.html", title="Library", entries=found["entries"], next_cursor=found["next_cursor"]
    )


async def show_entry(request: Request) -> Response:
    """Show one version of a library entry, with its source and links to other versions."""
    daemon: ConsoleDaemon = request.app.state.daemon
    name = request.path_params["name"]
    history = (await daemon.ask(requests.library_history(name)))["entries"]
    version = request.path_params.get("version") or history[0]["version"]
    entry = await daemon.ask(requests.library_entry(name, version))
    pipeline_runs = []
    if entry["kind"] == "pipeline":
        pipeline_runs = (await daemon.ask(wing_requests.pipeline_runs(name, limit=PIPELINE_RUNS)))["runs"]
    label = f"applied={entry['name']}/{entry['version']}"
    runs = await daemon.ask(requests.attempts(label=[label], limit=RUNS))
    texts, _ = build_sources((entry["submission"] or {}).get("payload") or {}, ())
    return render_page(
        "entry.html",
        title=f"{name}, version {version}",
        entry=entry,
        history=history,
        runs=runs["attempts"],
        runs_label=label,
        texts=texts,
        pipeline_runs=pipeline_runs,
        rows=_draw_rows_by_run(pipeline_runs),
        submission=json.dumps(entry["submission"], indent=1)[:20_000],
    )


def _draw_rows_by_run(runs: list[Document]) -> list[tuple[str, Markup]]:
    """Return a chart for each file and table with its number of rows in each run, oldest run first.

    There are at most `MAX_CHARTS` charts. Refused runs have no number of rows.
    """
    counts = [{**run["inputs"], **run["outputs"], **run["tables"]} for run in runs]
    names = list(dict.fromkeys(name for each in counts for name in each))[:MAX_CHARTS]
    marked = [(run["verdict"] or "waiting", run["created_at"][:16]) for run in runs]
    found = []
    for name in names:
        columns = [(verdict, rows.get(name), at) for (verdict, at), rows in zip(marked, counts, strict=True)]
        found.append((name, charts.draw_run_columns(columns[::-1], title=f"Rows of {name} by run")))
    return found


async def show_health_page(request: Request) -> Response:
    """Show the available checks, which start only at the user's request, because they need containers."""
    return render_page("doctor.html", title="Doctor", checks=None)


async def run_health_checks(request: Request) -> Response:
    """Run the health checks, and show their results."""
    await read_form(request)
    found = await request.app.state.daemon.ask(requests.doctor())
    return render_page("doctor.html", title="Doctor", checks=found["checks"], age_ms=found["age_ms"])


_REFERENCE_ROUTES = [
    Route("/policies", list_policies),
    Route("/policies/{name}", show_policy),
    Route("/library", list_library),
    Route("/library/{name}", show_entry),
    Route("/library/{name}/{version:int}", show_entry),
    Route("/doctor", show_health_page),
    Route("/doctor", run_health_checks, methods=["POST"]),
]

USUAL = "7d"
"""The default period."""


async def review_policy(request: Request) -> Response:
    """Show the verdicts that a profile would change, and the additions that rejected code requires."""
    daemon: ConsoleDaemon = request.app.state.daemon
    policy = await daemon.ask(requests.policy(request.path_params["name"]))
    typed = {name: request.query_params.get(name, "").strip() for name in ("since", "batch", "label")}
    typed["since"] = typed["since"] or USUAL
    labels = [typed["label"]] if typed["label"] else []
    wanted = build_review_query(typed["since"], typed["batch"] or None, labels, None)
    trial = await _run_trial(daemon, policy["name"], wanted)
    found = await daemon.ask(requests.suggest_policy(policy["name"], **wanted))
    return render_page(
        "policy_review.html",
        title=f"Review of policy {policy['name']}",
        policy=policy,
        typed=typed,
        trial=trial,
        found=found,
    )


async def _run_trial(daemon: ConsoleDaemon, name: str, wanted: Document) -> Document:
    """Return the result of a trial. Raises: RequestError ``lost``, if the stream ends without a result."""
    last: Any = None
    async for event in daemon.events(requests.try_policy(name, **wanted)):
        last = event
    if last is None or last.kind != "finished":
        raise RequestError("lost", "the trial ended without a result; try again")
    body: Document = last.body
    return body


_REVIEW_ROUTES = [Route("/policies/{name}/review", review_policy)]

ROUTES = [*_REFERENCE_ROUTES, *_REVIEW_ROUTES]
