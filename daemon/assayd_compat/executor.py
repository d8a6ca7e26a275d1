"""Runs programs on the daemon: compile if the language needs it, run, fetch files.

Decides how many run at once and how long to wait for one answer. Interfaces are in a module each.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from assayd_client import AsyncClient
from assayd_client.errors import NotFound
from assayd_client.requests import ClientRequest
from assayd_client.requests import attempt as attempt_request
from assayd_client.requests import policy as policy_request
from assayd_client.requests import submit as submit_request
from assayd_compat.program import (
    End,
    Ended,
    Json,
    Program,
    Result,
    compilation,
    ended,
    execution,
    interpretation,
)

WAIT_S = 600.0
"""The longest wait for one answer of the daemon; a queue may take longer, so the wait is repeated."""
FOLDER = "files/"
"""Where a bundle has the files that a program left."""


class Executor:
    """Runs programs, `at_once` of them at a time; the others wait in the order in which they came."""

    def __init__(self, client: AsyncClient, *, at_once: int, policies: Mapping[str, str]) -> None:
        """`policies` has the profile of each language that does not run under its usual one."""
        self._client = client
        self._places = asyncio.Semaphore(at_once)
        self._policies = policies
        self._limits: dict[str, Json] = {}

    async def run(self, program: Program, *, attempt_id: str | None = None) -> Result:
        """Compile and run a program. `attempt_id`, a ULID, is that of the run's attempt.

        Raises: ClientError, if the daemon refuses it or does not answer.
        """
        async with self._places:
            return await self._run(program, attempt_id)

    async def reach(self) -> None:
        """Ask the daemon for its identity. Raises: ClientError, if it does not answer."""
        await self._client.daemon()

    async def limits(self, policy: str) -> Json:
        """Return the limits of a profile: `timeout_s`, `unit_timeout_s`, `memory_mb`.

        Raises: NotFound, if the daemon has no profile of that name.
        """
        if policy not in self._limits:
            self._limits[policy] = (await self._document(policy_request(policy)))["resources"]
        return self._limits[policy]

    async def attempt(self, attempt_id: str) -> Json | None:
        """Return an attempt as it is now; None if there is none that this user may see."""
        try:
            return await self._document(attempt_request(attempt_id))
        except NotFound:
            return None

    async def file(self, attempt_id: str, name: str) -> bytes:
        """Return one file of an attempt's bundle."""
        return await self._client.artifact(attempt_id, name)

    async def _run(self, program: Program, attempt_id: str | None) -> Result:
        policy = self._policies.get(program.language.name, program.language.policy)
        limits = await self.limits(policy)
        compiled, product = None, None
        if program.language.compile:
            compiled = ended(await self._finished(compilation(program, policy, limits), None))
            if not compiled.succeeded:
                return Result(compiled=compiled, run=None)
            written = await self.file(compiled.attempt_id, FOLDER + program.language.product)
            product = {"base64": base64.b64encode(written).decode()}
        attempt = await self._finished(execution(program, policy, limits, product), attempt_id)
        if (
            attempt["execution"] is None and attempt["verdict"] == "failed"
        ):  # not valid Python, say the checks
            attempt = await self._finished(interpretation(program, policy, limits), None)
        run = ended(attempt)
        return Result(compiled=compiled, run=run, files=await self._collected(program, run))

    async def _finished(self, submission: Json, attempt_id: str | None) -> Json:
        """Submit, and wait for the verdict."""
        found = await self._document(submit_request(submission, wait_s=WAIT_S, attempt_id=attempt_id))
        while found["verdict"] is None:
            found = await self._document(attempt_request(found["id"], wait_s=WAIT_S))
        return found

    async def _collected(self, program: Program, run: Ended) -> Mapping[str, bytes]:
        """Return those of the files asked for that the program left."""
        if run.end is End.OURS:
            return {}
        names = [path for path in program.collect if FOLDER + path in run.artifacts]
        return {path: await self.file(run.attempt_id, FOLDER + path) for path in names}

    async def _document(self, ask: ClientRequest[Any]) -> Json:
        """Send a request and return the answer as a JSON object."""
        answer = await self._client.send(ask)
        document: Json = answer if isinstance(answer, Mapping) else answer.model_dump(mode="json")
        return document
