"""Runs programs on the daemon: compiles them if necessary, runs them, and fetches the resulting files.

This module decides how many programs run at once and how long to wait for a response. Each interface is in
its own module.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from assayd.clock import UlidGenerator
from assayd.fair_queue import FairSemaphore
from assayd_client import AsyncClient
from assayd_client.address import ServerChoice
from assayd_client.errors import ClientError, NotFound
from assayd_client.requests import ClientRequest
from assayd_client.requests import artifact as artifact_request
from assayd_client.requests import attempt as attempt_request
from assayd_client.requests import cancel as build_cancel_request
from assayd_client.requests import kinds as kinds_request
from assayd_client.requests import policy as policy_request
from assayd_client.requests import submit as submit_request
from assayd_compat.program import (
    Json,
    ProcessEnd,
    Program,
    ProgramEndReason,
    ProgramResult,
    build_compilation,
    build_execution,
    build_interpretation,
    is_invalid_python,
    parse_process_end,
)

WAIT_S = 600.0
"""Maximum seconds per request to the daemon; waiting in a queue repeats the request."""
FOLDER = "files/"
"""The bundle's folder of the files that a program left."""


CANCEL_RETRY_DELAYS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts to cancel a submission that perhaps hasn't reached the daemon yet."""


class ProgramExecutor:
    """An executor of up to `at_once` concurrent programs. Other programs wait, and callers take turns."""

    def __init__(self, client: AsyncClient, *, at_once: int, policies: Mapping[str, str]) -> None:
        """Create the executor. `policies` maps language names to profiles that replace the default ones."""
        self._client = client
        shared = isinstance(client.address, ServerChoice)
        self._places = FairSemaphore(at_once, reserve_from=4 if shared else at_once + 1)
        self._under_way: set[str] = set()
        self._policies = policies
        self._limits: dict[str, Json] = {}
        self._ids = UlidGenerator()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._token: str | None = None

    def for_caller(self, token: str | None) -> Self:
        """Return an executor that uses a caller's token.

        Without a token, or over a Unix socket, return this executor.
        """
        if token is None or not isinstance(self._client.address, ServerChoice):
            return self
        other = copy.copy(self)
        other._token = token
        return other

    @property
    def caller(self) -> str | None:
        """Return the token of the caller, or None if the caller is the service's own user."""
        return self._token

    @property
    def running(self) -> int:
        """Return the number of programs that currently run for all callers."""
        return len(self._under_way)

    async def run(
        self,
        program: Program,
        *,
        attempt_id: str | None = None,
        begun: Callable[[], None] = lambda: None,
        hold: Callable[[int], None] = lambda size: None,
    ) -> ProgramResult:
        """Compile and run a program. If this call is cancelled, the program's attempt is cancelled too.

        Args:
            program: the program to run.
            attempt_id: the id of the run's attempt, a ULID.
            begun: called when the program leaves the queue.
            hold: called with the size of the resulting files before the files are fetched.

        Raises: ClientError, if the daemon refuses the program or doesn't respond; any error of `hold`.
        """
        key = self._ids.new()
        async with self._places.hold(hash(self._token), "", key):
            self._under_way.add(key)
            try:
                begun()
                result = await self._run(program, attempt_id)
                if result.run is None or result.run.end is ProgramEndReason.OURS or not program.collect:
                    return result
                return replace(result, files=await self._collect_files(program.collect, result.run, hold))
            finally:
                self._under_way.discard(key)

    async def check_daemon(self) -> None:
        """Request the list of kinds.

        Raises: ClientError, if the daemon doesn't respond or rejects the caller.
        """
        await self._request_document(kinds_request())

    async def limits(self, policy: str) -> Json:
        """Return the limits of a profile: `timeout_s`, `unit_timeout_s`, `memory_mb`.

        Raises: NotFound, if the daemon has no profile with that name.
        """
        if policy not in self._limits:
            self._limits[policy] = (await self._request_document(policy_request(policy)))["resources"]
        return self._limits[policy]

    async def attempt(self, attempt_id: str) -> Json | None:
        """Return the current state of an attempt, or None if the caller can't see an attempt with this id."""
        try:
            return await self._request_document(attempt_request(attempt_id))
        except NotFound:
            return None

    async def file(self, attempt_id: str, name: str) -> bytes:
        """Return the content of one file in an attempt's bundle.

        Raises: ClientError, if it can't be fetched.
        """
        return await self._client.send_for_content(
            self._with_caller_token(artifact_request(attempt_id, name))
        )

    async def close(self) -> None:
        """Wait until the attempts of all disconnected clients are cancelled."""
        await asyncio.gather(*self._cancelling, return_exceptions=True)

    async def _run(self, program: Program, attempt_id: str | None) -> ProgramResult:
        policy = self._policies.get(program.language.name, program.language.policy)
        limits = await self.limits(policy)
        compiled, product = None, None
        if program.language.compile:
            compiled = parse_process_end(
                await self._submit_and_wait(build_compilation(program, policy, limits), None)
            )
            if not compiled.has_succeeded:
                return ProgramResult(compiled=compiled, run=None)
            written = await self.file(compiled.attempt_id, FOLDER + program.language.product)
            product = {"base64": base64.b64encode(written).decode()}
        attempt = await self._submit_and_wait(build_execution(program, policy, limits, product), attempt_id)
        if is_invalid_python(attempt):
            attempt = await self._submit_and_wait(build_interpretation(program, policy, limits), None)
        return ProgramResult(compiled=compiled, run=parse_process_end(attempt))

    async def _submit_and_wait(self, submission: Json, attempt_id: str | None) -> Json:
        """Submit a program and wait for the verdict. Cancel the attempt if this task is cancelled."""
        identity = attempt_id or self._ids.new()
        asked = asyncio.create_task(self._poll_verdict(submission, identity))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            task = asyncio.create_task(self._cancel_attempt(identity, asked))
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)
            raise

    async def _poll_verdict(self, submission: Json, identity: str) -> Json:
        found = await self._request_document(submit_request(submission, wait_s=WAIT_S, attempt_id=identity))
        while found["verdict"] is None:
            found = await self._request_document(attempt_request(identity, wait_s=WAIT_S))
        return found

    async def _cancel_attempt(self, identity: str, asked: asyncio.Task[Json]) -> None:
        """Cancel a disconnected client's attempt, even if the task `asked` hasn't submitted it yet."""
        for pause_s in CANCEL_RETRY_DELAYS_S:
            try:
                await self._request_document(build_cancel_request(identity))
                break
            except NotFound:
                await asyncio.wait({asked}, timeout=pause_s)
            except ClientError:  # The attempt, or the daemon, has ended.
                break
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    async def _collect_files(
        self, paths: Sequence[str], run: ProcessEnd, hold: Callable[[int], None]
    ) -> Mapping[str, bytes]:
        """Fetch and return, by path, those of the requested files that exist after the run."""
        there = [path for path in paths if FOLDER + path in run.artifacts]
        hold(sum(run.artifacts[FOLDER + path] for path in there))
        return {path: await self.file(run.attempt_id, FOLDER + path) for path in there}

    async def _request_document(self, ask: ClientRequest[Any]) -> Json:
        """Send a request and return the response as a JSON object."""
        document: Json = json.loads(await self._client.send_for_content(self._with_caller_token(ask)))
        return document

    def _with_caller_token(self, ask: ClientRequest[Any]) -> ClientRequest[Any]:
        if self._token is None:
            return ask
        return replace(ask, headers={**ask.headers, "Authorization": f"Bearer {self._token}"})
