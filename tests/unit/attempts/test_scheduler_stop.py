"""The work that a stopping daemon leaves for its next run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assayd.attempts.scheduler import QueueLimits
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.records import AttemptRun
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from support.daemons.small_daemon import How, SmallDaemon, small_daemon

OTHER = Peer(uid=2000, gid=2000, pid=2)


async def refusal_of(daemon: SmallDaemon, code: str = "x", **origin: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await daemon.accept(code, **origin)
    return caught.value


async def test_run_that_the_stop_breaks_off_counts_for_nothing_and_is_run_again(tmp_path: Path) -> None:
    broken_off: Attempt | None = None
    for _ in range(3):  # one more than an attempt may have runs
        async with small_daemon(tmp_path) as daemon:
            daemon.runs.open.clear()
            await daemon.admission.recover(await daemon.admission.load_unfinished())
            broken_off = broken_off or await daemon.accept("run")
            while not daemon.runs.waiting:
                await asyncio.sleep(0)
            assert not await daemon.scheduler.drain(0)
            await daemon.scheduler.abandon_all()
            left = await daemon.admission.load_unfinished()
            assert [(each.id, each.run_number) for each in left] == [(broken_off.id, 0)]
    async with small_daemon(tmp_path) as daemon:
        await daemon.admission.recover(await daemon.admission.load_unfinished())
        ended = await daemon.finished(broken_off)
        assert (ended.verdict, ended.run_number) == (Verdict.VALIDATED, 1)


async def test_attempt_that_is_still_read_when_the_daemon_stops_is_left_to_the_next_run(
    tmp_path: Path,
) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        attempt = await daemon.accept()
        while not daemon.checks.waiting:
            await asyncio.sleep(0)
        await daemon.scheduler.abandon_all()
        assert (await daemon.service.wait(attempt.id, 10)).verdict is None


async def test_attempt_that_a_person_cancels_while_the_daemon_stops_is_cancelled(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=3))) as daemon:
        daemon.runs.open.clear()
        before, meanwhile, queued = [await daemon.accept(f"run {n}") for n in range(3)]
        while len(daemon.runs.waiting) < 2:
            await asyncio.sleep(0)
        assert not await daemon.scheduler.drain(0)
        assert daemon.scheduler.cancel(before.id)
        leaving = asyncio.ensure_future(daemon.scheduler.abandon_all())
        await asyncio.sleep(0)
        assert all(daemon.scheduler.cancel(each.id) for each in (meanwhile, queued))
        await leaving
        for each in (before, meanwhile, queued):
            assert (await daemon.finished(each)).verdict is Verdict.CANCELLED


async def test_attempt_that_is_accepted_after_the_stop_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        accept = daemon.jobs.accept

        async def stopped_meanwhile(*arguments: object, **options: object) -> object:
            accepted = await accept(*arguments, **options)
            assert await daemon.scheduler.drain(0)
            daemon.scheduler.release_waiters()
            return accepted

        daemon.jobs.accept = stopped_meanwhile
        attempt = await daemon.accept()
        assert (await daemon.service.wait(attempt.id, None)).verdict is None
        assert [each.id for each in await daemon.admission.load_unfinished()] == [attempt.id]


@pytest.mark.parametrize(("max_runs", "verdict"), [(1, Verdict.ERROR), (2, Verdict.VALIDATED)])
async def test_interrupted_attempt_is_run_again_while_the_setting_allows_another_run(
    tmp_path: Path, max_runs: int, verdict: Verdict
) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=0))) as daemon:
        attempt = await daemon.accept("run")
        await daemon.jobs.lease(first_run(attempt))
    async with small_daemon(tmp_path, How(settings={"attempts": {"max_runs": max_runs}})) as daemon:
        await daemon.admission.recover(await daemon.admission.load_unfinished())
        ended = await daemon.finished(attempt)
    assert ended.verdict is verdict
    assert (ended.error is not None and ended.error.code == "attempt.interrupted") == (max_runs == 1)


@pytest.mark.parametrize(
    ("asked", "verdict"), [(1, Verdict.ERROR), (2, Verdict.VALIDATED), (None, Verdict.VALIDATED)]
)
async def test_interrupted_attempt_is_run_again_while_its_sender_allows_another_run(
    tmp_path: Path, asked: int | None, verdict: Verdict
) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=0))) as daemon:
        attempt = await daemon.accept("run", max_runs=asked)
        await daemon.jobs.lease(first_run(attempt))
    async with small_daemon(tmp_path) as daemon:
        await daemon.admission.recover(await daemon.admission.load_unfinished())
        ended = await daemon.finished(attempt)
    assert ended.verdict is verdict
    assert (ended.error is not None and ended.error.code == "attempt.interrupted") == (asked == 1)


def first_run(attempt: Attempt) -> AttemptRun:
    return AttemptRun(
        attempt_id=attempt.id,
        kind=attempt.kind,
        run_number=1,
        daemon_id="01" + "0" * 24,
        generation="02" + "0" * 24,
        container_ulid="03" + "0" * 24,
        leased_at=attempt.created_at,
        expires_at=attempt.created_at,
    )
