"""Tries an image that a policy names before anything submitted runs in it.

Such an image is held to what a kind's own is: the probes of the isolation check must be held in it, and
samples of the kind must get the verdicts that they state. Each is done once for an image, by its digest, at
the first use.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from assayd.attempts.admission import limits_of
from assayd.attempts.selftest import SelfTest
from assayd.errors import EngineError
from assayd.model.policy import ExecutionPolicy
from assayd.model.run import Limits
from assayd.policies import PolicySet
from assayd.ports.validator import Validator
from assayd.sandbox.sandbox import Sandbox

log = structlog.get_logger()

SAMPLES_TRIED = 4
"""Samples of a kind that are run in an image; the isolation check takes as long as these."""
_SHOWN = 5

CheckImage = Callable[[Sandbox, str], Awaitable[Sequence[str]]]
"""Tries the isolation of an image's containers; returns a sentence for each part that does not hold."""


class ImageTrials:
    """What is known of the images that policies name."""

    def __init__(
        self, sandbox: Sandbox, selftest: SelfTest, check: CheckImage, *, policies: PolicySet, caps: Limits
    ) -> None:
        self._sandbox = sandbox
        self._selftest = selftest
        self._check = check
        self._policies = policies
        self._caps = caps
        self._complaints: dict[tuple[str, str], Sequence[str]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def require(self, validator: Validator, policy: ExecutionPolicy) -> None:
        """See that containers of the image that a policy names hold, and that the kind works in them.

        Raises: EngineError ``image.unfit``, or why it cannot be tried.
        """
        name = policy.image
        if name is None:
            return
        digest = (await self._sandbox.images.get(name)).digest
        complaints = self._known(digest, validator)
        if complaints is None:
            async with self._locks[digest]:
                complaints = self._known(digest, validator)
                if complaints is None:
                    complaints = await self._try(name, digest, validator)
        if complaints:
            shown = "; ".join(complaints[:_SHOWN])
            raise EngineError(
                "image.unfit", f"image {name} cannot be used for kind {validator.kind}: {shown}"
            )

    def _known(self, digest: str, validator: Validator) -> Sequence[str] | None:
        return self._complaints.get((digest, "")) or self._complaints.get((digest, validator.kind))

    async def _try(self, name: str, digest: str, validator: Validator) -> Sequence[str]:
        if (digest, "") not in self._complaints:
            self._complaints[digest, ""] = await self._check(self._sandbox, name)
        complaints = self._complaints[digest, ""] or await self._run_samples(name, validator)
        self._complaints[digest, validator.kind] = complaints
        log.info("image.tried", image=name, kind=validator.kind, complaints=len(complaints))
        return complaints

    async def _run_samples(self, name: str, validator: Validator) -> Sequence[str]:
        """Run samples of a kind in an image, under the kind's own policy."""
        policy = replace(self._policies.get(validator.default_policy), image=name)
        limits = limits_of(policy, self._caps)
        said = []
        for sample in [one for one in validator.samples if one.needs_container][:SAMPLES_TRIED]:
            found = await self._selftest.complaints(validator, sample, policy=policy, limits=limits)
            said += [f"sample {sample.name}: {sentence}" for sentence in found]
        return said
