"""The program of executors, one of which is killed at a step, once; the file ``FAULTY_TRAP`` names it."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from assayd.executors.worker import ExecutorParts, ExecutorWorker
from assayd.wiring.execution import build_executor_parts
from assayd.wiring.executor_program import main
from support.daemons.faulty_daemon import Trap, Watched


async def build_watched_parts(worker: ExecutorWorker, start: object, stack: AsyncExitStack) -> ExecutorParts:
    """Build an executor whose steps can be its last."""
    trap = Trap(Path(os.environ["FAULTY_TRAP"]))
    parts = await build_executor_parts(worker, start, stack)
    conclusion = parts.local.conclusion
    local = replace(
        parts.local,
        run_static_stages=Watched(worker, {"get_checked"}, trap).get_checked,
        sandbox=Watched(parts.local.sandbox, {"run"}, trap),
        jobs=Watched(worker, {"lease"}, trap),
        conclusion=replace(conclusion, artifacts=Watched(conclusion.artifacts, {"write"}, trap)),
    )
    return replace(parts, local=local)


if __name__ == "__main__":
    main(build_watched_parts)
