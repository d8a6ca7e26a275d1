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
from assayd_console.sources import highlight_line

HERE = Path(__file__).parent


@cache
def build_environment() -> Environment:
    """Return the template environment, which escapes text and treats unknown names as errors."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown.to_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"version": __version__, "cluster": False}
    made.filters |= {
        "colored": highlight_line,
        "cut_lines": shown.cut_lines,
        "json": shown.format_json,
        "labels": shown.format_labels,
        "marked": shown.mark_invisible,
        "moment": shown.format_moment,
        "path": lambda text: quote(str(text), safe=""),
        "period": shown.format_period,
        "short_moment": shown.format_short_moment,
        "size": shown.format_size,
        "took": shown.took,
        "user": shown.format_user,
    }
    return made


def enable_cluster_menu() -> None:
    """Add an entry for the cluster's nodes to the menu until the process ends."""
    build_environment().globals["cluster"] = True


def render_fragment(template: str, **values: object) -> str:
    """Render a template with these values."""
    return build_environment().get_template(template).render(values)


def build_chart_response(picture: Markup, name: str, query: QueryParams) -> Response:
    """Return a chart as a download or, with ``?shown``, as an image for the console's pages."""
    drawn_from = "shown" in query
    headers = {} if drawn_from else {"Content-Disposition": f'attachment; filename="{name}.svg"'}
    media_type = "image/svg+xml" if drawn_from else "application/octet-stream"
    return Response(charts.build_standalone_svg(picture), media_type=media_type, headers=headers)


def render_page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Render a page."""
    return HTMLResponse(render_fragment(template, **values), status_code=status)
