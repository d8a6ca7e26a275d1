"""The pages of the daemon's current state and of a cluster's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from assayd_client import ClientError, Document, requests
from assayd_client.cli.sample import MetricsSample, SampleSpan
from assayd_console import charts
from assayd_console.charts import ChartBar
from assayd_console.daemon import EVERY_S, ConsoleDaemon, DaemonSample, DaemonSampler
from assayd_console.fields import read_form
from assayd_console.live import LivePage, Tell
from assayd_console.rendering import render_fragment, render_page, took

STEPS = ("queued", "static", "lease", "run", "report", "total")
RUNNING_STATES = ("running", "leasing", "checking", "judging")
MOST_SHOWN = 20
MOST_BARS = 8


async def show_now(request: Request) -> Response:
    """Show the daemon's state."""
    return render_page("now.html", title="Now", **await _load_page_values(request))


async def follow_now(request: Request) -> Response:
    """Send the content of the page every `EVERY_S` seconds."""

    async def produce(tell: Tell) -> None:
        while True:
            await tell("now", render_fragment("_now.html", **await _load_page_values(request)))
            await asyncio.sleep(EVERY_S)

    return LivePage(produce)


async def _load_page_values(request: Request) -> dict[str, Any]:
    """Return the daemon's metrics or, without a response, the error and the time of the last response."""
    pulse: DaemonSampler = request.app.state.pulse
    try:
        return await _build_values(request, await pulse.get_sample())
    except ClientError as error:
        return {"since": pulse.last_sampled_at, "error": error}


async def _build_values(request: Request, look: DaemonSample) -> dict[str, Any]:
    seen, now = look.span, look.span.now
    rates = seen.compute_rates_by_label("assayd_attempts_total", "verdict")
    leases = now.sum_by_label("assayd_leases_total", "start")
    errors = seen.compute_rate("assayd_engine_errors_total")
    busy = sum(now.sum_by_label("assayd_attempts_under_way", "state").values())
    engine = next((dict(key) for key in now.values.get("assayd_engine_info", {})), {})
    return {
        "at": look.at,
        "ready": now.total("assayd_ready") > 0,
        "rate": sum(rates.values()),
        "rates": rates,
        "seconds": seen.seconds,
        "queue": now.total("assayd_queue_depth"),
        "queue_bytes": now.total("assayd_queue_bytes"),
        "under_way": now.sum_by_label("assayd_attempts_under_way", "state"),
        "containers": now.sum_by_label("assayd_containers", "state"),
        "pools": sorted(_iter_idle_pools(now)),
        "refills": now.sum_by_label("assayd_refill_seconds", "pool_key"),
        "warm": leases.get("warm", 0.0) / sum(leases.values()) if sum(leases.values()) else None,
        "engine": engine,
        "engine_calls": seen.compute_rate("assayd_engine_call_duration_seconds_count"),
        "engine_errors": errors,
        "memory": now.total("assayd_process_resident_memory_bytes"),
        "processor": seen.compute_rate("assayd_process_cpu_seconds_total"),
        "disk_free": now.total("assayd_disk_free_bytes"),
        "disk_size": now.total("assayd_disk_size_bytes"),
        "latencies": list(_iter_step_latencies(seen)),
        "hour": look.hour,
        "hour_picture": charts.draw_stacked_column_chart(
            fill_missing_buckets(look.hour, look.at, 3600), title="Verdicts of the last hour"
        ),
        "causes": charts.draw_bar_chart(
            build_count_bars(look.hour["causes"], MOST_BARS, "/attempts?since=1h&cause="),
            title="Causes of the last hour",
        ),
        "attempts": await _load_running_attempts(request.app.state.daemon) if busy else [],
    }


def _iter_idle_pools(now: MetricsSample) -> Iterator[tuple[str, str, float]]:
    """Yield the image, the key and the number of idle containers of each pool."""
    for labels, number in now.values.get("assayd_idle_containers", {}).items():
        named = dict(labels)
        yield named.get("image", ""), named["pool_key"], number


