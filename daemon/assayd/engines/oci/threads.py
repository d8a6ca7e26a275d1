"""Runs blocking steps in threads of the engine, always with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from assayd.errors import EngineError

T = TypeVar("T")


class Threads:
    """A runner of blocking steps. Args: at most `count` concurrent steps, of `timeout_s` seconds each."""

    def __init__(self, count: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="assayd-oci")

    async def run(self, act: Callable[..., T], *arguments: object, timeout_s: float | None = None) -> T:
        """Run a step in a thread.

        Raises: EngineError ``engine.timeout``, ``engine.closed``, or an error of the step.
        """
        try:
            job = asyncio.get_running_loop().run_in_executor(self._pool, partial(act, *arguments))
        except RuntimeError as problem:
            raise EngineError("engine.closed", "the engine was closed") from problem
        try:
            async with asyncio.timeout(timeout_s or self.timeout_s):
                return await job
        except TimeoutError as problem:
            raise timed_out() from problem

    def close(self) -> None:
        """Release the threads; queued steps are never started."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def timed_out() -> EngineError:
    """Return the error for a step that took too long."""
    return EngineError("engine.timeout", "the engine didn't finish a step in time", retryable=True)
