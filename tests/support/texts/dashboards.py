"""The Prometheus queries of the alert rules and the dashboard, read from their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from assayd.metrics import Metrics
from assayd_cluster.gateway.metrics import ClusterMetrics

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yml"
DASHBOARD = DEPLOY / "grafana/assayd.json"
CLUSTER = DEPLOY / "grafana/cluster.json"


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard(path: Path = DASHBOARD) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def dashboard_queries(path: Path = DASHBOARD) -> Iterator[str]:
    """Return every query of the dashboard, with Grafana's variables filled in."""
    document = dashboard(path)
    queries = [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]
    queries += [note["expr"] for note in document["annotations"]["list"]]
    for query in queries:
        yield query.replace("$__rate_interval", "5m").replace("$instance", ".*")


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\bassayd_[a-z_]+", text))


def labels_in(query: str) -> Iterator[tuple[str, set[str]]]:
    """Return each metric of a query with the labels that the query uses."""
    for name, matchers in re.findall(r"\b(assayd_[a-z_]+)\{([^}]*)\}", query):
        yield name, set(re.findall(r"(\w+)\s*[=!]~?", matchers)) - {"instance"}


def exposed(registry: CollectorRegistry | None = None) -> dict[str, set[str]]:
    """Return the names under which the daemon's metrics are scraped, with their labels."""
    registry = registry or Metrics().registry
    # Those of the process have values at once; the others are listed, also while nothing was counted yet.
    names = {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}
    for collector, registered in registry._collector_to_names.items():
        labels = set(getattr(collector, "_labelnames", ()))
        for name in registered:
            names[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return names


def exposed_by_a_gateway() -> dict[str, set[str]]:
    """Return the names and labels of a gateway's metrics, which include a daemon's."""
    metrics = Metrics()
    ClusterMetrics(metrics.registry)
    return exposed(metrics.registry)
