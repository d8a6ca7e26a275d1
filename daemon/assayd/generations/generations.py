"""The generations of this daemon: begun, followed, cancelled, and recovered after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog
from pydantic import BaseModel, ValidationError

from assayd.aio import Signal, task_group
from assayd.documents.misfits import place_of
from assayd.errors import RequestError
from assayd.generations.loop import GenerationCourse, GenerationDependencies, run_generation
from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.generation import Generation, GenerationOutcome, Grant
from assayd.model.repair import Repair
from assayd.model.submission import Peer
from assayd.ports.driving import ELSEWHERE_S, Driven
from assayd.ports.generations import GenerationRequest, GenerationView
from assayd.ports.llm import ProviderStep
from assayd.repairs.chain import diff_of
from assayd.repairs.hearing import HeardAnswer
from assayd.repairs.providers import rules

log = structlog.get_logger()

OPEN_PER_USER = 16
"""Generations of one user that are under way at once."""


@dataclass(slots=True)
class _Running:
    generation: Generation
    task: asyncio.Task[None]
    changed: Signal = field(default_factory=Signal)
    cancelled: bool = False
    heard: HeardAnswer = field(init=False)

    def __post_init__(self) -> None:
        self.heard = HeardAnswer(self.changed.give)


class DaemonGenerations:
    """The generations of a daemon, as its API sees them; whose they are, the API checks."""

    def __init__(self, deps: GenerationDependencies, *, at_once: int = 4, max_attempts: int = 3) -> None:
        self._deps = replace(deps, publish=self._publish, hear=self._hear)
        self._store = deps.store
        self._max_attempts = max_attempts
        self._slots = asyncio.Semaphore(at_once)
        self._running: dict[str, _Running] = {}
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DaemonGenerations]:
        """Carry generations on while the body runs; at its end they are left for the next run."""
        async with task_group() as self._tasks:
            try:
                yield self
            finally:
                for running in self._running.values():
                    running.task.cancel()

    async def recover(self, only: Container[str] | None = None) -> None:
        """Go on with what a previous run has left, or `only` those; repairs have to be recovered before."""
        unfinished = [each for each in await self._store.unfinished() if only is None or each.id in only]
        for generation in unfinished:
            self._start(generation)
        if unfinished:
            log.warning("generations.recovered", count=len(unfinished))

    async def start(self, request: GenerationRequest, peer: Peer) -> GenerationView:
        """Begin a generation.

        Raises: RequestError ``generation.unsupported``, ``generation.provider``, ``webhook.not_allowed``,
        ``invalid``.
        """
        kind = self._kind(request.kind)
        if kind.generation_context is None:
            message = f"submissions of the kind {kind.name} cannot be written from words"
            raise RequestError("generation.unsupported", message, field="kind")
        context = _read_context(kind.generation_context, request.context)
        policy = request.policy or kind.default_policy
        self._deps.policies(policy)
        if request.webhook is not None:
            await self._deps.webhooks.check(request.webhook, peer.uid)
        mine = sum(running.generation.uid == peer.uid for running in self._running.values())
        if mine >= OPEN_PER_USER:
            message = (
                f"{mine} generations of this user are under way, and {OPEN_PER_USER} may be; wait for one"
            )
            raise RequestError("quota.full", message, retryable=True)
        now = self._deps.clock.now()
        generation = Generation(
            id=self._deps.ids.new(),
            kind=request.kind,
            peer=peer,
            provider=self._provider(request.provider),
            policy=policy,
            intent=request.intent,
            context=context,
            labels=dict(request.labels),
            max_attempts=request.max_attempts or self._max_attempts,
            started_at=now,
            ends_at=now + self._deps.timeout,
            webhook=request.webhook,
        )
        await self._store.save(generation)
        await self._drive(generation)
        return GenerationView(generation=generation)

    def _kind(self, name: str) -> Kind:
        kind = self._deps.kinds.get(name)
        if kind is None:
            known = ", ".join(sorted(self._deps.kinds))
            raise RequestError(
                "kind.unknown", f"there is no kind {name[:64]!r}; there are {known}", field="kind"
            )
        return kind

    @property
    def writers(self) -> Sequence[str]:
        """Return the names of the providers that write, in order."""
        return sorted(one for one in self._deps.providers if one != rules.NAME)

    def _provider(self, name: str | None) -> str:
        """Return who writes: the one that is named, else the only one that is configured."""
        writers = self.writers
        if name is None and len(writers) == 1:
            return writers[0]
        if name is None or name not in writers:
            known = f"use one of {', '.join(writers)}" if writers else "configure one in repair.providers"
            what = f"no provider {name[:64]!r} writes code" if name is not None else "no provider selected"
            raise RequestError("generation.provider", f"{what}; {known}", field="provider")
        return name

    async def _drive(self, generation: Generation) -> None:
        if await self._deps.driving.take(Driven.GENERATION, generation.id):
            self._start(generation)

    def end(self, generation_id: str) -> None:
        """End a generation that is carried on here, if it is: another process was asked to."""
        running = self._running.get(generation_id)
        if running is not None:
            running.cancelled = True
            running.task.cancel()

    def _start(self, generation: Generation) -> None:
        if generation.id in self._running:
            return
        task = self._tasks.create_task(self._carry(generation), name=f"generation-{generation.id}")
        self._running[generation.id] = _Running(generation, task)

    async def _carry(self, generation: Generation) -> None:
        running = self._running[generation.id]
        try:
            async with self._slots:
                await run_generation(generation, self._deps)
        except asyncio.CancelledError:
            if not running.cancelled:
                raise
            await self._end_cancelled(running.generation)
        except Exception as problem:
            log.exception("generation.broken", generation_id=generation.id, problem=str(problem))
            await self._end_broken(running.generation, problem)
        finally:
            del self._running[generation.id]
            running.changed.give()

    async def _end_cancelled(self, generation: Generation) -> None:
        for repair in (await self._repairs_of(generation)).values():
            if repair.outcome is None:
                await self._cancel_repair(repair)
        if generation.attempt_id is not None:
            await self._deps.attempts.cancel(generation.attempt_id)
        await GenerationCourse(generation, self._deps).end(GenerationOutcome.CANCELLED, None)

    async def _cancel_repair(self, repair: Repair) -> None:
        try:
            await self._deps.repairs.cancel(repair)
        except RequestError as problem:  # it ended meanwhile
            log.info("generation.repair_ended", repair_id=repair.id, code=problem.code)

    async def _end_broken(self, generation: Generation, problem: Exception) -> None:
        """End a generation that met a defect of ours; where its end cannot be kept, the next run has it."""
        detail = f"internal: {type(problem).__name__}; the daemon's log has more"
        try:
            course = GenerationCourse(generation, self._deps)
            await course.end(GenerationOutcome.PROVIDER_FAILED, detail)
        except Exception as again:
            log.exception("generation.not_ended", generation_id=generation.id, problem=str(again))

    def _publish(self, generation: Generation) -> None:
        running = self._running.get(generation.id)
        if running is not None:
            running.generation = generation
            running.heard.forget()
            running.changed.give()

    def _hear(self, generation_id: str, piece: str) -> None:
        running = self._running.get(generation_id)
        if running is not None:
            running.heard.hear(piece)

    async def get(self, generation_id: str) -> GenerationView | None:
        """Look a generation up."""
        running = self._running.get(generation_id)
        found = running.generation if running is not None else await self._store.get(generation_id)
        return None if found is None else await self._view(found)

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[GenerationView]:
        """List generations, newest first."""
        found = await self._store.list(uid=uid, before=before, limit=limit)
        return [await self._view(one) for one in found]

    async def diffs(self, view: GenerationView) -> Sequence[str | None]:
        """Return what each of its attempts changed in the one before, in the order of its document."""
        found: list[str | None] = []
        for draft in view.generation.drafts:
            follows = draft.attempt_id is not None and draft.parent_id is not None
            found.append(await self._diff(draft.parent_id, draft.attempt_id) if follows else None)
            repair = view.repairs.get(draft.repair_id or "")
            found += await self._deps.repairs.diffs(repair) if repair is not None else ()
        return found

    async def _diff(self, before: str | None, after: str | None) -> str | None:
        read = self._deps.attempts.submission
        return await diff_of(await read(str(before)), await read(str(after)))

    async def step(self, view: GenerationView, number: int) -> ProviderStep | None:
        """Return prompt and answer of one of its attempts, as they are numbered in its document."""
        left = number
        for draft in view.generation.drafts:
            repair = view.repairs.get(draft.repair_id or "")
            if left == 1:
                return await self._store.step(view.generation.id, draft.number)
            left -= 1
            if repair is not None and left <= len(repair.fixes):
                found = await self._deps.repairs.step(repair, left)
                return None if found is None else replace(found, number=number)
            left -= 0 if repair is None else len(repair.fixes)
        return None

    async def hint(
        self, view: GenerationView, hint: str, uid: int, *, attempt: Attempt | None = None
    ) -> GenerationView:
        """Go on with a person's hint and a full budget, from its last attempt or from that one.

        Raises: RequestError ``generation.running``.
        """
        generation = view.generation
        if generation.outcome is None or generation.id in self._running:
            raise RequestError("generation.running", "the generation is under way; cancel it, or wait")
        now = self._deps.clock.now()
        goes_on = replace(
            generation,
            grants=(*generation.grants, Grant(uid=uid, at=now, hint=hint)),
            outcome=None,
            detail=None,
            finished_at=None,
            ends_at=now + self._deps.timeout,
            attempt_id=generation.attempt_id if attempt is None else attempt.id,
        )
        await self._store.save(goes_on)
        await self._drive(goes_on)
        return await self._view(goes_on)

    async def cancel(self, view: GenerationView) -> None:
        """End a generation, and what it has under way. Raises: RequestError ``generation.finished``."""
        found = view.generation
        if found.id in self._running:
            self.end(found.id)
        elif found.outcome is not None or not await self._deps.driving.cancel(Driven.GENERATION, found.id):
            raise RequestError("generation.finished", "the generation has ended")

    async def follow(self, generation_id: str) -> AsyncGenerator[GenerationView, None]:
        """Return a generation each time that it changes, up to its end."""
        shown: GenerationView | None = None
        while True:
            running = self._running.get(generation_id)
            changed = running.changed.next if running is not None else None
            view = await self.get(generation_id)
            if view is None:
                return
            if running is not None or view != shown:
                yield view
            shown = view
            if running is None and (self._deps.driving.alone or view.generation.outcome is not None):
                return
            await (changed.wait() if changed is not None else asyncio.sleep(ELSEWHERE_S))

    async def _view(self, generation: Generation) -> GenerationView:
        repairs = await self._repairs_of(generation)
        running = self._running.get(generation.id)
        heard = running.heard.text if running is not None else ""
        for repair_id in repairs:
            heard = self._deps.repairs.heard(repair_id) or heard
        return GenerationView(generation=generation, repairs=repairs, heard=heard)

    async def _repairs_of(self, generation: Generation) -> Mapping[str, Repair]:
        ids = [draft.repair_id for draft in generation.drafts if draft.repair_id is not None]
        found = [await self._deps.repairs.get(repair_id) for repair_id in ids]
        return {repair.id: repair for repair in found if repair is not None}


def _read_context(model: type[BaseModel], context: Mapping[str, object]) -> Mapping[str, object]:
    """See that a context is what the kind declares. Raises: RequestError ``invalid``."""
    try:
        model.model_validate_json(json.dumps(context))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = place_of(("context", *first["loc"]))
        known = (
            f"; there are {', '.join(sorted(model.model_fields))}"
            if first["type"] == "extra_forbidden"
            else ""
        )
        raise RequestError(
            "invalid", f"{field}: {first['msg'].removeprefix('Value error, ')}{known}", field=field
        ) from error
    return context
