"""Parses responses, which are documents, stream events or errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from assayd_client.address import Address, ServerChoice, SocketChoice
from assayd_client.errors import ClientError, DaemonUnreachable, Later, select_error_class

T = TypeVar("T")

Document = dict[str, Any]
"""A JSON object of the API contract, without static types for its fields."""

Read = Callable[[bytes], Any]
"""A function that parses one JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One event of a stream. `attempt_id` is None if the event concerns a batch."""

    id: str
    kind: str
    at: str
    body: Document
    attempt_id: str | None = None


class EventReader:
    """A parser that splits a byte stream into events. Comments and incomplete events are ignored."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events that a received chunk completes."""
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
    """A parser that splits a byte stream into lines and decodes each line as JSON."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the decoded values of the lines that a received chunk completes."""
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        for following in others:
            yield self._read(b"".join(self._rest))
            self._rest = [following]


def create_decoder(reads: Callable[[], type[T]] | None) -> Callable[[bytes], T]:
    """Return a function that parses a response body as the given type and ignores unknown fields.

    The function raises ClientError ``answer.unreadable`` if the body doesn't match the type.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(Any if reads is None else reads())

    def read(text: bytes) -> T:
        try:
            return cast("T", adapter.validate_json(text, extra="ignore"))
        except ValidationError as error:
            raise ClientError(
                "answer.unreadable", f"the daemon's answer doesn't match the contract: {error}"
            ) from error

    return read


def raise_response_error(status: int, headers: Mapping[str, str], body: bytes) -> NoReturn:
    """Raise the error that an unsuccessful response reports. Header names must be lowercase."""
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"]), str(error["message"])
        field, retryable = error["field"], bool(error["retryable"])
    except (ValueError, KeyError, TypeError):  # not from the daemon itself, but from its server or a proxy
        code, message, field, retryable = "http", f"HTTP status {status}", None, False
    raised = select_error_class(status)(code, message, status=status, field=field, retryable=retryable)
    after = headers.get("retry-after", "")
    if isinstance(raised, Later) and after.isascii() and after.isdigit():
        raised.retry_after_s = float(after)
    raise raised


def require_existing_socket(address: Address) -> None:
    """Raise DaemonUnreachable if the socket doesn't exist; the HTTP library would leak a socket."""
    if not isinstance(address, SocketChoice):
        return
    try:
        exists = address.path.exists()
    except PermissionError as error:  # this user can't enter its folder
        raise build_connection_error(address, error) from error
    if not exists:
        remedy = f"start it with `{get_start_command()}`, or pass its socket with --socket"
        raise _unreachable_error(address, "the socket doesn't exist", remedy)


def get_start_command(package: Path = Path(__file__).parent) -> str:
    """Return the command that starts a daemon: a Makefile target in a checkout, otherwise ``assayd``."""
    root = package.parents[1]
    return "make serve" if (root / "Makefile").is_file() and (root / "examples").is_dir() else "assayd"


def build_connection_error(address: Address, error: Exception) -> DaemonUnreachable:
    """Return the error, with a remedy, for a connection that failed."""
    if isinstance(address, ServerChoice):
        return _build_server_connection_error(address, error)
    if not os.access(address.path, os.W_OK):
        return _unreachable_error(address, "you aren't allowed to open it", "join the group that owns it")
    return _unreachable_error(
        address, _describe_error(error), f"check its log, or start it with `{get_start_command()}`"
    )


def _build_server_connection_error(server: ServerChoice, error: Exception) -> DaemonUnreachable:
    why = _describe_error(error)
    if "CERTIFICATE_VERIFY_FAILED" not in why:
        return _unreachable_error(server, why, "check the host and port, and the gateway's log")
    # OpenSSL's form: "… certificate verify failed: unable to get local issuer certificate (_ssl.c:1016)"
    reason = why.rpartition("certificate verify failed: ")[2].partition(" (_ssl")[0]
    remedy = "pass the issuer's certificate with --ca-file, or use the host name in the certificate"
    message = f"the certificate of {server} isn't trusted: {reason}; {remedy}"
    return DaemonUnreachable("server.certificate", message)


def _describe_error(error: Exception) -> str:
    if type(error).__name__ == "RemoteProtocolError":  # h11's message, in terms of the protocol
        return "it closed the connection before its answer was complete"
    return str(error) or type(error).__name__


def _unreachable_error(address: Address, why: str, remedy: str) -> DaemonUnreachable:
    message = f"the daemon does not answer on {address}: {why}; {remedy}"
    return DaemonUnreachable("daemon.unreachable", message, retryable=True)
