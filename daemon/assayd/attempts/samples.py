"""Runs the samples of kinds: as a self-test, and in images that policies name. Also suggests images in hints.

The self-test runs a validator's samples like other attempts, and reports deviations from the expected
results. The results aren't recorded. `assay doctor` and `tests/contract` use it; therefore, a new kind is
tested without additional code.

An image named by a policy must meet the same requirements as a kind's default image, before submitted code
runs in it: the isolation check must pass in it, and each of the kind's samples must get its stated verdict.
Each image digest is tested once, at its first use.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import structlog

from assayd.aio import Deadline
from assayd.analysis.analyst import Analyst
from assayd.clock import Clock
from assayd.documents import canonical
from assayd.errors import EngineError
from assayd.kind import Kind
from assayd.model.finding import Finding
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement, StageReport
from assayd.model.run import Limits, Program, RunResult, RunSpec, derive_attempt_limits
from assayd.model.submission import Sample
from assayd.model.text_limits import shorten_text
from assayd.policies import PolicySet
from assayd.ports.engine import ImageFacts
from assayd.sandbox.sandbox import LABEL_OFFER, PREFIX, ImageCache, Sandbox, list_modules, runs_python

log = structlog.get_logger()

TIMEOUT_RULE = "sandbox.timeout"
UNIT_TIMEOUT_S = 1.0
"""The timeout in seconds for the units of a sample that never ends. Other samples have the timeout of their
policy.
"""


class SelfTest:
    """A runner of samples that uses the analysis workers and a sandbox."""

    def __init__(self, analyst: Analyst, sandbox: Sandbox) -> None:
        self._analyst = analyst
        self._sandbox = sandbox

    async def run_sample(
        self, validator: Kind, sample: Sample, *, policy: ExecutionPolicy, limits: Limits
    ) -> list[str]:
        """Run one sample, and return a sentence for each deviation from the sample's expected result.

        The result is empty if there is none.

        Raises: AssaydError, if the sample can't be run.
        """
        timeout_s = sample.unit_timeout_s
        if timeout_s is None and TIMEOUT_RULE in sample.rules:
            timeout_s = UNIT_TIMEOUT_S
        if timeout_s is not None:
            limits = replace(limits, unit_timeout_s=min(limits.unit_timeout_s, timeout_s))
        payload = validator.payload.model_validate_json(canonical(sample.payload))
        checked = await self._analyst.check(validator, payload, policy)
        ran = None
        spec = None if checked.failed else validator.plan(checked.payload, policy, limits)
        if spec is not None:
            result = await self._run_spec(spec, limits)
            ran = JudgedRun(result=result, judgement=validator.judge(checked.payload, policy, result))
        return _find_sample_deviations(
            sample, merge_stages(checked.stages, validator.runtime_stages, ran), ran
        )

    async def _run_spec(self, spec: RunSpec, limits: Limits, *, again: bool = True) -> RunResult:
        """Run a container, and return its result.

        As for an attempt, repeat the lease once after a retryable error.
        """
        try:
            async with self._sandbox.lease(spec) as lease:
                return await self._sandbox.run(lease, Deadline(limits.timeout_s))
        except EngineError as problem:
            if not (problem.retryable and again):
                raise
        return await self._run_spec(spec, limits, again=False)


def _find_sample_deviations(
    sample: Sample, stages: tuple[StageReport, ...], ran: JudgedRun | None
) -> list[str]:
    verdict = decide_verdict(stages, ran)
    found = {finding.rule for report in stages for finding in report.findings}
    complaints = []
    if verdict != sample.verdict:
        complaints.append(f"{verdict} instead of {sample.verdict}; found {sorted(found)}")
    if missing := sample.rules - found:
        complaints.append(f"without {', '.join(sorted(missing))}; found {sorted(found)}")
    if (ran is not None) != sample.needs_container:
        complaints.append("a container was used" if ran else "no container was used")
    return complaints


MAX_SAMPLES_TESTED = 4
"""The maximum number of a kind's samples that are run in an image. The isolation check takes as long as
these.
"""
_SHOWN = 5
AGAIN_S = 60.0
"""The seconds for which a failed test counts. On a busy machine, a suitable image can fail the test."""

CheckImage = Callable[[Sandbox, str], Awaitable[Sequence[str]]]
"""Tests the isolation of an image's containers, and returns a sentence for each problem."""


