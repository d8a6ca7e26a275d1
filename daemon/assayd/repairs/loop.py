"""Takes a repair from where it stands to its outcome.

    catch up with the attempt under way ─> decide ─> stop
                    ^                        └────> describe ─> ask ─> patch ─> keep ─┐
                    └─────────────────────────────────────────────────────────────────┘

Every step is kept before the next is begun, so that a repair goes on after a restart where it stood: a fix
that was kept is not asked for again, and its attempt has its id before it is submitted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from assayd.analysis.analyst import Analyst, WorkerDied
from assayd.analysis.messages import Described, Failed, Patched, Patching
from assayd.errors import ProviderError, RequestError
from assayd.kind import Kind
from assayd.model.prompting import Proposal
from assayd.model.repair import UNUSABLE, Fix, Repair, RepairOutcome, Strategy
from assayd.model.report import Verdict
from assayd.ports.clock import Clock, Ids
from assayd.ports.driving import ALONE, Driving
from assayd.ports.llm import FixRequest, Provider, ProviderStep, Reply
from assayd.ports.repairs import Attempts, RepairStore, Subject
from assayd.repairs.asking import ask
from assayd.repairs.decide import Stop, decide
from assayd.repairs.earlier import earlier_answers
from assayd.repairs.fingerprint import fingerprint
from assayd.repairs.offering import offer_rules
from assayd.repairs.prompt import build_prompt, cut

log = structlog.get_logger()

ERROR_CHARS = 4000
"""How much of what failed is kept with each fix."""
MOST_FINDINGS = 50
"""Of a report, that a provider gets as data."""
_NAMES_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDependencies:
    """What a repair is carried out with.

    `publish` is called with each state that was recorded; `hear` with the id of a repair and what comes of an
    answer.
    """

    attempts: Attempts
    repairs: RepairStore
    analyst: Analyst
    kinds: Mapping[str, Kind]
    providers: Mapping[str, Provider]
    clock: Clock
    ids: Ids
    timeout: timedelta = timedelta(minutes=5)
    source_bytes: int = 2**20
    publish: Callable[[Repair], None] = lambda _: None
    hear: Callable[[str, str], None] = lambda _, __: None
    driving: Driving = ALONE


async def run_repair(repair: Repair, deps: RepairDependencies) -> Repair | None:
    """Carry a repair to its outcome and return it as it ended; None when it was not needed after all.

    Cancelling the task leaves the repair for the next run of the daemon.
    """
    course = Course(repair, deps)
    try:
        if not await course.begin():
            return None
        left_s = (course.repair.ends_at - deps.clock.now()).total_seconds()
        async with asyncio.timeout(max(left_s, 0.001)):
            outcome, detail = await course.follow()
    except TimeoutError:
        await deps.attempts.cancel(course.repair.last_attempt_id)
        outcome, detail = RepairOutcome.TIMEOUT, "the time for the repair is over"
    except ProviderError as problem:
        outcome, detail = RepairOutcome.PROVIDER_FAILED, f"{problem.code}: {problem.message}"
    except (RequestError, FixUnusable, WorkerDied) as problem:
        # The fix can't be submitted, e.g. because it is too large: no better than no fix.
        outcome, detail = RepairOutcome.PROVIDER_FAILED, f"the fix cannot be used: {problem}"
    return await course.end(outcome, detail)


class FixUnusable(Exception):
    """There is no place for a fix, or it does not fit. Never leaves `repairs`."""


class Course:
    """One repair on its way."""

    def __init__(self, repair: Repair, deps: RepairDependencies) -> None:
        self.repair = repair
        self._deps = deps

    async def begin(self) -> bool:
        """Wait until the attempt has failed; False, and no repair any more, when it did not."""
        if self.repair.first_fingerprint is not None:
            return True
        subject = await self._deps.attempts.finished(self.repair.attempt_id)
        if subject.attempt.verdict is not Verdict.FAILED:
            await self._deps.repairs.remove(self.repair.id)
            return False
        described = await self._described(subject)
        now = self._deps.clock.now()
        began = replace(
            self.repair,
            started_at=now,
            ends_at=now + self._deps.timeout,
            first_fingerprint=fingerprint(subject.report),
            first_digest=described.digest,
            first_cause=subject.attempt.cause,
        )
        await self._keep(began)
        return True

    async def edit(self, code: str, reason: str) -> None:
        """Take a person's code for the first fix."""
        subject = await self._deps.attempts.finished(self.repair.last_attempt_id)
        described = await self._described(subject)
        _fitting(await self._patched(subject, described.context.passage.name, Proposal(code=code)))
        await self._add(
            Strategy.FIX, self._deps.clock.now(), subject, described, Reply(code=code, reason=reason)
        )

    async def follow(self) -> tuple[RepairOutcome, str | None]:
        """Take step after step until one says stop."""
        while True:
            await self._catch_up()
            step = decide(self.repair, self._deps.clock.now())
            if isinstance(step, Stop):
                problem = (await self._problems()).get(len(self.repair.fixes))
                return step.outcome, f"the last fix cannot be used: {problem}" if problem else None
            await self._fix(step.strategy)

    async def end(self, outcome: RepairOutcome, detail: str | None) -> Repair:
        """Put the outcome on record, with what is offered where there is no fix."""
        deps = self._deps
        kind = deps.kinds.get(self.repair.kind)
        fallback = await offer_rules(
            self.repair, outcome, kind=kind, attempts=deps.attempts, analyst=deps.analyst
        )
        now = deps.clock.now()
        ended = replace(self.repair, outcome=outcome, detail=detail, fallback=fallback, finished_at=now)
        await self._keep(ended)
        log.info(
            "repair.finished",
            repair_id=self.repair.id,
            outcome=outcome.value,
            fixes=len(self.repair.fixes),
            duplicates=sum(fix.duplicate for fix in self.repair.fixes),
            offered=fallback["trigger"] if fallback else None,
            took_s=round((now - self.repair.started_at).total_seconds(), 3),
        )
        return self.repair

    async def _catch_up(self) -> None:
        """Have the attempt of the last fix run to its verdict, and put that on record."""
        last = self.repair.fixes[-1] if self.repair.fixes else None
        if last is None or last.duplicate or last.verdict is not None or last.attempt_id is None:
            return
        await self._submit(last, last.attempt_id)
        subject = await self._deps.attempts.finished(last.attempt_id)
        verdict = subject.attempt.verdict
        ended = replace(
            last,
            verdict=verdict,
            cause=subject.attempt.cause,
            fingerprint=fingerprint(subject.report) if verdict is Verdict.FAILED else None,
        )
        await self._keep(replace(self.repair, fixes=(*self.repair.fixes[:-1], ended)))

    async def _submit(self, fix: Fix, attempt_id: str) -> None:
        """Submit a fix that is on record. The daemon knows an id that it has seen before."""
        before = replace(self.repair, fixes=self.repair.fixes[:-1])
        parent = await self._deps.attempts.finished(before.last_attempt_id)
        patched = _fitting(await self._patched(parent, fix.passage, proposal_of(fix)))
        submission = {**parent.submission, "payload": patched.payload}
        await self._deps.attempts.submit(attempt_id, submission, parent=parent.attempt)

    async def _fix(self, strategy: Strategy) -> None:
        """Ask for one fix, unless its answer is there already, and record it with the id of its attempt."""
        deps, began = self._deps, self._deps.clock.now()
        subject = await deps.attempts.finished(self.repair.last_attempt_id)
        described = await self._described(subject)
        number = len(self.repair.fixes) + 1
        step = await deps.repairs.step(self.repair.id, number)
        if step is None:
            request = self._request(strategy, number, subject, described, await self._problems())
            left_s = (self.repair.ends_at - began).total_seconds()
            provider = deps.providers[self.repair.provider]
            reply = await ask(provider, request, timeout_s=left_s, clock=deps.clock)
            step = ProviderStep(
                number=number,
                provider=self.repair.provider,
                asked_at=began,
                system=request.system,
                user=request.user,
                reply=reply,
            )
            await deps.repairs.save_step(self.repair.id, step)
        await self._add(strategy, step.asked_at, subject, described, step.reply)

    def _request(
        self,
        strategy: Strategy,
        number: int,
        subject: Subject,
        described: Described,
        problems: Mapping[int, str],
    ) -> FixRequest:
        """Word what the provider is asked, and give it what it may need of that in data."""
        intent, context = _intent(subject), described.context
        prompt = build_prompt(
            context,
            strategy,
            hint=self.repair.hint,
            intent=intent,
            earlier=earlier_answers(
                self.repair.fixes,
                context.failure,
                name=context.passage.name,
                text=context.passage.text,
                problems=problems,
            ),
        )
        return FixRequest(
            system=prompt.system,
            user=prompt.user,
            passage=context.passage,
            edits=context.edits,
            others=context.others,
            kind=self.repair.kind,
            attempt=number,
            intent=intent,
            findings=tuple(_findings(subject.report)),
            heard=partial(self._deps.hear, self.repair.id),
        )

    async def _add(
        self, strategy: Strategy, began: datetime, subject: Subject, described: Described, reply: Reply
    ) -> None:
        """Put a fix on record, with the id that its attempt will have; one that is not run gets none."""
        deps, name = self._deps, described.context.passage.name
        proposal = reply.proposal
        patched = await self._patched(subject, name, proposal)
        digest = patched.digest or hashlib.sha256(text_of(proposal).encode()).hexdigest()
        duplicate = digest in self.repair.digests
        unusable = patched.problem is not None and not duplicate
        fix = Fix(
            number=len(self.repair.fixes) + 1,
            strategy=strategy,
            asked_at=began,
            error=cut(described.context.failure, ERROR_CHARS),
            digest=digest,
            reason=reply.reason,
            passage=name if proposal.form == "code" else _named(proposal),
            patched_code=checked_text(proposal, patched.payload),
            form=proposal.form,
            duplicate=duplicate,
            attempt_id=None if duplicate or unusable else deps.ids.new(),
            cause=UNUSABLE if unusable else None,
            usage=replace(reply.usage, took_s=(deps.clock.now() - began).total_seconds()),
        )
        log.info("repair.fix_received", repair_id=self.repair.id, number=fix.number, duplicate=duplicate)
        await self._keep(replace(self.repair, fixes=(*self.repair.fixes, fix)))

    async def _described(self, subject: Subject) -> Described:
        failed = Failed(payload=_payload(subject), report=dict(subject.report))
        kind = self._deps.kinds[self.repair.kind]
        policy = await self._deps.attempts.policy(subject.submission)
        described = await self._deps.analyst.describe(kind, failed, policy, flow=subject.attempt.flow)
        if not described.context.passage.name:
            raise FixUnusable("there is no text in the submission that could be fixed")
        return described

    async def _patched(self, subject: Subject, passage: str, proposal: Proposal) -> Patched:
        if len(text_of(proposal).encode()) > self._deps.source_bytes:
            problem = f"it is larger than {self._deps.source_bytes} bytes"
            return Patched(payload={}, digest="", problem=problem)
        patching = Patching(payload=_payload(subject), passage=passage, proposal=proposal)
        kind = self._deps.kinds[self.repair.kind]
        return await self._deps.analyst.patch(kind, patching, flow=subject.attempt.flow)

    async def _problems(self) -> Mapping[int, str]:
        """Return why fixes could not be used, by number."""
        unusable = [fix for fix in self.repair.fixes if fix.unusable]
        if not unusable:
            return {}
        subject = await self._deps.attempts.finished(self.repair.last_attempt_id)
        passage = (await self._described(subject)).context.passage.name
        found = {
            fix.number: (await self._patched(subject, passage, proposal_of(fix))).problem for fix in unusable
        }
        return {number: problem for number, problem in found.items() if problem is not None}

    async def _keep(self, repair: Repair) -> None:
        await self._deps.repairs.save(repair)
        self.repair = repair
        self._deps.publish(repair)


