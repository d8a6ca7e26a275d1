"""The repairs of this daemon: begun, followed, cancelled, and recovered after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog

from assayd.aio import Signal, task_group
from assayd.analysis.analyst import WorkerDied
from assayd.documents import canonical, repair_document, timestamp
from assayd.errors import ProviderError, RequestError
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.repair import Repair, RepairOutcome
from assayd.model.report import Verdict
from assayd.model.submission import RepairWish
from assayd.ports.driving import ELSEWHERE_S, Driven
from assayd.ports.llm import ProviderStep
from assayd.ports.repairs import RepairTerms
from assayd.repairs.chain import diffs_of
from assayd.repairs.hearing import HeardAnswer
from assayd.repairs.loop import Course, FixUnusable, RepairDependencies, run_repair
from assayd.repairs.providers import rules
from assayd.repairs.providers.command import run
from assayd.repairs.requests import RecordedRequests

log = structlog.get_logger()

ALERT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairLimits:
    """How many repairs go on at once, how many fixes each may try, and what to run when those are over."""

    at_once: int = 4
    max_attempts: int = 3
    on_exhausted: tuple[str, ...] = ()


def budget_left(chain: Sequence[Repair], most: int) -> int:
    """Return how many fixes a chain of repairs may still try: since somebody granted it a full budget."""
    used = 0
    for repair in chain:
        used = len(repair.fixes) if repair.granted_by is not None else used + len(repair.fixes)
    return max(most - used, 0)


def _spent(most: int) -> str:
    return (
        f"this chain of attempts has used its {most} fixes (repair.max_attempts); give a hint (--hint), "
        "code of your own (--edit), or begin afresh (--fresh): each grants it as many again"
    )


@dataclass(slots=True)
class _Running:
    repair: Repair
    task: asyncio.Task[None]
    changed: Signal = field(default_factory=Signal)
    cancelled: bool = False
    heard: HeardAnswer = field(init=False)

    def __post_init__(self) -> None:
        self.heard = HeardAnswer(self.changed.give)


class DaemonRepairs:
    """Implements `ports.repairs.Repairs`."""

    def __init__(
        self, deps: RepairDependencies, requests: RecordedRequests, limits: RepairLimits, metrics: Metrics
    ) -> None:
        self._deps = replace(deps, publish=self._publish, hear=self._hear)
        self._requests = requests
        self._store = deps.repairs
        self._limits = limits
        self._metrics = metrics
        self._slots = asyncio.Semaphore(limits.at_once)
        self._running: dict[str, _Running] = {}
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DaemonRepairs]:
        """Carry repairs on while the body runs; at its end they are left for the next run of the daemon."""
        async with task_group() as self._tasks:
            requested = self._tasks.create_task(self._start_requested(), name="repair-requests")
            try:
                yield self
            finally:
                requested.cancel()
                for running in self._running.values():
                    running.task.cancel()

    async def _start_requested(self) -> None:
        while True:
            await self._drive(await self._requests.recorded.get())

    async def recover(self, only: Container[str] | None = None) -> None:
        """Go on with what a previous run has left; `only` those of these ids, unless it is None."""
        unfinished = [each for each in await self._store.unfinished() if only is None or each.id in only]
        for repair in unfinished:
            self._start(repair)
        if unfinished:
            log.warning("repairs.recovered", count=len(unfinished))

    async def start(self, attempt: Attempt, request: RepairTerms) -> Repair:
        """Begin a repair of a finished attempt.

        Raises: RequestError ``repair.not_failed``, ``repair.running``.
        """
        if attempt.state is not State.FINISHED or attempt.verdict is not Verdict.FAILED:
            raise RequestError("repair.not_failed", "only an attempt that failed can be repaired")
        most = request.max_attempts or self._limits.max_attempts
        wish = RepairWish(provider=self._provider(request), max_attempts=most)
        self._requests.check(wish)
        for earlier in await self._store.of_attempt(attempt.id):
            if earlier.outcome is None:
                raise RequestError("repair.running", f"repair {earlier.id} of this attempt is under way")
        granted = request.hint is not None or request.code is not None or request.fresh
        if not granted:
            left = budget_left(await self._chain_of(attempt), self._limits.max_attempts)
            if left == 0:
                raise RequestError("repair.budget_spent", _spent(self._limits.max_attempts))
            wish = replace(wish, max_attempts=min(most, left))
        if request.fresh:
            attempt = await self._first_of(attempt)
        repair = replace(
            self._requests.new(attempt, wish),
            hint=request.hint,
            granted_by=request.uid if granted else None,
        )
        if request.code is not None:
            repair = await self._edited(repair, request.code)
        await self._store.save(repair)
        await self._drive(repair)
        return repair

    async def begin(self, repair: Repair) -> None:
        """Carry out a repair that somebody else has decided on; beginning it again changes nothing."""
        if repair.id not in self._running and await self._store.get(repair.id) is None:
            await self._store.save(repair)
            await self._drive(repair)

    def _provider(self, request: RepairTerms) -> str:
        """Return who is asked; a hint goes to nobody who cannot read it.

        Raises: RequestError ``repair.hint_unread``.
        """
        readers = sorted(name for name in self._deps.providers if name != rules.NAME)
        if request.hint is None:
            return request.provider or rules.NAME
        if request.provider is None and len(readers) == 1:
            return readers[0]
        if request.provider in {None, rules.NAME}:
            known = f"name one of {', '.join(readers)}" if readers else "configure one below repair.providers"
            message = (
                f"a hint is read by a model or a program, not by {rules.NAME}; {known}, or edit the code"
            )
            raise RequestError("repair.hint_unread", message, field="hint")
        return request.provider or rules.NAME

    async def _chain_of(self, attempt: Attempt) -> Sequence[Repair]:
        """Return the repairs of an attempt and of those that it follows, oldest first."""
        found: dict[str, Repair] = {}
        wanted: str | None = attempt.id
        seen: set[str] = set()
        while wanted is not None and wanted not in seen:
            seen.add(wanted)
            found |= {repair.id: repair for repair in await self._store.of_attempt(wanted)}
            try:
                wanted = (await self._deps.attempts.finished(wanted)).attempt.parent_id
            except RequestError:  # it was removed, being old
                break
        return [found[repair_id] for repair_id in sorted(found)]

    async def _first_of(self, attempt: Attempt) -> Attempt:
        """Follow the parents to the submission that nobody had repaired yet."""
        while attempt.parent_id is not None:
            try:
                parent = (await self._deps.attempts.finished(attempt.parent_id)).attempt
            except RequestError:  # it was removed, being old
                break
            attempt = parent
        return attempt

    async def _edited(self, repair: Repair, code: str) -> Repair:
        course = Course(repair, self._deps)
        try:
            await course.begin()
            await course.edit(code, "Edited by the person who asked.")
        except (FixUnusable, WorkerDied) as problem:
            raise RequestError("invalid", f"the code cannot be used: {problem}", field="code") from problem
        return course.repair

    async def _drive(self, repair: Repair) -> None:
        if await self._deps.driving.take(Driven.REPAIR, repair.id):
            self._start(repair)

    def end(self, repair_id: str) -> None:
        """End a repair that is carried on here, if it is: another process was asked to."""
        running = self._running.get(repair_id)
        if running is not None:
            running.cancelled = True
            running.task.cancel()

    def _start(self, repair: Repair) -> None:
        if repair.id in self._running:  # recovered while its request was on its way here
            return
        task = self._tasks.create_task(self._carry(repair), name=f"repair-{repair.id}")
        self._running[repair.id] = _Running(repair, task)

    async def _carry(self, repair: Repair) -> None:
        running = self._running[repair.id]
        ended: Repair | None = None
        try:
            async with self._slots:
                ended = await run_repair(repair, self._deps)
        except asyncio.CancelledError:
            if not running.cancelled:
                raise
            ended = await self._end_cancelled(running.repair)
        except Exception as problem:
            log.exception("repair.broken", repair_id=repair.id, problem=str(problem))
            ended = await self._end_broken(running.repair, problem)
        finally:
            del self._running[repair.id]
            running.changed.give()
        if ended is not None:
            self._count(ended)
            await self._alert(ended)

    async def _end_cancelled(self, repair: Repair) -> Repair:
        await self._deps.attempts.cancel(repair.last_attempt_id)
        return await Course(repair, self._deps).end(RepairOutcome.CANCELLED, None)

    async def _end_broken(self, repair: Repair, problem: Exception) -> Repair | None:
        """End a repair that met a defect of ours; None where its end cannot be kept: the next run has it."""
        try:
            await self._deps.attempts.cancel(repair.last_attempt_id)
            detail = f"internal: {type(problem).__name__}; the daemon's log has more"
            return await Course(repair, self._deps).end(RepairOutcome.PROVIDER_FAILED, detail)
        except Exception as again:
            log.exception("repair.not_ended", repair_id=repair.id, problem=str(again))
            return None

    def _publish(self, repair: Repair) -> None:
        running = self._running.get(repair.id)
        if running is not None:
            running.repair = repair
            running.heard.forget()
            running.changed.give()

    def _hear(self, repair_id: str, piece: str) -> None:
        running = self._running.get(repair_id)
        if running is not None:
            running.heard.hear(piece)

    def heard(self, repair_id: str) -> str:
        """Return what was heard of the answer that a repair waits for."""
        running = self._running.get(repair_id)
        return running.heard.text if running is not None else ""

    def _count(self, repair: Repair) -> None:
        outcome = repair.outcome.value if repair.outcome else "none"
        self._metrics.repairs.labels(repair.kind, repair.provider, outcome).inc()
        for fix in repair.fixes:
            not_run = "duplicate" if fix.duplicate else "unusable" if fix.unusable else "none"
            verdict = fix.verdict.value if fix.verdict else not_run
            self._metrics.repair_fixes.labels(repair.kind, repair.provider, str(fix.number), verdict).inc()
            self._metrics.repair_fix_duration.labels(repair.kind, repair.provider).observe(fix.usage.took_s)
        if repair.outcome is RepairOutcome.REPAIRED and repair.finished_at is not None:
            took_s = (repair.finished_at - repair.started_at).total_seconds()
            self._metrics.repair_duration.labels(repair.kind, repair.provider).observe(took_s)

    async def _alert(self, repair: Repair) -> None:
        """Run the operator's command with what nobody here can repair."""
        if repair.outcome is RepairOutcome.REPAIRED or not self._limits.on_exhausted:
            return
        subject = await self._deps.attempts.finished(repair.last_attempt_id)
        alert = canonical({"repair": repair_document(repair), "report": dict(subject.report)})
        try:
            await run(self._limits.on_exhausted, alert, timeout_s=ALERT_TIMEOUT_S, environment={})
        except ProviderError as problem:
            log.error("repair.alert_failed", repair_id=repair.id, problem=problem.message)
        else:
            log.info("repair.alerted", repair_id=repair.id)

    async def get(self, repair_id: str) -> Repair | None:
        """Return a repair by its id; None where there is none."""
        running = self._running.get(repair_id)
        return running.repair if running is not None else await self._store.get(repair_id)

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Repair]:
        """List repairs, newest first."""
        return await self._store.list(uid=uid, before=before, limit=limit)

    async def of_attempt(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to."""
        return await self._store.of_attempt(attempt_id)

    async def diffs(self, repair: Repair) -> Sequence[str | None]:
        """Return what each fix changed; None for one that was not submitted, or is not kept any more."""
        return await diffs_of(repair, self._deps.attempts.submission)

    async def step(self, repair: Repair, number: int) -> ProviderStep | None:
        """Return the prompt and the answer that a fix came of; None for one that a person gave."""
        return await self._store.step(repair.id, number)

    async def cancel(self, repair: Repair) -> None:
        """End a repair, and the attempt that it has under way. Raises: RequestError ``repair.finished``."""
        if repair.id in self._running:
            self.end(repair.id)
        elif repair.outcome is not None or not await self._deps.driving.cancel(Driven.REPAIR, repair.id):
            raise RequestError("repair.finished", "the repair has ended")

    async def accept_fallback(self, repair: Repair) -> Repair:
        """Take the rules that a repair offers. Raises: RequestError ``repair.no_fallback``."""
        if repair.fallback is None:
            raise RequestError("repair.no_fallback", "the repair offers nothing in the place of code")
        if repair.fallback.get("accepted_at") is not None:
            return repair
        accepted_at = timestamp(self._deps.clock.now())
        accepted = replace(repair, fallback={**repair.fallback, "accepted_at": accepted_at})
        await self._store.save(accepted)
        log.info("repair.fallback_accepted", repair_id=repair.id)
        return accepted

    async def follow(self, repair_id: str) -> AsyncGenerator[Repair, None]:
        """Return a repair each time that it changes, up to its end."""
        shown: Repair | None = None
        while True:
            running = self._running.get(repair_id)
            changed = running.changed.next if running is not None else None
            repair = await self.get(repair_id)
            if repair is None:
                return
            if running is not None or repair != shown:
                yield repair
            shown = repair
            if running is None and (self._deps.driving.alone or repair.outcome is not None):
                return
            await (changed.wait() if changed is not None else asyncio.sleep(ELSEWHERE_S))
