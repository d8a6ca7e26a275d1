"""Manages this daemon's chains: request, start, follow, cancel, and recover after a restart.

This module decides which chains begin, and with which budget. The API checks who owns a chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from assayd.aio import open_task_group
from assayd.analysis.analyst import WorkerDiedError
from assayd.clock import Clock, IdSource
from assayd.documents import canonical, format_optional_time
from assayd.errors import ProviderError, RequestError
from assayd.kind import Kind
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairOptions
from assayd.ports.driving import ELSEWHERE_S, WorkAssignment, WorkKind
from assayd.ports.service import AttemptFix, AttemptRepair, WebhookGate
from assayd_chains.answer_counts import AnswerCounts
from assayd_chains.attempts import AttemptClient, list_diffs, submit_fallback_rules
from assayd_chains.documents import to_generation_document, to_repair_document, validate_context
from assayd_chains.fitting import AnswerNotApplicableError
from assayd_chains.loop import ChainRun, ChainRunner
from assayd_chains.model import (
    TOKENS,
    BudgetGrant,
    Chain,
    ChainRound,
    ChainView,
    Failure,
    GenerationRequest,
    GenerationTerms,
    Outcome,
    Repair,
    RepairTerms,
    compute_budget_left,
    sum_tokens,
)
from assayd_chains.provider import ProviderStep
from assayd_chains.providers import rules
from assayd_chains.providers.command import run
from assayd_chains.store import DatabaseChainStore

log = structlog.get_logger()

ALERT_TIMEOUT_S = 60.0
MAX_GENERATIONS_PER_USER = 16
"""Maximum number of unfinished generations of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """The limits on concurrency, answers and time of chains, with the operator's alert command.

    `timeout` is the time limit of a round, measured from the failure that the round began with.
    """

    at_once: int = 4
    max_attempts: int = 3
    timeout: timedelta = timedelta(minutes=5)
    on_exhausted: tuple[str, ...] = ()


class RepairRequests:
    """Repair requests, recorded before they begin. Implements `ports.chains.RepairRequests`.

    `Chains` depends on attempts, whose admission depends on this class. To avoid a cycle, this class
    depends on neither of them and passes recorded repairs to `Chains` through a queue.
    """

    def __init__(
        self,
        *,
        store: DatabaseChainStore,
        providers: Collection[str],
        clock: Clock,
        ids: IdSource,
        limits: ChainLimits,
    ) -> None:
        self._store = store
        self._providers = providers
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self.recorded: asyncio.Queue[Chain] = asyncio.Queue()

    def check(self, wish: RepairOptions) -> None:
        """Raise RequestError ``repair.provider_unknown`` if the requested provider doesn't exist."""
        if wish.provider not in self._providers:
            known = ", ".join(sorted(self._providers))
            message = f"unknown provider {wish.provider[:64]!r}; use one of {known}"
            raise RequestError("repair.provider_unknown", message, field="repair.provider")

    async def record(self, attempt: Attempt, wish: RepairOptions) -> None:
        """Record a request to repair an attempt if it fails. A repeated request has no effect."""
        if not await self._store.repairs_of(attempt.id):
            chain = self.new(attempt, wish)
            await self._store.save(chain)
            self.recorded.put_nowait(chain)

    def new(self, attempt: Attempt, wish: RepairOptions, grant: BudgetGrant | None = None) -> Chain:
        """Return a new chain that repairs an attempt, without recording the chain."""
        now, chain_id = self._clock.now(), self._ids.new()
        failure = Failure(attempt_id=attempt.id, at=now)
        return Chain(
            id=chain_id,
            kind=attempt.kind,
            provider=wish.provider,
            uid=attempt.peer.uid,
            max_attempts=wish.max_attempts or self._limits.max_attempts,
            started_at=now,
            ends_at=now + self._limits.timeout,
            rounds=(ChainRound(grant=grant, repair_id=chain_id, failure=failure),),
        )


