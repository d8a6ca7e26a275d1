from __future__ import annotations

import re

from assayd.metrics import Metrics


def test_counted_attempt_is_rendered_with_its_labels() -> None:
    metrics = Metrics()
    metrics.attempts.labels(kind="code", verdict="failed", cause="timeout").inc()
    text = metrics.render_metrics().decode()
    assert 'assayd_attempts_total{cause="timeout",kind="code",verdict="failed"} 1.0' in text


def test_two_daemons_in_one_process_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.queue_depth.set(3)
    assert "assayd_queue_depth 3.0" in one.render_metrics().decode()
    assert "assayd_queue_depth 0.0" in two.render_metrics().decode()


def test_names_say_what_they_measure() -> None:
    counts = {
        "ready",
        "policies_stale",
        "build_info",
        "engine_info",
        "queue_depth",
        "containers",
        "idle_containers",
        "attempts_under_way",
        "batch_items_waiting",
        "connections",
        "templates",
        "webhook_messages_waiting",
    }
    counts |= {"process_open_fds", "process_max_fds"}
    families = [family.name for family in Metrics().registry.collect()]
    counters = {family.name for family in Metrics().registry.collect() if family.type == "counter"}

    assert [name for name in families if not name.startswith("assayd_")] == []
    others = {name.removeprefix("assayd_") for name in families if name not in counters} - counts
    assert {name for name in others if not re.search(r"_(seconds|bytes|ratio)$", name)} == set()


def test_memory_of_the_process_is_among_them() -> None:
    assert "assayd_process_resident_memory_bytes" in Metrics().render_metrics().decode()
