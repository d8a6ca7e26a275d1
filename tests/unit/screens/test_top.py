"""The live view: its use of the metrics, and its refresh."""

from __future__ import annotations

import io
import os
import pty
import select
from datetime import UTC, datetime

import pytest
from rich.console import Console

from assayd.metrics import Metrics
from assayd_client import PlainClient
from assayd_client.cli.sample import build_sample_span, parse_metrics
from assayd_screens.top import (
    MetricsReader,
    MonitorFrame,
    disable_key_echo,
    render_frame,
    run_display_loop,
)

NOW = datetime(2026, 5, 4, 10, 20, 40, tzinfo=UTC)
ATTEMPT = {
    "id": "01JTC8ZK5V0000000000000001",
    "kind": "extractor",
    "state": "running",
    "created_at": "2026-05-04T10:20:30.000000Z",
    "peer": {"uid": 1000, "gid": 1000, "pid": 1},
    "labels": {"platform": "open_meteo", "category": "\x1b[2Jweather"},
}


def metrics(*, validated: int = 0, failed: int = 0, run_s: tuple[float, ...] = ()) -> str:
    made = Metrics()
    made.ready.set(1)
    made.attempts.labels("extractor", "validated", "completed").inc(validated)
    made.attempts.labels("extractor", "failed", "timeout").inc(failed)
    for seconds in run_s:
        made.attempt_duration.labels("run").observe(seconds)
    made.containers.labels("stuck").set(2)
    made.queue_depth.set(1204)
    return made.render_metrics().decode()


def shown(frame: MonitorFrame) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(render_frame(frame))
    return console.file.getvalue()  # type: ignore[attr-defined]


def frame_of(now: str, before: str | None = None, *, seconds: float = 2.0) -> MonitorFrame:
    earlier = None if before is None else parse_metrics(before, 0.0)
    between = build_sample_span(parse_metrics(now, seconds), earlier, up_s=10.0)
    return MonitorFrame(at=NOW, span=between, since_start=before is None, attempts=[ATTEMPT])


def test_rates_cover_the_time_since_the_look_before() -> None:
    text = shown(frame_of(metrics(validated=14, failed=5), metrics(validated=10, failed=5)))
    assert "2.0/s · 2.0 validated · 0.0 failed" in text
    assert "rates of 2.0 s" in text


def test_first_look_covers_the_time_since_the_start() -> None:
    assert "1.5/s · 1.0 validated · 0.5 failed" in shown(frame_of(metrics(validated=10, failed=5)))


def test_daemon_that_was_started_anew_has_no_negative_rates() -> None:
    assert "1.0/s · 1.0 validated" in shown(frame_of(metrics(validated=2), metrics(validated=100)))


def test_latencies_are_those_of_the_time_since_the_look_before() -> None:
    slow, both = metrics(run_s=(50.0,) * 9), metrics(run_s=(50.0,) * 9 + (0.2,) * 8)
    assert "run p50 175ms p95 242ms" in shown(frame_of(both, slow))


def test_queue_containers_and_attempts_are_shown() -> None:
    text = shown(frame_of(metrics()))
    assert "1,204" in text
    assert "2 stuck" in text
    assert "01JTC8ZK5V0000000000000001  extractor  running  10s  1000" in text


def test_what_submitters_named_cannot_act_on_the_terminal() -> None:
    assert "\x1b" not in shown(frame_of(metrics()))


@pytest.mark.parametrize(("share", "expected"), [(0.5, 0.0075), (0.9, 30.0), (0.99, 120.0)])
def test_quantile_lies_within_its_bucket_and_the_last_has_no_end(share: float, expected: float) -> None:
    text = metrics(run_s=(0.006,) * 5 + (0.008,) * 3 + (25.0, 500.0))
    seen = build_sample_span(parse_metrics(text, 1.0), None, up_s=1.0)
    quantile = seen.estimate_quantile_s(share, "assayd_attempt_duration_seconds", stage="run")
    assert quantile == pytest.approx(expected, rel=0.1)


def test_histogram_that_got_nothing_has_no_quantile() -> None:
    seen = build_sample_span(parse_metrics(metrics(), 1.0), None, up_s=1.0)
    assert seen.estimate_quantile_s(0.5, "assayd_attempt_duration_seconds", stage="run") is None


def test_one_look_is_printed_where_there_is_no_terminal(assay, capsys) -> None:
    assert assay("top") == 0
    assert "rates since the start" in capsys.readouterr().out


def test_attempts_under_way_are_asked_for_by_state(service, socket) -> None:
    with PlainClient(socket) as client:
        MetricsReader(client).read_frame()
    assert {query.state for query in service.queries} == {"running", "leasing", "checking", "judging"}


def test_it_looks_again_until_the_user_has_enough(service, socket) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=20)
    answers = iter([False, True])
    with PlainClient(socket) as client:
        run_display_loop(client, console, interval_s=1.0, wait=lambda seconds: next(answers))
    assert "rates of" in console.file.getvalue()  # type: ignore[attr-defined]


def test_q_ends_the_wait_and_other_keys_are_neither_shown_nor_an_end() -> None:
    terminal, other_end = pty.openpty()
    with os.fdopen(other_end) as keyboard, disable_key_echo(keyboard) as wait:
        os.write(terminal, b"x")
        ended = wait(0.0), wait(0.05)
        os.write(terminal, b"q")
        assert (*ended, wait(60)) == (False, False, True)
        assert not select.select([terminal], [], [], 0)[0]
    os.close(terminal)


def test_narrow_terminal_continues_between_two_facts() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    console.print(render_frame(frame_of(metrics(run_s=(0.2,) * 8))))
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, shown)) <= 80
    assert [line[:11].strip() for line in shown[:9]] == [
        *("assayd", "attempts", "waiting", "under way", "latency", "containers", "engine", "daemon"),
        "",
    ]
    assert "queued –" in shown[4]