class Chains:
    """A manager of this daemon's repairs and generations, as used by the API."""

    def __init__(  # noqa: PLR0913  (each is a separate part)
        self,
        *,
        loop: ChainRunner,
        store: DatabaseChainStore,
        attempts: AttemptClient,
        requests: RepairRequests,
        kinds: Mapping[str, Kind],
        policies: Callable[[str], ExecutionPolicy],
        providers: Collection[str],
        webhooks: WebhookGate,
        clock: Clock,
        ids: IdSource,
        driving: WorkAssignment,
        metrics: Metrics,
        limits: ChainLimits,
    ) -> None:
        self._loop = loop
        self._store = store
        self._attempts = attempts
        self._requests = requests
        self._kinds = kinds
        self._policies = policies
        self._webhooks = webhooks
        self._clock = clock
        self._ids = ids
        self._driving = driving
        self._metrics = metrics
        self._limits = limits
        self.writers: Sequence[str] = sorted(name for name in providers if name != rules.NAME)
        """The sorted names of the providers that can write code from a request: models and programs."""
        # Separate, so that neither kind of start waits for the other.
        self._slots = {start: asyncio.Semaphore(limits.at_once) for start in (True, False)}
        self._courses: dict[str, ChainRun] = {}
        self._run_tasks: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Chains]:
        """Run chains while the body runs. Unfinished chains then wait for the daemon's next run."""
        async with open_task_group() as self._tasks:
            requested = self._tasks.create_task(self._start_requested(), name="repair-requests")
            try:
                yield self
            finally:
                requested.cancel()
                for task in self._run_tasks.values():
                    task.cancel()

    async def _start_requested(self) -> None:
        while True:
            await self._start_if_assigned(await self._requests.recorded.get())

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished chains of a previous run. If `only` is set, skip all other chain ids."""
        unfinished = [each for each in await self._store.list_unfinished() if only is None or each.id in only]
        for chain in unfinished:
            self._start_chain(chain)
        of_words = sum(chain.words is not None for chain in unfinished)
        if of_words < len(unfinished):
            log.warning("repairs.recovered", count=len(unfinished) - of_words)
        if of_words:
            log.warning("generations.recovered", count=of_words)

    async def repair(self, attempt: Attempt, terms: RepairTerms) -> Repair:
        """Begin a repair of a finished attempt, and return the repair.

        Raises: RequestError ``repair.not_failed``; ``repair.running``, if another repair of it is running;
            ``repair.provider_unknown``; ``repair.hint_unread``, if the provider can't read hints;
            ``repair.budget_spent``, if no fixes are left; ``invalid``, if the user's code can't be used.
        """
        if attempt.state is not State.FINISHED or attempt.verdict is not Verdict.FAILED:
            raise RequestError("repair.not_failed", "only a failed attempt can be repaired")
        most = terms.max_attempts or self._limits.max_attempts
        wish = RepairOptions(provider=self._select_repair_provider(terms), max_attempts=most)
        self._requests.check(wish)
        for earlier in await self._store.repairs_of(attempt.id):
            if earlier.outcome is None:
                raise RequestError("repair.running", f"repair {earlier.id} of this attempt is still running")
        if not terms.grants:
            wish = replace(wish, max_attempts=min(most, await self._count_fixes_left(attempt)))
        if terms.fresh:
            attempt = await self._find_first_predecessor(attempt)
        grant = BudgetGrant(uid=terms.uid, at=self._clock.now(), hint=terms.hint) if terms.grants else None
        course = ChainRun(self._requests.new(attempt, wish, grant))
        if terms.code is not None:
            await self._apply_edit(course, terms.code)
        await self._store.save(course.chain)
        await self._start_if_assigned(course.chain)
        return _require_repair(course.chain)

    def _select_repair_provider(self, terms: RepairTerms) -> str:
        """Return the provider name for a repair. A hint requires a provider that can read hints.

        Raises: RequestError ``repair.hint_unread``, if no such provider is selected.
        """
        if terms.hint is None:
            return terms.provider or rules.NAME
        if terms.provider is None and len(self.writers) == 1:
            return self.writers[0]
        if terms.provider in {None, rules.NAME}:
            known = ", ".join(self.writers)
            remedy = f"use one of {known}" if known else "configure one in repair.providers"
            message = f"the provider {rules.NAME} can't read hints; {remedy}, or edit the code"
            raise RequestError("repair.hint_unread", message, field="hint")
        return terms.provider or rules.NAME

    async def _count_fixes_left(self, attempt: Attempt) -> int:
        """Return the number of fixes left for an attempt, which shares its budget with its predecessors.

        Raises: RequestError ``repair.budget_spent``, if no fixes are left.
        """
        most = self._limits.max_attempts
        earlier: dict[str, Repair] = {}
        for followed in await self._list_ancestors(attempt):
            earlier |= {repair.id: repair for repair in await self._store.repairs_of(followed.id)}
        left = compute_budget_left([earlier[repair_id] for repair_id in sorted(earlier)], most)
        if left == 0:
            message = (
                f"the limit of {most} fixes (repair.max_attempts) is used up; for a new budget, pass a hint "
                "(--hint), edit the code (--edit), or start over (--fresh)"
            )
            raise RequestError("repair.budget_spent", message)
        return left

    async def _find_first_predecessor(self, attempt: Attempt) -> Attempt:
        """Return the earliest stored predecessor of an attempt, or the attempt if it has none."""
        return (await self._list_ancestors(attempt))[-1]

    async def _list_ancestors(self, attempt: Attempt) -> Sequence[Attempt]:
        """Return an attempt and its stored predecessors, newest first."""
        found = {attempt.id: attempt}
        while (parent_id := attempt.parent_id) is not None and parent_id not in found:
            try:
                attempt = (await self._attempts.finished(parent_id)).attempt
            except RequestError:  # retention removed it
                break
            found[attempt.id] = attempt
        return list(found.values())

    async def _apply_edit(self, course: ChainRun, code: str) -> None:
        try:
            await self._loop.edit(course, code, "Edited by the user.")
        except (AnswerNotApplicableError, WorkerDiedError) as problem:
            raise RequestError("invalid", f"the code can't be used: {problem}", field="code") from problem

    async def start_generation(self, terms: GenerationTerms, peer: Peer) -> Chain:
        """Begin a generation, and return its chain.

        Raises: RequestError ``kind.unknown``; ``generation.unsupported``, if the kind can't be generated;
            ``generation.provider``, if no suitable provider is selected; ``policy.unknown``;
            ``webhook.not_allowed``; ``quota.full``, if the user has too many running generations;
            ``invalid``, if the context is invalid.
        """
        words = await self._check_terms(terms, peer)
        mine = sum(
            each.chain.words is not None and each.chain.uid == peer.uid for each in self._courses.values()
        )
        if mine >= MAX_GENERATIONS_PER_USER:
            limit = f"the limit is {MAX_GENERATIONS_PER_USER}; wait until one ends"
            message = f"this user has {mine} running generations; {limit}"
            raise RequestError("quota.full", message, retryable=True)
        now = self._clock.now()
        chain = Chain(
            id=self._ids.new(),
            kind=terms.kind,
            provider=self._select_writer(terms.provider),
            uid=peer.uid,
            max_attempts=terms.max_attempts or self._limits.max_attempts,
            started_at=now,
            ends_at=now + self._limits.timeout,
            words=words,
            rounds=(ChainRound(),),
        )
        await self._store.save(chain)
        await self._start_if_assigned(chain)
        return chain

    async def _check_terms(self, terms: GenerationTerms, peer: Peer) -> GenerationRequest:
        """Return the request of a generation with these terms.

        Raises: RequestError, if a term is invalid.
        """
        kind = self._kinds.get(terms.kind)
        if kind is None:
            known = ", ".join(sorted(self._kinds))
            message = f"unknown kind {terms.kind[:64]!r}; use one of {known}"
            raise RequestError("kind.unknown", message, field="kind")
        if kind.generation_context is None:
            message = f"the kind {kind.name} doesn't support generation"
            raise RequestError("generation.unsupported", message, field="kind")
        validate_context(kind.generation_context, terms.context)
        policy = terms.policy or kind.default_policy
        self._policies(policy)
        if terms.webhook is not None:
            await self._webhooks.check(terms.webhook, peer.uid)
        return GenerationRequest(
            peer=peer,
            policy=policy,
            intent=terms.intent,
            context=terms.context,
            labels=dict(terms.labels),
            webhook=terms.webhook,
        )

    def _select_writer(self, name: str | None) -> str:
        """Return the provider that a generation names, or the only configured provider.

        Raises: RequestError ``generation.provider``, if the name is unknown, or missing and ambiguous.
        """
        if name is None and len(self.writers) == 1:
            return self.writers[0]
        if name is None or name not in self.writers:
            known = ", ".join(self.writers)
            remedy = f"use one of {known}" if known else "configure one in repair.providers"
            what = f"no provider {name[:64]!r} writes code" if name is not None else "no provider selected"
            raise RequestError("generation.provider", f"{what}; {remedy}", field="provider")
        return name

    async def hint(self, chain: Chain, hint: str, uid: int, *, attempt: Attempt | None = None) -> Chain:
        """Continue a generation with a user's hint and a full budget, from the last or the given attempt.

        Raises: RequestError ``generation.running``, if it hasn't ended.
        """
        if chain.outcome is None or chain.id in self._courses:
            raise RequestError("generation.running", "the generation is still running; cancel it, or wait")
        now = self._clock.now()
        follows = chain.last_attempt_id if attempt is None else attempt.id
        begun = ChainRound(grant=BudgetGrant(uid=uid, at=now, hint=hint), follows=follows)
        chain = replace(chain, rounds=(*chain.rounds, begun), ends_at=now + self._limits.timeout)
        await self._store.save(chain)
        await self._start_if_assigned(chain)
        return chain

    async def _start_if_assigned(self, chain: Chain) -> None:
        if await self._driving.claim(_get_work_kind(chain), chain.id):
            self._start_chain(chain)

    def _start_chain(self, chain: Chain) -> None:
        if chain.id in self._courses:  # recovered while this request was on its way
            return
        course = self._courses[chain.id] = ChainRun(chain)
        self._run_tasks[chain.id] = self._tasks.create_task(self._run_chain(course), name=f"chain-{chain.id}")

    async def _run_chain(self, course: ChainRun) -> None:
        chain_id, ended = course.chain.id, None
        try:
            async with self._slots[course.chain.words is not None]:
                ended = await self._loop.run(course)
        except asyncio.CancelledError:
            if chain_id not in self._cancelled:
                raise
            await self._loop.cancel_attempt(course.chain)
            ended = await self._loop.end(course, Outcome.CANCELLED, None)
        except Exception as problem:
            log.exception(
                _BROKEN_EVENT[_get_work_kind(course.chain)], **_log_fields(course.chain), problem=str(problem)
            )
            ended = await self._record_internal_error(course, problem)
        finally:
            course.spans.end(ended)
            del self._courses[chain_id], self._run_tasks[chain_id]
            self._cancelled.discard(chain_id)
            course.changed.wake_all()
        if ended is not None:
            self._record_token_metrics(ended)
            if ended.repair is not None:
                self._count_repair(ended.repair)
            await self._run_alert_command(ended)

    async def _record_internal_error(self, course: ChainRun, problem: Exception) -> Chain | None:
        """End a chain after an internal error; None if the end can't be recorded until the next run."""
        try:
            await self._loop.cancel_attempt(course.chain)
            detail = f"internal: {type(problem).__name__}; the daemon's log has more"
            return await self._loop.end(course, Outcome.PROVIDER_FAILED, detail)
        except Exception as again:
            log.exception(
                _NOT_ENDED_EVENT[_get_work_kind(course.chain)],
                **_log_fields(course.chain),
                problem=str(again),
            )
            return None

    def _count_repair(self, repair: Repair) -> None:
        kind, provider, metrics = repair.kind, repair.provider, self._metrics
        metrics.repairs.labels(
            kind, provider, repair.outcome.repair_outcome_name if repair.outcome else "none"
        ).inc()
        for fix in repair.fixes:
            not_run = "duplicate" if fix.duplicate else "unusable" if fix.problem is not None else "none"
            verdict = fix.verdict.value if fix.verdict else not_run
            metrics.repair_fixes.labels(kind, provider, str(fix.number), verdict).inc()
            metrics.repair_fix_duration.labels(kind, provider).observe(fix.usage.took_s)
        if repair.outcome is Outcome.VALIDATED and repair.finished_at is not None:
            took_s = (repair.finished_at - repair.started_at).total_seconds()
            metrics.repair_duration.labels(kind, provider).observe(took_s)

    def _record_token_metrics(self, chain: Chain) -> None:
        """Add the tokens of the last finished round to the metrics."""
        for name in TOKENS:
            tokens = self._metrics.provider_tokens.labels(chain.kind, chain.provider, name.partition("_")[0])
            tokens.inc(sum_tokens(chain.round.answers, name) or 0)

    async def _run_alert_command(self, chain: Chain) -> None:
        """Run the operator's alert command, with the chain and its last report, for a failed chain."""
        if chain.outcome in {Outcome.VALIDATED, Outcome.QUESTION} or not self._limits.on_exhausted:
            return
        repair, last = chain.repair, chain.last_attempt_id
        alert = {
            "repair": None if repair is None else to_repair_document(repair),
            "generation": None if chain.words is None else to_generation_document(chain),
            "report": None if last is None else dict((await self._attempts.finished(last)).report),
        }
        named = _log_fields(chain) if repair is None else {"repair_id": repair.id}
        what = WorkKind.GENERATION if repair is None else WorkKind.REPAIR
        try:
            await run(self._limits.on_exhausted, canonical(alert), timeout_s=ALERT_TIMEOUT_S, environment={})
        except ProviderError as problem:
            log.error(_ALERT_FAILED_EVENT[what], **named, problem=problem.message)
        else:
            log.info(_ALERTED_EVENT[what], **named)

    async def get_repair(self, repair_id: str) -> Repair | None:
        """Return a repair by its id, or None if it doesn't exist."""
        return await self._store.get_repair(repair_id)

    async def list_repairs(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Repair]:
        """Return repairs of one user or (if `uid` is None) of all users, newest first."""
        return await self._store.repairs(uid=uid, before=before, limit=limit)

    async def repairs_of(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to, oldest first."""
        return await self._store.repairs_of(attempt_id)

    async def get_fix(self, attempt_id: str) -> AttemptFix | None:
        """Return the fix that an attempt runs, or None if the attempt doesn't run a fix."""
        found = await self._store.repairs_of(attempt_id)
        fixes = [(repair, fix) for repair in found for fix in repair.fixes if fix.attempt_id == attempt_id]
        if not fixes:
            return None
        repair, fix = fixes[-1]
        return AttemptFix(
            repair_id=repair.id,
            number=fix.number,
            provider=repair.provider,
            passage=fix.passage,
            reason=fix.reason,
            hint=repair.hint,
        )

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return the first repair that began with an attempt, or None if no repair did."""
        return await self._store.get_first_repair(attempt_id)

    async def list_repair_diffs(self, repair: Repair) -> Sequence[str | None]:
        """Return each fix's diff from the previous submission, or None if either submission isn't stored."""
        return await list_diffs(repair.attempt_id, repair.fixes, self._attempts.submission)

    async def get_repair_step(self, repair: Repair, number: int) -> ProviderStep | None:
        """Return the prompt and the answer of a fix, or None if a user supplied the fix."""
        return await self._store.step(repair.id, number, draft=False)

    async def accept_fallback(self, repair: Repair) -> Repair:
        """Accept and submit the rules that a repair offers. A repeated call has no effect.

        Raises: RequestError ``repair.no_fallback``, if it offers none.
        """
        if repair.fallback is None:
            raise RequestError("repair.no_fallback", "the repair offers no rules in place of code")
        if repair.fallback.get("accepted_at") is None:
            accepted_at, attempt_id = format_optional_time(self._clock.now()), self._ids.new()
            fallback = {**repair.fallback, "accepted_at": accepted_at, "attempt_id": attempt_id}
            repair = replace(repair, fallback=fallback)
            await self._store.save_repair(repair)
            log.info("repair.fallback_accepted", repair_id=repair.id)
        await submit_fallback_rules(self._attempts, repair)
        return repair

    async def get_generation(self, chain_id: str) -> Chain | None:
        """Return a generation by its id, or None if it doesn't exist."""
        course = self._courses.get(chain_id)
        chain = await self._store.get_generation(chain_id) if course is None else course.chain
        return chain if chain is not None and chain.words is not None else None

    async def count_answers(self, *, uid: int | None, since: datetime, kind: str | None) -> AnswerCounts:
        """Count providers' answers and their results by kind, provider and week."""
        return await self._store.count_answers(uid=uid, since=since, kind=kind)

    async def list_generations(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Chain]:
        """Return generations of one user or (if `uid` is None) of all users, newest first."""
        return await self._store.generations(uid=uid, before=before, limit=limit)

    async def list_diffs(self, chain: Chain) -> Sequence[str | None]:
        """Return each answer's diff from the previous submission, in the order of the generation document."""
        read = self._attempts.submission
        return [diff for each in chain.rounds for diff in await list_diffs(each.follows, each.answers, read)]

    async def step(self, chain: Chain, number: int) -> ProviderStep | None:
        """Return the prompt and the text of the answer with this number in a generation's document."""
        owners = [(each.repair_id, answer) for each in chain.rounds for answer in each.answers]
        if not 1 <= number <= len(owners):
            return None
        repair_id, answer = owners[number - 1]
        owner = chain.id if answer.is_draft else str(repair_id)
        found = await self._store.step(owner, answer.number, draft=answer.is_draft)
        return None if found is None else replace(found, number=number)

    async def cancel(self, chain: Chain) -> None:
        """Cancel a generation and its running attempt. Raises: RequestError ``generation.finished``."""
        if not await self._cancel_chain(chain.id, WorkKind.GENERATION, ended=chain.outcome is not None):
            raise RequestError("generation.finished", "the generation has ended")

    async def cancel_repair(self, repair: Repair) -> None:
        """Cancel a repair and the generation that contains it. Raises: RequestError ``repair.finished``."""
        kind = WorkKind.REPAIR if repair.generation_id is None else WorkKind.GENERATION
        if not await self._cancel_chain(repair.chain_id, kind, ended=repair.outcome is not None):
            raise RequestError("repair.finished", "the repair has ended")

    async def _cancel_chain(self, chain_id: str, kind: WorkKind, *, ended: bool) -> bool:
        """Cancel a chain in the process that runs it. Return False if the chain isn't running."""
        return not ended and (self.end(chain_id) or await self._driving.request_cancel(kind, chain_id))

    def end(self, chain_id: str) -> bool:
        """Cancel a chain if this process runs the chain, and return whether it runs here."""
        if chain_id in self._courses:
            self._cancelled.add(chain_id)
            self._run_tasks[chain_id].cancel()
        return chain_id in self._courses

    async def follow(self, chain_id: str) -> AsyncGenerator[ChainView, None]:
        """Yield a chain after each change until the chain ends. Yield nothing if it doesn't exist."""
        shown: ChainView | None = None
        while True:
            course = self._courses.get(chain_id)
            changed = course.changed.next if course is not None else None
            view = await self._load_view(chain_id) if course is None else course.view
            if view is None:
                return
            if course is not None or view != shown:
                yield view
            shown = view
            if course is None and (self._driving.alone or view.chain.outcome is not None):
                return
            await (changed.wait() if changed is not None else asyncio.sleep(ELSEWHERE_S))

    async def _load_view(self, chain_id: str) -> ChainView | None:
        chain = await self._store.chain(chain_id)
        return None if chain is None else ChainView(chain=chain)


_BROKEN_EVENT = {WorkKind.REPAIR: "repair.broken", WorkKind.GENERATION: "generation.broken"}
_ALERTED_EVENT = {WorkKind.REPAIR: "repair.alerted", WorkKind.GENERATION: "generation.alerted"}
_ALERT_FAILED_EVENT = {WorkKind.REPAIR: "repair.alert_failed", WorkKind.GENERATION: "generation.alert_failed"}
_NOT_ENDED_EVENT = {WorkKind.REPAIR: "repair.not_ended", WorkKind.GENERATION: "generation.not_ended"}


def _log_fields(chain: Chain) -> dict[str, str]:
    return {"repair_id" if chain.words is None else "generation_id": chain.id}


def _get_work_kind(chain: Chain) -> WorkKind:
    return WorkKind.REPAIR if chain.words is None else WorkKind.GENERATION


def _require_repair(chain: Chain) -> Repair:
    repair = chain.repair
    assert repair is not None, "a chain that starts with a failed attempt has it"  # noqa: S101 - a caller's bug
    return repair
