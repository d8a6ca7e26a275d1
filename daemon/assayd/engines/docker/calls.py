"""Runs the blocking SDK in a limited number of threads with timeouts, and translates its exceptions.

Only this module translates the SDK's exceptions. The engine's message stays available in `__cause__`.

The module also reads a container's attached streams as plain bytes. The engine prefixes each piece of
output with 8 bytes: the stream number, three zeros, and a u32 length. The module removes these prefixes,
but doesn't interpret the content.

The SDK lacks types; this module defines them for the part that this package uses.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Protocol, TypeVar, cast

import urllib3.exceptions
from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnectionPool
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import RequestException, Timeout

from assayd.errors import EngineError

Document = Mapping[str, object]


class Closable(Protocol):
    """A resource that can be closed."""

    def close(self) -> None:
        """Close the resource."""
        ...


class AttachedSocket(Protocol):
    """The result of `attach_socket`: a connection that is open only as long as its HTTP response exists."""

    # The SDK sets this attribute to keep the connection alive; closing the response is the only way to close
    # all of it.
    _response: Closable

    def fileno(self) -> int:
        """Return the file descriptor of the connection."""
        ...


class DockerApi(Protocol):
    """The part of `docker.APIClient` that is used. Every call blocks. `calls` translates its exceptions."""

    trust_env: bool
    post: Callable[..., object]

    def info(self) -> Document:
        """Return the response of ``GET /info``."""
        ...

    def version(self) -> Document:
        """Return the response of ``GET /version``."""
        ...

    def create_container_from_config(self, config: Document, name: str | None = None) -> Document:
        """Create a container with ``POST /containers/create``, and return the response."""
        ...

    def inspect_container(self, container: str) -> Document:
        """Return the response of ``GET /containers/{id}/json``."""
        ...

    def containers(self, *, all: bool, filters: Mapping[str, str]) -> list[Document]:  # noqa: A002
        """Return the response of ``GET /containers/json``; with `all`, include stopped containers."""
        ...

    def attach_socket(self, container: str, params: Mapping[str, int]) -> AttachedSocket:
        """Attach to a container's streams with ``POST /containers/{id}/attach``."""
        ...

    def start(self, container: str) -> None:
        """Start a container with ``POST /containers/{id}/start``."""
        ...

    def kill(self, container: str) -> None:
        """Kill a container with ``POST /containers/{id}/kill``."""
        ...

    def remove_container(self, container: str, *, v: bool, force: bool) -> None:
        """Remove a container with ``DELETE /containers/{id}``; with `v`, remove its volumes too."""
        ...

    def wait(self, container: str, timeout: float, condition: str) -> Document:
        """Wait for a container with ``POST /containers/{id}/wait``, for at most `timeout` seconds."""
        ...

    def get_archive(self, container: str, path: str) -> tuple[Iterator[bytes], Document]:
        """Return a path as a tar stream, and its metadata (``GET /containers/{id}/archive``)."""
        ...

    def inspect_image(self, image: str) -> Document:
        """Return the response of ``GET /images/{name}/json``."""
        ...

    def load_image(self, data: IO[bytes]) -> Iterator[Document]:
        """Load an image archive with ``POST /images/load``, and yield progress messages."""
        ...

    def images(self, *, filters: Mapping[str, str]) -> list[Document]:
        """Return the response of ``GET /images/json``."""
        ...

    def get_image(self, image: str) -> Iterator[bytes]:
        """Return an image as a tar stream (``GET /images/{name}/get``)."""
        ...

    def remove_image(self, image: str) -> object:
        """Remove an image with ``DELETE /images/{name}``."""
        ...

    def get_adapter(self, url: str) -> Closable:
        """Return the adapter for a URL."""
        ...

    def mount(self, prefix: str, adapter: object) -> None:
        """Send requests for URLs with this prefix through `adapter`."""
        ...

    def close(self) -> None:
        """Close the pooled connections."""
        ...


_READ_BYTES = 256 * 1024
_DIAGNOSTICS_BYTES = 8 * 1024
_HEADER_STRUCT = struct.Struct(">B3xI")
_STDOUT = 1
_STREAM_TYPES = frozenset({0, 1, 2, 3})


