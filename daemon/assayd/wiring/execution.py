"""Builds what attempts are run with on this host."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import cast

from assayd.attempts.attempt_run import AttemptDependencies
from assayd.attempts.execution import Execution, LocalExecution
from assayd.attempts.image_hints import ImageHints
from assayd.attempts.image_trials import ImageTrials
from assayd.attempts.selftest import SelfTest
from assayd.attempts.verdicts import Verdicts
from assayd.fair_queue import FairSemaphore
from assayd.repairs.attempt_gateway import stored_submission
from assayd.repairs.chain import chain_attachments
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.wiring.basics import Basics
from assayd.wiring.containers import build_readiness


async def local_execution(basics: Basics, stack: AsyncExitStack) -> Execution:
    """Build the sandbox with its engine and all that attempts are run with."""
    shared, overrides, settings = basics.shared, basics.overrides, basics.settings
    readiness = cast("ReadinessSupervisor | None", overrides.readiness) or await build_readiness(
        settings, basics.limits, shared, origin=basics.origin, metrics=basics.metrics, stack=stack
    )
    sandbox = readiness.sandbox
    selftest = SelfTest(basics.analyst, sandbox)
    trials = ImageTrials(
        sandbox, selftest, check_isolation, policies=shared.policies, caps=basics.limits.attempt
    )
    deps = AttemptDependencies(
        analyst=overrides.wrap(basics.analyst),
        sandbox=overrides.wrap(sandbox),
        jobs=shared.jobs,
        artifacts=shared.artifacts,
        clock=shared.clock,
        slots=FairSemaphore(settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        retry_window_s=settings.engine.patience_s,
        max_runs=settings.attempts.max_runs,
        attachments=partial(
            chain_attachments,
            repairs=basics.repair_store,
            generations=basics.generation_store,
            read=partial(stored_submission, shared.jobs),
        ),
        require_image=trials.require,
        add_hints=ImageHints(sandbox.images, shared.policies.images).add,
    )
    verdicts = Verdicts(
        jobs=shared.jobs,
        artifacts=shared.artifacts,
        clock=shared.clock,
        hub=basics.hub,
        stopping=basics.stopping,
    )
    return Execution(execute=LocalExecution(deps, verdicts), readiness=readiness, selftest=selftest)
