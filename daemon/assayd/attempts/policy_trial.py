"""Judges stored submissions again under another profile to determine which verdicts would change.

By default, only static stages are run, in the analysis workers and at the caller's turn. They need no
container, and only one document at a time is in memory. With `run`, each submission is submitted again
instead, and the trial waits for its verdict. The trial neither loads nor enforces a policy.

`run_static_check` runs the static stages of a new submission without recording anything, e.g. for an editor.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from weakref import WeakValueDictionary

from assayd.aio import run_concurrently
from assayd.analysis.analyst import Analyst
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.byte_budget import LARGE_BYTES
from assayd.errors import AssaydError, RequestError, StoreError
from assayd.fair_queue import FairSemaphore
from assayd.kind import Kind
from assayd.model.attempt import Attempt, State
from assayd.model.finding import Finding, Severity
from assayd.model.merge import merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptQuery
from assayd.model.report import StageReport, Verdict
from assayd.model.submission import Peer, Submission
from assayd.policies import PolicySet, tighten_policy
from assayd.store.jobs import DatabaseJobStore

MAX_LARGE_CHECKS = 2
"""The maximum number of large submissions that are checked at a time, for all users. Each takes many times
its size in memory.
"""


class CheckConcurrencyLimiter:
    """Limits on static checks: one per user, and a few large submissions at a time, with users in turn."""

    def __init__(self) -> None:
        self._users: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._large = FairSemaphore(MAX_LARGE_CHECKS)
        self._numbers = count()

    @asynccontextmanager
    async def hold_user_turn(self, uid: int) -> AsyncIterator[None]:
        """Wait until no other check of this user is running, and hold the user's turn while the body runs."""
        lock = self._users.setdefault(uid, asyncio.Lock())
        async with lock:
            yield

    @asynccontextmanager
    async def hold_size_turn(self, uid: int, size: int) -> AsyncIterator[None]:
        """Wait until a submission of `size` bytes may be read, and hold its slot while the body runs.

        A submission of up to `LARGE_BYTES` needs no slot.
        """
        if size <= LARGE_BYTES:
            yield
            return
        async with self._large.hold(uid, "", str(next(self._numbers))):
            yield