class Demultiplexer:
    """A parser of attached bytes in pieces of any size. It returns the bytes of standard output.

    Bytes of all other streams are written to `diagnostics`, which keeps only the last ones.
    """

    def __init__(self) -> None:
        self.diagnostics = b""
        self._header = b""
        self._stream = _STDOUT
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of standard output in `data`.

        Raises: EngineError ``engine.stream_invalid``, if a header has an unknown stream number.
        """
        view = memoryview(data)
        wanted: list[memoryview] = []
        while view:
            if not self._left:
                view = self._consume_header(view)
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            if self._stream == _STDOUT:
                wanted.append(piece)
            else:
                self.diagnostics = (self.diagnostics + bytes(piece[-_DIAGNOSTICS_BYTES:]))[
                    -_DIAGNOSTICS_BYTES:
                ]
        return b"".join(wanted)

    def _consume_header(self, view: memoryview) -> memoryview:
        missing = _HEADER_STRUCT.size - len(self._header)
        self._header += bytes(view[:missing])
        if len(self._header) == _HEADER_STRUCT.size:
            self._stream, self._left = _HEADER_STRUCT.unpack(self._header)
            if self._stream not in _STREAM_TYPES:
                raise EngineError("engine.stream_invalid", "the engine sent a malformed attached stream")
            self._header = b""
        return view[missing:]


class AttachedStream:
    """An implementation of `RunnerStreams` for one container. Use `open` to create it.

    Args:
        release: a function that releases the SDK's response, which keeps the connection open.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, release: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._release = release
        self._demultiplexer = Demultiplexer()
        self._closed = False

    @classmethod
    async def open(cls, connection: socket.socket, release: Callable[[], None]) -> AttachedStream:
        """Return a stream that owns an attached socket, connected to the running event loop."""
        connection.setblocking(False)
        unix = connection.family == socket.AF_UNIX
        connect = asyncio.open_unix_connection if unix else asyncio.open_connection
        reader, writer = await connect(sock=connection, limit=_READ_BYTES)
        return cls(reader, writer, release)

    async def read(self) -> bytes:
        """Return the next bytes of standard output.

        The result is empty at the end of the output and after `close`.

        Raises: EngineError ``engine.stream_broken``, if the connection fails; ``engine.stream_invalid``, if
        the data is malformed.
        """
        output = b""
        while not output:
            try:
                data = await self._reader.read(_READ_BYTES)
            except OSError as problem:
                raise _build_broken_stream_error() from problem
            if not data:
                return b""
            output = self._demultiplexer.feed(data)
        return output

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input. Wait while its buffer is full.

        Raises: EngineError ``engine.stream_broken``, if the connection fails or is closed.
        """
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as problem:
            raise _build_broken_stream_error() from problem
        if self._closed:
            raise _build_broken_stream_error()

    @property
    def diagnostics(self) -> bytes:
        """Return at most the last 8 KiB of standard error."""
        return self._demultiplexer.diagnostics

    async def close(self) -> None:
        """Close the connection and discard unread data."""
        if self._closed:
            return
        self._closed = True
        self._writer.transport.abort()
        self._release()
        with suppress(OSError):
            await self._writer.wait_closed()


def _build_broken_stream_error() -> EngineError:
    return EngineError(
        "engine.stream_broken", "the connection to the container's streams is gone", retryable=True
    )


T = TypeVar("T")

_TIMEOUT_MARGIN_S = 1.0
"""Seconds by which the timeout here exceeds the connection's, which reports failures more precisely."""
_SDK_URL_PREFIX = "http+docker://"
"""The SDK's URL prefix for requests over a Unix socket."""
_SDK_EXCEPTIONS = (DockerException, RequestException, urllib3.exceptions.HTTPError, OSError)


class _SinglePoolAdapter(UnixHTTPAdapter):
    """An HTTP adapter with one connection pool for the engine.

    The SDK keeps a pool for each of the last 25 URLs. Because each container has different URLs, the SDK
    rarely reuses a connection, and a call takes 1.1 ms of CPU time instead of 0.7 ms.
    """

    def get_connection(self, url: bytes | str, proxies: object = None) -> UnixHTTPConnectionPool:
        return super().get_connection(_SDK_URL_PREFIX, proxies)


