"""A client for programs on the same host: the API's verbs, blocking or asynchronous.

    with Client() as client:
        attempt = client.submit({"kind": "extractor", "payload": {...}}, wait_s=60)

Documents are plain JSON objects with the names of the contract. This file imports the HTTP library only
when a client is made, so that a program which imports it starts fast.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import quote

from assayd.errors import AssaydError

if TYPE_CHECKING:
    import httpx

Document = dict[str, Any]
"""A JSON object of the contract: the border where types end."""
DocumentT = TypeVar("DocumentT")
BytesT = TypeVar("BytesT")

SYSTEM_SOCKET = Path("/run/assayd/assayd.sock")
PATIENCE_S = 30.0
"""How long an answer may take beyond the time that was asked for."""
SILENCE_S = 60.0
"""How long an event stream may be silent, heartbeats included, before it counts as lost."""


class ClientError(AssaydError):
    """The daemon refused a request. `status` is HTTP's."""

    def __init__(
        self, code: str, message: str, *, status: int, field: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(code, message, field=field, retryable=retryable)
        self.status = status


class DaemonUnreachable(AssaydError):
    """The daemon does not answer, or has gone away in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketChoice:
    """The daemon's socket, and who said that it is that one."""

    path: Path
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, before it is sent."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    document: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One event of an attempt, as it arrives."""

    id: str
    kind: str
    at: str
    body: Document


def find_socket(named: str | None = None, environ: Mapping[str, str] = os.environ) -> SocketChoice:
    """Choose the daemon's socket: the one named, else `ASSAY_SOCKET`, else where a daemon usually listens."""
    if named:
        return SocketChoice(path=Path(named), source="--socket")
    if environ.get("ASSAY_SOCKET"):
        return SocketChoice(path=Path(environ["ASSAY_SOCKET"]), source="ASSAY_SOCKET")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and os.geteuid() != 0:
        own = Path(runtime, "assayd", "assayd.sock")
        if own.exists() or not SYSTEM_SOCKET.exists():
            return SocketChoice(path=own, source="the default of this user")
    return SocketChoice(path=SYSTEM_SOCKET, source="the default")


class _Verbs(Generic[DocumentT, BytesT]):
    """What can be asked, written once; how a request is sent is left to the two clients."""

    def _ask(self, ask: Ask) -> DocumentT:
        raise NotImplementedError

    def _ask_bytes(self, ask: Ask) -> BytesT:
        raise NotImplementedError

    def submit(
        self,
        submission: Mapping[str, object],
        *,
        wait_s: float = 0,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> DocumentT:
        """Submit code and give the attempt, finished if that happens within `wait_s` (at most 600).

        With an `attempt_id` (a ULID) or a key, sending the same again gives the same attempt.
        """
        return self._ask(
            Ask(
                method="PUT" if attempt_id else "POST",
                path=f"/v1/attempts/{attempt_id}" if attempt_id else "/v1/attempts",
                query=_wait_query(wait_s),
                document=submission,
                headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
                wait_s=wait_s,
            )
        )

    def attempt(self, attempt_id: str, *, wait_s: float = 0) -> DocumentT:
        """Give one attempt; waits up to `wait_s` (at most 600) for its verdict."""
        return self._ask(
            Ask(method="GET", path=_path("attempts", attempt_id), query=_wait_query(wait_s), wait_s=wait_s)
        )

    def attempts(self, **filters: str | int | Sequence[str] | None) -> DocumentT:
        """Give a page of attempts; the filters are those of the API, `label` as a list of ``key=value``."""
        return self._ask(Ask(method="GET", path="/v1/attempts", query=_filter_query(filters)))

    def repair(self, attempt_id: str, **request: object) -> DocumentT:
        """Begin a repair of a failed attempt: provider, max_attempts, hint, code, fresh."""
        wanted = {name: value for name, value in request.items() if value is not None}
        return self._ask(Ask(method="POST", path=_path("attempts", attempt_id, "repair"), document=wanted))

    def repairs_of(self, attempt_id: str) -> DocumentT:
        """Give the repairs that an attempt began or belongs to."""
        return self._ask(Ask(method="GET", path=_path("attempts", attempt_id, "repairs")))

    def repairs(self, *, cursor: str | None = None, limit: int | None = None) -> DocumentT:
        """Give a page of repairs, newest first."""
        query = _filter_query({"cursor": cursor, "limit": limit})
        return self._ask(Ask(method="GET", path="/v1/repairs", query=query))

    def repair_state(self, repair_id: str) -> DocumentT:
        """Give one repair with its fixes."""
        return self._ask(Ask(method="GET", path=_path("repairs", repair_id)))

    def cancel_repair(self, repair_id: str) -> DocumentT:
        """End a repair. Raises: ClientError ``repair.finished``."""
        return self._ask(Ask(method="POST", path=_path("repairs", repair_id, "cancel")))

    def cancel(self, attempt_id: str) -> DocumentT:
        """Ask an attempt to end. Raises: ClientError ``attempt.finished``."""
        return self._ask(Ask(method="POST", path=_path("attempts", attempt_id, "cancel")))

    def artifact(self, attempt_id: str, name: str) -> BytesT:
        """Give one file of an attempt's bundle."""
        return self._ask_bytes(
            Ask(method="GET", path=_path("attempts", attempt_id, "artifacts") + f"/{quote(name)}")
        )

    def bundle(self, attempt_id: str) -> BytesT:
        """Give all files of an attempt as a tar archive."""
        return self._ask_bytes(Ask(method="GET", path=_path("attempts", attempt_id, "bundle")))

    def policies(self) -> DocumentT:
        """Give all profiles."""
        return self._ask(Ask(method="GET", path="/v1/policies"))

    def policy(self, name: str) -> DocumentT:
        """Give one profile."""
        return self._ask(Ask(method="GET", path=_path("policies", name)))

    def kinds(self) -> DocumentT:
        """Give all kinds."""
        return self._ask(Ask(method="GET", path="/v1/kinds"))

    def kind(self, name: str) -> DocumentT:
        """Give one kind: payload schema, stages, rules."""
        return self._ask(Ask(method="GET", path=_path("kinds", name)))

    def doctor(self) -> DocumentT:
        """Let the daemon examine itself."""
        return self._ask(Ask(method="GET", path="/v1/doctor", wait_s=PATIENCE_S))

    def metrics(self) -> BytesT:
        """Give the metrics in Prometheus' text format."""
        return self._ask_bytes(Ask(method="GET", path="/metrics"))


class Client(_Verbs[Document, bytes]):
    """The blocking client. Raises ClientError and DaemonUnreachable."""

    def __init__(self, socket: str | Path | None = None) -> None:
        import httpx

        self.socket = find_socket(str(socket) if socket else None)
        transport = httpx.HTTPTransport(uds=str(self.socket.path))
        self._http = httpx.Client(transport=transport, base_url="http://assayd")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def events(self, attempt_id: str, *, after: str | None = None) -> Iterator[StreamEvent]:
        """Follow an attempt, from the event after that id, up to `finished`."""
        import httpx

        _require_socket(self.socket)
        reader, (path, headers) = _EventReader(), _event_request(attempt_id, after)
        try:
            with self._http.stream("GET", path, headers=headers, timeout=SILENCE_S) as response:
                if response.is_error:
                    response.read()
                    _refuse(response)
                for chunk in response.iter_bytes():
                    yield from reader.feed(chunk)
        except httpx.TransportError as error:
            raise _lost(self.socket, error) from error

    def _ask(self, ask: Ask) -> Document:
        return _read_object(self._send(ask))

    def _ask_bytes(self, ask: Ask) -> bytes:
        return self._send(ask).content

    def _send(self, ask: Ask) -> httpx.Response:
        import httpx

        _require_socket(self.socket)
        try:
            response = self._http.request(**_arguments(ask))
        except httpx.TransportError as error:
            raise _lost(self.socket, error) from error
        _refuse(response)
        return response


class AsyncClient(_Verbs[Awaitable[Document], Awaitable[bytes]]):
    """The asynchronous client. Raises ClientError and DaemonUnreachable."""

    def __init__(self, socket: str | Path | None = None) -> None:
        import httpx

        self.socket = find_socket(str(socket) if socket else None)
        transport = httpx.AsyncHTTPTransport(uds=str(self.socket.path))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://assayd")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def events(self, attempt_id: str, *, after: str | None = None) -> AsyncIterator[StreamEvent]:
        """Follow an attempt, from the event after that id, up to `finished`."""
        import httpx

        _require_socket(self.socket)
        reader, (path, headers) = _EventReader(), _event_request(attempt_id, after)
        try:
            async with self._http.stream("GET", path, headers=headers, timeout=SILENCE_S) as response:
                if response.is_error:
                    await response.aread()
                    _refuse(response)
                async for chunk in response.aiter_bytes():
                    for event in reader.feed(chunk):
                        yield event
        except httpx.TransportError as error:
            raise _lost(self.socket, error) from error

    async def _ask(self, ask: Ask) -> Document:
        return _read_object(await self._send(ask))

    async def _ask_bytes(self, ask: Ask) -> bytes:
        return (await self._send(ask)).content

    async def _send(self, ask: Ask) -> httpx.Response:
        import httpx

        _require_socket(self.socket)
        try:
            response = await self._http.request(**_arguments(ask))
        except httpx.TransportError as error:
            raise _lost(self.socket, error) from error
        _refuse(response)
        return response


class _EventReader:
    """Cut a stream of bytes into events; comments and unfinished events are passed over."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        *messages, self._rest = (self._rest + chunk).split(b"\n\n")
        for message in messages:
            for line in message.split(b"\n"):
                if line.startswith(b"data: "):
                    event = json.loads(line.removeprefix(b"data: "))
                    yield StreamEvent(id=event["id"], kind=event["kind"], at=event["at"], body=event["body"])


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _wait_query(wait_s: float) -> Sequence[tuple[str, str]]:
    return (("wait_s", f"{wait_s:g}"),) if wait_s else ()


def _filter_query(filters: Mapping[str, str | int | Sequence[str] | None]) -> list[tuple[str, str]]:
    query: list[tuple[str, str]] = []
    for name, value in filters.items():
        if isinstance(value, str | int):
            query.append((name, str(value)))
        else:
            query += [(name, item) for item in value or ()]
    return query


def _event_request(attempt_id: str, after: str | None) -> tuple[str, dict[str, str]]:
    return _path("attempts", attempt_id, "events"), {"Last-Event-ID": after} if after else {}


def _arguments(ask: Ask) -> dict[str, Any]:
    return {
        "method": ask.method,
        "url": ask.path,
        "params": list(ask.query),
        "content": None if ask.document is None else json.dumps(ask.document, allow_nan=False).encode(),
        "headers": {"Content-Type": "application/json", **ask.headers},
        "timeout": ask.wait_s + PATIENCE_S,
    }


def _read_object(response: httpx.Response) -> Document:
    document: Document = response.json()
    return document


def _refuse(response: httpx.Response) -> None:
    """Raise what an answer says that is not a success."""
    if not response.is_error:
        return
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
        field, retryable = error["field"], bool(error["retryable"])
    except (ValueError, KeyError, TypeError):  # not from the daemon itself: its server, or a proxy
        code, message, field, retryable = "http", f"HTTP status {response.status_code}", None, False
    raise ClientError(code, message, status=response.status_code, field=field, retryable=retryable)


def _require_socket(socket: SocketChoice) -> None:
    """Say at once that there is no socket; the HTTP library would leave one of its own open."""
    if not socket.path.exists():
        raise _unreachable(
            socket, "there is no such socket", "start it with `assayd`, or name its socket with --socket"
        )


def _lost(socket: SocketChoice, error: Exception) -> DaemonUnreachable:
    if not os.access(socket.path, os.W_OK):
        return _unreachable(socket, "you may not open it", "join the group that owns it")
    why = str(error) or type(error).__name__
    return _unreachable(socket, why, "look at its log, or start it with `assayd`")


def _unreachable(socket: SocketChoice, why: str, remedy: str) -> DaemonUnreachable:
    where = f"{socket.path} ({socket.source})"
    message = f"the daemon does not answer on {where}: {why}; {remedy}"
    return DaemonUnreachable("daemon.unreachable", message, retryable=True)
