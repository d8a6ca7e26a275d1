"""What a route works with: the caller with its rights, the size-limited body, and responses of limited cost.

Users take turns with large responses: without this limit, a client that requests many large responses and
reads none would make the daemon hold all of them in memory. Responses that everyone gets are cached.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assayd.api.peer import Caller, SocketAccess
from assayd.attempts.policy_trial import PolicyTrialRunner
from assayd.batches.batches import DaemonBatches
from assayd.byte_budget import ByteBudget, GrowingReservation
from assayd.documents import PayloadCaps, parse_json, serialize_attempt, serialize_compact
from assayd.documents.base import format_error_path, message_of, reject_excess_errors
from assayd.errors import RequestError
from assayd.fair_queue import FairSemaphore
from assayd.model.attempt import Attempt, State
from assayd.model.batch import Batch
from assayd.ports.service import Chains, Service
from assayd.store.library import DatabaseLibrary

LARGE_BYTES = 2**20
AT_ONCE = 3
"""The number of slots. One slot is reserved for a user without a slot."""
_PIECE_BYTES = 256 * 2**10


class LargeResponseSlots:
    """The slots for large responses. `most_s` is the time limit in seconds for sending one response."""

    def __init__(self, *, most_s: float) -> None:
        self.most_s = most_s
        self.slots = FairSemaphore(AT_ONCE, reserve_from=2)
        self.numbers = count()


class LargeResponse(Response):
    """A JSON response that is built at its user's turn and sent in pieces."""

    media_type = "application/json"

    def __init__(
        self,
        answers: LargeResponseSlots,
        uid: int,
        make: Callable[[], Awaitable[bytes]],
        *,
        status: int,
        headers: Mapping[str, str] | None,
    ) -> None:
        super().__init__(status_code=status, headers=headers)
        self._answers = answers
        self._uid = uid
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Build and send the response. Disconnect a client that doesn't read the response in time."""
        answers = self._answers
        async with answers.slots.hold(self._uid, "", str(next(answers.numbers))):
            body = await self._make()
            self.headers["content-length"] = str(len(body))
            async with asyncio.timeout(answers.most_s):
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                for start in range(0, len(body), _PIECE_BYTES):
                    piece = body[start : start + _PIECE_BYTES]
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})


T = TypeVar("T")

SHARE = 10
"""A response that can change is cached for this many times its computation time, so that computing it takes
at most a tenth of the event loop's time.
"""


