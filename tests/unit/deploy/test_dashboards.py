"""Alert rules and dashboard use existing metrics, and every metric is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.texts import dashboards

ROOT = Path(__file__).resolve().parents[3]
RUNBOOK = ROOT / "docs/operating/alerts.md"
EXPOSED = dashboards.exposed()
EVERYWHERE = dashboards.exposed_by_a_gateway()
PAGES = (dashboards.DASHBOARD, dashboards.CLUSTER)
QUERIES = [*dashboards.dashboard_queries(), *(rule["expr"] for rule in dashboards.alerts())]


def test_every_metric_that_is_asked_for_exists_with_its_labels() -> None:
    asked = {query: dashboards.metrics_in(query) for query in QUERIES}
    labels = [(query, *of) for query in QUERIES for of in dashboards.labels_in(query)]

    assert len(asked) > 50
    assert {query: names for query, names in asked.items() if names - EVERYWHERE.keys()} == {}
    assert [each for each in labels if each[2] - EVERYWHERE[each[1]]] == []


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for query in dashboards.dashboard_queries() for name in dashboards.metrics_in(query)}
    shown |= {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in EXPOSED}
    # A counter is scraped under its name with _total alone.
    families = {name for name in families if f"{name}_total" not in families}
    passed_over = {"assayd_process_virtual_memory_bytes", "assayd_process_start_time_seconds"}

    assert families - shown - passed_over == set()


def test_every_alert_has_its_place_in_the_guide_and_no_other_has() -> None:
    headings = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    alerts = dashboards.alerts()

    assert [heading for heading in headings if heading.startswith("Assayd")] == [
        rule["alert"] for rule in alerts
    ]
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"alerts.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_panels_are_named_apart_and_do_not_overlap(path: Path) -> None:
    panels = dashboards.dashboard(path)["panels"]
    titles = [panel["title"] for panel in panels]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(set(titles)) == len(titles)
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_panels_read_the_source_that_is_chosen(path: Path) -> None:
    document = dashboards.dashboard(path)
    variables = {each["name"] for each in document["templating"]["list"]}
    sources = [panel["datasource"] for panel in document["panels"] if panel["type"] != "row"]

    assert variables == {"datasource", "instance"}
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert all(
        'instance=~"$instance"' in target["expr"]
        for panel in document["panels"]
        for target in panel.get("targets", ())
    )


def test_page_of_the_cluster_asks_for_all_that_a_gateway_measures_and_nothing_else() -> None:
    exposed = EVERYWHERE
    own = {re.sub(r"_created$", "", name) for name in exposed if name.startswith("assayd_cluster_")}
    own = {name for name in own if f"{name}_total" not in own}
    queries = [*dashboards.dashboard_queries(dashboards.CLUSTER)]
    shown = {name for query in queries for name in dashboards.metrics_in(query)}
    asked = [(name, labels) for query in queries for name, labels in dashboards.labels_in(query)]

    assert own - {"assayd_process_start_time_seconds"} <= shown <= exposed.keys()
    assert [(name, labels) for name, labels in asked if labels - exposed[name]] == []
