"""Signs verdicts from nodes with the gateway's key, covering the files and texts stored here.

The gateway derives the checked and executed texts from the submission instead of trusting the node. Facts
that only the node can know, such as the container, are signed as the node reported them. The node's policy
must be equal to the gateway's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from assayd.analysis.analyst import Analyst, WorkerDiedError
from assayd.documents import read_accepted
from assayd.documents.submission import find_checked_texts
from assayd.errors import AssaydError, RequestError
from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Case, Verdict
from assayd.model.run import ContainerFacts
from assayd.model.submission import Submission
from assayd.policies import PolicySet, tighten_policy
from assayd.ports.artifacts import Attester, ConcludedAttempt

MAX_LIMITS = 64
MOST_CHARS = 256

Short = Annotated[str, Field(max_length=MOST_CHARS)]


class _SignedModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _SignedFinding(_SignedModel):
    severity: Short


class _SignedReport(_SignedModel):
    """The fields of a node's report that a gateway signs."""

    policy_digest: Short
    effective_limits: dict[Short, Short | int | float | None] = Field(max_length=MAX_LIMITS)
    findings: Annotated[list[_SignedFinding], FailFast()]
    runtime_results: object
    score: float | None = Field(None, ge=0, le=1)


class _SignedContainer(_SignedModel):
    engine: Short
    runtime: Short
    image: Short
    image_digest: Short


class _SignedExecution(_SignedModel):
    container: _SignedContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFacts:
    """The facts from a node's documents that are signed. `container` is None if nothing ran."""

    policy_digest: str
    limits: Mapping[str, object]
    findings: Mapping[str, int]
    cases: Mapping[str, int] | None
    score: float | None
    container: ContainerFacts | None


def read_facts(
    report: Mapping[str, object], execution: Mapping[str, object] | None, cases: Sequence[Case]
) -> SignedFacts:
    """Read the signed facts of a report and an execution record.

    Raises: RequestError ``invalid``, if one of them is malformed.
    """
    try:
        said = _SignedReport.model_validate(report)
        ran = _SignedExecution.model_validate(execution) if execution is not None else None
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:MOST_CHARS]
        raise RequestError("invalid", f"report or execution: {place}: {first['msg']}") from problem
    return SignedFacts(
        policy_digest=said.policy_digest,
        limits=said.effective_limits,
        findings=Counter(each.severity for each in said.findings),
        cases=None if said.runtime_results is None else Counter(str(case.status) for case in cases),
        score=said.score,
        container=None if ran is None else ContainerFacts(**ran.container.model_dump()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttester:
    """A signer of nodes' verdicts. As in a daemon, a worker of the analyst prepares submissions."""

    attester: Attester
    analyst: Analyst
    kinds: Mapping[str, Kind]
    policies: PolicySet

    async def attest(
        self,
        attempt: Attempt,
        document: bytes,
        facts: SignedFacts,
        files: Mapping[str, bytes],
        at: datetime,
    ) -> bytes:
        """Return the signed statement of an attempt.

        Raises: AssaydError ``attestation.failed``, if the submission can't be read or the policies differ.
        """
        concluded = ConcludedAttempt(
            attempt=attempt,
            policy_digest=facts.policy_digest,
            enforcement=attempt.enforcement,
            container=facts.container,
            limits=facts.limits,
            findings=facts.findings,
            cases=facts.cases,
            score=facts.score,
            validated_at=at,
            files=files,
            sources=await self._get_checked_sources(attempt, document, facts),
        )
        return await self.attester.attest(concluded)

    async def _get_checked_sources(
        self, attempt: Attempt, document: bytes, facts: SignedFacts
    ) -> Sequence[tuple[str, str]]:
        """Return the texts of a submission that were checked, with their locations.

        The result is empty if the attempt was neither validated nor failed.

        Raises: AssaydError ``attestation.failed``, if the submission can't be read or the policies differ.
        """
        if attempt.verdict not in {Verdict.VALIDATED, Verdict.FAILED}:
            return ()
        try:
            submission = await asyncio.to_thread(read_accepted, document, self.kinds)
            validator, prepared = self.kinds[submission.kind], submission.payload
            policy = self._resolve_effective_policy(submission)
            if (
                facts.container is not None or attempt.verdict is Verdict.VALIDATED
            ):  # its static stages have passed
                prepared = await self.analyst.prepare(validator, prepared, flow=attempt.flow)
        except (AssaydError, WorkerDiedError) as problem:
            message = f"the verdict can't be signed: the submission can't be read again: {problem}"
            raise AssaydError("attestation.failed", message) from problem
        if policy.digest != facts.policy_digest:
            message = f"node {attempt.node} judged by another version of the profile {attempt.policy!r}"
            raise AssaydError("attestation.failed", f"the verdict can't be signed: {message}; submit again")
        return find_checked_texts(validator, prepared)

    def _resolve_effective_policy(self, submission: Submission) -> ExecutionPolicy:
        """Return the policy that applies to a submission at this gateway."""
        policy = self.policies.get(submission.policy)
        if submission.overrides:
            policy = tighten_policy(policy, submission.overrides)
        return self.kinds[submission.kind].narrow(submission.payload, policy)
