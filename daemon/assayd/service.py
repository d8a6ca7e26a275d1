"""The daemon as its API sees it: policies, queue, store and bundles behind one face."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from assayd.errors import AssaydError, RequestError
from assayd.job import Finished
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, Failure, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.run import Limits
from assayd.model.submission import Peer, Submission
from assayd.policies import PolicySet, describe, require_enforceable, tighten
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.clock import Clock, Ids
from assayd.ports.service import Health, HealthRow
from assayd.ports.store import Accepted, Event, JobStore, Page, Query
from assayd.ports.validator import Validator
from assayd.rehearsal import Rehearsal
from assayd.sandbox.house import House
from assayd.scheduler import Order, Scheduler
from assayd.store.events import EventHub
from assayd.wire import read_event_id, read_submission

log = structlog.get_logger()

RECENT = 256
"""How many finished attempts are kept in memory with their documents, for those who wait for them."""

ROOM_KNOWN_S = 1.0
"""How long the answer to whether there is room on the disk holds good."""

Documents = tuple[Mapping[str, object] | None, Mapping[str, object] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What the service looks things up in."""

    jobs: JobStore
    artifacts: ArtifactStore
    hub: EventHub
    policies: PolicySet
    clock: Clock
    ids: Ids
    metrics: Metrics
    min_free_bytes: int