async def _load_running_attempts(daemon: ConsoleDaemon) -> list[Document]:
    pages = [await daemon.ask(requests.attempts(state=state, limit=MOST_SHOWN)) for state in RUNNING_STATES]
    return [attempt for found in pages for attempt in found["attempts"]][:MOST_SHOWN]


def _iter_step_latencies(seen: SampleSpan) -> Iterator[tuple[str, str, str]]:
    """Yield the p50 and p95 of each step since the previous sample, or since startup without new data.

    Steps without any data are skipped.
    """
    start = SampleSpan(now=seen.now, before=type(seen.now)(taken_s=0.0), seconds=1.0)
    for step in STEPS:
        of = next(
            (
                each
                for each in (seen, start)
                if each.estimate_quantile_s(0.5, "assayd_attempt_duration_seconds", stage=step) is not None
            ),
            None,
        )
        if of is not None:
            half, most = (
                of.estimate_quantile_s(share, "assayd_attempt_duration_seconds", stage=step) or 0.0
                for share in (0.5, 0.95)
            )
            yield step, took(half * 1000), took(most * 1000)


def fill_missing_buckets(
    summary: Document, until: datetime, period_s: int
) -> list[tuple[str, dict[str, int]]]:
    """Return the buckets of the last `period_s` seconds. Buckets without attempts have no counts."""
    step_s = summary["bucket_s"]
    known = {bucket["at"][:19]: bucket["verdicts"] for bucket in summary["buckets"]}
    last = int(until.timestamp()) // step_s * step_s
    begins = [datetime.fromtimestamp(at, tz=UTC) for at in range(last - period_s, last + 1, step_s)]
    form = "%H:%M" if period_s < 86_400 else "%m-%d %H:%M"
    return [(f"{begin:{form}}", known.get(f"{begin:%Y-%m-%dT%H:%M:%S}", {})) for begin in begins]


def build_count_bars(counts: Document, most: int, address: str = "") -> list[ChartBar]:
    """Return bars for the first `most` counts except ``completed``.

    If `address` is set, each bar links to `address` followed by the bar's name.
    """
    failed = [(name, number) for name, number in counts.items() if name != "completed"]
    return [
        ChartBar(name=name, number=number, shown=f"{number:,}", href=address and f"{address}{quote(name)}")
        for name, number in failed[:most]
    ]


_NOW_ROUTES = [Route("/now", show_now), Route("/now/live", follow_now)]

BADGE_BY_STATE = {"ready": "ok", "draining": "warn", "not_ready": "fail", "lost": "fail"}


async def has_nodes(daemon: ConsoleDaemon) -> bool:
    """Return whether the daemon is a gateway whose nodes this user can see; False if it doesn't respond."""
    try:
        await daemon.ask(requests.nodes())
    except ClientError:  # A single-host daemon, no operator rights, or no answer yet.
        return False
    return True


async def list_nodes(request: Request) -> Response:
    """Show all nodes."""
    found = (await request.app.state.daemon.ask(requests.nodes()))["nodes"]
    return render_page("nodes.html", title="Nodes", nodes=found, badges=BADGE_BY_STATE)


async def drain_node(request: Request) -> Response:
    """Drain a node, so that it accepts no further runs."""
    await read_form(request)
    await request.app.state.daemon.ask(requests.drain_node(request.path_params["name"]))
    return RedirectResponse("/nodes", status_code=303)


async def resume_node(request: Request) -> Response:
    """Resume a drained node."""
    await read_form(request)
    await request.app.state.daemon.ask(requests.resume_node(request.path_params["name"]))
    return RedirectResponse("/nodes", status_code=303)


_NODE_ROUTES = [
    Route("/nodes", list_nodes),
    Route("/nodes/{name}/drain", drain_node, methods=["POST"]),
    Route("/nodes/{name}/resume", resume_node, methods=["POST"]),
]

ROUTES = [*_NOW_ROUTES, *_NODE_ROUTES]
