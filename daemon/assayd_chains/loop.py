"""Runs a chain from its recorded state to the outcome, and asks a provider, with retries, for each answer.

    wait for the unfinished attempt ─────> decide ─> stop
                    ^                        └────> prompt ─> ask ─> fit ─> keep ─┐
                    └─────────────────────────────────────────────────────────────┘

Every step is recorded before the next step begins, so that a chain can continue from its recorded state
after a restart. A recorded answer isn't requested again, and its attempt isn't duplicated, because the
attempt's id was chosen before the submission.

Calls to a provider are retried if a retry can help, and the answer is received as a stream. The pauses
between calls grow exponentially, with random jitter, within the time limit of the chain.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic

import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from assayd.aio import BroadcastEvent
from assayd.analysis.analyst import WorkerDiedError
from assayd.clock import Clock, IdSource
from assayd.errors import ProviderError, RequestError
from assayd.model.prompting import Proposal
from assayd.model.report import Verdict
from assayd.ports.driving import WorkAssignment, WorkKind
from assayd.ports.tracing import NO_TRACING, Tracing
from assayd_chains.attempts import AttemptClient
from assayd_chains.decide import StopChain, compute_fingerprint, decide_next_step, describe_step_timeout
from assayd_chains.fitting import AnswerApplier, AnswerNotApplicableError, AnswerRequest
from assayd_chains.model import (
    QUESTION_FORM,
    Answer,
    Chain,
    ChainView,
    Failure,
    Outcome,
    Strategy,
    format_proposal,
)
from assayd_chains.prompts import replace_unprintable
from assayd_chains.provider import FixRequest, Provider, ProviderStep, Reply
from assayd_chains.store import DatabaseChainStore
from assayd_chains.tracing import ChainSpans

log = structlog.get_logger()

Sleep = Callable[[float], Awaitable[None]]

MOST_CALLS = 4
_TOLD_CHARS = 300
MOST_CHARS = 64 * 1024
"""Maximum number of characters of a streamed answer to show."""
EVERY_S = 0.25
"""Minimum number of seconds between two notifications of followers."""
_BACKOFF_WAIT = wait_random_exponential(multiplier=1, max=20)


async def ask_provider(
    provider: Provider, request: FixRequest, *, timeout_s: float, clock: Clock, sleep: Sleep = asyncio.sleep
) -> Reply:
    """Call the provider until it returns a fix, and return the fix.

    Raises: ProviderError, if the last call failed, a retry can't help, or the provider requests a pause that
    exceeds the remaining time; TimeoutError, if the time is over.
    """
    ends_at = clock.monotonic() + timeout_s
    wording = request

    def should_stop(state: RetryCallState) -> bool:
        too_late = clock.monotonic() + state.upcoming_sleep >= ends_at
        return too_late or state.attempt_number >= MOST_CALLS

    async with asyncio.timeout(timeout_s):
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_is_retryable),
            stop=should_stop,
            wait=_compute_retry_delay_s,
            before_sleep=_log_failure,
            sleep=sleep,
            reraise=True,
        ):
            with attempt:
                wording.heard("")
                try:
                    reply = await provider.fix(wording, timeout_s=max(ends_at - clock.monotonic(), 0.001))
                    _reject_unwanted_question(request, reply)
                    return reply
                except ProviderError as problem:
                    wording = _add_format_error(request, problem)
                    raise
    raise AssertionError("a retry loop without an end")


def _reject_unwanted_question(request: FixRequest, reply: Reply) -> None:
    """Reject an answer that is a question, if the request doesn't allow questions.

    Raises: ProviderError ``provider.reply``, if it isn't allowed.
    """
    if reply.question and not request.questions:
        raise ProviderError("provider.reply", "the reply is a question; answer with code", retryable=True)


def _is_retryable(problem: BaseException) -> bool:
    return isinstance(problem, ProviderError) and problem.retryable


def _add_format_error(request: FixRequest, problem: ProviderError) -> FixRequest:
    """Return the request, with the format error of the last answer added to the prompt if there was one."""
    if problem.code != "provider.reply":
        return request
    told = f"{request.user}\nYOUR LAST ANSWER HAD THE WRONG FORM\n{problem.message[:_TOLD_CHARS]}.\n"
    return replace(request, user=told)


def _compute_retry_delay_s(state: RetryCallState) -> float:
    """Return the seconds until the next call, as requested by the provider or growing exponentially."""
    problem = state.outcome.exception() if state.outcome is not None else None
    asked_for = problem.retry_after_s if isinstance(problem, ProviderError) else None
    return _BACKOFF_WAIT(state) if asked_for is None else asked_for


def _log_failure(state: RetryCallState) -> None:
    problem = state.outcome.exception() if state.outcome is not None else None
    code = getattr(problem, "code", None)
    log.warning("provider.call_failed", code=code, again_in_s=round(state.upcoming_sleep, 1))


class StreamedAnswer:
    """The text received so far of a streamed answer. An empty piece restarts the answer."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.text = ""
        self._wake = wake
        self._woke_at = 0.0

    def append(self, piece: str) -> None:
        """Append received text, and wake the waiting followers unless they were woken very recently."""
        self.text = self.text + replace_unprintable(piece[: MOST_CHARS - len(self.text)]) if piece else ""
        if monotonic() - self._woke_at >= EVERY_S:
            self._woke_at = monotonic()
            self._wake()

    def forget(self) -> None:
        """Discard the text after the answer was recorded or has failed."""
        self.text = ""


