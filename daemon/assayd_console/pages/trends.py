"""The page with charts of many attempts: the pass rate over time, failures by rule, latency by step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd_client import Document, requests
from assayd_client.cli.sample import MetricsSample, build_sample_span, parse_metrics
from assayd_console import charts
from assayd_console.daemon import ConsoleDaemon
from assayd_console.pages.now import STEPS, build_count_bars, fill_missing_buckets
from assayd_console.rendering import build_chart_response, render_page, took

SECONDS_BY_SPAN = {
    "1h": (3600, 120),
    "24h": (86_400, 3600),
    "7d": (604_800, 21_600),
    "30d": (2_592_000, 86_400),
}
"""The seconds of each period, and the seconds per column of its charts."""
USUAL = "24h"
WEEK_CHOICES = (8, 1, 26, 53)
"""How many weeks of answers can be counted; the first is the default."""
MOST_BARS = 15
LIMITS = ("time", "unit time", "memory", "output", "disk", "files")


async def show_trends(request: Request) -> Response:
    """Show the page. The charts are loaded afterwards, because they query the database."""
    return render_page(
        "trends.html", title="Trends", **await _parse_query(request), spans=list(SECONDS_BY_SPAN)
    )


async def show_charts(request: Request) -> Response:
    """Show the charts."""
    asked = await _parse_query(request)
    pictures, summary = await _draw_charts(request.app.state.daemon, asked)
    return render_page("_trends.html", pictures=pictures, summary=summary, **asked)


async def show_answer_counts(request: Request) -> Response:
    """Show the models' mistakes: the number of providers' answers by week, kind and provider."""
    daemon: ConsoleDaemon = request.app.state.daemon
    kinds = [kind["kind"] for kind in await daemon.kinds()]
    kind = request.query_params.get("kind", "")
    weeks = request.query_params.get("weeks", "")
    asked = int(weeks) if weeks in map(str, WEEK_CHOICES) else WEEK_CHOICES[0]
    wanted = kind if kind in kinds else None
    counted = await daemon.ask(requests.answers(weeks=asked, kind=wanted))
    return render_page(
        "answers.html",
        title="What models get wrong",
        counted=counted,
        kinds=kinds,
        kind=wanted,
        weeks=asked,
        choices=WEEK_CHOICES,
    )


async def download_chart(request: Request) -> Response:
    """Return one chart as a downloadable file.

    Raises: HTTPException 404, if the chart doesn't exist or has no data.
    """
    asked = await _parse_query(request)
    pictures, _ = await _draw_charts(request.app.state.daemon, asked)
    name = request.path_params["name"]
    found = next((picture for key, _, picture in pictures if key == name), None)
    if found is None:
        raise HTTPException(404, "the chart doesn't exist or has no data")
    return build_chart_response(found, f"assayd-{name}-{asked['back']}", request.query_params)


async def _parse_query(request: Request) -> dict[str, Any]:
    back = request.query_params.get("back", USUAL)
    kinds = [kind["kind"] for kind in await request.app.state.daemon.kinds()]
    kind = request.query_params.get("kind", "")
    return {
        "back": back if back in SECONDS_BY_SPAN else USUAL,
        "kind": kind if kind in kinds else "",
        "kinds": kinds,
    }


async def _draw_charts(
    daemon: ConsoleDaemon, asked: dict[str, Any]
) -> tuple[list[tuple[str, str, Markup]], Document]:
    long_s, bucket_s = SECONDS_BY_SPAN[asked["back"]]
    now = datetime.now(UTC)
    since = (now - timedelta(seconds=long_s)).isoformat(timespec="seconds")
    summary = await daemon.ask(requests.summary(since=since, bucket_s=bucket_s, kind=asked["kind"] or None))
    sample = parse_metrics((await daemon.request_bytes(requests.metrics())).decode(), 0.0)
    address = "/attempts?" + urlencode({"since": asked["back"], "kind": asked["kind"]})
    pictures = [
        (
            "verdicts",
            "Verdicts, and the validated share",
            charts.draw_stacked_column_chart(
                fill_missing_buckets(summary, now, long_s), title="Verdicts over time"
            ),
        ),
        (
            "rules",
            "Failures by rule, with their share of failed attempts",
            charts.draw_bar_chart(
                build_count_bars(summary["rules"], MOST_BARS, f"{address}&rule="),
                title="Attempts by rule",
                of=summary["verdicts"].get("failed", 0),
            ),
        ),
        (
            "causes",
            "Runs that didn't complete, by cause",
            charts.draw_bar_chart(
                build_count_bars(summary["causes"], MOST_BARS, f"{address}&cause="), title="Attempts by cause"
            ),
        ),
    ]
    pictures += [
        (
            f"limit-{limit}".replace(" ", "-"),
            f"Limit used: {limit} (since startup)",
            charts.draw_histogram(found, title=f"Use of the limit: {limit}"),
        )
        for limit in LIMITS
        if (found := _read_histogram(sample, "assayd_limit_use_ratio", "{:.0%}".format, limit=limit))
    ]
    pictures += [
        (
            f"latency-{step}",
            f"Time: {step} (since startup)",
            charts.draw_histogram(found, title=f"Time of {step}"),
        )
        for step in STEPS
        if (found := _read_histogram(sample, "assayd_attempt_duration_seconds", _format_seconds, stage=step))
    ]
    return [each for each in pictures if each[2]], summary


def _format_seconds(seconds: float) -> str:
    return took(seconds * 1000)


def _read_histogram(
    sample: MetricsSample, name: str, write: Callable[[float], str], **labels: str
) -> list[tuple[str, float]]:
    """Return the number of attempts per bucket of a metric, or an empty list if it counted no attempts."""
    counts = build_sample_span(sample, None, 1.0).get_buckets(name, **labels)
    found, below = [], 0.0
    for end, number in sorted(counts.items()):
        found.append(("more" if end == float("inf") else write(end), number - below))
        below = number
    return found if below else []


ROUTES = [
    Route("/trends", show_trends),
    Route("/trends/pictures", show_charts),
    Route("/trends/answers", show_answer_counts),
    Route("/trends/{name}.svg", download_chart),
]
