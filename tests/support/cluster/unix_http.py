"""Answers HTTP requests on a Unix socket by calling a function in threads."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    trace: str | None = None
    """The header `traceparent`."""

    def json(self) -> object:
        return json.loads(self.body)


class Answer(NamedTuple):
    status: int
    content: object
    """Bytes, JSON, or what gives bytes piece by piece."""

    def body(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()


def refusal(status: int, code: str, **more: object) -> Answer:
    error = {"code": code, "message": f"stub: {code}", "field": None, "retryable": status in {409, 503}}
    return Answer(status, {"error": {**error, **more}})


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer: Callable[[Request], Answer]

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing, because tests kill clients on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the library names it
        pass

    def _any(self) -> None:
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query, trace = dict(parse_qsl(address.query)), self.headers.get("traceparent")
        answer = self.server.answer(Request(self.command, address.path, query, body, trace))
        if isinstance(answer.content, Iterator):
            self._stream(answer.status, answer.content)
            return
        content = answer.body()
        with suppress(ConnectionError):
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _stream(self, status: int, pieces: Iterator[bytes]) -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Connection", "close")
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)
        self.close_connection = True

    do_GET = do_POST = do_PUT = _any  # noqa: N815  # as the library names them


@contextmanager
def serving(socket: Path, answer: Callable[[Request], Answer]) -> Iterator[None]:
    """Serve a socket while the body runs."""
    socket.unlink(missing_ok=True)
    server = _Server(str(socket), _Handler)
    server.answer = answer
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        socket.unlink(missing_ok=True)
