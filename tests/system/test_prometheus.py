"""Prometheus' own tool accepts the project's rules and metrics."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from assayd.metrics import Metrics
from support.texts import dashboards

pytestmark = pytest.mark.system


def run(
    promtool: Path, *arguments: str | Path, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([promtool, *arguments], capture_output=True, check=False, timeout=60, input=stdin)


def test_alert_rules_are_rules(promtool: Path) -> None:
    done = run(promtool, "check", "rules", "--lint-fatal", dashboards.ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_trouble_raises_its_alert_and_health_raises_none(promtool: Path) -> None:
    done = run(promtool, "test", "rules", dashboards.ALERTS.with_name("alerts_test.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_queries_of_the_dashboard_are_queries(promtool: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{n}", "expr": query} for n, query in enumerate(dashboards.dashboard_queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    done = run(promtool, "check", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_are_in_the_form_and_with_the_names_that_prometheus_wants(promtool: Path) -> None:
    done = run(promtool, "check", "metrics", stdin=Metrics().render_metrics())
    assert done.returncode == 0, done.stdout + done.stderr