def _fitting(patched: Patched) -> Patched:
    """Return a patched submission. Raises: FixUnusable, when the fix does not fit into it."""
    if patched.problem is not None:
        raise FixUnusable(patched.problem)
    return patched


def proposal_of(fix: Fix) -> Proposal:
    """Return what a fix on record proposes."""
    match fix.form:
        case "files":
            return Proposal(files=json.loads(fix.patched_code))
        case "steps":
            return Proposal(steps=tuple(json.loads(fix.patched_code)))
        case _:
            return Proposal(code=fix.patched_code)


def checked_text(proposal: Proposal, payload: Mapping[str, object]) -> str:
    """Return the text that is recorded of a proposal: of code, what the payload got of it and is checked."""
    code = payload.get("code")
    return code if proposal.form == "code" and isinstance(code, str) else text_of(proposal)


def text_of(proposal: Proposal) -> str:
    """Return a proposal as one text: its code, or its files or steps as JSON."""
    if proposal.form == "code":
        return proposal.code
    whole = proposal.files if proposal.form == "files" else [dict(step) for step in proposal.steps]
    return json.dumps(whole, ensure_ascii=False, sort_keys=True, indent=1)


def _named(proposal: Proposal) -> str:
    """Name what a proposal replaces, where that is more than one passage."""
    return ", ".join(sorted(proposal.files))[:_NAMES_CHARS] if proposal.files else "all steps"


def _findings(report: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    found = report.get("findings")
    yield from (
        (one for one in found[:MOST_FINDINGS] if isinstance(one, dict)) if isinstance(found, list) else ()
    )


def _intent(subject: Subject) -> str | None:
    intent = subject.submission.get("intent")
    return intent if isinstance(intent, str) else None


def _payload(subject: Subject) -> dict[str, object]:
    payload = subject.submission.get("payload")
    if not isinstance(payload, dict):
        raise TypeError("a submission on record has no payload")
    return payload