class DockerCallRunner:
    """A runner that calls functions with an API client in threads.

    Args:
        base_url: the engine's address.
        threads: the maximum number of concurrent calls. Further calls wait; the wait counts toward their
            timeout.
        timeout_s: the timeout of one call on the connection; the runner itself waits slightly longer.
    """

    def __init__(self, base_url: str, *, threads: int, timeout_s: float) -> None:
        self._base_url = base_url
        self._size = threads
        self._timeout_s = timeout_s
        self._client: DockerApi | None = None
        self._connecting = threading.Lock()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="assayd-engine")

    async def __call__(
        self,
        act: Callable[[DockerApi], T],
        *,
        timeout_s: float | None = None,
        discard: Callable[[T], None] | None = None,
    ) -> T:
        """Run `act` in a thread and return its result.

        Args:
            act: a function that makes the blocking calls.
            timeout_s: a different timeout, for calls that transfer whole images.
            discard: a function that releases the result if the call timed out or the caller was cancelled.

        Raises:
            EngineError: ``engine.timeout``, ``engine.closed``, or a code of `to_engine_error`.
        """
        try:
            job = self._threads.submit(self._run, act)
        except RuntimeError as problem:
            raise EngineError("engine.closed", "the connection to the engine was closed") from problem
        try:
            async with asyncio.timeout((timeout_s or self._timeout_s) + _TIMEOUT_MARGIN_S):
                return await asyncio.wrap_future(job)
        except TimeoutError as problem:
            _cancel_or_discard(job, discard)
            raise _build_timeout_error() from problem
        except asyncio.CancelledError:
            _cancel_or_discard(job, discard)
            raise

    def close(self) -> None:
        """Reject further calls, cancel waiting ones and close the connections.

        Calls in progress end by their timeouts at the latest.
        """
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    def _run(self, act: Callable[[DockerApi], T]) -> T:
        try:
            return act(self._ensure_client())
        except _SDK_EXCEPTIONS as problem:
            raise to_engine_error(problem) from problem

    def _ensure_client(self) -> DockerApi:
        with self._connecting:
            if self._client is None:
                self._client = self._create_client()
            return self._client

    def _create_client(self) -> DockerApi:
        client = cast(
            "DockerApi",
            APIClient(
                base_url=self._base_url,
                version="auto",
                timeout=self._timeout_s,  # type: ignore[arg-type]  # requests takes fractions as well
                max_pool_size=self._size,
            ),
        )
        # The engine must not depend on proxies or .netrc of the environment.
        client.trust_env = False
        # The SDK sets no timeout for attaching.
        client.post = partial(client.post, timeout=self._timeout_s)
        if self._base_url.startswith("unix://"):
            client.get_adapter(_SDK_URL_PREFIX).close()
            client.mount(
                _SDK_URL_PREFIX, _SinglePoolAdapter(f"http+{self._base_url}", max_pool_size=self._size)
            )
        return client


def to_engine_error(problem: Exception) -> EngineError:
    """Return the EngineError for an exception of the SDK or of its libraries.

    Codes: ``image.missing``, ``container.missing``, ``engine.conflict``, ``engine.refused`` (other 4xx),
    ``engine.failed`` (5xx and unknown errors), ``engine.timeout``, ``engine.unreachable``.
    """
    match problem:
        case APIError():
            return _build_api_error(problem)
        case Timeout() | urllib3.exceptions.TimeoutError() | TimeoutError():
            return _build_timeout_error()
        case DockerException() if isinstance(problem.__cause__, _SDK_EXCEPTIONS):
            # The client failed to ask for the version, and wraps the reason.
            return to_engine_error(problem.__cause__)
        case RequestsConnectionError():
            return _build_unreachable_error()
        # Exceptions of requests are OSErrors by inheritance only.
        case OSError() if not isinstance(problem, RequestException):
            return _build_unreachable_error()
        case _:
            return EngineError("engine.failed", "the container engine's answer is unusable", retryable=True)


def _build_api_error(problem: APIError) -> EngineError:
    status = problem.status_code or 500
    if isinstance(problem, ImageNotFound):
        return EngineError("image.missing", "the engine lacks the image; run `assay images build`")
    if status == 404:
        return EngineError("container.missing", "the container doesn't exist, or no longer exists")
    if status == 409:
        return EngineError(
            "engine.conflict", "the container's state doesn't allow this operation", retryable=True
        )
    if status < 500:
        return EngineError("engine.refused", f"the container engine refused the request (status {status})")
    message = f"the container engine failed (status {status}); its log says why"
    return EngineError("engine.failed", message, retryable=True)


def _build_unreachable_error() -> EngineError:
    message = "can't reach the container engine; check that it runs and that this user may open its socket"
    return EngineError("engine.unreachable", message, retryable=True)


def _build_timeout_error() -> EngineError:
    return EngineError("engine.timeout", "the container engine didn't answer in time", retryable=True)


def _cancel_or_discard(job: Future[T], discard: Callable[[T], None] | None) -> None:
    if job.cancel() or discard is None:
        return

    def dispose(done: Future[T]) -> None:
        if not done.cancelled() and done.exception() is None:
            discard(done.result())

    job.add_done_callback(dispose)
