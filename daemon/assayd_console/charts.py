"""Draws charts and workflows as SVG without a library, because they are only rectangles and lines.

The nodes of a workflow are links, in columns by their distance from the first nodes.

The page's style sheet sets colors by class; `build_standalone_svg` embeds the colors in a separate file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from assayd_client import Document
from assayd_client.cli.terminal import plain
from assayd_client.cli.workflow import compute_node_depths

VERDICTS = ("validated", "failed", "error", "cancelled")
STYLE = """
text{font:13px sans-serif;fill:#1a1d21}.dim{fill:#57606a}
.axis{stroke:#d3d8de}.bar{fill:#2f6fd0}.line{fill:none;stroke:#845400;stroke-width:2;stroke-linecap:round}.key{stroke:#845400;stroke-width:3}
.validated{fill:#2c9c56}.failed{fill:#d3423c}.error{fill:#7a1f8f}.cancelled{fill:#3a9bdc}.waiting{fill:#c3cad2}
"""
LINK = re.compile(r"</?a\b[^>]*>")
WIDTH = 480
"""Default width of a chart in pixels; it fits a phone's screen without small text."""
ROW = 40
CELL = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    """One bar of a chart, with its name, value and link."""

    name: str
    number: float
    shown: str
    href: str = ""


def draw_bar_chart(rows: Sequence[ChartBar], *, title: str, of: int = 0, width: int = WIDTH) -> Markup:
    """Return a chart of horizontal bars below their names, or empty markup without rows.

    If `of` is set, each bar shows its share of this number.
    """
    if not rows:
        return Markup("")
    most = max((row.number for row in rows), default=0) or 1
    room = width - 110
    parts = []
    for place, row in enumerate(rows):
        top, long = place * ROW, room * row.number / most
        share = f" · {row.number / of:.0%}" if of else ""
        name = Markup('<text x="0" y="{}">{}</text>').format(top + 14, shorten(row.name, 60))
        if row.href:
            name = Markup('<a href="{}">{}</a>').format(row.href, name)
        parts += [
            name,
            Markup('<rect class="bar" x="0" y="{}" width="{:.1f}" height="14"/>').format(top + 19, long),
            Markup('<text class="dim" x="{:.1f}" y="{}">{}{}</text>').format(
                long + 6, top + 31, row.shown, share
            ),
        ]
    return draw_svg(parts, title, width, max(len(rows), 1) * ROW + 4)


def draw_stacked_column_chart(
    spans: Sequence[tuple[str, Mapping[str, int]]], *, title: str, width: int = WIDTH
) -> Markup:
    """Return a chart with a column of verdicts per bucket, and the validated share as a line.

    If no attempts ended, return a picture with a sentence that says so.
    """
    height, base = 212, 150
    most = max((sum(counts.values()) for _, counts in spans), default=0)
    if not most:
        empty = Markup('<text class="dim" x="0" y="18">No attempts ended in this period.</text>')
        return draw_svg([empty], title, width, 26)
    step = (width - 90) / len(spans)
    parts = _draw_axes(40, width - 50, 20, base, most)
    for share in (0.5, 1):
        parts.append(
            Markup('<text class="dim" x="{}" y="{:.1f}">{:.0f} %</text>').format(
                width - 46, base - (base - 20) * share + 4, share * 100
            )
        )
    line = []
    for place, (name, counts) in enumerate(spans):
        left, top, total = 40 + place * step, float(base), sum(counts.values())
        for verdict in VERDICTS:
            tall = (base - 20) * counts.get(verdict, 0) / most
            top -= tall
            if tall:
                parts.append(
                    _draw_stacked_column(
                        verdict, left, top, max(step - 1, 0.5), tall, f"{name}: {counts[verdict]} {verdict}"
                    )
                )
        if total:
            line.append(
                f"{left + step / 2:.1f},{base - (base - 20) * counts.get('validated', 0) / total:.1f}"
            )
    line *= 2 if len(line) == 1 else 1  # A single point becomes a dot.
    parts.append(Markup('<polyline class="line" points="{}"/>').format(" ".join(line)))
    parts.append(Markup('<text class="dim" x="40" y="{}">{}</text>').format(base + 18, spans[0][0]))
    parts.append(
        Markup('<text class="dim" x="{}" y="{}" text-anchor="end">{}</text>').format(
            width - 50, base + 18, spans[-1][0]
        )
    )
    key = Markup(
        '<line class="key" x1="0" x2="14" y1="{0}" y2="{0}"/><text class="dim" x="19" y="{1}">{2}</text>'
    )
    parts.append(key.format(base + 53, base + 58, "validated share, 0 to 100 %"))
    return draw_svg([*parts, *_draw_legend(VERDICTS, base + 38)], title, width, height)


def draw_item_grid(cells: Iterable[tuple[str, str, str]], *, title: str, width: int = WIDTH) -> Markup:
    """Return a chart with one cell per item: verdict, tooltip, and a link unless its address is empty."""
    columns = width // CELL
    parts, count = [], 0
    for count, (verdict, said, href) in enumerate(cells, 1):
        left, top = (count - 1) % columns * CELL, (count - 1) // columns * CELL
        cell = _draw_stacked_column(verdict, left, top, CELL - 2, CELL - 2, said)
        link = Markup('<a href="{}" aria-label="{}" tabindex="-1">{}</a>').format(href, plain(said), cell)
        parts.append(link if href else cell)
    rows = (count + columns - 1) // columns
    return draw_svg(
        [*parts, *_draw_legend((*VERDICTS, "waiting"), rows * CELL + 18)], title, width, rows * CELL + 26
    )


def draw_histogram(buckets: Sequence[tuple[str, float]], *, title: str, width: int = 340) -> Markup:
    """Return a chart with one column per bucket of a histogram."""
    base, most = 124, max((number for _, number in buckets), default=0) or 1
    step = (width - 46) / max(len(buckets), 1)
    parts = [
        Markup('<text class="dim" x="0" y="12">attempts</text>'),
        *_draw_axes(40, width - 6, 28, base, most),
    ]
    for place, (name, number) in enumerate(buckets):
        tall, left = (base - 28) * number / most, 40 + place * step
        parts.append(
            _draw_stacked_column("bar", left, base - tall, step - 2, tall, f"up to {name}: {number:,.0f}")
        )
        if place % 4 == 0 and place < len(buckets) - 2:
            parts.append(
                Markup('<text class="dim" x="{:.1f}" y="{}">{}</text>').format(left, base + 15, name)
            )
    return draw_svg(parts, title, width, base + 20)


def draw_run_columns(
    runs: Sequence[tuple[str, float | None, str]], *, title: str, width: int = 340
) -> Markup:
    """Return a chart with one column per run, and the last run's number as text if it is known.

    Each run has a verdict, a number (None if unknown), and a time.
    """
    base, most = 70, max((number or 0 for _, number, _ in runs), default=0) or 1
    step = min(24.0, (width - 70) / max(len(runs), 1))
    parts = [Markup('<line class="axis" x1="5" x2="{}" y1="{}" y2="{}"/>').format(width - 5, base, base)]
    for place, (verdict, number, moment) in enumerate(runs):
        tall = max((base - 10) * (number or 0) / most, 4)
        said = f"{moment}: {verdict}" if number is None else f"{moment}: {number:,.0f} rows, {verdict}"
        parts.append(
            _draw_stacked_column(verdict, 5 + place * step, base - tall, max(step - 2, 1), tall, said)
        )
    if runs and (last := runs[-1][1]) is not None:
        left, top = 9 + len(runs) * step, base - (base - 10) * last / most + 5
        parts.append(Markup('<text x="{:.1f}" y="{:.1f}">{:,.0f}</text>').format(left, top, last))
    return draw_svg(parts, title, width, base + 6)


def build_standalone_svg(picture: Markup) -> bytes:
    """Convert a chart to a separate SVG file that contains its colors and no links."""
    head, _, rest = str(picture).partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{LINK.sub("", rest)}'.encode()


def _draw_axes(left: float, right: float, top: float, base: float, most: float) -> list[Markup]:
    """Return lines at zero, half and all of `most` attempts, labelled if the number is an integer."""
    parts = []
    for share in (0, 0.5, 1):
        y, number = base - (base - top) * share, most * share
        parts.append(
            Markup('<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(left, right, y, y)
        )
        if number == int(number):
            parts.append(
                Markup('<text class="dim" x="{}" y="{:.1f}" text-anchor="end">{:,.0f}</text>').format(
                    left - 5, y + 4, number
                )
            )
    return parts


def _draw_stacked_column(name: str, left: float, top: float, wide: float, tall: float, said: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
    ).format(name, left, top, wide, tall, plain(said))


def _draw_legend(names: Sequence[str], top: float) -> list[Markup]:
    parts = []
    for place, name in enumerate(names):
        left = place * 92
        parts.append(
            Markup('<rect class="{}" x="{}" y="{}" width="10" height="10"/>').format(name, left, top - 9)
        )
        parts.append(Markup('<text class="dim" x="{}" y="{}">{}</text>').format(left + 15, top, name))
    return parts


def shorten(text: str, most: int) -> str:
    """Return text that is truncated to the given number of characters and safe to display."""
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def draw_svg(parts: Iterable[Markup], title: str, width: float, height: float) -> Markup:
    """Return an SVG picture of these parts. Screen readers read the `title`."""
    inner = Markup("").join(parts)
    role = "group" if "<a " in inner else "img"  # An element with the role img must not contain links.
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" width="{}" height="{}" role="{}" aria-label="{}">{}</svg>'
    ).format(width, height, width, height, role, escape(title), inner)


COLUMN, NODE_ROW = 190, 46
WIDE, TALL = 150, 34
NAME_CHARS = 18
MAX_EDGES = 2000
CLASS_BY_STATE = {"running": "bar", "repairing": "bar", "skipped": "waiting"}
"""The CSS class for each node state that isn't also a verdict."""


def graph(workflow: Document) -> Markup:
    """Return an SVG graph of a workflow's nodes and of at most `MAX_EDGES` dependencies."""
    nodes = workflow["nodes"]
    depths = compute_node_depths({node["id"]: node["needs"] for node in nodes})
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for node in nodes:
        depth = depths[node["id"]]
        row = rows[depth] = rows.get(depth, 0) + 1
        places[node["id"]] = (depth * COLUMN + 4, (row - 1) * NODE_ROW + 6)
    edges = [(need, node["id"]) for node in nodes for need in node["needs"] if need in places]
    drawn = [_draw_edge(places[need], places[node]) for need, node in edges[:MAX_EDGES]]
    boxes = [part for node in nodes for part in _draw_node(node, places[node["id"]])]
    width = (max(depths.values(), default=0) + 1) * COLUMN
    title = f"Graph of {len(nodes)} nodes, {len(edges)} connections"
    return draw_svg([*drawn, *boxes], title, width, max(rows.values(), default=1) * NODE_ROW + 6)


def _draw_edge(begin: tuple[int, int], end: tuple[int, int]) -> Markup:
    left, right = begin[0] + WIDE, end[0]
    middle = (left + right) / 2
    top, bottom = begin[1] + TALL / 2, end[1] + TALL / 2
    return Markup('<path class="axis" fill="none" d="M{} {}C{} {} {} {} {} {}"/>').format(
        left, top, middle, top, middle, bottom, right, bottom
    )


def _draw_node(node: Document, place: tuple[int, int]) -> Iterator[Markup]:
    left, top = place
    state = node["state"]
    inner = Markup(
        '<rect class="axis" fill="none" x="{}" y="{}" width="{}" height="{}" rx="3"/>'
        '<rect class="{}" x="{}" y="{}" width="7" height="{}"/>'
        '<text x="{}" y="{}">{}</text><text class="dim" x="{}" y="{}">{}{}</text>'
    ).format(
        left, top, WIDE, TALL,
        CLASS_BY_STATE.get(state, state), left, top, TALL,
        left + 13, top + 14, shorten(node["id"], NAME_CHARS),
        left + 13, top + 29, state, " (reused)" if node["reused"] else "",
    )  # fmt: skip
    if node["attempt_id"] is None:
        yield inner
    else:
        yield Markup('<a href="/attempts/{}" aria-label="{}">{}</a>').format(
            node["attempt_id"], f"{node['id']}: {state}", inner
        )
