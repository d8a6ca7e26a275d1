"""An executor of programs with scripted answers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from assayd_client.errors import ClientError
from assayd_compat.program import ProcessEnd, Program, ProgramEndReason, ProgramResult


class ScriptedExecutor:
    """Records the programs that it receives, and returns the scripted answers."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.place = asyncio.Event()
        self.place.set()
        self.attempts: dict[str, dict[str, Any]] = {}
        self.answer: Callable[[Program], ProgramResult] = lambda program: ProgramResult(
            compiled=None, run=ran()
        )

    caller: str | None = None
    running = 0

    def for_caller(self, token: str | None) -> ScriptedExecutor:
        other = copy.copy(self)
        other.caller = token
        return other

    async def run(
        self,
        program: Program,
        *,
        attempt_id: str | None = None,
        begun: Callable[[], None] = lambda: None,
        hold: Callable[[int], None] = lambda size: None,
    ) -> ProgramResult:
        self.programs.append(program)
        await self.place.wait()
        begun()
        return self.answer(program)

    async def limits(self, policy: str) -> dict[str, Any]:
        return {"timeout_s": 60.0, "unit_timeout_s": 30.0, "memory_mb": 512, "max_processes": 8}

    async def attempt(self, attempt_id: str) -> dict[str, Any] | None:
        return self.attempts.get(attempt_id)

    async def check_daemon(self) -> None:
        raise ClientError("daemon.unreachable", "no daemon answers")


def ran(**changed: Any) -> ProcessEnd:
    """Return the end of a program that printed `hi` and exited with 0; `changed` replaces single values."""
    usual: dict[str, Any] = {
        "end": ProgramEndReason.EXITED,
        "attempt_id": "01M8ABZ8541FJMQMT3P9M82SQ1",
        "stdout": "hi\n",
        "exit_code": 0,
        "wall_s": 0.25,
        "cpu_s": 0.125,
        "memory_bytes": 4 * 2**20,
    }
    return ProcessEnd(**{**usual, **changed})
