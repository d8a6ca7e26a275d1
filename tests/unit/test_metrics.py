from __future__ import annotations

import re

from assayd.metrics import Metrics, combine_samples, remove_gauges


def test_counted_attempt_is_rendered_with_its_labels() -> None:
    metrics = Metrics()
    metrics.attempts.labels(kind="code", verdict="failed", cause="timeout").inc()
    text = metrics.render_metrics().decode()
    assert 'assayd_attempts_total{cause="timeout",kind="code",verdict="failed"} 1.0' in text


def test_values_of_executors_are_added_to_those_of_the_daemon() -> None:
    daemon, executor = Metrics(), Metrics()
    for one in (daemon, executor):
        one.engine_errors.labels("create", "engine.timeout").inc()
        one.engine_call.labels("create").observe(0.2)
        one.containers.labels("idle").set(2)
        one.refill_seconds.labels("key", "image").set(3)
        one.queue_depth.set(1)
    daemon.others = executor.collect_for_daemon

    text = daemon.render_metrics().decode()

    assert 'assayd_engine_errors_total{call="create",code="engine.timeout"} 2.0' in text
    assert 'assayd_engine_call_duration_seconds_bucket{call="create",le="0.25"} 2.0' in text
    assert 'assayd_containers{state="idle"} 4.0' in text
    assert 'assayd_refill_seconds{image="image",pool_key="key"} 3.0' in text
    assert "assayd_queue_depth 1.0" in text


def test_values_that_only_an_executor_has_are_shown() -> None:
    daemon, executor = Metrics(), Metrics()
    executor.idle_containers.labels("key", "image").set(1)
    daemon.others = executor.collect_for_daemon

    assert 'assayd_idle_containers{image="image",pool_key="key"} 1.0' in daemon.render_metrics().decode()


def test_counts_of_an_ended_executor_stay_without_its_gauges() -> None:
    ended = Metrics()
    ended.egress_bytes.labels("up").inc(5)
    ended.containers.labels("idle").set(1)

    kept = combine_samples(remove_gauges(ended.collect_for_daemon()), {})

    assert {name for name, _, _ in kept} == {"assayd_egress_bytes"}


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
