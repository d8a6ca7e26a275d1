from __future__ import annotations

from assayd.metrics import Metrics


def test_counted_attempt_is_rendered_with_its_labels() -> None:
    metrics = Metrics()
    metrics.attempts.labels(kind="code", verdict="failed", cause="timeout").inc()
    text = metrics.render().decode()
    assert 'assayd_attempts_total{cause="timeout",kind="code",verdict="failed"} 1.0' in text


def test_two_daemons_in_one_process_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.queue_depth.set(3)
    assert "assayd_queue_depth 3.0" in one.render().decode()
    assert "assayd_queue_depth 0.0" in two.render().decode()
