"""Batches from the first line to the last verdict: crashes, cancelling, sending again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assayd.attempts.scheduler import QueueLimits
from assayd.errors import RequestError, StoreError
from assayd.model.batch import BatchRequest, BatchState, ItemCounts, WaitingItem
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from support.daemons.small_daemon import How, SmallDaemon, small_daemon, with_lines

Sender = Any  # the fixture's class; test folders are not a package

OTHER = Peer(uid=2000, gid=2000, pid=2)
PASSED, FAILED, ERROR = Verdict.VALIDATED, Verdict.FAILED, Verdict.ERROR


async def waiting(daemon: SmallDaemon, count: int) -> None:
    """Wait until this number of attempts is at the closed gate, and check that no more arrive."""
    while len(daemon.checks.waiting) < count:
        await daemon.jobs.list_unfinished()  # lets the store's thread work


async def test_lines_become_attempts_and_results_keep_their_order(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        lines = sender.lines("one", "bad two", "run three")
        batch, received = await sender.send(daemon, [*lines[:2], b"", lines[2]])
        over = await sender.end(daemon, batch)

        assert (received.lines, received.added, received.known) == (3, 3, 0)
        assert (over.batch.state, over.tally) == (
            BatchState.FINISHED,
            ItemCounts(total=3, validated=2, failed=1),
        )
        assert over.batch.finished_at is not None
        results = [
            json.loads(line) async for part in daemon.batches.results(batch.id) for line in part.splitlines()
        ]
        assert [(r["line"], r["verdict"], r["rules"]) for r in results] == [
            (1, "validated", []),
            (2, "failed", ["small.bad"]),
            (4, "validated", []),
        ]
        assert [r["attempt"]["batch_id"] for r in results] == [batch.id] * 3
        assert [r["attempt"]["report"]["status"] for r in results] == ["VALIDATED", "FAILED", "VALIDATED"]
        assert [r["attempt"]["execution"] is None for r in results] == [True, True, False]


async def test_malformed_line_is_an_item_in_error_and_the_rest_goes_on(
    tmp_path: Path, sender: Sender
) -> None:
    bad = [
        b"{",
        b"[]",
        b'{"kind": "nothing", "payload": {}}',
        b'{"kind": "small", "payload": {}}',
        b'{"kind": "small", "payload": {"code": "x"}, "policy": "nothing"}',
        b'{"kind": "small", "payload": {"code": "x"}, "overrides": {"resources": {"timeout_s": 999}}}',
        b'{"kind": "small", "payload": {"code": "x"}, "parent_id": "01JTC8ZK5V7777777777777777"}',
        b"x" * 2000,
    ]
    async with small_daemon(tmp_path, with_lines(line_bytes=1000)) as daemon:
        batch, received = await sender.send(daemon, [*sender.lines("good"), *bad, *sender.lines("good")])
        over = await sender.end(daemon, batch)

        assert (received.lines, received.malformed) == (10, 8)
        assert over.tally == ItemCounts(total=10, validated=2, error=8, malformed=8)
        items = await daemon.batches.items(batch.id, after=0, limit=100)
        assert [(item.line, item.error.code) for item in items if item.error] == [
            (2, "malformed"),
            (3, "malformed"),
            (4, "kind.unknown"),
            (5, "invalid"),
            (6, "policy.unknown"),
            (7, "override.wider"),
            (8, "invalid"),
            (9, "too_large"),
        ]


async def test_sending_again_adds_only_what_is_missing(tmp_path: Path, sender: Sender) -> None:
    lines = sender.lines("one", "two", "three")
    async with small_daemon(tmp_path) as daemon:
        first, _ = await sender.send(daemon, lines[:2])
        await sender.end(daemon, first)

        again, received = await sender.send(daemon, lines)
        over = await sender.end(daemon, again)

        assert (again.id, received.added, received.known) == (first.id, 1, 2)
        assert over.tally == ItemCounts(total=3, validated=3)
        assert sorted(daemon.checks.passed) == ["one", "three", "two"]


async def test_finished_batch_that_is_sent_again_stays_finished(tmp_path: Path, sender: Sender) -> None:
    lines = [*sender.lines("one"), b"{"]
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, lines)
        before = await sender.end(daemon, batch)
        await sender.send(daemon, lines)
        assert (await daemon.batches.progress(batch.id)).batch == before.batch


async def test_line_with_another_input_takes_the_place_of_the_one_before(
    tmp_path: Path, sender: Sender
) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, [*sender.lines("one"), b"{", *sender.lines("three")])
        await sender.end(daemon, batch)

        _, received = await sender.send(daemon, sender.lines("one", "bad two", "three"))
        over = await sender.end(daemon, batch)

        assert (received.added, received.known) == (1, 2)
        assert over.tally == ItemCounts(total=3, validated=2, failed=1)
        _, received = await sender.send(daemon, [*sender.lines("one"), b"{", *sender.lines("three")])
        assert received.added == 0
        assert (await sender.end(daemon, batch)).tally == ItemCounts(
            total=3, validated=2, error=1, malformed=1
        )


async def test_line_with_another_policy_is_said_to_conflict_and_stays(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, sender.lines("one", "two"))
        await sender.end(daemon, batch)
        labelled = [*sender.lines("one"), *sender.lines("two", labels={"a": "b"})]
        _, received = await sender.send(daemon, labelled)
        assert (received.added, received.conflicting) == (0, (2,))


async def test_lines_that_would_run_the_same_are_one_attempt_when_asked(
    tmp_path: Path, sender: Sender
) -> None:
    lines = [*sender.lines("same", "other", "same"), *sender.lines("same", policy="default")]
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, lines, dedupe=True)
        await sender.send(daemon, [*lines, *sender.lines("same")], dedupe=True)
        over = await sender.end(daemon, batch)

        assert over.tally == ItemCounts(total=5, validated=5)
        assert sorted(daemon.checks.passed) == ["other", "same", "same"]
        items = await daemon.batches.items(batch.id, after=0, limit=100)
        ids = [item.attempt_id for item in items]
        assert ids[0] == ids[2] == ids[4] != ids[3]


async def test_lines_of_different_images_are_not_one_attempt(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        await sender.send(daemon, sender.lines("same"), dedupe=True)
        daemon.sandbox.image_digest = "sha256:newer"
        batch, _ = await sender.send(daemon, sender.lines("same", "same", "same"), dedupe=True)
        await sender.end(daemon, batch)
        assert daemon.checks.passed == ["same", "same"]


async def test_no_more_of_a_batch_is_under_way_than_it_may_have(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines(*map(str, range(50))), concurrency=5)
        await waiting(daemon, 5)
        assert len(await daemon.jobs.list_unfinished()) == 5
        assert (await daemon.batches.progress(batch.id)).running == 5
        daemon.checks.open.set()
        assert (await sender.end(daemon, batch)).tally == ItemCounts(total=50, validated=50)


async def test_items_are_read_ahead_together(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_daemon(tmp_path) as daemon:
        reads = []
        read = daemon.batches._store.waiting

        async def counted(batch_id: str, *, after: int, limit: int) -> Sequence[WaitingItem]:
            reads.append(after)
            return await read(batch_id, after=after, limit=limit)

        monkeypatch.setattr(daemon.batches._store, "waiting", counted)
        batch, _ = await sender.send(daemon, sender.lines(*map(str, range(60))), concurrency=2)
        assert (await sender.end(daemon, batch)).tally == ItemCounts(total=60, validated=60)
        assert len(reads) < 20  # some of them while lines come


async def test_concurrency_beyond_what_the_daemon_allows_is_refused(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        with pytest.raises(RequestError) as caught:
            await sender.open(daemon, concurrency=33)
        assert (caught.value.code, caught.value.field) == ("invalid", "concurrency")


async def test_small_batch_beside_a_large_one_ends_early(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=3))) as daemon:
        daemon.checks.open.clear()
        large, _ = await sender.send(daemon, sender.lines(*(f"l{n}" for n in range(80))), name="large")
        small, _ = await sender.send(daemon, sender.lines(*(f"s{n}" for n in range(10))), name="small")
        while daemon.scheduler.count_by_state().total() < 32 + 10:
            await daemon.jobs.list_unfinished()
        daemon.checks.open.set()
        await sender.end(daemon, small)
        assert (await daemon.batches.progress(large.id)).tally.done < 40
        await sender.end(daemon, large)


async def test_engine_that_is_away_holds_a_batch_up_and_loses_nothing(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch = await sender.open(daemon)
        daemon.readiness.problem = "the engine is away"
        batch, _ = await sender.send(daemon, sender.lines("one", "two"))
        while (await daemon.batches.progress(batch.id)).running < 2:
            await asyncio.sleep(0)
        assert await daemon.jobs.list_unfinished() == ()
        daemon.readiness.problem = ""
        assert (await sender.end(daemon, batch)).tally == ItemCounts(total=2, validated=2)


async def test_new_batch_is_refused_while_nothing_can_run(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.readiness.problem = "the engine is away"
        with pytest.raises(RequestError) as caught:
            await sender.open(daemon)
        assert (caught.value.code, caught.value.retryable) == ("not_ready", True)


async def test_profile_that_goes_away_makes_its_items_errors(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch = await sender.open(daemon)
        daemon.readiness.problem = "not yet"
        await sender.send(daemon, [*sender.lines("one"), *sender.lines("two", policy="script")])
        gone = daemon.policies._policies.pop("script")
        try:
            daemon.readiness.problem = ""
            assert (await sender.end(daemon, batch)).tally == ItemCounts(
                total=2, validated=1, error=1, malformed=1
            )
        finally:
            daemon.policies._policies["script"] = gone


async def test_errors_of_a_finished_batch_run_again_as_new_attempts(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.broken = ZeroDivisionError("a defect")
        lines = [*sender.lines("one", "one"), b"{"]
        batch, _ = await sender.send(daemon, lines, dedupe=True)
        before = await sender.end(daemon, batch)
        first, second, _ = await daemon.batches.items(batch.id, after=0, limit=9)
        assert before.tally == ItemCounts(total=3, error=3, malformed=1)

        daemon.checks.broken = None
        await daemon.batches.retry_errors(before.batch)
        over = await sender.end(daemon, batch)

        assert (over.tally, over.batch.state) == (
            ItemCounts(total=3, validated=2, error=1, malformed=1),
            BatchState.FINISHED,
        )
        again, same, malformed = await daemon.batches.items(batch.id, after=0, limit=9)
        assert first.attempt_id == second.attempt_id != again.attempt_id == same.attempt_id
        assert malformed.error is not None
        old = await daemon.jobs.get(str(first.attempt_id))
        assert old is not None
        assert old.verdict is ERROR
        await daemon.batches.retry_errors(over.batch)
        assert (await daemon.batches.progress(batch.id)).batch == over.batch


async def test_items_that_were_refused_run_again_once_their_profile_is_back(
    tmp_path: Path, sender: Sender
) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch = await sender.open(daemon)
        daemon.readiness.problem = "not yet"
        await sender.send(daemon, sender.lines("one", policy="script"))
        gone = daemon.policies._policies.pop("script")
        daemon.readiness.problem = ""
        before = await sender.end(daemon, batch)
        daemon.policies._policies["script"] = gone
        assert before.tally == ItemCounts(total=1, error=1, malformed=1)
        await daemon.batches.retry_errors(before.batch)
        assert (await sender.end(daemon, batch)).tally == ItemCounts(total=1, validated=1)


async def test_errors_of_a_cancelled_batch_are_not_run_again(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines("one"))
        await daemon.batches.cancel(batch)
        with pytest.raises(RequestError, match="assay batch resume b FILE") as caught:
            await daemon.batches.retry_errors(batch)
        assert caught.value.code == "batch.cancelled"


async def test_sender_that_goes_away_leaves_a_batch_that_runs_and_stays_open(
    tmp_path: Path, sender: Sender
) -> None:
    async def gone(body: bytes) -> AsyncIterator[bytes]:
        yield body
        raise RequestError("too_slow", "nothing comes")

    async with small_daemon(tmp_path) as daemon:
        batch = await sender.open(daemon)
        lines = sender.lines("one", "two", "three")
        with pytest.raises(RequestError):
            await daemon.batches.receive(batch, gone(b"\n".join(lines[:2]) + b"\n{"), sees=lambda _: True)
        while (await daemon.batches.progress(batch.id)).tally.done < 2:
            await asyncio.sleep(0)
        assert (await daemon.batches.progress(batch.id)).batch.state is BatchState.OPEN

        _, received = await sender.send(daemon, lines)
        over = await sender.end(daemon, batch)
        assert (received.added, over.tally) == (1, ItemCounts(total=3, validated=3))
        assert over.batch.state is BatchState.FINISHED


async def test_cancelled_batch_ends_what_runs_and_starts_no_more(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines(*map(str, range(20))), concurrency=4)
        await waiting(daemon, 4)

        await daemon.batches.cancel(batch)
        over = await sender.end(daemon, batch)

        assert (over.batch.state, over.tally) == (BatchState.CANCELLED, ItemCounts(total=20, cancelled=20))
        assert len((await daemon.service.list(query())).attempts) == 4
        daemon.checks.open.set()

        _, received = await sender.send(daemon, sender.lines(*map(str, range(20))))
        over = await sender.end(daemon, batch)
        assert (received.added, over.batch.state) == (0, BatchState.FINISHED)
        assert over.tally == ItemCounts(total=20, validated=16, cancelled=4)


async def test_finished_batch_cannot_be_cancelled(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        batch, _ = await sender.send(daemon, sender.lines("one"))
        over = await sender.end(daemon, batch)
        with pytest.raises(RequestError) as caught:
            await daemon.batches.cancel(over.batch)
        assert caught.value.code == "batch.finished"


async def test_next_life_goes_on_with_a_batch_and_runs_nothing_twice(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines(*map(str, range(12))), concurrency=4)
        await waiting(daemon, 4)
        before = {attempt.id for attempt in await daemon.jobs.list_unfinished()}

    async with small_daemon(tmp_path) as daemon:
        left = await daemon.admission.load_unfinished()
        await daemon.admission.recover(left)
        await daemon.batches.recover(left)
        over = await sender.end(daemon, batch)
        listed = (await daemon.service.list(query())).attempts

    assert over.tally.done == over.tally.total == 12
    assert len(listed) == 12
    assert before <= {attempt.id for attempt in listed}


async def test_item_that_is_accepted_while_the_daemon_stops_is_left_to_the_next_run(
    tmp_path: Path, sender: Sender
) -> None:
    async with small_daemon(tmp_path) as daemon:
        accept, stopped = daemon.jobs.accept, asyncio.Event()

        async def stop_meanwhile(*arguments: object, **options: object) -> object:
            accepted = await accept(*arguments, **options)
            daemon.batches.stop()
            await daemon.scheduler.drain(0)
            stopped.set()
            return accepted

        daemon.jobs.accept = stop_meanwhile
        batch, _ = await sender.send(daemon, sender.lines("one"))
        await stopped.wait()
    async with small_daemon(tmp_path) as daemon:
        unfinished = await daemon.admission.load_unfinished()
        assert len(unfinished) == 1
        await daemon.admission.recover(unfinished)
        await daemon.batches.recover(unfinished)
        over = await sender.end(daemon, batch)
        assert over.tally == ItemCounts(total=1, validated=1)


async def test_next_run_ends_what_a_cancelled_batch_has_left(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        batch, _ = await sender.send(daemon, sender.lines("one", "two"))
        await waiting(daemon, 2)
        await daemon.batch_store.cancel(batch.id, daemon.clock.now())
        daemon.jobs.finish = never  # type: ignore[method-assign]

    async with small_daemon(tmp_path) as daemon:
        left = await daemon.admission.load_unfinished()
        assert len(left) == 2
        daemon.checks.open.clear()
        await daemon.admission.recover(left)
        await daemon.batches.recover(left)
        for attempt in left:
            assert (await daemon.finished(attempt)).verdict is Verdict.CANCELLED


async def never(*_: object) -> bool:
    raise StoreError("store.failed", "the disk is gone")


async def test_item_that_breaks_the_daemon_does_not_hold_up_the_others(
    tmp_path: Path, sender: Sender
) -> None:
    async with small_daemon(tmp_path) as daemon:
        intake, read = daemon.admission, daemon.admission.read

        async def breaking(document: bytes, uid: int) -> Any:
            if b"break" in document:
                raise ZeroDivisionError("a defect")
            return await read(document, uid)

        intake.read = breaking  # type: ignore[method-assign]
        batch, _ = await sender.send(daemon, sender.lines("one", "break", "three"))
        while (await daemon.batches.progress(batch.id)).tally.done < 2:
            await asyncio.sleep(0)
        progress = await daemon.batches.progress(batch.id)
        assert (progress.tally.waiting, progress.batch.state) == (1, BatchState.RUNNING)
    async with small_daemon(tmp_path) as daemon:
        await daemon.batches.recover(())
        assert (await sender.end(daemon, batch)).tally == ItemCounts(total=3, validated=3)


async def test_user_has_so_many_unfinished_batches(tmp_path: Path, sender: Sender) -> None:
    how = How()
    async with small_daemon(tmp_path, replace(how, batch=replace(how.batch, per_uid=2))) as daemon:
        daemon.checks.open.clear()
        for name in ("a", "b"):
            await sender.send(daemon, sender.lines("x"), name=name)
        with pytest.raises(RequestError) as caught:
            await sender.open(daemon, name="c")
        assert (caught.value.code, caught.value.retryable) == ("quota.full", True)
        assert (await sender.open(daemon, name="a")).name == "a"
        other = await daemon.batches.open(BatchRequest(name="a"), peer=OTHER)
        assert other.peer == OTHER
        daemon.checks.open.set()


async def test_batch_of_too_many_lines_keeps_those_before(tmp_path: Path, sender: Sender) -> None:
    async with small_daemon(tmp_path, with_lines(lines=300)) as daemon:
        with pytest.raises(RequestError, match="at most 300 lines") as caught:
            await sender.send(daemon, sender.lines(*["x"] * 301), dedupe=True)
        assert caught.value.code == "too_large"
        batch, received = await sender.send(daemon, sender.lines(*["x"] * 300), dedupe=True)
        assert (received.known, received.added) == (300, 0)
        assert (await sender.end(daemon, batch)).tally.total == 300


def query() -> Any:
    from assayd.model.records import AttemptQuery

    return AttemptQuery(limit=500)
