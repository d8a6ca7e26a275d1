"""What comes back: documents, events cut out of a stream, and the errors for what is not a success."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assayd.client.address import SocketChoice
from assayd.errors import AssaydError

if TYPE_CHECKING:
    import httpx

Document = dict[str, Any]
"""A JSON object of the contract: the border where types end."""


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
class StreamEvent:
    """One event, as it arrives. `attempt_id` is None for one of a batch."""

    id: str
    kind: str
    at: str
    body: Document
    attempt_id: str | None = None


class EventReader:
    """Cut a stream of bytes into events; comments and unfinished events are passed over."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Return the events that end in this chunk."""
        *messages, self._rest = (self._rest + chunk).split(b"\n\n")
        for message in messages:
            for line in message.split(b"\n"):
                if line.startswith(b"data: "):
                    event = json.loads(line.removeprefix(b"data: "))
                    yield StreamEvent(
                        id=event["id"],
                        kind=event["kind"],
                        at=event["at"],
                        body=event["body"],
                        attempt_id=event.get("attempt_id"),
                    )


class LineReader:
    """Cut a stream of bytes into the JSON objects that its lines are."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Document]:
        """Return the objects whose lines end in this chunk."""
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        for following in others:
            yield json.loads(b"".join(self._rest))
            self._rest = [following]


def read_object(response: httpx.Response) -> Document:
    """Read an answer that is a JSON object."""
    document: Document = response.json()
    return document


def refuse(response: httpx.Response) -> None:
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


def require_socket(socket: SocketChoice) -> None:
    """Say at once that there is no socket; the HTTP library would leave one of its own open."""
    if not socket.path.exists():
        raise _unreachable(
            socket, "there is no such socket", "start it with `assayd`, or name its socket with --socket"
        )


def lost(socket: SocketChoice, error: Exception) -> DaemonUnreachable:
    """Return the error for a connection that failed."""
    if not os.access(socket.path, os.W_OK):
        return _unreachable(socket, "you may not open it", "join the group that owns it")
    why = str(error) or type(error).__name__
    return _unreachable(socket, why, "look at its log, or start it with `assayd`")


def _unreachable(socket: SocketChoice, why: str, remedy: str) -> DaemonUnreachable:
    where = f"{socket.path} ({socket.source})"
    message = f"the daemon does not answer on {where}: {why}; {remedy}"
    return DaemonUnreachable("daemon.unreachable", message, retryable=True)
