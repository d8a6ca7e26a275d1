import threading
from pathlib import Path

import pytest

from assayd.model.trace_context import parse_text
from assayd_cluster.node.links import AssignedRun, DaemonClient
from assayd_cluster.node.running import WAITS_S, MessageForged, MessageRequeued, RetryDelays
from assayd_cluster.node.worker import HeartbeatSender
from support.cluster.stub_gateway import TICKET
from support.cluster.unix_http import refusal

from .conftest import NodeParts


def test_an_attempt_comes_to_its_verdict_with_its_files_once(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()

    parts.runner.run(attempt_id, TICKET)
    parts.runner.run(attempt_id, TICKET)

    [(node, verdict)] = known.verdicts
    assert node == "node-1"
    assert verdict["attempt"]["verdict"] == "validated"  # type: ignore[index]
    assert [file["name"] for file in verdict["files"]] == ["report.json"]  # type: ignore[attr-defined]
    assert parts.daemon.submitted == [attempt_id]


def test_daemon_continues_the_span_of_the_gateway(parts: NodeParts) -> None:
    traced, untraced = parts.attempt()[0], parts.attempt()[0]
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    parts.runner.run(traced, TICKET, parse_text(parent))
    parts.runner.run(untraced, TICKET)

    assert parts.daemon.traces == {traced: parent, untraced: None}


def test_engine_and_images_are_known_once_something_has_run(parts: NodeParts) -> None:
    attempt_id, _ = parts.attempt()
    assert (parts.runner.engine, parts.runner.images) == ("", {})

    parts.runner.run(attempt_id, TICKET)

    assert parts.runner.engine == "oci 1.8.1"
    assert parts.runner.images == {"python": "sha256:00"}


def test_daemon_is_asked_to_run_an_attempt_once(parts: NodeParts) -> None:
    attempt_id, _ = parts.attempt()

    parts.runner.run(attempt_id, TICKET)

    assert parts.daemon.most_runs == {attempt_id: "1"}


def test_daemon_that_would_run_an_attempt_twice_is_not_ready(parts: NodeParts, tmp_path: Path) -> None:
    daemon = DaemonClient(tmp_path / "daemon.sock")
    assert daemon.readiness() == ""
    parts.daemon.readiness = {"status": "ready"}
    assert "older than assayd-node" in daemon.readiness()


def test_last_beat_of_a_node_says_that_it_leaves(parts: NodeParts, tmp_path: Path) -> None:
    heart = HeartbeatSender(
        gateway=parts.link,
        daemon=DaemonClient(tmp_path / "daemon.sock"),
        runner=parts.runner,
        stopping=parts.stopping,
        capacity=1,
        want=lambda _: None,
    )
    heart.sooner.set()
    heart.beat()
    assert parts.gateway.beats["node-1"]["leaving"] is False
    heart.leaving = True
    heart.sooner.set()
    heart.beat()
    assert parts.gateway.beats["node-1"]["leaving"] is True
    assert heart.left.is_set()


def test_a_large_file_is_sent_ahead_of_the_verdict(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt(large_bytes=100_000)

    parts.runner.run(attempt_id, TICKET)

    [(_, verdict)] = known.verdicts
    [large] = [file for file in verdict["files"] if file["bytes"] == 100_000]  # type: ignore[attr-defined]
    assert "base64" not in large
    assert known.files == {large["sha256"]: 100_000}


def test_a_verdict_is_kept_until_the_gateway_takes_it(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    parts.gateway.refuses["verdict"] = refusal(503, "not_ready")
    thread = threading.Thread(target=parts.runner.run, args=(attempt_id, TICKET))
    thread.start()
    parts.gateway.wait_for(lambda: parts.gateway.refused["verdict"] >= 2)
    with parts.gateway.changed:
        parts.gateway.refuses.clear()
    thread.join(30)

    assert not thread.is_alive()
    assert len(known.verdicts) == 1


@pytest.mark.parametrize("code", ["run.over", "run.foreign"])
def test_a_verdict_that_is_needed_no_more_is_given_up(parts: NodeParts, code: str) -> None:
    attempt_id, known = parts.attempt()
    parts.gateway.refuses["verdict"] = refusal(410 if code == "run.over" else 403, code)

    parts.runner.run(attempt_id, TICKET)

    assert not known.verdicts
    assert parts.runner.in_hand() == []


def test_a_message_with_a_wrong_ticket_is_laid_aside_and_nothing_runs(parts: NodeParts) -> None:
    attempt_id, _ = parts.attempt()

    with pytest.raises(MessageForged):
        parts.runner.run(attempt_id, "x" * 43)

    assert parts.daemon.submitted == []


def test_an_attempt_that_is_over_is_not_run(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    known.verdicts.append(("node-2", {}))

    parts.runner.run(attempt_id, TICKET)

    assert parts.daemon.submitted == []


def test_an_attempt_that_another_node_holds_is_waited_for(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    parts.gateway.refuses["runs"] = refusal(409, "run.held")
    thread = threading.Thread(target=parts.runner.run, args=(attempt_id, TICKET))
    thread.start()
    parts.gateway.wait_for(lambda: parts.gateway.refused["runs"] >= 2)
    with parts.gateway.changed:
        known.verdicts.append(("node-2", {}))
        parts.gateway.refuses.clear()
    thread.join(30)

    assert not thread.is_alive()
    assert parts.daemon.submitted == []


def test_a_node_that_drains_puts_back_what_it_has_not_claimed(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    parts.stopping.draining.set()

    with pytest.raises(MessageRequeued):
        parts.runner.run(attempt_id, TICKET)

    assert not known.holders


def test_an_internal_error_of_the_first_run_is_a_lost_run_and_of_the_second_the_verdict(
    parts: NodeParts,
) -> None:
    attempt_id, known = parts.attempt(verdict="error")
    parts.runner.run(attempt_id, TICKET)
    assert known.lost == ["node-1"]

    known.holders.insert(0, "node-2")
    parts.runner.run(attempt_id, TICKET)

    assert len(known.verdicts) == 1


def test_submission_that_the_daemon_refuses_is_not_the_nodes_failure(parts: NodeParts) -> None:
    refused, known = parts.attempt(refused=True)
    failed, other = parts.attempt(verdict="error")

    parts.runner.run(refused, TICKET)
    parts.runner.run(failed, TICKET)

    assert [known.refusals, other.refusals] == [[True], [False]]
    assert parts.daemon.submitted == [failed]


def test_runs_of_a_daemon_that_stays_away_are_left_to_others(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    parts.daemon.away = True

    parts.runner.run(attempt_id, TICKET)

    assert known.lost == ["node-1"]


def test_events_of_a_run_that_takes_long_are_sent_as_soon_as_the_gateway_answers(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt(takes_s=60)
    thread = threading.Thread(target=parts.runner.run, args=(attempt_id, TICKET))
    thread.start()
    parts.daemon.wait_until_followed(attempt_id)
    parts.gateway.away = True
    while not parts.forwarder._waiting.get(AssignedRun(attempt=attempt_id, number=1)):
        parts.forwarder.send()
    parts.forwarder.send()
    parts.gateway.away = False
    while not known.events:
        parts.forwarder.send()
    parts.daemon.cancel(attempt_id)
    thread.join(30)

    assert not thread.is_alive()
    assert [event["kind"] for event in known.events] == ["state"]  # type: ignore[index]
    assert len(known.verdicts) == 1


@pytest.mark.parametrize(("queues", "waiting"), [(True, 1), (False, 0)])
def test_run_that_waits_in_the_daemon_is_counted_until_it_runs(
    parts: NodeParts, queues: bool, waiting: int
) -> None:
    attempt_id, _ = parts.attempt(takes_s=60, queues=queues)
    thread = threading.Thread(target=parts.runner.run, args=(attempt_id, TICKET))
    thread.start()
    parts.daemon.wait_until_followed(attempt_id)
    run = AssignedRun(attempt=attempt_id, number=1)
    while not queues and not parts.forwarder._waiting.get(run):
        pass
    counts = [parts.runner.count_waiting()]
    parts.seconds += WAITS_S
    counts.append(parts.runner.count_waiting())
    parts.daemon.cancel(attempt_id)
    thread.join(30)

    assert not thread.is_alive()
    assert [*counts, parts.runner.count_waiting()] == [0, waiting, 0]


def test_run_that_the_daemon_has_no_place_for_is_counted_as_waiting(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt()
    parts.daemon.full = True
    runner = parts.build_runner(RetryDelays(retry_delays_s=(0.01,), daemon_away_s=60))
    thread = threading.Thread(target=runner.run, args=(attempt_id, TICKET))
    thread.start()
    while not runner.count_waiting() and thread.is_alive():
        parts.seconds += WAITS_S
    parts.daemon.full = False
    thread.join(30)

    assert not thread.is_alive()
    assert len(known.verdicts) == 1
    assert runner.count_waiting() == 0


def test_a_second_message_of_an_attempt_waits_for_the_first(parts: NodeParts) -> None:
    attempt_id, known = parts.attempt(takes_s=60)
    threads = [threading.Thread(target=parts.runner.run, args=(attempt_id, TICKET)) for _ in range(2)]
    for thread in threads:
        thread.start()
    parts.daemon.wait_until_followed(attempt_id)
    parts.daemon.cancel(attempt_id)
    for thread in threads:
        thread.join(30)

    assert len(known.verdicts) == 1
    assert parts.daemon.submitted == [attempt_id]
