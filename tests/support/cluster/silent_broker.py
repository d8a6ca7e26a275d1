"""A broker that speaks AMQP 0-9-1 up to a step; from then on it reads but doesn't answer."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

EMPTY = struct.pack(">I", 0)
Method = tuple[int, int]
OPEN_CHANNEL, SELECT_CONFIRMS, PUBLISH = (20, 10), (85, 10), (60, 40)
ANSWERS: Mapping[Method, tuple[Method, bytes]] = {
    (10, 11): ((10, 30), struct.pack(">HIH", 100, 2**17, 10)),
    (10, 40): ((10, 41), b"\0"),
    OPEN_CHANNEL: ((20, 11), EMPTY),
    SELECT_CONFIRMS: ((85, 11), b""),
}
"""What is answered to a client's method, each by class and number."""


def _frame(channel: int, method: Method, arguments: bytes) -> bytes:
    payload = struct.pack(">HH", *method) + arguments
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


@contextmanager
def broker_silent_from(step: Method) -> Iterator[str]:
    """Yield the URL of a broker that answers only the steps before `step`."""

    class Conversation(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read(8)
            texts = (struct.pack(">I", len(text)) + text for text in (b"", b"PLAIN", b"en_US"))
            self.wfile.write(_frame(0, (10, 10), b"\0\x09" + b"".join(texts)))
            while header := self.rfile.read(7):
                kind, channel, size = struct.unpack(">BHI", header)
                payload = self.rfile.read(size + 1)
                method = struct.unpack(">HH", payload[:4]) if kind == 1 else step
                if method == step:
                    break
                self.wfile.write(_frame(channel, *ANSWERS[method]))
            self.rfile.read()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"amqp://user:password@127.0.0.1:{server.server_address[1]}//"
        finally:
            server.shutdown()
            thread.join()
