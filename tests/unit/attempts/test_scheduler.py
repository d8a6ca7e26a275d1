"""The order of attempts, and the state after an internal error."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.attempts import conclusion as record
from assayd.attempts.conclusion import ended as ended_at
from assayd.attempts.retention import RetentionLimits
from assayd.attempts.scheduler import ALONE_S, LARGE_BYTES, LARGE_SUBMISSION_SLOTS, QueueLimits
from assayd.errors import EngineError, RequestError, StoreError
from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptEvent
from assayd.model.report import Case, Verdict
from assayd.model.submission import Peer, Submission
from support.daemons.small_daemon import CAPS, PEER, How, SmallDaemon, small_daemon

OTHER = Peer(uid=2000, gid=2000, pid=2)


async def refusal_of(daemon: SmallDaemon, code: str = "x", **origin: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await daemon.accept(code, **origin)
    return caught.value


async def test_users_and_batches_are_started_in_turn(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1))) as daemon:
        daemon.checks.open.clear()
        first = await daemon.accept("first")
        crowd = [await daemon.accept(f"a{n}", batch_id="big") for n in range(3)]
        crowd += [await daemon.accept("b0", batch_id="small")]
        crowd += [await daemon.accept(f"o{n}", peer=OTHER) for n in range(2)]
        daemon.checks.open.set()
        for attempt in (first, *crowd):
            await daemon.finished(attempt)
    assert daemon.checks.passed == ["first", "a0", "o0", "b0", "o1", "a1", "a2"]


@pytest.mark.parametrize(("active", "alone"), [(1, 1), (2, 1), (4, 3), (8, 7), (64, 56)])
async def test_user_who_is_alone_leaves_an_eighth_of_the_places_but_at_least_one(
    tmp_path: Path, active: int, alone: int
) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=active))) as daemon:
        daemon.checks.open.clear()
        crowd = [await daemon.accept(f"a{n}") for n in range(active + 1)]
        assert sum(state_of(daemon, each) is not None for each in crowd) == alone
        daemon.checks.open.set()
        for attempt in crowd:
            await daemon.finished(attempt)


async def test_user_has_all_places_if_nobody_else_has_submitted_anything_for_minutes(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=8))) as daemon:
        await daemon.finished(await daemon.accept("other", peer=OTHER))
        daemon.checks.open.clear()
        crowd = [await daemon.accept(f"a{n}") for n in range(20)]

        def started() -> int:
            return sum(state_of(daemon, each) is not None for each in crowd)

        assert started() == 7
        daemon.clock.looks += int((ALONE_S + 1) * 1000)
        crowd.append(await daemon.accept("a20"))
        assert started() == 8
        crowd.append(await daemon.accept("other again", peer=OTHER))  # from now on, a place is left to it
        daemon.checks.open.set()
        for attempt in crowd:
            await daemon.finished(attempt)
    assert daemon.checks.passed.index("other again") <= 9


@pytest.mark.slow
async def test_each_further_user_leaves_an_eighth_of_what_is_left(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=64))) as daemon:
        daemon.checks.open.clear()
        users = [Peer(uid=uid, gid=uid, pid=uid) for uid in (1000, 2000, 3000)]
        sent = {
            peer.uid: [await daemon.accept(f"{peer.uid} {n}", peer=peer) for n in range(60)] for peer in users
        }
        started = [sum(state_of(daemon, each) is not None for each in crowd) for crowd in sent.values()]
        assert started == [56, 7, 1]
        daemon.checks.open.set()
        for attempt in (each for crowd in sent.values() for each in crowd):
            await daemon.finished(attempt)


async def test_places_for_containers_are_given_in_turn(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(slots=1)) as daemon:
        daemon.runs.open.clear()
        attempts = [await daemon.accept(f"run {n}", batch_id="big") for n in range(3)]
        attempts.append(await daemon.accept("run now"))
        while {state_of(daemon, attempt) for attempt in attempts} != {State.RUNNING, State.LEASING}:
            await asyncio.sleep(0)
        daemon.runs.open.set()
        for attempt in attempts:
            await daemon.finished(attempt)
    assert daemon.runs.passed.index("run now") < 3


def state_of(daemon: SmallDaemon, attempt: Attempt) -> State | None:
    current = daemon.scheduler.get_active(attempt.id)
    return current.state if current else None


async def test_full_queue_refuses_and_records_nothing(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1, length=2))) as daemon:
        daemon.checks.open.clear()
        held = [await daemon.accept(f"{n}") for n in range(3)]
        refused = await refusal_of(daemon)
        assert (refused.code, refused.retryable) == ("queue.full", True)
        assert len(await daemon.jobs.list_unfinished()) == 3
        daemon.checks.open.set()
        for attempt in held:
            await daemon.finished(attempt)
        await daemon.finished(await daemon.accept())


async def test_queue_holds_so_many_bytes_of_submissions(tmp_path: Path) -> None:
    large = "#" * 3000
    async with small_daemon(tmp_path, How(queue=QueueLimits(bytes=16_000))) as daemon:
        daemon.checks.open.clear()
        held = [await daemon.accept(large + str(n)) for n in range(2)]
        assert (await refusal_of(daemon, large)).code == "queue.full"
        small = await daemon.accept("small")
        daemon.checks.open.set()
        for attempt in (*held, small):
            await daemon.finished(attempt)
        await daemon.finished(await daemon.accept(large))


async def test_quota_of_a_user_is_kept_by_requests_that_come_together(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(per_uid=3))) as daemon:
        daemon.checks.open.clear()
        outcomes = await asyncio.gather(*(daemon.accept(f"{n}") for n in range(10)), return_exceptions=True)
        accepted = [each for each in outcomes if isinstance(each, Attempt)]
        refused = [each.code for each in outcomes if isinstance(each, RequestError)]
        assert (len(accepted), refused) == (3, ["quota.full"] * 7)
        await daemon.accept("other", peer=OTHER)
        daemon.checks.open.set()


async def test_quota_is_free_again_after_a_request_that_came_to_nothing(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(per_uid=1))) as daemon:
        first = await daemon.accept("x", idempotency_key="k")
        await daemon.finished(first)
        for _ in range(3):
            again = await daemon.accept("x", idempotency_key="k")
            assert again.id == first.id
            assert (await refusal_of(daemon, "y", idempotency_key="k")).code == "conflict"
        await daemon.finished(await daemon.accept("z"))


async def test_key_is_good_for_as_long_as_its_attempt_is_kept(tmp_path: Path) -> None:
    async with small_daemon(
        tmp_path, How(keep=RetentionLimits(days=1, attempts=10**6, disk_bytes=10**12))
    ) as daemon:
        first = await daemon.finished(await daemon.accept("x", idempotency_key="k"))
        daemon.clock.days = 2
        assert (await daemon.accept("x", idempotency_key="k")).id == first.id

        await daemon.service.collect_garbage(dry_run=False)

        again = await daemon.finished(await daemon.accept("y", idempotency_key="k"))
        assert (again.id != first.id, again.verdict) == (True, Verdict.VALIDATED)


async def test_report_holds_no_more_than_its_caps(tmp_path: Path) -> None:
    caps = replace(CAPS, findings=3, retry_context_bytes=len("syntax"))
    async with small_daemon(tmp_path, How(caps=caps)) as daemon:
        ended = await daemon.finished(await daemon.accept("bad " * 5))
        written, _ = await daemon.service.read_documents(ended)
    report = json.loads(written)
    assert (report["status"], len(report["findings"])) == ("FAILED", 3)
    assert report["retry_context"] == "syntax"


async def test_cancelled_while_waiting_ends_without_a_run(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1))) as daemon:
        daemon.checks.open.clear()
        running, waiting = await daemon.accept("a"), await daemon.accept("b")
        assert daemon.scheduler.cancel(waiting.id)
        ended = await daemon.finished(waiting)
        assert (ended.verdict, ended.run_number) == (Verdict.CANCELLED, 0)
        daemon.checks.open.set()
        assert (await daemon.finished(running)).verdict is Verdict.VALIDATED
        assert not daemon.scheduler.cancel(waiting.id)


async def test_attempt_that_breaks_the_daemon_ends_as_its_error(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.broken = ZeroDivisionError("a defect")
        ended = await daemon.finished(await daemon.accept())
        assert (ended.verdict, ended.error and ended.error.code) == (Verdict.ERROR, "internal")
        assert ended.bundle is not None


async def test_end_that_cannot_be_put_into_words_is_the_daemons_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junit = record.junit

    def break_on_cases(report: object) -> bytes:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(record, "junit", break_on_cases)
    async with small_daemon(tmp_path) as daemon:
        ended = await daemon.finished(await daemon.accept("run"))
        assert (ended.verdict, ended.error and ended.error.code) == (Verdict.ERROR, "internal")
        assert ended.bundle is not None
        monkeypatch.setattr(record, "junit", junit)
        assert (await daemon.finished(await daemon.accept("run"))).verdict is Verdict.VALIDATED


async def test_attempt_that_is_lost_to_a_defect_frees_its_place_and_waits_for_the_next_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1, per_uid=1))) as daemon:
        jobs = daemon.jobs

        async def broken(attempt: Attempt, events: Sequence[AttemptEvent] = ()) -> bool:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(jobs, "finish", broken)
        lost = await daemon.accept("lost")
        assert (await daemon.finished(lost)).verdict is None
        monkeypatch.undo()
        assert (await daemon.finished(await daemon.accept("next"))).verdict is Verdict.VALIDATED
        left = await daemon.admission.load_unfinished()
        assert [attempt.id for attempt in left] == [lost.id]
    async with small_daemon(tmp_path) as daemon:
        await daemon.admission.recover(await daemon.admission.load_unfinished())
        assert (await daemon.finished(lost)).verdict is Verdict.VALIDATED


async def test_verdict_is_recorded_when_the_store_has_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assayd.attempts.conclusion.RECORD_RETRY_DELAY_S", 0.0)
    async with small_daemon(tmp_path) as daemon:
        jobs, finish, left = daemon.jobs, daemon.jobs.finish, [3]

        async def full(attempt: Attempt, events: Sequence[AttemptEvent], *ran: Sequence[Case]) -> bool:
            if left[0]:
                left[0] -= 1
                raise StoreError("store.full", "no room", retryable=True)
            return await finish(attempt, events, *ran)

        monkeypatch.setattr(jobs, "finish", full)
        ended = await daemon.finished(await daemon.accept())
        assert (ended.verdict, left) == (Verdict.VALIDATED, [0])


async def test_verdict_of_another_run_that_came_first_is_the_one_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        attempt = await daemon.accept()
        other = await record.ConclusionWriter(
            artifacts=daemon.artifacts, clock=daemon.clock
        ).conclude_unstartable(attempt, b"{}", record.Failure(code="other", message=""))
        assert await daemon.jobs.finish(ended_at(other, daemon.clock.now()))
        daemon.checks.open.set()
        ended = await daemon.finished(attempt)
        assert (ended.verdict, ended.bundle) == (Verdict.ERROR, other.bundle)
        report, _ = await daemon.service.documents(ended)
        assert b'"status":"ERROR"' in report


async def test_bundle_of_a_second_run_takes_away_that_of_the_first(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        attempt = await daemon.accept()
        failure = record.Failure(code="lost", message="")
        await record.ConclusionWriter(artifacts=daemon.artifacts, clock=daemon.clock).conclude_unstartable(
            attempt, b"{}", failure
        )
        daemon.checks.open.set()
        ended = await daemon.finished(attempt)
        assert ended.bundle is not None
        assert ended.bundle.endswith(".run2")
        assert [path.name for path in (tmp_path / "artifacts/small/default").iterdir()] == [
            ended.bundle.rpartition("/")[2]
        ]


def gone(*, retryable: bool = True) -> EngineError:
    return EngineError("engine.unreachable", "no engine", retryable=retryable)


async def test_attempt_waits_for_an_engine_that_went_away_and_has_one_run(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.sandbox.trouble = [gone()]
        daemon.sandbox.usable.clear()
        attempt = await daemon.accept("run")
        while daemon.sandbox.trouble:
            await asyncio.sleep(0)
        daemon.sandbox.usable.set()
        ended = await daemon.finished(attempt)
        assert (ended.verdict, ended.run_number, daemon.sandbox.leases) == (Verdict.VALIDATED, 1, 1)


@pytest.mark.parametrize(
    ("retry_window_s", "problem"), [(0.0, gone()), (0.01, gone()), (60.0, gone(retryable=False))]
)
async def test_engine_that_stays_away_or_will_not_do_makes_an_error(
    tmp_path: Path, retry_window_s: float, problem: EngineError
) -> None:
    async with small_daemon(tmp_path, How(retry_window_s=retry_window_s)) as daemon:
        daemon.sandbox.trouble = [problem]
        daemon.sandbox.usable.clear()
        ended = await daemon.finished(await daemon.accept("run"))
        assert ended.error is not None
        assert (ended.verdict, ended.error.code) == (Verdict.ERROR, "engine.unreachable")


async def test_attempt_that_waits_for_the_engine_can_be_cancelled(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.sandbox.trouble = [gone()]
        daemon.sandbox.usable.clear()
        attempt = await daemon.accept("run")
        while daemon.sandbox.trouble:
            await asyncio.sleep(0)
        assert daemon.scheduler.cancel(attempt.id)
        assert (await daemon.finished(attempt)).verdict is Verdict.CANCELLED


async def test_stopping_refuses_new_attempts_and_sends_away_who_waits_for_queued_ones(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1))) as daemon:
        daemon.checks.open.clear()
        running, queued = await daemon.accept("a"), await daemon.accept("b")
        waiting = asyncio.ensure_future(daemon.service.wait(queued.id, 60))
        draining = asyncio.ensure_future(daemon.scheduler.drain(60))
        await asyncio.sleep(0)
        assert (await refusal_of(daemon, peer=PEER)).code == "not_ready"
        daemon.checks.open.set()
        assert await draining
        daemon.scheduler.release_waiters()
        assert (await waiting).verdict is None
        assert (await daemon.finished(running)).verdict is Verdict.VALIDATED


async def test_queue_holds_bytes_and_reads_them_when_the_attempt_starts(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1))) as daemon:
        daemon.checks.open.clear()
        first, waiting = await daemon.accept("first"), await daemon.accept("waiting")
        gc.collect()
        held = [each for each in gc.get_objects() if isinstance(each, Submission)]
        codes = {each.payload.code for each in held if hasattr(each.payload, "code")}
        daemon.checks.open.set()
        for attempt in (first, waiting):
            await daemon.finished(attempt)
    assert "waiting" not in codes
    assert daemon.checks.passed == ["first", "waiting"]


async def test_what_a_previous_run_has_left_waits_in_the_store(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=0))) as daemon:
        left = [await daemon.accept("#" * 3000 + str(number)) for number in range(5)]
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1, bytes=4000))) as daemon:
        daemon.checks.open.clear()
        await daemon.admission.recover(await daemon.admission.load_unfinished())
        assert daemon.scheduler.budget.held == 0
        daemon.checks.open.set()
        ended = [await daemon.finished(attempt) for attempt in left]
    assert [attempt.verdict for attempt in ended] == [Verdict.VALIDATED] * 5


@pytest.mark.slow
async def test_few_attempts_that_take_much_memory_are_under_way_at_once(tmp_path: Path) -> None:
    large = "[" * (LARGE_BYTES // 64)
    async with small_daemon(tmp_path) as daemon:
        daemon.checks.open.clear()
        crowd = [await daemon.accept(f"{large}{number}") for number in range(6)]
        small = await daemon.accept("small")
        while "small" not in daemon.checks.waiting or len(daemon.checks.waiting) < LARGE_SUBMISSION_SLOTS:
            await asyncio.sleep(0)
        while len(daemon.checks.waiting) < LARGE_SUBMISSION_SLOTS + 1:
            await asyncio.sleep(0)
        assert len(daemon.checks.waiting) == LARGE_SUBMISSION_SLOTS + 1
        # A gateway takes back runs that report nothing, and drains their nodes.
        assert {state_of(daemon, each) for each in crowd} == {State.CHECKING}
        assert daemon.scheduler.cancel(crowd[-1].id)
        assert (await daemon.finished(crowd[-1])).verdict is Verdict.CANCELLED
        daemon.checks.open.set()
        for attempt in (*crowd[:-1], small):
            assert (await daemon.finished(attempt)).verdict is Verdict.VALIDATED


async def test_no_duration_is_negative_after_the_clock_went_back(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(queue=QueueLimits(active=1))) as daemon:
        daemon.checks.open.clear()
        first, waiting = await daemon.accept("first"), await daemon.accept("waiting")
        daemon.clock.days -= 1
        daemon.checks.open.set()
        ended = [await daemon.finished(each) for each in (first, waiting)]
    assert [each.timings_s["total"] for each in ended] == [0, 0]
    assert ended[1].timings_s["queued"] == 0
    assert all(took >= 0 for each in ended for took in each.timings_s.values())
