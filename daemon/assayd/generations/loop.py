"""Takes a generation from where it stands to its outcome.

    ask ─> keep the answer ─> draft ─> attempt ─> validated: done
     ^                          │         └─────> failed: a repair, with what is left of the budget
     └──────── it does not fit ─┘

Every step is kept before the next is begun: after a restart a generation goes on where it stood, and an
answer that is on record is not asked for again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from assayd.analysis.analyst import Analyst, WorkerDied
from assayd.analysis.messages import Briefed, Patched, Patching
from assayd.errors import ProviderError, RequestError
from assayd.findings.retry_context import without_reminders
from assayd.generations.prompt import Revision, build_request
from assayd.kind import Kind
from assayd.model.generation import Draft, Generation, GenerationOutcome
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Passage, Proposal
from assayd.model.repair import Repair
from assayd.model.report import Verdict
from assayd.ports.clock import Clock, Ids
from assayd.ports.driving import ALONE, Driving
from assayd.ports.llm import FixRequest, Provider, ProviderStep
from assayd.ports.repairs import Attempts
from assayd.ports.webhooks import WebhookGate
from assayd.repairs.asking import ask
from assayd.repairs.earlier import EarlierAnswer
from assayd.repairs.loop import checked_text, text_of
from assayd.repairs.repairs import DaemonRepairs
from assayd.store.generations import DatabaseGenerationStore

log = structlog.get_logger()

_OUTCOMES = {"repaired": GenerationOutcome.VALIDATED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDependencies:
    """What a generation is carried out with.

    `publish` is called with each state of it and of its repair; `hear` with its id and what comes of answers.
    """

    attempts: Attempts
    repairs: DaemonRepairs
    store: DatabaseGenerationStore
    analyst: Analyst
    kinds: Mapping[str, Kind]
    policies: Callable[[str], ExecutionPolicy]
    providers: Mapping[str, Provider]
    clock: Clock
    ids: Ids
    timeout: timedelta = timedelta(minutes=5)
    source_bytes: int = 2**20
    webhooks: WebhookGate
    publish: Callable[[Generation], None] = lambda _: None
    hear: Callable[[str, str], None] = lambda _, __: None
    driving: Driving = ALONE


async def run_generation(generation: Generation, deps: GenerationDependencies) -> Generation:
    """Carry a generation to its outcome. Cancelling the task leaves it for the next run of the daemon."""
    course = GenerationCourse(generation, deps)
    try:
        outcome, detail = await course.follow()
    except TimeoutError:
        if course.generation.attempt_id is not None:
            await deps.attempts.cancel(course.generation.attempt_id)
        outcome, detail = GenerationOutcome.TIMEOUT, "the time for the generation is over"
    except ProviderError as problem:
        outcome, detail = GenerationOutcome.PROVIDER_FAILED, f"{problem.code}: {problem.message}"
    except (RequestError, WorkerDied) as problem:
        outcome, detail = GenerationOutcome.PROVIDER_FAILED, f"the answer cannot be used: {problem}"
    return await course.end(outcome, detail)


class GenerationCourse:
    """One generation on its way."""

    def __init__(self, generation: Generation, deps: GenerationDependencies) -> None:
        self.generation = generation
        self._deps = deps

    async def follow(self) -> tuple[GenerationOutcome, str | None]:
        """Take step after step until one is the last."""
        while True:
            draft = self.generation.drafts[-1] if self.generation.drafts else None
            answered = draft is not None and draft.grant == len(self.generation.grants)
            if draft is None or not answered or draft.attempt_id is None:
                if self._left() <= 0:
                    return GenerationOutcome.EXHAUSTED, "no answer was a submission"
                await self._bounded(self._ask())
                continue
            if draft.verdict is None:
                await self._bounded(self._have_run(draft, draft.attempt_id))
                continue
            if draft.verdict is Verdict.VALIDATED:
                return GenerationOutcome.VALIDATED, None
            if draft.verdict is not Verdict.FAILED:
                return GenerationOutcome.TERMINAL, f"the attempt ended as {draft.verdict.value}"
            return await self._have_repaired(draft)

    async def end(self, outcome: GenerationOutcome, detail: str | None) -> Generation:
        """Put the outcome on record."""
        now = self._deps.clock.now()
        await self._keep(replace(self.generation, outcome=outcome, detail=detail, finished_at=now))
        log.info(
            "generation.finished",
            generation_id=self.generation.id,
            kind=self.generation.kind,
            outcome=outcome.value,
            drafts=len(self.generation.drafts),
            took_s=round((now - self.generation.started_at).total_seconds(), 3),
        )
        return self.generation

    def _left(self) -> int:
        """Return how many answers there may still be since the last hint."""
        since = [draft for draft in self.generation.drafts if draft.grant == len(self.generation.grants)]
        return self.generation.max_attempts - len(since)

    async def _bounded(self, step: Awaitable[None]) -> None:
        left_s = (self.generation.ends_at - self._deps.clock.now()).total_seconds()
        async with asyncio.timeout(max(left_s, 0.001)):
            await step

    async def _ask(self) -> None:
        """Have one answer, unless it is on record already, and make a draft of it."""
        deps, number = self._deps, len(self.generation.drafts) + 1
        briefed = await self._briefed()
        step = await deps.store.step(self.generation.id, number)
        if step is None:
            step = await self._asked(number, briefed)
            await deps.store.save_step(self.generation.id, step)
        proposal = step.reply.proposal
        patched = await self._patched(briefed, proposal)
        problem = patched.problem
        draft = Draft(
            number=number,
            grant=len(self.generation.grants),
            asked_at=step.asked_at,
            reason=step.reply.reason,
            text=checked_text(proposal, patched.payload),
            form=proposal.form,
            problem=problem,
            parent_id=self.generation.attempt_id,
            attempt_id=None if problem is not None else deps.ids.new(),
            repair_id=None if problem is not None else deps.ids.new(),
            usage=step.reply.usage,
        )
        fits = problem is None
        log.info("generation.draft_received", generation_id=self.generation.id, number=number, fits=fits)
        drafts = (*self.generation.drafts, draft)
        last = draft.attempt_id or self.generation.attempt_id
        await self._keep(replace(self.generation, drafts=drafts, attempt_id=last))

    async def _asked(self, number: int, briefed: Briefed) -> ProviderStep:
        deps, generation, began = self._deps, self.generation, self._deps.clock.now()
        prompt = build_request(
            briefed.briefing,
            generation.intent,
            earlier=[_as_earlier(draft) for draft in generation.drafts if draft.problem is not None],
            revision=await self._revision(),
        )
        request = FixRequest(
            system=prompt.system,
            user=prompt.user,
            passage=_nothing_yet(deps.kinds[generation.kind]),
            kind=generation.kind,
            attempt=number,
            intent=generation.intent,
            heard=partial(deps.hear, generation.id),
        )
        left_s = (generation.ends_at - began).total_seconds()
        provider = deps.providers[generation.provider]
        reply = await ask(provider, request, timeout_s=left_s, clock=deps.clock)
        took_s = (deps.clock.now() - began).total_seconds()
        return ProviderStep(
            number=number,
            provider=generation.provider,
            asked_at=began,
            system=request.system,
            user=request.user,
            reply=replace(reply, usage=replace(reply.usage, took_s=took_s)),
        )

    async def _revision(self) -> Revision | None:
        """Return the code so far, its failure and the hints, once a user has supplied one."""
        if not self.generation.grants:
            return None
        hints = tuple(grant.hint for grant in self.generation.grants)
        text, failure, last = "", "", self.generation.attempt_id
        if last is not None and (found := await self._deps.attempts.submission(last)) is not None:
            payload = found.get("payload")
            text = _answered_part(payload if isinstance(payload, dict) else {})
            failure = await self._failure(last)
        return Revision(text=text, hints=hints, failure=failure)

    async def _failure(self, attempt_id: str) -> str:
        """Return what failed in an attempt; "" for one that was validated, or ended otherwise."""
        subject = await self._deps.attempts.finished(attempt_id)
        failed = subject.attempt.verdict is Verdict.FAILED
        return without_reminders(str(subject.report.get("retry_context") or "")) if failed else ""

    async def _have_run(self, draft: Draft, attempt_id: str) -> None:
        """Have the attempt of a draft run to its verdict, and put that on record."""
        briefed, step = await self._briefed(), await self._deps.store.step(self.generation.id, draft.number)
        if step is None:
            raise RequestError("not_found", f"answer {draft.number} is not on record any more")
        patched = await self._patched(briefed, step.reply.proposal)
        await self._deps.attempts.submit_new(
            attempt_id, self._submission(draft, patched), peer=self.generation.peer
        )
        self._deps.publish(self.generation)
        subject = await self._deps.attempts.finished(attempt_id)
        ended = replace(draft, verdict=subject.attempt.verdict, cause=subject.attempt.cause)
        await self._keep(replace(self.generation, drafts=(*self.generation.drafts[:-1], ended)))

    def _submission(self, draft: Draft, patched: Patched) -> dict[str, object]:
        generation = self.generation
        return {
            "kind": generation.kind,
            "policy": generation.policy,
            "payload": patched.payload,
            "labels": dict(generation.labels),
            "intent": generation.intent,
            "parent_id": draft.parent_id,
        }

    async def _have_repaired(self, draft: Draft) -> tuple[GenerationOutcome, str | None]:
        """Have a failed draft repaired, with what is left of the budget."""
        repairs, repair_id = self._deps.repairs, str(draft.repair_id)
        if await repairs.get(repair_id) is None:
            # Without a fix left to try, it ends at once, and offers rules where code did not come about.
            await repairs.begin(self._repair(draft, repair_id))
        ended = None
        async for ended in repairs.follow(repair_id):
            if ended.last_attempt_id != self.generation.attempt_id:
                await self._keep(replace(self.generation, attempt_id=ended.last_attempt_id))
            else:
                self._deps.publish(self.generation)
        if ended is None or ended.outcome is None:
            detail = f"repair {repair_id} did not end; the daemon's log has more"
            return GenerationOutcome.PROVIDER_FAILED, detail
        outcome = _OUTCOMES.get(ended.outcome.value) or GenerationOutcome(ended.outcome.value)
        return outcome, ended.detail

    def _repair(self, draft: Draft, repair_id: str) -> Repair:
        generation, now = self.generation, self._deps.clock.now()
        hints = "\n".join(grant.hint for grant in generation.grants)
        return Repair(
            id=repair_id,
            attempt_id=str(draft.attempt_id),
            kind=generation.kind,
            provider=generation.provider,
            uid=generation.uid,
            max_attempts=self._left(),
            started_at=now,
            ends_at=now + self._deps.timeout,
            hint=hints or None,
            granted_by=generation.grants[-1].uid if generation.grants else None,
            generation_id=generation.id,
        )

    async def _briefed(self) -> Briefed:
        generation, deps = self.generation, self._deps
        kind, policy = deps.kinds[generation.kind], deps.policies(generation.policy)
        return await deps.analyst.brief(kind, generation.context, policy, flow=self._flow)

    async def _patched(self, briefed: Briefed, proposal: Proposal) -> Patched:
        size, most = len(text_of(proposal).encode()), self._deps.source_bytes
        if size > most:
            return Patched(payload={}, digest="", problem=f"it has {size} bytes, and may have {most}")
        patching = Patching(payload=briefed.base, passage="", proposal=proposal)
        kind = self._deps.kinds[self.generation.kind]
        return await self._deps.analyst.patch(kind, patching, flow=self._flow)

    @property
    def _flow(self) -> tuple[int, str]:
        return self.generation.uid, f"generation {self.generation.id}"

    async def _keep(self, generation: Generation) -> None:
        await self._deps.store.save(generation)
        self.generation = generation
        self._deps.publish(generation)


_ANSWERED = frozenset({"code", "files", "steps", "text", "manifest"})
"""Parts of a payload that an answer may have given."""


def _answered_part(payload: Mapping[str, object]) -> str:
    """Return what an answer gave of a payload: its one text, or the parts as JSON."""
    kept = {name: part for name, part in payload.items() if name in _ANSWERED}
    return str(kept["code"]) if set(kept) == {"code"} else json.dumps(kept, indent=1, ensure_ascii=False)


def _nothing_yet(kind: Kind) -> Passage:
    """Return the passage of a first request: no text, in the language of an answer that is one text."""
    if "code" not in kind.forms:
        return Passage(name="", language=kind.name, text="")
    return Passage(name="", language=kind.language, text="", beginning=kind.beginning)


def _as_earlier(draft: Draft) -> EarlierAnswer:
    return EarlierAnswer(
        number=draft.number, text=draft.text, reason=draft.reason, failure=draft.problem or "It failed."
    )
