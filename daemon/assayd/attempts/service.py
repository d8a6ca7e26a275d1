"""Implements the daemon's interface for its API; combines policies, queue, store and bundles."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import structlog

from assayd.attempts.acceptance import AcceptanceGate
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.conclusion import NOTHING
from assayd.attempts.events import EventHub
from assayd.attempts.execution import FinishedAttempt, Readiness, RemoteAttempts
from assayd.attempts.retention import Retention
from assayd.attempts.samples import SelfTest
from assayd.attempts.scheduler import Scheduler
from assayd.clock import Clock
from assayd.documents import parse_event_id, replay_diff
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.kind import Kind
from assayd.kinds.registry import find_missing_packages
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State, format_timestamp
from assayd.model.health import (
    DaemonFacts,
    HealthRow,
    HealthStatus,
    build_helpers_row,
    build_identity_row,
    build_kinds_row,
    build_policies_row,
    build_static_misses_row,
)
from assayd.model.records import (
    AcceptedSubmission,
    AttemptEvent,
    AttemptPage,
    AttemptQuery,
    Summary,
    SweepResult,
)
from assayd.model.run import Limits, derive_attempt_limits
from assayd.model.submission import Peer, Sample, Submission
from assayd.policies import PolicySet, describe_policy
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.service import find_missing_chain_packages
from assayd.store.jobs import DatabaseJobStore
from assayd.tomlfile import FileError, Problem

log = structlog.get_logger()

RECENT = 256
MAX_RECENT_BYTES = 64 * 2**20
"""The maximum size of the documents of recently finished attempts that are kept in memory for waiting
callers.
"""

IN_MEMORY_STATES = frozenset(State) - {State.QUEUED, State.FINISHED}
"""The states that are only in memory."""

Documents = tuple[bytes, bytes]
"""A report and an execution record, as JSON text."""


SAMPLES_PER_KIND = 1
"""The number of each kind's samples that a health check runs in a container; tests/contract runs all.

