"""Draws a workflow as SVG: nodes are links, in columns by their distance from the first nodes."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from assayd_client import Document
from assayd_client.cli.workflow import node_depths
from assayd_console.charts import picture, short

COLUMN, ROW = 190, 46
WIDE, TALL = 150, 34
NAME_CHARS = 18
MOST_EDGES = 2000
COLOURS = {"running": "bar", "repairing": "bar", "skipped": "waiting"}
"""The colour of a state that has no verdict's colour."""


def graph(workflow: Document) -> Markup:
    """Return the SVG picture of a workflow."""
    nodes = workflow["nodes"]
    depths = node_depths({node["id"]: node["needs"] for node in nodes})
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for node in nodes:
        depth = depths[node["id"]]
        row = rows[depth] = rows.get(depth, 0) + 1
        places[node["id"]] = (depth * COLUMN + 4, (row - 1) * ROW + 6)
    edges = [(need, node["id"]) for node in nodes for need in node["needs"] if need in places]
    drawn = [_draw_edge(places[need], places[node]) for need, node in edges[:MOST_EDGES]]
    boxes = [part for node in nodes for part in _draw_node(node, places[node["id"]])]
    width = (max(depths.values(), default=0) + 1) * COLUMN
    title = f"Graph of {len(nodes)} nodes, {len(edges)} connections"
    return picture([*drawn, *boxes], title, width, max(rows.values(), default=1) * ROW + 6)


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
        COLOURS.get(state, state), left, top, TALL,
        left + 13, top + 14, short(node["id"], NAME_CHARS),
        left + 13, top + 29, state, " (reused)" if node["reused"] else "",
    )  # fmt: skip
    if node["attempt_id"] is None:
        yield inner
    else:
        yield Markup('<a href="/attempts/{}" aria-label="{}">{}</a>').format(
            node["attempt_id"], f"{node['id']}: {state}", inner
        )
