"""Turns submissions into attempts: looks them up, admits, records and queues each exactly once.

This module decides which submissions are refused. A submission that was already accepted is never refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from assayd.attempts.acceptance import AcceptanceGate, DiskQuota
from assayd.attempts.conclusion import ConclusionWriter, ended
from assayd.attempts.scheduler import QueuedAttempt, Scheduler
from assayd.byte_budget import ByteBudget
from assayd.clock import Clock, IdSource
from assayd.documents import LARGE_DOCUMENT_BYTES, add_payload_fields, read_accepted, read_bytes
from assayd.errors import AssaydError, RequestError
from assayd.kind import Kind
from assayd.log import get_current_request_id
from assayd.model.attempt import Attempt, Failure
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AcceptedSubmission
from assayd.model.run import Limits, derive_attempt_limits
from assayd.model.submission import Peer, Submission
from assayd.model.trace_context import parse_text
from assayd.policies import PolicySet, require_enforceable, tighten_policy
from assayd.ports.service import RepairRequests, WebhookGate
from assayd.ports.tracing import NO_TRACING, Attribute, Span, Tracing, get_trace_origin
from assayd.store.jobs import DatabaseJobStore
from assayd.store.recorder import SubmissionCompleter

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOrigin:
    """The origin of an attempt: its sender, its keys, and its batch or original attempt.

    `max_runs` limits the attempt's runs, in addition to the daemon's setting. `from_gateway` is True if the
    attempt belongs to a cluster, whose gateway keeps the records. `is_new` is True if the attempt id is known
    to be unused, so that no lookup is necessary.
    """

    peer: Peer
    attempt_id: str | None = None
    idempotency_key: str | None = None
    batch_id: str | None = None
    replay_of: str | None = None
    max_runs: int | None = None
    from_gateway: bool = False
    is_new: bool = False


class Admission:
    """The only component that turns submissions into queued attempts.

    Args:
        jobs: records attempts.
        records: the recorder of each kind.
        conclusion: concludes attempts that can't be started.
        policies: all profiles.
        kinds: the enabled kinds.
        clock: returns the time of acceptance.
        ids: creates ids of attempts.
        webhooks: decides which URLs a submission can name.
        scheduler: the queue.
        repair_requests: records the repairs that submissions request.
        acceptance: decides whether attempts are accepted.
        caps: limits that policies don't set.
        quota: limits the bytes that each user can add to the disk.
        tracing: begins the trace of an attempt.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        jobs: DatabaseJobStore,
        records: Mapping[str, object],
        conclusion: ConclusionWriter,
        policies: PolicySet,
        kinds: Mapping[str, Kind],
        clock: Clock,
        ids: IdSource,
        webhooks: WebhookGate,
        scheduler: Scheduler,
        repair_requests: RepairRequests,
        acceptance: AcceptanceGate,
        caps: Limits,
        quota: DiskQuota,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._jobs = jobs
        self._records = records
        self._conclusion = conclusion
        self._policies = policies
        self._kinds = kinds
        self._clock = clock
        self._ids = ids
        self._webhooks = webhooks
        self._scheduler = scheduler
        self._repair_requests = repair_requests
        self._acceptance = acceptance
        self._caps = caps
        self._quota = quota
        self._tracing = tracing

    async def submit(self, submission: Submission, origin: AttemptOrigin) -> AcceptedSubmission:
        """Accept a submission durably and queue it. If it was accepted before, return its attempt.

        Raises: RequestError, if a new submission is refused.
        """
        submission = await self.complete(submission, origin.peer.uid, from_gateway=origin.from_gateway)
        span = self._begin_span(submission, origin)
        if not origin.is_new and await self._is_duplicate(origin):
            accepted = await self._accept_submission(submission, origin, span)
            if not accepted.existing:  # retention removed it meanwhile
                order = self._build_order(accepted.attempt, submission, self.policy(submission), span)
                self._scheduler.start(order, permitted=False)
            return accepted
        policy = self.policy(submission)
        if submission.repair is not None:
            self._repair_requests.check(submission.repair)
        if origin.replay_of is None:
            await self.check_webhook(submission.webhook, origin.peer.uid)
        self.require_ready()
        self._acceptance.require_image(policy.image or self._kinds[submission.kind].image)
        uid, size = origin.peer.uid, len(submission.document)
        # The document of a batch's line is on the disk already.
        await self._quota.require(uid, document_bytes=0 if origin.batch_id is not None else size)
        self._scheduler.acquire_permit(uid, size)
        started = False
        try:
            accepted = await self._accept_submission(submission, origin, span)
            if not accepted.existing:
                await self._request_repair(accepted.attempt, submission)
                span.add_finished_child("accept")
                self._scheduler.start(self._build_order(accepted.attempt, submission, policy, span))
                started = True
        finally:
            if not started:
                self._scheduler.release(uid, size)
        return accepted

    @property
    def budget(self) -> ByteBudget:
        """Return the budget, which has the turns for large texts."""
        return self._scheduler.budget

    async def check_webhook(self, url: str | None, uid: int) -> None:
        """Check that the user can use the webhook URL, if any. Raises: the same errors as `WebhookGate`."""
        if url is not None:
            await self._webhooks.check(url, uid)

    async def complete(self, submission: Submission, uid: int, *, from_gateway: bool = False) -> Submission:
        """Return the submission, with the payload fields that its kind's recorder supplies.

        If it supplies none, return the submission unchanged.
        """
        records = self._records.get(submission.kind)
        fields = None
        if isinstance(records, SubmissionCompleter):
            fields = await records.complete(submission, uid, from_gateway=from_gateway)
        if fields is None:
            return submission
        read = partial(add_payload_fields, fields=fields, kinds=self._kinds)
        return await self.budget.parse(submission.document, uid, read)

    async def submit_document(self, document: bytes, origin: AttemptOrigin) -> AcceptedSubmission:
        """Accept a submission that the daemon built.

        A large one holds the user's turn until it is recorded.
        """
        uid = origin.peer.uid
        async with self.budget.reading(len(document), uid):
            return await self.submit(await self.read(document, uid), origin)

    async def submit_stored(
        self, size: int, fetch: Callable[[], Awaitable[bytes]], origin: AttemptOrigin
    ) -> AcceptedSubmission:
        """Accept a stored submission of `size` bytes. Fetch a large one only at the user's turn."""
        uid = origin.peer.uid
        async with self.budget.reading(size, uid):
            return await self.submit(await self.read(await fetch(), uid), origin)

    async def _request_repair(self, attempt: Attempt, submission: Submission) -> None:
        """Record the repair that the submission requests for the case that the attempt fails."""
        if submission.repair is not None:
            await self._repair_requests.record(attempt, submission.repair)

    async def _is_duplicate(self, origin: AttemptOrigin) -> bool:
        """Return whether the same sender has already used this attempt id or idempotency key."""
        jobs, uid = self._jobs, origin.peer.uid
        if origin.attempt_id is not None:
            known = await jobs.get(origin.attempt_id)
            return known is not None and known.peer.uid == uid
        key = origin.idempotency_key
        return key is not None and await jobs.get_by_idempotency_key(uid, key) is not None

    def _begin_span(self, submission: Submission, origin: AttemptOrigin) -> Span:
        """Begin an attempt's span. The span never ends if the attempt is rejected.

        Each item of a batch has a separate trace, because a batch can have thousands of items.
        """
        begun = get_trace_origin()
        facts: dict[str, Attribute] = {"kind": submission.kind, "policy": submission.policy}
        if origin.batch_id is not None:
            facts["batch_id"] = origin.batch_id
            return self._tracing.begin("attempt", facts, linked=begun.context)
        return self._tracing.begin("attempt", facts, parent=begun.context, ago_s=begun.ago_s)

    async def _accept_submission(
        self, submission: Submission, origin: AttemptOrigin, span: Span
    ) -> AcceptedSubmission:
        parent = await self._jobs.get(submission.parent_id) if submission.parent_id else None
        attempt = Attempt(
            id=origin.attempt_id or self._ids.new(),
            kind=submission.kind,
            policy=submission.policy,
            input_digest=submission.input_digest,
            created_at=self._clock.now(),
            peer=origin.peer,
            batch_id=origin.batch_id,
            parent_id=submission.parent_id,
            attempt_number=parent.attempt_number + 1 if parent is not None else 1,
            replay_of=origin.replay_of,
            intent=submission.intent,
            webhook=submission.webhook if origin.replay_of is None else None,
            trace=span.context.text if span.context is not None else None,
            labels=submission.labels,
            max_runs=origin.max_runs,
        )
        key = origin.idempotency_key
        return await self._jobs.accept(attempt, submission.document, idempotency_key=key)

    async def read_submission_in_turn(self, document: bytes, uid: int) -> Submission:
        """Parse an accepted submission. If it is large, first wait for the user's turn."""
        async with self.budget.reading(len(document), uid):
            return await self.read(document, uid)

    async def read(self, document: bytes, uid: int) -> Submission:
        """Parse an accepted submission. For a large one, the caller must hold the user's turn."""
        return await self.budget.parse(document, uid, partial(read_accepted, kinds=self._kinds))

    def require_ready(self) -> None:
        """Check that attempts are accepted. Raises: RequestError ``not_ready``, if they aren't."""
        ready, reason = self._acceptance.now()
        if not ready:
            raise RequestError("not_ready", reason, retryable=True)

    async def require_quota(self, uid: int, document_bytes: int) -> None:
        """Check that a user may add `document_bytes` bytes of documents, and count them.

        Raises: RequestError ``not_ready``, if disk space is short; ``quota.disk``, if the user holds too much
        data.
        """
        await self._quota.require(uid, document_bytes=document_bytes)

    def policy(self, submission: Submission) -> ExecutionPolicy:
        """Return the profile, tightened by the request's overrides and by the payload's requirements.

        Raises: RequestError, if the profile is unknown or can't be applied to the submission.
        """
        policy = self._policies.get(submission.policy)
        if submission.overrides:
            policy = tighten_policy(policy, submission.overrides)
        validator = self._kinds[submission.kind]
        policy = validator.narrow(submission.payload, policy)
        require_image(validator, policy)
        require_enforceable(policy, egress=self._policies.egress)
        return policy

    def _build_order(
        self, attempt: Attempt, submission: Submission, policy: ExecutionPolicy, span: Span
    ) -> QueuedAttempt:
        document = submission.document
        return QueuedAttempt(
            attempt=attempt,
            document=document if len(document) <= LARGE_DOCUMENT_BYTES else None,
            size=len(document),
            read_bytes=read_bytes(document),
            policy=policy,
            limits=derive_attempt_limits(policy, self._caps),
            validator=self._kinds[submission.kind],
            request_id=get_current_request_id(),
            submission=submission if len(document) <= LARGE_DOCUMENT_BYTES else None,
            span=span,
            waiting=span.begin_child("queued"),
        )

    async def load_unfinished(self) -> Sequence[Attempt]:
        """Return the attempts without a verdict. Until the daemon is ready, all are from earlier runs."""
        return await self._jobs.list_unfinished()

    async def recover(self, unfinished: Sequence[Attempt], *, renumbered: bool = True) -> None:
        """Start attempts without a verdict from a previous run. Hold only one document at a time in memory.

        An attempt that can't be started gets the verdict `error`. `renumbered` is True if earlier events are
        lost; new events then get numbers above all earlier ones.
        """
        for attempt in unfinished:
            document = await self._jobs.document(attempt.id)
            # Nothing publishes an event in less than a microsecond.
            passed = (self._clock.now() - attempt.created_at) // timedelta(microseconds=1)
            await self._recover_attempt(attempt, document, behind=max(0, passed) if renumbered else 0)
        if unfinished:
            log.warning("attempts.recovered", count=len(unfinished))

    async def _recover_attempt(self, attempt: Attempt, document: bytes, *, behind: int) -> None:
        try:
            submission = await self.read_submission_in_turn(document, attempt.peer.uid)
            order = self._build_order(
                attempt, submission, self.policy(submission), self._resume_span(attempt)
            )
        except AssaydError as trouble:
            await self._fail_unstartable(attempt, document, trouble)
        else:
            await self._request_repair(attempt, submission)
            self._scheduler.start(replace(order, events_behind=behind), permitted=False)

    def _resume_span(self, attempt: Attempt) -> Span:
        """Continue the span of an attempt from a previous run of the daemon."""
        facts: dict[str, Attribute] = {"kind": attempt.kind, "policy": attempt.policy, "recovered": True}
        return self._tracing.begin("attempt", facts, parent=parse_text(attempt.trace))

    async def _fail_unstartable(self, attempt: Attempt, document: bytes, trouble: AssaydError) -> None:
        """Conclude an attempt that this daemon can no longer start, e.g. because its profile was removed."""
        failure = Failure(code=trouble.code, message=trouble.message)
        given_up = await self._conclusion.conclude_unstartable(attempt, document, failure)
        await self._jobs.finish(ended(given_up, self._clock.now()))


def require_image(validator: Kind, policy: ExecutionPolicy) -> None:
    """Check that a policy doesn't change the image of a kind that requires its own image.

    Raises: RequestError ``policy.image``, if it does.
    """
    if policy.image in {None, validator.image} or validator.any_image:
        return
    message = (
        f"policy {policy.name!r} runs in image {policy.image}, but kind {validator.name} needs "
        f"{validator.image}; use a policy without image"
    )
    raise RequestError("policy.image", message, field="policy")