class ResponseCache:
    """A cache of the last response by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, object]] = {}

    def get(self, name: str, make: Callable[[], T], *, changes: bool = True) -> T:
        """Return the cached response, or compute it.

        Args:
            name: the name of the response; from a closed set.
            make: computes the response.
            changes: whether the response can change. If so, it is cached for ten times as long as its
                computation took; otherwise, it is cached indefinitely.
        """
        now = self._clock()
        until, answer = self._kept.get(name, (-math.inf, None))
        if now >= until:
            answer = make()
            done = self._clock()
            self._kept[name] = (done + SHARE * (done - now) if changes else math.inf, answer)
        return cast("T", answer)


B = TypeVar("B", bound=BaseModel)

LARGE_BODY_BYTES = 64 * 2**10
"""Larger bodies are parsed in a thread, so that other requests are served in the meantime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    """Limits of a request's size, duration and pauses, and of the longest silence of an event stream."""

    body_bytes: int = 16 * 2**20
    payload: PayloadCaps = PayloadCaps()
    silence_s: float = 30.0
    body_s: float = 120.0
    batch_body_s: float = 3600.0
    heartbeat_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request: the daemon that receives it, and the caller who sent it."""

    service: Service
    batches: DaemonBatches
    chains: Chains
    library: DatabaseLibrary
    access: SocketAccess
    limits: ApiLimits
    budget: ByteBudget
    large: LargeResponseSlots
    kept: ResponseCache
    caller: Caller
    trials: PolicyTrialRunner | None = None

    async def attempt(self, attempt_id: str) -> Attempt:
        """Return the attempt with this id if the caller may see it.

        Raises: RequestError ``not_found``, also if the attempt belongs to another user.
        """
        attempt = await self.service.get(attempt_id)
        if attempt is None or not self.sees(attempt):
            raise RequestError("not_found", f"attempt {attempt_id[:40]} doesn't exist")
        return attempt

    async def batch(self, name: str) -> Batch:
        """Return the batch with this id, or the caller's batch with this name.

        Raises: RequestError ``not_found``, also if the batch belongs to another user.
        """
        batch = await self.batches.find(name, uid=self.caller.peer.uid)
        if batch is None or not self.sees(batch):
            message = f"batch {name[:64]} doesn't exist (finished batches are deleted after `retention`)"
            raise RequestError("not_found", message)
        return batch

    def require_trials(self) -> PolicyTrialRunner:
        """Return the runner of policy trials. Raises: RequestError ``policy.elsewhere``, on a gateway."""
        if self.trials is None:
            raise RequestError("policy.elsewhere", "nodes judge attempts; ask a node's daemon")
        return self.trials

    def sees(self, owned: Attempt | Batch) -> bool:
        """Return whether the caller may know that an attempt or batch exists."""
        return self.access.sees(self.caller, owned)

    @property
    def visible_uid(self) -> int | None:
        """Return the user whose attempts and batches the caller may list, or None for all users."""
        return None if self.access.is_operator(self.caller) else self.caller.peer.uid

    def resolve_listed_uid(self, wanted: int | None) -> int | None:
        """Return the user whose attempts are listed if `wanted` is requested, or None for all users.

        Raises: RequestError ``peer.not_operator``, if the caller requests another user's attempts without
        being an operator.
        """
        if wanted not in {None, self.caller.peer.uid}:
            self.require_operator()
        return self.visible_uid if wanted is None else wanted

    @property
    def is_operator(self) -> bool:
        """Return whether the caller is an operator."""
        return self.access.is_operator(self.caller)

    def reserve_bytes(self) -> AbstractContextManager[GrowingReservation]:
        """Return a context manager with a growing reservation for the caller in the memory budget."""
        return self.budget.reserve_growing(self.caller.peer.uid, operator=self.is_operator)

    def require_operator(self) -> None:
        """Check that the caller is an operator.

        Raises: RequestError ``peer.not_operator``, if the caller isn't.
        """
        if not self.access.is_operator(self.caller):
            message = "only operators may do this: root, the daemon's user, and `access.operators_group`"
            if self.caller.remote:
                message = "only operators may do this: use a token with the scope `operate`"
            raise RequestError("peer.not_operator", message)

    @property
    def can_read_health_checks(self) -> bool:
        """Return whether the caller may examine the daemon, as operators and monitoring programs may."""
        return self.is_operator or self.caller.monitor

    def require_remote_monitor(self) -> None:
        """Check that a remote caller may monitor the daemon. Local callers pass.

        Raises: RequestError ``peer.not_operator``, if a remote caller's token lacks the scope.
        """
        if self.caller.remote and not self.can_read_health_checks:
            message = "this needs a token with the scope `metrics` or `operate`"
            raise RequestError("peer.not_operator", message)

    async def build_attempt_response(
        self, attempt: Attempt, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the response with an attempt, including report and execution once it is finished.

        Build a large response at the caller's turn.
        """
        if attempt.replay_of is not None and attempt.state is State.FINISHED:
            # The original's documents are read, too, to compare them; their size isn't known here.
            return self.build_large_json_response(
                lambda: self._render_attempt(attempt), status=status, headers=headers
            )
        documents = [
            each for each in attempt.artifacts if each.name.startswith(("validation_", "execution_"))
        ]
        size = sum(each.bytes for each in documents)
        return await self.answer(size, lambda: self._render_attempt(attempt), status=status, headers=headers)

    async def answer(
        self,
        size: int,
        make: Callable[[], Awaitable[bytes]],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a response with JSON of about `size` bytes.

        Build a response larger than `LARGE_BYTES` at the caller's turn.
        """
        if size <= LARGE_BYTES:
            return build_raw_json_response(await make(), status=status, headers=headers)
        return self.build_large_json_response(make, status=status, headers=headers)

    def build_large_json_response(
        self,
        make: Callable[[], Awaitable[bytes]],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a response with JSON text of any size. Build the text at the caller's turn."""
        return LargeResponse(self.large, self.caller.peer.uid, make, status=status, headers=headers)

    async def _render_attempt(self, attempt: Attempt) -> bytes:
        if attempt.state is not State.FINISHED:
            return serialize_attempt(attempt)
        report, execution = await self.service.documents(attempt)
        diff = None if attempt.replay_of is None else await self.service.replay_diff(attempt)
        return serialize_attempt(
            attempt,
            report=report,
            execution=execution,
            replay_diff=diff,
            bundle_path=None if self.caller.remote else self.service.bundle_path(attempt),
        )


async def get_call(request: Request) -> Call:
    """Build the call from the application and the connection.

    Raises: RequestError ``invalid``, if a query parameter is unknown or repeated.
    """
    _reject_unknown_query(request)
    state = request.app.state
    return Call(
        service=state.service,
        batches=state.batches,
        chains=state.chains,
        library=state.library,
        trials=state.trials,
        access=state.access,
        limits=state.limits,
        budget=state.budget,
        large=state.large,
        kept=state.kept,
        caller=request.state.caller,
    )


CallDep = Annotated[Call, Depends(get_call)]


async def iter_body_chunks(request: Request, *, silence_s: float, total_s: float) -> AsyncIterator[bytes]:
    """Yield the pieces of a request body as they arrive.

    Raises: RequestError ``too_slow``, if a pause or the whole body exceeds its timeout; ``malformed``, if
    the body ends early.
    """
    now = asyncio.get_running_loop().time
    due = now() + total_s
    more = True
    while more:
        try:
            async with asyncio.timeout_at(min(due, now() + silence_s)):
                message = await request.receive()
        except TimeoutError as silence:
            problem = f"no body data arrived for {silence_s:g} seconds"
            if now() >= due:
                problem = f"the body wasn't complete within {total_s:g} seconds; send it faster, or in parts"
            raise RequestError("too_slow", problem, retryable=True) from silence
        if message["type"] == "http.disconnect":
            raise RequestError("malformed", "the client disconnected before the end of the body")
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def read_body(request: Request, call: Call, held: GrowingReservation, *, max_bytes: int) -> bytes:
    """Read a body up to the size limit. Reserve its bytes in the budget as they arrive.

    Raises: RequestError ``too_large`` (before the whole body has arrived), ``too_slow``, ``queue.full``.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _build_too_large_error(max_bytes)
    body = bytearray()
    limits = call.limits
    async for piece in iter_body_chunks(request, silence_s=limits.silence_s, total_s=limits.body_s):
        held.resize(len(body) + len(piece))
        body += piece
        if len(body) > max_bytes:
            raise _build_too_large_error(max_bytes)
    return bytes(body)


async def read_model(request: Request, call: Call, model: type[B], *, max_bytes: int | None = None) -> B:
    """Read a JSON body and return it as a model. Raises: the same RequestErrors as a submission.

    Args:
        request: the request to read.
        call: the call of this request.
        model: the class of the model.
        max_bytes: the maximum size of the body; by default, that of a submission.
    """
    with call.reserve_bytes() as held:
        body = await read_body(request, call, held, max_bytes=max_bytes or call.limits.body_bytes)
        uid = call.caller.peer.uid
        return await call.budget.parse_in_turn(body, uid, partial(_parse_model, model))


def _parse_model(model: type[B], body: bytes) -> B:
    raw = parse_json(body) if body else {}
    reject_excess_errors(model, raw)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = format_error_path(first["loc"]) or None
        raise RequestError("invalid", f"{field or 'the body'}: {message_of(first)}", field=field) from error


def json_response(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a document as a JSON response."""
    return build_raw_json_response(serialize_compact(document), status=status, headers=headers)


def build_raw_json_response(
    body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response whose body is the given JSON text."""
    return Response(body, status_code=status, headers=headers, media_type="application/json")


def _build_too_large_error(max_bytes: int) -> RequestError:
    return RequestError("too_large", f"the body is larger than {max_bytes} bytes")


def _reject_unknown_query(request: Request) -> None:
    if not request.scope["query_string"]:
        return
    given = [name for name, _ in request.query_params.multi_items()]
    known = {field.alias for field in cast("APIRoute", request.scope["route"]).dependant.query_params}
    for name in given:
        if name not in known:
            raise RequestError("invalid", f"unknown query parameter {name[:64]!r}", field=name[:64])
        if name != "label" and given.count(name) > 1:
            raise RequestError(
                "invalid", f"the query parameter {name!r} is repeated; send it once", field=name
            )