With some engines, a container costs a third of a second of CPU time.
"""
MAX_CONCURRENT_SAMPLES = 4
ENGINE_CHECK_TIMEOUT_S = 8.0
"""The timeout in seconds for the health checks that need no container."""
EXAMINED_S = 20.0
"""The timeout in seconds for each health check that needs containers. A client waits longer than both
timeouts together.
"""


class DaemonService:
    """The service of a daemon behind its API. Implements `ports.service.Service`.

    Args:
        jobs: stores the recorded attempts.
        records: the recorder of each kind, by kind.
        artifacts: stores the bundles.
        policies: all profiles.
        kinds: the enabled kinds.
        clock: measures the duration of examinations.
        admission: accepts submissions.
        acceptance: decides whether attempts are accepted.
        scheduler: manages waiting and active attempts.
        hub: publishes the events of attempts.
        readiness: returns whether attempts can be run.
        selftest: runs samples of kinds; None if other hosts run attempts.
        retention: removes old attempts.
        metrics: the counters.
        caps: limits that no policy sets.
        facts: the identity of this daemon.
        examine_webhooks: returns the health of webhooks.
        left_out: the default policies that no file defines, by the kinds that need them.
        copied_from: the id of the daemon whose state directory was copied here, or None.
        elsewhere: gives access to attempts of other processes; None if there are none.
    """

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        *,
        jobs: DatabaseJobStore,
        records: Mapping[str, object],
        artifacts: ArtifactStore,
        policies: PolicySet,
        kinds: Mapping[str, Kind],
        clock: Clock,
        admission: Admission,
        acceptance: AcceptanceGate,
        scheduler: Scheduler,
        hub: EventHub,
        readiness: Readiness,
        selftest: SelfTest | None,
        retention: Retention,
        metrics: Metrics,
        caps: Limits,
        facts: DaemonFacts,
        examine_webhooks: Callable[[], Awaitable[Sequence[HealthRow]]],
        copied_from: str | None = None,
        left_out: Mapping[str, str] = MappingProxyType({}),
        elsewhere: RemoteAttempts | None = None,
    ) -> None:
        self.kinds = kinds
        self.records = records
        self._jobs = jobs
        self._artifacts = artifacts
        self._policies = policies
        self._clock = clock
        self._admission = admission
        self._acceptance = acceptance
        self._scheduler = scheduler
        self._hub = hub
        self._readiness = readiness
        self._selftest = selftest
        self._retention = retention
        self._metrics = metrics
        self._caps = caps
        self._facts = facts
        self._examine_webhooks = examine_webhooks
        self._copied_from = copied_from
        self._left_out = left_out
        self._others = elsewhere
        self._recent: dict[str, Documents] = {}
        self._recent_bytes = 0

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts are accepted, and the reason if they aren't."""
        return self._acceptance.now()

    async def require_ready(self) -> None:
        """Check that attempts are accepted. Raises: RequestError ``not_ready``, if they aren't."""
        await self._acceptance.require_accepting()

    async def submit(
        self,
        submission: Submission,
        *,
        peer: Peer,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
        max_runs: int | None = None,
        from_gateway: bool = False,
    ) -> AcceptedSubmission:
        """Accept a submission durably and put the attempt into the queue.

        If it was accepted before, return its attempt.
        """
        origin = AttemptOrigin(
            peer=peer,
            attempt_id=attempt_id,
            idempotency_key=idempotency_key,
            max_runs=max_runs,
            from_gateway=from_gateway,
        )
        return await self._admission.submit(submission, origin)

    async def replay(self, attempt: Attempt, *, peer: Peer, idempotency_key: str | None = None) -> Attempt:
        """Accept the submission of a finished attempt again. With the same key, return the same replay.

        Raises: RequestError ``attempt.unfinished``, if the attempt has no verdict yet.
        """
        if attempt.state is not State.FINISHED:
            raise RequestError("attempt.unfinished", "the attempt has no verdict yet; wait for it")
        origin = AttemptOrigin(peer=peer, replay_of=attempt.id, idempotency_key=idempotency_key)
        size = await self._jobs.document_size(attempt.id)
        fetch = partial(self._jobs.document, attempt.id)
        accepted = await self._admission.submit_stored(size, fetch, origin)
        return accepted.attempt

    async def replay_diff(self, attempt: Attempt) -> Mapping[str, object] | None:
        """Return the differences of a finished replay from its original.

        The result is None if the original or a bundle was removed.
        """
        first = await self.get(attempt.replay_of) if attempt.replay_of is not None else None
        if first is None:
            return None
        try:
            before = await self.read_documents(first)
            after = await self.read_documents(attempt)
        except StoreError:  # retention removed a bundle
            return None
        return await asyncio.to_thread(_compare_attempts, first, attempt, before, after)

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        """Return the attempt once it is finished. At the timeout, return its current state.

        Raises: RequestError ``not_found``, if the attempt doesn't exist.
        """
        elsewhere = self._find_remote_attempts(attempt_id)
        if elsewhere is not None:
            await elsewhere.ended(attempt_id, timeout_s)
        finished = await self._scheduler.wait(attempt_id, timeout_s)
        if finished is not None:
            self._remember_documents(finished)
            return finished.attempt
        attempt = await self.get(attempt_id)
        if attempt is None:
            raise RequestError("not_found", f"attempt {attempt_id} doesn't exist")
        return attempt

    def _find_remote_attempts(self, attempt_id: str) -> RemoteAttempts | None:
        """Return the access to other processes' attempts, or None if this process can handle the attempt."""
        return None if self._scheduler.is_active(attempt_id) else self._others

    def _remember_documents(self, finished: FinishedAttempt) -> None:
        if finished.report is None or finished.execution is None:
            return
        self._forget_documents(finished.attempt.id)
        self._recent[finished.attempt.id] = (finished.report, finished.execution)
        self._recent_bytes += len(finished.report) + len(finished.execution)
        while len(self._recent) > RECENT or self._recent_bytes > MAX_RECENT_BYTES:
            self._forget_documents(next(iter(self._recent)))

    def _forget_documents(self, attempt_id: str) -> Documents | None:
        documents = self._recent.pop(attempt_id, None)
        if documents is not None:
            self._recent_bytes -= sum(map(len, documents))
        return documents

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return the attempt with this id, or None if it doesn't exist."""
        return self._scheduler.get_active(attempt_id) or await self._jobs.get(attempt_id)

    async def list(self, query: AttemptQuery) -> AttemptPage:
        """List attempts, the newest first. Active attempts have their current state.

        With a state that only active attempts have, list all matching attempts on one page.
        """
        if query.state in IN_MEMORY_STATES:
            return AttemptPage(attempts=tuple(self._scheduler.list_active(query)), next_cursor=None)
        page = await self._jobs.list(query)
        fresh = tuple(self._scheduler.get_active(attempt.id) or attempt for attempt in page.attempts)
        return replace(page, attempts=fresh)

    async def summary(self, query: AttemptQuery, bucket_s: int) -> Summary:
        """Count finished attempts by result, for each time bucket of the given number of seconds."""
        return await self._jobs.summary(query, bucket_s)

    async def cancel(self, attempt_id: str) -> None:
        """Cancel an attempt. Raises: RequestError ``attempt.finished``, if it already has a verdict."""
        elsewhere = self._find_remote_attempts(attempt_id)
        here = self._scheduler.cancel(attempt_id)
        if not here and (elsewhere is None or not await elsewhere.cancel(attempt_id)):
            raise RequestError("attempt.finished", "the attempt has finished already")

    async def documents(self, attempt: Attempt) -> Documents:
        """Return report and execution record of a finished attempt as JSON; null if its bundle is gone."""
        try:
            return self._forget_documents(attempt.id) or await self.read_documents(attempt)
        except StoreError as problem:
            if problem.code != "artifact.missing":
                raise
            log.warning("bundle.missing", attempt_id=attempt.id, bundle=attempt.bundle)
            return NOTHING, NOTHING

    async def read_documents(self, attempt: Attempt) -> Documents:
        """Return the documents of an attempt from its bundle, not from memory; null if it has no bundle.

        Raises: StoreError, if the bundle can't be read.
        """
        if attempt.bundle is None:
            return NOTHING, NOTHING
        moment = format_timestamp(attempt.created_at)
        report = await self._artifacts.read(attempt.bundle, f"validation_{moment}.json")
        execution = await self._artifacts.read(attempt.bundle, f"execution_{moment}.json")
        return report, execution

    def artifact(self, attempt: Attempt, name: str) -> AsyncIterator[bytes]:
        """Yield one file of the bundle in pieces.

        Raises: RequestError ``not_found``, if the attempt has no bundle.
        """
        return self._artifacts.read_chunks(_require_bundle(attempt), name)

    def bundle_path(self, attempt: Attempt) -> str | None:
        """Return the folder of an attempt's bundle on this host, or None if the attempt has no bundle."""
        path = None if attempt.bundle is None else self._artifacts.path(attempt.bundle)
        return None if path is None else str(path)

    def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        """Yield the whole bundle as a tar archive, in pieces.

        Raises: RequestError ``not_found``, if the attempt has no bundle.
        """
        return self._artifacts.stream_tar(_require_bundle(attempt))

    async def events(
        self, attempt_id: str, *, after: str | None = None
    ) -> AsyncGenerator[AttemptEvent, None]:
        """Yield an attempt's events after the event with this id, until the event ``finished``.

        If the events aren't in memory, yield the stored ones.
        """
        _, position = parse_event_id(after) if after else (0, 0)
        elsewhere = None if self._hub.has_events(attempt_id) else self._find_remote_attempts(attempt_id)
        attempt = await self._jobs.get(attempt_id) if elsewhere is not None else None
        if elsewhere is not None and attempt is not None and attempt.state is not State.FINISHED:
            await elsewhere.publish_events(attempt)
        if self._hub.has_events(attempt_id):
            async with aclosing(self._hub.follow(attempt_id, after=position)) as events:
                async for event in events:
                    yield event
            return
        for event in await self._jobs.events(attempt_id, after=position):
            yield event

    def all_events(
        self, uid: int | None, *, after: str | None = None
    ) -> AsyncGenerator[tuple[str, AttemptEvent], None]:
        """Yield the events of all attempts of a user, or of all users (None), each with its position."""
        return self._hub.follow_all(uid, after=after)

    async def collect_garbage(self, *, dry_run: bool) -> SweepResult:
        """Remove old or excess attempts, and return their counts. In a dry run, only count them."""
        return await self._retention.sweep(dry_run=dry_run)

    def policies(self) -> Mapping[str, Mapping[str, object]]:
        """Return descriptions of the profiles by name, with their effective values."""
        policies = self._policies
        return {
            name: describe_policy(
                policies.get(name), egress=policies.egress, origins=policies.get_value_origins(name)
            )
            for name in policies.names
        }

    def check_policy(
        self, name: str, content: bytes
    ) -> tuple[Mapping[str, object] | None, Sequence[Problem]]:
        """Return a profile's effective values, or None and its errors, without loading the profile."""
        policies = self._policies
        try:
            policy = policies.resolve_file(Path(f"{name}.toml"), content)
        except FileError as error:
            return None, error.problems
        return describe_policy(policy, egress=policies.egress), ()

    def facts(self) -> DaemonFacts:
        """Return the identity of this daemon and the location of its state."""
        return self._facts

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        metrics = self._metrics
        metrics.ready.set(self.ready()[0])
        metrics.policies_stale.set(bool(self._policies.reload_problem))
        self._readiness.update_gauges(metrics)
        return metrics.render_metrics()

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image to which a name currently refers.

        Raises: EngineError, if the image doesn't exist or the engine fails.
        """
        return await self._readiness.image_digest(name)

    async def health(self) -> Sequence[HealthRow]:
        """Return the results of all health checks: engine, images, isolation, limits and permissions.

        If a check without containers fails, omit the isolation check and the samples.
        """
        rows = [*await self._examine_engine(), *await self._acceptance.rows()]
        rows += [
            build_identity_row(self._copied_from, self._facts.state_dir),
            build_policies_row(self._policies.reload_problem),
            build_kinds_row({**find_missing_packages(), **find_missing_chain_packages()}, self._left_out),
            build_helpers_row(self._find_missing_helpers()),
            build_static_misses_row(self._scheduler.static_misses),
            *await self._examine_webhooks(),
        ]
        selftest = self._selftest
        if selftest is not None and all(row.status is not HealthStatus.FAIL for row in rows):
            places = asyncio.Semaphore(MAX_CONCURRENT_SAMPLES)
            isolation = self._time_check("isolation", self._readiness.check_isolation())
            kinds = [
                self._time_check(f"kind {kind.name}", self._run_samples(selftest, kind, places))
                for kind in self.kinds.values()
            ]
            rows.extend(await asyncio.gather(isolation, *kinds))
        return rows

    def _find_missing_helpers(self) -> dict[str, str]:
        """Return the missing optional programs of this host, each with the effect of its absence."""
        helpers = {name: text for kind in self.kinds.values() for name, text in kind.helpers.items()}
        return {name: text for name, text in helpers.items() if shutil.which(name) is None}

    async def _examine_engine(self) -> Sequence[HealthRow]:
        try:
            async with asyncio.timeout(ENGINE_CHECK_TIMEOUT_S):
                return await self._readiness.run_health_checks()
        except TimeoutError:
            return (_build_overdue_check_row("engine", ENGINE_CHECK_TIMEOUT_S, HealthStatus.FAIL),)

    async def _time_check(self, check: str, examining: Coroutine[object, object, HealthRow]) -> HealthRow:
        """Return a health check's row with its duration. Cancel the check after `EXAMINED_S` seconds."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(EXAMINED_S):
                row = await examining
        except TimeoutError:
            row = _build_overdue_check_row(
                check, EXAMINED_S, HealthStatus.WARN
            )  # a busy machine isn't a defect
        return replace(row, took_s=self._clock.monotonic() - began)

    async def _run_samples(self, selftest: SelfTest, validator: Kind, places: asyncio.Semaphore) -> HealthRow:
        """Run a validator's samples: all that need no container, and some that need one.

        Return the result as a row.
        """
        read = [sample for sample in validator.samples if not sample.needs_container]
        run = [sample for sample in validator.samples if sample.needs_container][:SAMPLES_PER_KIND]
        samples = (*read, *run)
        said = await asyncio.gather(
            *(self._try_sample(selftest, validator, sample, places) for sample in samples)
        )
        complaints = [sentence for sentences in said for sentence in sentences]
        check = f"kind {validator.name}"
        if complaints:
            return HealthRow(check=check, status=HealthStatus.FAIL, detail="; ".join(complaints))
        detail = f"all {len(samples)} samples tried got the expected verdict"
        return HealthRow(check=check, status=HealthStatus.OK, detail=detail)

    async def _try_sample(
        self, selftest: SelfTest, validator: Kind, sample: Sample, places: asyncio.Semaphore
    ) -> Sequence[str]:
        """Run one sample, and return a sentence for each deviation from the expected result.

        An AssaydError becomes a sentence, too.
        """
        policy = self._policies.get(validator.default_policy)
        limits = derive_attempt_limits(policy, self._caps)
        async with places:
            try:
                said = await selftest.run_sample(validator, sample, policy=policy, limits=limits)
            except AssaydError as trouble:
                said = [trouble.message]
        return [f"{sample.name}: {sentence}" for sentence in said]


def _build_overdue_check_row(check: str, most_s: float, status: HealthStatus) -> HealthRow:
    detail = f"no answer within {most_s:g} s"
    remedy = "the machine or the engine is slow: check the load, and run it again"
    return HealthRow(check=check, status=status, detail=detail, remedy=remedy)


def _require_bundle(attempt: Attempt) -> str:
    if attempt.bundle is None:
        raise RequestError("not_found", "the attempt has no bundle")
    return attempt.bundle


def _compare_attempts(
    first: Attempt, again: Attempt, before: Documents, after: Documents
) -> Mapping[str, object]:
    read = [{"report": json.loads(report), "execution": json.loads(run)} for report, run in (before, after)]
    return vars(replay_diff(first, again, *read))