class ImageTester:
    """A tester of images for kinds. It remembers the results."""

    def __init__(
        self,
        sandbox: Sandbox,
        selftest: SelfTest,
        check: CheckImage,
        *,
        policies: PolicySet,
        caps: Limits,
        clock: Clock,
    ) -> None:
        self._sandbox = sandbox
        self._selftest = selftest
        self._check = check
        self._policies = policies
        self._caps = caps
        self._clock = clock
        self._complaints: dict[tuple[str, str], Sequence[str]] = {}
        self._failed_at: dict[str, float] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def require_usable(self, validator: Kind, policy: ExecutionPolicy, spec: RunSpec) -> None:
        """Check that containers of a policy's image are isolated, and that the kind works in them.

        If the policy names no image, do nothing.

        Raises: EngineError ``image.unfit``, ``image.no_python``, or an error that prevents the test.
        """
        name = policy.image
        if name is None:
            return
        facts = await self._sandbox.images.get(name)
        if not runs_python(facts) and not _runs_only_programs(spec):
            offer = facts.labels.get(LABEL_OFFER, "other programs")
            message = (
                f"image {name} has no Python from 3.11 to 3.13 for submitted code to run in; it has {offer}: "
                "send a script with argv, or use another policy"
            )
            raise EngineError("image.no_python", message)
        digest = facts.digest
        complaints = self._get_cached_complaints(digest, validator)
        if complaints is None:
            async with self._locks[digest]:
                complaints = self._get_cached_complaints(digest, validator)
                if complaints is None:
                    complaints = await self._test_image(facts, validator)
        if complaints:
            shown = "; ".join(complaints[:_SHOWN])
            raise EngineError("image.unfit", f"image {name} can't be used for kind {validator.name}: {shown}")

    def _get_cached_complaints(self, digest: str, validator: Kind) -> Sequence[str] | None:
        """Return the known complaints about an image, or None if the image must be tested or tested again."""
        failed_at = self._failed_at.get(digest)
        if failed_at is not None and self._clock.monotonic() - failed_at >= AGAIN_S:
            del self._failed_at[digest]
            for key in [key for key, found in self._complaints.items() if key[0] == digest and found]:
                del self._complaints[key]
        return self._complaints.get((digest, "")) or self._complaints.get((digest, validator.name))

    async def _test_image(self, facts: ImageFacts, validator: Kind) -> Sequence[str]:
        name, digest = facts.name.removeprefix(PREFIX), facts.digest
        if (digest, "") not in self._complaints:
            self._complaints[digest, ""] = await self._check(self._sandbox, name)
        complaints = self._complaints[digest, ""] or await self._run_samples(
            name, validator, python=runs_python(facts)
        )
        self._complaints[digest, validator.name] = complaints
        if complaints:
            self._failed_at[digest] = self._clock.monotonic()
        log.info("image.tried", image=name, kind=validator.name, complaints=len(complaints))
        return complaints

    async def _run_samples(self, name: str, validator: Kind, *, python: bool) -> Sequence[str]:
        """Run a kind's samples in an image under the kind's policy, and return a sentence for each deviation.

        If the image has no Python, skip the samples that need it.
        """
        policy = replace(self._policies.get(validator.default_policy), image=name)
        limits = derive_attempt_limits(policy, self._caps)
        said = []
        fitting = (one for one in validator.samples if one.needs_container and not one.own_image)
        tried = (
            one
            for one in fitting
            if python or _runs_only_programs(_plan_sample(validator, one, policy, limits))
        )
        for sample in islice(tried, MAX_SAMPLES_TESTED):
            found = await self._selftest.run_sample(validator, sample, policy=policy, limits=limits)
            said += [f"sample {sample.name}: {sentence}" for sentence in found]
        return said


def _plan_sample(validator: Kind, sample: Sample, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
    payload = validator.prepare(validator.payload.model_validate_json(canonical(sample.payload)))
    return validator.plan(payload, policy, limits)


def _runs_only_programs(spec: RunSpec | None) -> bool:
    """Return whether all units only run the image's programs, so that Python isn't needed."""
    return spec is not None and all(unit.program is Program.EXEC for unit in spec.units)


_MISSING_RULE_ID = "sandbox.module_missing"


class ImageHints:
    """A source of hints for findings about missing modules, based on the images that profiles name."""

    def __init__(self, images: ImageCache, named: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._images = images
        self._named = named

    async def add(self, validator: Kind, judgement: Judgement) -> Judgement:
        """Return the judgement, with hints that name images with the missing modules.

        If no module is missing, return it unchanged.
        """
        found = [one for findings in judgement.stage_findings.values() for one in findings]
        if not validator.any_image or all(finding.rule != _MISSING_RULE_ID for finding in found):
            return judgement
        known = await self._build_hints_by_module()
        stages = {
            stage: tuple(_add_hint(finding, known) for finding in findings)
            for stage, findings in judgement.stage_findings.items()
        }
        return replace(judgement, stage_findings=stages)

    async def _build_hints_by_module(self) -> Mapping[str, str]:
        """Return a hint for each module of the built images.

        If several images have it, the first name wins.
        """
        known: dict[str, str] = {}
        for name, profiles in sorted(self._named().items()):
            try:
                modules = list_modules(await self._images.get(name))
            except EngineError:  # not built, or the engine is away: no hint
                continue
            for module, version in modules.items():
                known.setdefault(
                    module, f"{module} {version} is in image {name}: use policy {' or '.join(profiles)}."
                )
        return known


def _add_hint(finding: Finding, known: Mapping[str, str]) -> Finding:
    parts = finding.message.split("'")
    hint = known.get(parts[1]) if finding.rule == _MISSING_RULE_ID and len(parts) > 1 else None
    if hint is None:
        return finding
    return replace(finding, suggestion=shorten_text(f"{hint} {finding.suggestion or ''}".rstrip()))