MAX_TRIED_ATTEMPTS = 2000
"""The maximum number of attempts in a trial, starting with the newest."""
MAX_TRIAL_S = 600.0
"""The seconds after which a trial ends with its results so far."""
AT_ONCE = 4
"""The number of attempts that are checked at a time, so that one user never occupies all analysis workers."""
PAGE = 100
EXAMPLES = 3
RUN_TIMEOUT_S = 120.0
"""The seconds to wait for the verdict of a submission that is run."""
_JUDGED_VERDICTS = frozenset({Verdict.VALIDATED, Verdict.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialExample:
    """An attempt whose verdict would change, with a message about the change."""

    attempt_id: str
    kind: str
    message: str
    line: int | None


@dataclass(slots=True, kw_only=True)
class TrialChange:
    """Verdicts that would change in the same direction because of one rule."""

    would_fail: bool
    rule: str
    profile_key: str | None
    count: int = 0
    examples: list[TrialExample] = field(default_factory=list)

    def add(self, example: TrialExample) -> None:
        """Count an attempt, and keep the first few attempts as examples."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


@dataclass(slots=True, kw_only=True)
class PolicyTrial:
    """The progress and results of a trial. `undecided` attempts failed at run time and need a new run.

    `left_out` attempts couldn't be tried.
    """

    total: int
    tried: int = 0
    would_fail: int = 0
    would_pass: int = 0
    undecided: int = 0
    left_out: int = 0
    complete: bool = False
    changes: dict[tuple[bool, str], TrialChange] = field(default_factory=dict)

    def note(self, attempt: Attempt, findings: Sequence[Finding], *, would_fail: bool) -> None:
        """Count a verdict that would change, once for each rule that causes the change."""
        if would_fail:
            self.would_fail += 1
        else:
            self.would_pass += 1
        for finding in {found.rule: found for found in reversed(findings)}.values():
            change = self.changes.setdefault(
                (would_fail, finding.rule),
                TrialChange(would_fail=would_fail, rule=finding.rule, profile_key=finding.profile_key),
            )
            change.add(
                TrialExample(
                    attempt_id=attempt.id, kind=attempt.kind, message=finding.message, line=finding.line
                )
            )


Wait = Callable[[str, float], Awaitable[Attempt]]
Read = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTrialRunner:
    """A runner of policy trials. `busy` contains the users with a running trial, which is limited to one."""

    jobs: DatabaseJobStore
    admission: Admission
    analyst: Analyst
    kinds: Mapping[str, Kind]
    policies: PolicySet
    wait: Wait
    documents: Read
    busy: set[int] = field(default_factory=set)
    turns: CheckConcurrencyLimiter = field(default_factory=CheckConcurrencyLimiter)

    async def run(
        self, policy: ExecutionPolicy, query: AttemptQuery, peer: Peer, *, run: bool = False
    ) -> AsyncGenerator[PolicyTrial, None]:
        """Yield the trial's state as it progresses. If the generator is closed, cancel the trial.

        The trial is incomplete if it exceeds `MAX_S` seconds or the user's quota.

        Raises: RequestError ``policy.busy``, if another review of the user is running.
        """
        with self.hold_review_slot(peer.uid):
            attempts = await self._select_attempts(query)
            trial = PolicyTrial(total=len(attempts))
            due = asyncio.get_running_loop().time() + MAX_TRIAL_S
            yield trial
            at_once = 1 if run else AT_ONCE
            for some in (attempts[at : at + at_once] for at in range(0, len(attempts), at_once)):
                if asyncio.get_running_loop().time() >= due:
                    break
                if run and not await self._run_attempt(trial, some[0], policy, peer):
                    break
                if not run:
                    await run_concurrently(
                        *(self._check_attempt(trial, one, policy, peer.uid) for one in some)
                    )
                trial.tried += len(some)
                yield trial
            trial.complete = trial.tried == trial.total
            yield trial

    @contextmanager
    def hold_review_slot(self, uid: int) -> Iterator[None]:
        """Hold the user's only slot for policy reviews while the body runs.

        Raises: RequestError ``policy.busy``, if the slot is in use.
        """
        if uid in self.busy:
            message = "your other trial or suggestion is still running; wait for it or cancel it"
            raise RequestError("policy.busy", message, retryable=True)
        self.busy.add(uid)
        try:
            yield
        finally:
            self.busy.discard(uid)

    async def _select_attempts(self, query: AttemptQuery) -> list[Attempt]:
        """Return up to `MAX_TRIED` matching finished attempts whose verdicts depend on the submitted code.

        The newest attempts are selected first.
        """
        found: list[Attempt] = []
        query = replace(query, state=State.FINISHED, limit=PAGE)
        while len(found) < MAX_TRIED_ATTEMPTS:
            page = await self.jobs.list(query)
            found += [
                one for one in page.attempts if one.verdict in _JUDGED_VERDICTS and one.replay_of is None
            ]
            if page.next_cursor is None:
                break
            query = replace(query, cursor=page.next_cursor)
        return found[:MAX_TRIED_ATTEMPTS]

    async def _check_attempt(
        self, trial: PolicyTrial, attempt: Attempt, policy: ExecutionPolicy, uid: int
    ) -> None:
        """Compare an attempt's verdict with the result of its static stages under the profile.

        If its submission can't be read, count it in `left_out`.
        """
        try:
            async with self.turns.hold_size_turn(uid, await self.jobs.document_size(attempt.id)):
                document = await self.jobs.document(attempt.id)
                await self._compare_verdict(trial, attempt, document, policy, uid)
        except StoreError:
            trial.left_out += 1

    async def _compare_verdict(
        self, trial: PolicyTrial, attempt: Attempt, document: bytes, policy: ExecutionPolicy, uid: int
    ) -> None:
        submission = await self._read_submission(document, uid)
        kind = self.kinds.get(attempt.kind)
        if submission is None or kind is None:
            trial.left_out += 1
            return
        try:
            wanted = kind.narrow(submission.payload, _apply_overrides(policy, submission))
        except AssaydError:
            trial.left_out += 1
            return
        stages = await self.analyst.stages(kind, submission.payload, wanted, flow=(uid, "policy-trial"))
        errors = [finding for stage in stages for finding in stage.findings if finding.is_error]
        passed, ran = attempt.verdict is Verdict.VALIDATED, attempt.cause is not None
        if passed and errors:
            trial.note(attempt, errors, would_fail=True)
        elif not passed and not ran and not errors:
            trial.note(attempt, await self._load_error_findings(attempt, uid), would_fail=False)
        elif not passed and ran and not errors:
            trial.undecided += 1

    async def _run_attempt(
        self, trial: PolicyTrial, attempt: Attempt, policy: ExecutionPolicy, peer: Peer
    ) -> bool:
        """Submit an attempt's code under the profile, and compare the verdicts.

        Return False if the quota is used up.
        """
        budget = self.admission.budget
        rewrite = partial(_serialize_with_policy, policy.name)

        async def fetch() -> bytes:
            return await budget.parse(await self.jobs.document(attempt.id), peer.uid, rewrite)

        try:
            size = await self.jobs.document_size(attempt.id)
            accepted = await self.admission.submit_stored(size, fetch, AttemptOrigin(peer=peer))
        except StoreError:
            trial.left_out += 1
            return True
        except RequestError as problem:
            trial.left_out += not problem.retryable
            return not problem.retryable
        done = await self.wait(accepted.attempt.id, RUN_TIMEOUT_S)
        if done.verdict not in _JUDGED_VERDICTS:
            trial.left_out += 1
        elif done.verdict is not attempt.verdict:
            failed = done.verdict is Verdict.FAILED
            errors = await self._load_error_findings(done if failed else attempt, peer.uid)
            trial.note(attempt, errors, would_fail=failed)
        return True

    async def _read_submission(self, document: bytes, uid: int) -> Submission | None:
        """Return a stored submission, or None if this daemon can't read it anymore."""
        try:
            return await self.admission.read_submission_in_turn(document, uid)
        except AssaydError:
            return None

    async def _load_error_findings(self, attempt: Attempt, uid: int) -> list[Finding]:
        """Return the errors of an attempt's report as findings."""
        report, _ = await self.documents(attempt)
        found = await self.admission.budget.parse_in_turn(report, uid, read_findings)
        return [finding for finding in found if finding.is_error]


def _apply_overrides(policy: ExecutionPolicy, submission: Submission) -> ExecutionPolicy:
    """Return the profile tightened by the submission's overrides, or unchanged if one would loosen it."""
    try:
        return tighten_policy(policy, submission.overrides)
    except RequestError:
        return policy


def _serialize_with_policy(policy: str, document: bytes) -> bytes:
    """Return the kind, payload and labels of a stored submission, as a submission under `policy`."""
    read = json.loads(document)
    kept = {name: read[name] for name in ("kind", "payload", "labels") if name in read}
    return json.dumps({**kept, "policy": policy}).encode()


def read_findings(report: bytes) -> list[Finding]:
    """Return the findings of a stored report, with the fields that a review needs."""
    said = json.loads(report) or {}
    return [
        Finding(
            rule=one["rule"],
            category=one["category"],
            severity=Severity(one["severity"]),
            message=one["message"],
            line=one["line"],
            profile_key=one.get("profile_key"),
            subject=one.get("subject"),
        )
        for one in said.get("findings", ())
    ]


async def run_static_check(
    submission: Submission, trials: PolicyTrialRunner, *, uid: int
) -> tuple[StageReport, ...]:
    """Return the stages that an attempt would report, with run-time stages skipped. Users take turns.

    Raises: the same RequestErrors as the submission of an attempt.
    """
    submission = await trials.admission.complete(submission, uid)
    policy, kind = trials.admission.policy(submission), trials.kinds[submission.kind]
    checked = await trials.analyst.check(kind, submission.payload, policy, flow=(uid, "static-check"))
    return merge_stages(checked.stages, kind.runtime_stages, None)
