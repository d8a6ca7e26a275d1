"""Builds what attempts are run with on this host."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import cast

from assayd.attempts.execution import Execution
from assayd.attempts.image_hints import ImageHints
from assayd.attempts.image_trials import ImageTrials
from assayd.attempts.lifecycle import LocalExecution
from assayd.attempts.selftest import SelfTest
from assayd.attempts.verdicts import Verdicts
from assayd.fair_queue import FairSemaphore
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.wiring.basics import Basics
from assayd.wiring.containers import build_readiness


async def local_execution(basics: Basics, stack: AsyncExitStack) -> Execution:
    """Build the sandbox with its engine and all that attempts are run with."""
    overrides, settings = basics.overrides, basics.settings
    readiness = cast("ReadinessSupervisor | None", overrides.readiness) or await build_readiness(
        settings,
        basics.limits,
        kinds=basics.kinds,
        policies=basics.policies,
        clock=basics.clock,
        ids=basics.ids,
        origin=basics.origin,
        metrics=basics.metrics,
        stack=stack,
    )
    sandbox = readiness.sandbox
    selftest = SelfTest(basics.analyst, sandbox)
    trials = ImageTrials(
        sandbox, selftest, check_isolation, policies=basics.policies, caps=basics.limits.attempt
    )
    verdicts = Verdicts(
        jobs=basics.jobs,
        artifacts=basics.artifacts,
        clock=basics.clock,
        hub=basics.hub,
        stopping=basics.stopping,
    )
    execution = LocalExecution(
        analyst=overrides.wrap(basics.analyst),
        sandbox=overrides.wrap(sandbox),
        jobs=basics.jobs,
        conclusion=basics.conclusion,
        verdicts=verdicts,
        clock=basics.clock,
        slots=FairSemaphore(settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        retry_window_s=settings.engine.patience_s,
        max_runs=settings.attempts.max_runs,
        require_image=trials.require,
        add_hints=ImageHints(sandbox.images, basics.policies.images).add,
    )
    return Execution(execute=execution, readiness=readiness, selftest=selftest)
