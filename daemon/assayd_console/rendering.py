"""Configures the templates' folder and functions, and renders templates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, Response

from assayd import __version__
from assayd_console import charts, shown
from assayd_console.sources import colored

HERE = Path(__file__).parent


@cache
def environment() -> Environment:
    """Return the template environment, which escapes text and treats unknown names as errors."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"version": __version__, "cluster": False}
    made.filters |= {
        "colored": colored,
        "cut_lines": shown.cut_lines,
        "json": shown.as_json,
        "labels": shown.format_labels,
        "marked": shown.marked,
        "moment": shown.moment,
        "path": lambda text: quote(str(text), safe=""),
        "period": shown.period,
        "short_moment": shown.short_moment,
        "size": shown.size,
        "took": shown.took,
        "user": shown.user,
    }
    return made


def enable_cluster_menu() -> None:
    """Add an entry for the cluster's nodes to the menu until the process ends."""
    environment().globals["cluster"] = True


def fragment(template: str, **values: object) -> str:
    """Render a template with these values."""
    return environment().get_template(template).render(values)


def chart_response(picture: Markup, name: str, query: QueryParams) -> Response:
    """Return a chart as a download or, with ``?shown``, as an image for the console's pages."""
    drawn_from = "shown" in query
    headers = {} if drawn_from else {"Content-Disposition": f'attachment; filename="{name}.svg"'}
    media_type = "image/svg+xml" if drawn_from else "application/octet-stream"
    return Response(charts.standalone(picture), media_type=media_type, headers=headers)


def page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Render a page."""
    return HTMLResponse(fragment(template, **values), status_code=status)