class DaemonService:
    """Implements `ports.service.Service`."""

    def __init__(
        self,
        *,
        stock: Stock,
        kinds: Mapping[str, Validator],
        scheduler: Scheduler,
        house: House,
        caps: Limits,
        rehearsal: Rehearsal,
    ) -> None:
        self._stock = stock
        self.kinds = kinds
        self._scheduler = scheduler
        self._house = house
        self._caps = caps
        self._rehearsal = rehearsal
        self._recent: dict[str, Finished] = {}
        self._has_room = True
        self._room_known_until = 0.0

    def ready(self) -> tuple[bool, str]:
        """Tell whether attempts can be run, and why not."""
        return self._house.ready()

    async def submit(
        self,
        submission: Submission,
        *,
        peer: Peer,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
        batch_id: str | None = None,
    ) -> Accepted:
        """Accept a submission durably and put it into the queue."""
        policy = self._policy(submission)
        if attempt_id is None or await self._stock.jobs.get(attempt_id) is None:
            self._admit(peer)
            await self._require_room()
        attempt = Attempt(
            id=attempt_id or self._stock.ids.new(),
            kind=submission.kind,
            policy=submission.policy,
            input_digest=submission.input_digest,
            created_at=self._stock.clock.now(),
            peer=peer,
            batch_id=batch_id,
            parent_id=submission.parent_id,
            labels=submission.labels,
        )
        accepted = await self._stock.jobs.accept(
            attempt, submission.document, idempotency_key=idempotency_key
        )
        if not accepted.existing:
            self._start(accepted.attempt, submission, policy)
        return accepted

    def _admit(self, peer: Peer) -> None:
        ready, reason = self.ready()
        if not ready:
            raise RequestError("not_ready", reason, retryable=True)
        self._scheduler.admit(peer.uid)

    async def _require_room(self) -> None:
        """See that there is room for a bundle; looks once a second at most."""
        now = self._stock.clock.monotonic()
        if now >= self._room_known_until:
            self._has_room = await self._stock.artifacts.free_bytes() >= self._stock.min_free_bytes
            self._room_known_until = now + ROOM_KNOWN_S
        if not self._has_room:
            message = "there is too little room on the disk of the artifacts"
            raise RequestError("not_ready", message, retryable=True)

    def _policy(self, submission: Submission) -> ExecutionPolicy:
        """Give the profile, tightened by what the request overrides."""
        policy = self._stock.policies.get(submission.policy)
        if submission.overrides:
            policy = tighten(policy, submission.overrides)
        require_enforceable(policy, egress=self._stock.policies.egress)
        return policy

    def _start(self, attempt: Attempt, submission: Submission, policy: ExecutionPolicy) -> None:
        order = Order(
            attempt=attempt,
            submission=submission,
            policy=policy,
            limits=limits_of(policy, self._caps),
            validator=self.kinds[submission.kind],
        )
        self._scheduler.start(order)

    async def left_over(self) -> Sequence[Attempt]:
        """Give the attempts without a verdict; of an earlier life, when this one is not ready yet."""
        return await self._stock.jobs.unfinished()

    async def take_up(self, left: Sequence[Attempt]) -> None:
        """Start attempts that an earlier life has left without a verdict."""
        for attempt in left:
            try:
                submission = read_submission(await self._stock.jobs.document(attempt.id), self.kinds)
                self._start(attempt, submission, self._policy(submission))
            except AssaydError as trouble:
                await self._give_up(attempt, trouble)
        if left:
            log.warning("attempts.recovered", count=len(left))

    async def _give_up(self, attempt: Attempt, trouble: AssaydError) -> None:
        """End an attempt that this daemon can no longer take up, e.g. for a profile that is gone."""
        failure = Failure(code=trouble.code, message=trouble.message)
        now = self._stock.clock.now()
        await self._stock.jobs.finish(
            replace(attempt, state=State.FINISHED, verdict=Verdict.ERROR, finished_at=now, error=failure)
        )

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        """Give the attempt as soon as it is finished, or as it is when the time is up."""
        finished = await self._scheduler.wait(attempt_id, timeout_s)
        if finished is not None:
            self._remember(finished)
            return finished.attempt
        attempt = await self.get(attempt_id)
        if attempt is None:
            raise RequestError("not_found", f"there is no attempt {attempt_id}")
        return attempt

    def _remember(self, finished: Finished) -> None:
        self._recent[finished.attempt.id] = finished
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    async def get(self, attempt_id: str) -> Attempt | None:
        """Look an attempt up."""
        return self._scheduler.current(attempt_id) or await self._stock.jobs.get(attempt_id)

    async def list(self, query: Query) -> Page:
        """List attempts, newest first; those under way with their present state."""
        page = await self._stock.jobs.list(query)
        fresh = tuple(self._scheduler.current(attempt.id) or attempt for attempt in page.attempts)
        return replace(page, attempts=fresh)

    async def cancel(self, attempt_id: str) -> None:
        """Ask an attempt to end."""
        if not self._scheduler.cancel(attempt_id):
            raise RequestError("attempt.finished", "the attempt has finished already")

    async def documents(self, attempt: Attempt) -> Documents:
        """Give report and execution of a finished attempt in their wire form."""
        recent = self._recent.pop(attempt.id, None)
        if recent is not None:
            return recent.report, recent.execution
        if attempt.bundle is None:
            return None, None
        stamp = attempt.created_at.strftime("%Y%m%dT%H%M%S.%fZ")
        report = await self._stock.artifacts.read(attempt.bundle, f"validation_{stamp}.json")
        execution = await self._stock.artifacts.read(attempt.bundle, f"execution_{stamp}.json")
        return json.loads(report), json.loads(execution)

    async def artifact(self, attempt: Attempt, name: str) -> bytes:
        """Give one file of the bundle."""
        return await self._stock.artifacts.read(_bundle_of(attempt), name)

    def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        """Give the whole bundle as a tar stream."""
        return self._stock.artifacts.tar(_bundle_of(attempt))

    async def events(self, attempt_id: str, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Give the events of an attempt after the one with that id, up to ``finished``."""
        position = read_event_id(after) if after else (0, 0)
        if self._stock.hub.knows(attempt_id):
            async with aclosing(self._stock.hub.follow(attempt_id, after=position)) as events:
                async for event in events:
                    yield event
            return
        for event in await self._stock.jobs.events(attempt_id, after=position):
            yield event

    def policies(self) -> Mapping[str, Mapping[str, object]]:
        """Describe the profiles, by name, with effective values."""
        policies = self._stock.policies
        return {name: describe(policies.get(name), egress=policies.egress) for name in policies.names}

    def metrics(self) -> bytes:
        """Give the metrics in Prometheus' text format."""
        metrics = self._stock.metrics
        metrics.ready.set(self.ready()[0])
        self._house.show(metrics)
        return metrics.render()

    async def health(self) -> Sequence[HealthRow]:
        """Examine engine, images, canary, limits and permissions."""
        rows = list(await self._house.examine())
        rows.append(self._static_misses())
        if all(row.status is not Health.FAIL for row in rows):
            rows.extend([await self._rehearse(validator) for validator in self.kinds.values()])
        return rows

    def _static_misses(self) -> HealthRow:
        """Tell what the runtime policy has caught that the static stages let through."""
        misses = self._scheduler.static_misses
        if not misses:
            return HealthRow(check="static misses", status=Health.OK, detail="none since the start")
        listed = ", ".join(f"{kind} {rule}: {count}" for (kind, rule), count in misses.most_common(10))
        remedy = "look at these attempts' findings; the static rules may want a new case"
        return HealthRow(check="static misses", status=Health.WARN, detail=listed, remedy=remedy)

    async def _rehearse(self, validator: Validator) -> HealthRow:
        """Run a validator's own samples."""
        policy = self._stock.policies.get(validator.default_policy)
        limits = limits_of(policy, self._caps)
        complaints: list[str] = []
        for sample in validator.samples:
            try:
                said = await self._rehearsal.complaints(validator, sample, policy=policy, limits=limits)
            except AssaydError as trouble:
                said = [trouble.message]
            complaints.extend(f"{sample.name}: {sentence}" for sentence in said)
        check = f"kind {validator.kind}"
        if complaints:
            return HealthRow(check=check, status=Health.FAIL, detail="; ".join(complaints))
        detail = f"its {len(validator.samples)} samples get the verdicts that they must"
        return HealthRow(check=check, status=Health.OK, detail=detail)


def _bundle_of(attempt: Attempt) -> str:
    if attempt.bundle is None:
        raise RequestError("not_found", "the attempt has no bundle")
    return attempt.bundle


def limits_of(policy: ExecutionPolicy, caps: Limits) -> Limits:
    """Give the limits of an attempt: the policy's resources within the daemon's caps."""
    resources = policy.resources
    return replace(
        caps,
        timeout_s=resources.timeout_s,
        unit_timeout_s=min(resources.unit_timeout_s, resources.timeout_s),
        memory_bytes=resources.memory_bytes,
        max_processes=resources.max_processes,
    )