_NAMES_CHARS = 200


class ChainRun:
    """A chain that this process runs, with the text received so far of the next answer."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.spans = ChainSpans()
        self.changed = BroadcastEvent()
        self.heard = StreamedAnswer(self.changed.wake_all)

    @property
    def view(self) -> ChainView:
        """Return the chain and the received text of the next answer, for display to followers."""
        return ChainView(chain=self.chain, heard=self.heard.text)

    def update(self, chain: Chain) -> None:
        """Replace the chain by its newly recorded state, and wake the followers."""
        self.chain = chain
        self.heard.forget()
        self.changed.wake_all()


class ChainRunner:
    """A runner of chains. `timeout` is the time limit of a round, measured from the round's failure."""

    def __init__(  # noqa: PLR0913  (each is a separate part)
        self,
        *,
        attempts: AttemptClient,
        store: DatabaseChainStore,
        fitter: AnswerApplier,
        providers: Mapping[str, Provider],
        clock: Clock,
        ids: IdSource,
        timeout: timedelta,
        driving: WorkAssignment,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._attempts = attempts
        self._store = store
        self._answer_applier = fitter
        self._providers = providers
        self._clock = clock
        self._ids = ids
        self._timeout = timeout
        self._driving = driving
        self._tracing = tracing

    async def run(self, course: ChainRun) -> Chain | None:
        """Run a chain to its outcome and return the final state, or None for an unnecessary repair.

        If the task is cancelled, the next run of the daemon continues the chain.
        """
        if course.chain.outcome is not None:
            # An earlier version died between the end of a generation's repair and the generation's own.
            ended = course.chain.round
            return await self._finish_round(course, course.chain.outcome, ended.detail, ended.fallback)
        try:
            if not await self._begin_repair(course):
                return None
            await course.spans.begin(course.chain, self._tracing, self._attempts)
            stop = await self._run_steps(course)
        except TimeoutError:
            await self.cancel_attempt(course.chain)
            stop = StopChain(outcome=Outcome.TIMEOUT, detail=describe_step_timeout(course.chain.round))
        except ProviderError as problem:
            detail = f"{problem.code}: {problem.message}"
            stop = StopChain(outcome=Outcome.PROVIDER_FAILED, detail=detail)
        except (RequestError, AnswerNotApplicableError, WorkerDiedError) as problem:
            # The answer can't be submitted, e.g. because it is too large: no better than no answer.
            what = "answer" if course.chain.round.failure is None else "fix"
            stop = StopChain(outcome=Outcome.PROVIDER_FAILED, detail=f"the {what} can't be used: {problem}")
        return await self.end(course, stop.outcome, stop.detail)

    async def edit(self, course: ChainRun, code: str, reason: str) -> None:
        """Record a user's code as the first fix.

        Raises: AnswerNotApplicableError, if the code doesn't fit; WorkerDiedError, if an analysis worker
        died.
        """
        await self._begin_repair(course)
        target = await self._answer_applier.target(course.chain, Strategy.FIX)
        fitted = await self._answer_applier.apply_answer(course.chain.kind, target, Proposal(code=code))
        if fitted.problem is not None:
            raise AnswerNotApplicableError(fitted.problem)
        await self._record_answer(
            course, Strategy.FIX, self._clock.now(), target, Reply(code=code, reason=reason)
        )

    async def end(self, course: ChainRun, outcome: Outcome, detail: str | None) -> Chain:
        """Record the outcome and any rules to offer, and return the ended chain."""
        repair = course.chain.repair
        fallback = (
            await self._answer_applier.build_fallback_offer(repair, outcome) if repair is not None else None
        )
        return await self._finish_round(course, outcome, detail, fallback)

    async def cancel_attempt(self, chain: Chain) -> None:
        """Request the cancellation of the chain's last attempt, if the chain has one."""
        if chain.last_attempt_id is not None:
            await self._attempts.cancel(chain.last_attempt_id)

    async def _begin_repair(self, course: ChainRun) -> bool:
        """Wait for the first attempt of a repair.

        If the attempt doesn't fail, delete the repair and return False. Otherwise, return True.
        """
        failure = course.chain.round.failure
        if course.chain.words is not None or failure is None or failure.fingerprint is not None:
            return True
        subject = await self._attempts.finished(failure.attempt_id)
        if subject.attempt.verdict is not Verdict.FAILED:
            await self._store.remove(course.chain.id)
            return False
        await self._record_failure(course, failure)
        return True

    async def _run_steps(self, course: ChainRun) -> StopChain:
        """Run steps until a decision ends the chain, and return this decision."""
        while True:
            await self._run_with_timeout(course, self._finish_attempt(course))
            step = decide_next_step(course.chain, self._clock.now())
            if isinstance(step, StopChain):
                return step
            await self._run_with_timeout(course, self._request_answer(course, step.strategy))

    async def _run_with_timeout(self, course: ChainRun, step: Awaitable[None]) -> None:
        left_s = (course.chain.ends_at - self._clock.now()).total_seconds()
        with course.spans.activate(course.chain):
            async with asyncio.timeout(max(left_s, 0.001)):
                await step

    async def _finish_attempt(self, course: ChainRun) -> None:
        """Run the attempt of the last answer until its verdict, and record the verdict and any failure."""
        last = course.chain.round.last
        if last is not None and last.attempt_id is not None and last.verdict is None:
            last = await self._run_attempt(course, last, last.attempt_id)
        if last is not None and last.is_draft and last.verdict is Verdict.FAILED:
            await self._begin_fixes(course, str(last.attempt_id))
        failure = course.chain.round.failure
        if failure is not None and failure.fingerprint is None:
            await self._record_failure(course, failure)

    async def _run_attempt(self, course: ChainRun, answer: Answer, attempt_id: str) -> Answer:
        ready = await self._answer_applier.build_submission(course.chain, answer)
        # The daemon knows an id that it has seen before.
        await self._attempts.submit(attempt_id, ready.document, peer=ready.peer)
        course.update(course.chain)  # followers can read the attempt now
        subject = await self._attempts.finished(attempt_id)
        verdict = subject.attempt.verdict
        failed_fix = verdict is Verdict.FAILED and not answer.is_draft
        ended = replace(
            answer,
            verdict=verdict,
            cause=subject.attempt.cause,
            fingerprint=compute_fingerprint(subject.report) if failed_fix else None,
        )
        await self._save_chain(
            course, course.chain.replace_last_round(course.chain.round.replace_last(ended))
        )
        return ended

    async def _begin_fixes(self, course: ChainRun, attempt_id: str) -> None:
        """Begin to fix a draft's failed attempt, unless this has already been done."""
        chain, now = course.chain, self._clock.now()
        if chain.round.failure is not None:
            return
        failure = Failure(attempt_id=attempt_id, at=now)
        changed = chain.replace_last_round(replace(chain.round, failure=failure))
        await self._save_chain(course, replace(changed, ends_at=now + self._timeout))
        # A gateway of an earlier version takes repairs that no one has taken.
        await self._driving.claim(WorkKind.REPAIR, str(chain.round.repair_id))

    async def _record_failure(self, course: ChainRun, failure: Failure) -> None:
        """Record the fingerprint of a failure and the code's digest, and start the round's time limit."""
        subject = await self._attempts.finished(failure.attempt_id)
        known = replace(
            failure,
            digest=await self._answer_applier.digest(subject),
            at=self._clock.now(),
            fingerprint=compute_fingerprint(subject.report),
            cause=subject.attempt.cause,
        )
        changed = course.chain.replace_last_round(replace(course.chain.round, failure=known))
        await self._save_chain(course, replace(changed, ends_at=known.at + self._timeout))

    async def _request_answer(self, course: ChainRun, strategy: Strategy) -> None:
        """Request an answer and record it with the id of its attempt, unless this was already done."""
        chain, draft = course.chain, strategy is Strategy.WRITE
        target = await self._answer_applier.target(chain, strategy)
        owner = chain.id if draft else str(chain.round.repair_id)
        number = _compute_next_answer_number(chain, strategy)
        step = await self._store.step(owner, number, draft=draft)
        if step is None:
            with course.spans.record_answer_span(chain.provider, strategy, number):
                step = await self._ask_provider(course, target, number)
            await self._store.save_step(owner, step, draft=draft)
        await self._record_answer(course, strategy, step.asked_at, target, step.reply)

    async def _ask_provider(self, course: ChainRun, target: AnswerRequest, number: int) -> ProviderStep:
        began, chain = self._clock.now(), course.chain
        request = replace(target.request, attempt=number, heard=course.heard.append)
        left_s = (chain.ends_at - began).total_seconds()
        reply = await ask_provider(
            self._providers[chain.provider], request, timeout_s=left_s, clock=self._clock
        )
        took_s = (self._clock.now() - began).total_seconds()
        return ProviderStep(
            number=number,
            provider=chain.provider,
            asked_at=began,
            system=request.system,
            user=request.user,
            reply=replace(reply, usage=replace(reply.usage, took_s=took_s)),
        )

    async def _record_answer(
        self, course: ChainRun, strategy: Strategy, asked_at: datetime, target: AnswerRequest, reply: Reply
    ) -> None:
        """Record an answer with the id of its attempt, or with None if the answer isn't run."""
        chain, proposal, draft = course.chain, reply.proposal, strategy is Strategy.WRITE
        if reply.question:
            asked = Answer(
                number=_compute_next_answer_number(chain, strategy),
                strategy=strategy,
                asked_at=asked_at,
                reason="",
                text=reply.question,
                passage=QUESTION_FORM,
                form=QUESTION_FORM,
                usage=reply.usage,
            )
            await self._save_chain(course, chain.replace_last_round(chain.round.with_added_answer(asked)))
            return
        patched = await self._answer_applier.apply_answer(chain.kind, target, proposal)
        digest = patched.digest or hashlib.sha256(format_proposal(proposal).encode()).hexdigest()
        duplicate = not draft and digest in chain.round.digests
        runs = patched.problem is None and not duplicate
        answer = Answer(
            number=_compute_next_answer_number(chain, strategy),
            strategy=strategy,
            asked_at=asked_at,
            reason=reply.reason,
            text=_build_recorded_text(proposal, patched.payload),
            passage=_get_replaced_part_name(proposal, target, draft=draft),
            form=proposal.form,
            error=target.error,
            problem=None if duplicate else patched.problem,
            digest=None if draft else digest,
            duplicate=duplicate,
            attempt_id=self._ids.new() if runs else None,
            usage=reply.usage,
        )
        changed = chain.round.with_added_answer(answer)
        if draft and runs:
            changed = replace(changed, repair_id=self._ids.new())
        _log_answer(chain, answer)
        await self._save_chain(course, chain.replace_last_round(changed))

    async def _finish_round(
        self, course: ChainRun, outcome: Outcome, detail: str | None, fallback: Mapping[str, object] | None
    ) -> Chain:
        now = self._clock.now()
        ended = replace(
            course.chain.round, outcome=outcome, detail=detail, fallback=fallback, finished_at=now
        )
        await self._save_chain(course, course.chain.replace_last_round(ended))
        _log_outcome(course.chain, now)
        return course.chain

    async def _save_chain(self, course: ChainRun, chain: Chain) -> None:
        await self._store.save(chain)
        course.update(chain)


def _compute_next_answer_number(chain: Chain, strategy: Strategy) -> int:
    return len(chain.drafts if strategy is Strategy.WRITE else chain.round.fixes) + 1


def _build_recorded_text(proposal: Proposal, payload: Mapping[str, object]) -> str:
    """Return the recorded text of a proposal.

    For code, it is the checked text from the payload.
    """
    code = payload.get("code")
    return code if proposal.form == "code" and isinstance(code, str) else format_proposal(proposal)


def _get_replaced_part_name(proposal: Proposal, target: AnswerRequest, *, draft: bool) -> str:
    """Return the name of the part of the payload that a proposal replaces. For a draft, return its form."""
    if draft:
        return proposal.form
    if proposal.form == "code":
        return target.request.passage.name
    return ", ".join(sorted(proposal.files))[:_NAMES_CHARS] if proposal.files else "all steps"


def _log_answer(chain: Chain, answer: Answer) -> None:
    if answer.is_draft:
        fits = answer.problem is None
        log.info("generation.draft_received", generation_id=chain.id, number=answer.number, fits=fits)
    else:
        name = chain.round.repair_id
        log.info("repair.fix_received", repair_id=name, number=answer.number, duplicate=answer.duplicate)


def _log_outcome(chain: Chain, now: datetime) -> None:
    outcome, repair = chain.outcome, chain.repair
    if repair is not None and outcome is not None:
        log.info(
            "repair.finished",
            repair_id=repair.id,
            outcome=outcome.repair_outcome_name,
            fixes=len(repair.fixes),
            duplicates=sum(fix.duplicate for fix in repair.fixes),
            offered=repair.fallback["trigger"] if repair.fallback else None,
            took_s=round((now - repair.started_at).total_seconds(), 3),
        )
    if chain.words is not None and outcome is not None:
        log.info(
            "generation.finished",
            generation_id=chain.id,
            kind=chain.kind,
            outcome=outcome.value,
            drafts=len(chain.drafts),
            took_s=round((now - chain.started_at).total_seconds(), 3),
        )
