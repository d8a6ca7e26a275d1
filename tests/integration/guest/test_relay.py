"""The runner's end of the proxy: real connections to its listener become frames."""

from __future__ import annotations

import pytest

from assayd.guest.frames import MIN_WINDOW_COST, WINDOW, compute_window_cost
from support.guests.guest_runner import Frame, GuestRunner, call_of

MODULES = ("os", "socket", "urllib", "http", "asyncio", "time")

CONNECT = """\
import os, socket

def connect():
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)))

"""


@pytest.fixture
def relaying(runner: GuestRunner) -> GuestRunner:
    """Return a runner that waits for units, with an allowlist: 4 connections at a time, 8 altogether."""
    runner.begin(mode="observe", network="allowlist", allowed=MODULES, allow_exec=True)
    return runner


class Unit:
    """A running unit, and the daemon's side of its connections."""

    def __init__(self, runner: GuestRunner) -> None:
        self.runner = runner
        self.frames: list[Frame] = []

    def next(self, kind: str) -> Frame:
        """Return the next frame of a kind."""
        self.frames += self.runner.until(kind)
        return self.frames[-1]

    def send(self, kind: str, body: bytes = b"", *, stream: int = 0, **more: object) -> None:
        self.runner.send(f"stream_{kind}", body, stream=stream, **more)

    def end(self) -> dict[str, object]:
        """Wait for the unit's end; return its value."""
        self.next("unit_end")
        (record,) = [body for header, body in self.frames if header["type"] == "result"]
        assert b'"returned"' in record, record
        return eval(record, {"true": True, "false": False, "null": None})  # type: ignore[no-any-return]

    def bodies(self, stream: int = 0) -> bytes:
        return b"".join(
            body for head, body in self.frames if head["type"] == "stream_data" and head["stream"] == stream
        )


def start(runner: GuestRunner, source: str, *args: object) -> Unit:
    runner.start("call", call_of(CONNECT + source, *args))
    return Unit(runner)


def test_environment_names_the_proxy_in_both_spellings(relaying: GuestRunner) -> None:
    seen = relaying.call("import os\ndef extract(): return dict(os.environ)")

    assert isinstance(seen.value, dict)
    place = seen.value["HTTP_PROXY"]
    assert place.startswith("http://127.0.0.1:")
    assert seen.value == {
        **dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"), place),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1"),
    }


def test_blocked_network_has_no_environment(runner: GuestRunner) -> None:
    runner.begin(mode="observe")

    assert runner.call("import os\ndef extract(): return dict(os.environ)").value == {}


def test_bytes_come_and_go_and_both_sides_end(relaying: GuestRunner) -> None:
    source = """\
def extract():
    with connect() as stream:
        stream.sendall(b"ping")
        stream.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: stream.recv(10), b"")).decode()
"""
    running = start(relaying, source)
    assert running.next("stream_open")[0]["stream"] == 0
    running.next("stream_end")
    running.send("data", b"po")
    running.send("data", b"ng")
    running.send("end")
    assert running.end()["value"] == "pong"

    assert running.bodies() == b"ping"


def test_reset_of_the_daemon_is_an_error_and_no_end(relaying: GuestRunner) -> None:
    source = """\
def extract():
    with connect() as stream:
        stream.sendall(b"x")
        try:
            return stream.recv(10).decode()
        except ConnectionResetError:
            return "reset"
"""
    running = start(relaying, source)
    running.next("stream_data")
    running.send("reset")
    assert running.end()["value"] == "reset"


def test_reset_of_the_guest_is_told(relaying: GuestRunner) -> None:
    source = """\
import struct
def extract():
    stream = connect()
    stream.sendall(b"x")
    stream.recv(1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()
    while True:
        pass
"""
    running = start(relaying, source)
    running.next("stream_data")
    running.send("data", b"y")
    assert running.next("stream_reset")[0]["stream"] == 0


def test_guest_sends_no_more_than_it_has_credit_for(relaying: GuestRunner) -> None:
    source = """\
def extract(size):
    with connect() as stream:
        stream.sendall(b"x" * size)
        stream.recv(1)
    return size
"""
    size = 3 * WINDOW
    running = start(relaying, source, size)
    left = WINDOW
    while len(running.bodies()) < size:
        left -= compute_window_cost(running.next("stream_data")[1])
        assert left >= 0
        if left < MIN_WINDOW_COST:
            running.send("credit", credit=WINDOW)
            left += WINDOW
    running.send("end")
    assert running.end()["value"] == size


def test_small_pieces_use_up_credit_at_their_cost(relaying: GuestRunner) -> None:
    source = """\
def extract(count):
    with connect() as stream:
        for number in range(count):
            stream.sendall(b"x")
            stream.recv(1)
        stream.sendall(b"x")
        print("sent")
        stream.recv(1)
"""
    most = WINDOW // MIN_WINDOW_COST
    running = start(relaying, source, most)
    for _ in range(most):
        running.next("stream_data")
        running.send("data", b"y")
    running.next("output")
    assert len(running.bodies()) == most
    running.send("credit", credit=MIN_WINDOW_COST)
    running.next("stream_data")
    running.send("data", b"y")
    running.end()


def test_daemon_is_told_what_the_guest_has_taken(relaying: GuestRunner) -> None:
    source = """\
def extract(size):
    with connect() as stream:
        got = 0
        while got < size:
            got += len(stream.recv(65536))
        return got
"""
    size, sent, credit = 4 * WINDOW, 0, WINDOW
    running = start(relaying, source, size)
    running.next("stream_open")
    while sent < size:
        if not credit:
            credit += int(str(running.next("stream_credit")[0]["credit"]))
        piece = min(credit, 16 * 1024)
        running.send("data", b"x" * piece)
        sent, credit = sent + piece, credit - piece
    assert running.end()["value"] == size


def test_more_than_was_given_credit_for_is_a_fault_of_the_daemon(relaying: GuestRunner) -> None:
    source = "def extract():\n    kept = connect()\n    while True: pass"
    running = start(relaying, source)
    running.next("stream_open")
    running.send("data", b"x" * (WINDOW + 1))
    while (frame := relaying.receive()[0])["type"] != "fault":
        assert str(frame["type"]).startswith("stream_")

    assert "more than it gave credit for" in str(frame["message"])


def test_connections_beyond_those_at_once_wait_and_those_beyond_all_are_refused(
    relaying: GuestRunner,
) -> None:
    source = """\
def extract():
    open_at_once = [connect() for _ in range(6)]
    for stream in open_at_once:
        stream.close()
    last = [connect() for _ in range(6)]
    ends = []
    for stream in last:
        stream.settimeout(10)
        stream.sendall(b"x")
        try:
            ends.append(stream.recv(64)[:12].decode())
        except ConnectionResetError:
            ends.append("")
    return ends
"""
    running = start(relaying, source)
    open_now: set[object] = set()
    most = 0
    while True:
        header, _ = relaying.receive()
        running.frames.append((header, _))
        kind, number = header["type"], header.get("stream")
        if kind == "stream_open":
            open_now.add(number)
            most = max(most, len(open_now))
        elif kind == "stream_end":
            running.send("end", stream=int(str(number)))
            open_now.discard(number)
        elif kind == "stream_data":
            running.send("data", b"y", stream=int(str(number)))
            running.send("end", stream=int(str(number)))
        elif kind == "unit_end":
            break

    kinds = [header["type"] for header, _ in running.frames]
    record = next(body for header, body in running.frames if header["type"] == "result")
    assert (most, kinds.count("stream_open"), kinds.count("stream_limit")) == (4, 8, 1)
    assert b'"value":["y","y"' + b',"HTTP/1.1 429"' * 4 + b"]" in record


def test_no_connection_of_a_unit_reaches_the_next(relaying: GuestRunner) -> None:
    leave = """\
def extract():
    kept.extend(connect() for _ in range(6))
    kept[0].sendall(b"of the first")
    os.read(0, 1)
kept = []
"""
    relaying.start("call", call_of(CONNECT + leave), stdin=b"x")
    relaying.until("unit_end")
    source = """\
def extract():
    with connect() as stream:
        stream.sendall(b"of the second")
        stream.recv(1)
"""
    running = start(relaying, source)
    number = running.next("stream_data")[0]["stream"]
    running.send("data", b"late", stream=0)  # for the first unit's; it is gone
    running.send("end", stream=int(str(number)))
    running.end()

    units = {header["unit"] for header, _ in running.frames if str(header["type"]).startswith("stream")}
    assert (units, running.bodies(int(str(number)))) == ({1}, b"of the second")


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ({"stream": 0}, "stream 0 doesn't exist"),
        ({"stream": -1}, "stream -1 doesn't exist"),
        ({"stream": "0"}, "stream is not a int"),
    ],
)
def test_frame_for_a_stream_that_never_was_is_a_fault(
    relaying: GuestRunner, frame: dict[str, object], complaint: str
) -> None:
    relaying.send("stream_data", b"x", **frame)

    assert complaint in str(relaying.receive()[0]["message"])


def test_stream_where_the_network_is_blocked_is_a_fault(begun: GuestRunner) -> None:
    begun.send("stream_data", b"x", stream=0)

    assert "this container has no relay" in str(begun.receive()[0]["message"])


def test_output_and_result_get_through_beside_a_connection_that_is_not_read(relaying: GuestRunner) -> None:
    source = """\
import threading
def extract():
    stream = connect()
    threading.Thread(target=stream.sendall, args=(b"x" * 10**7,), daemon=True).start()
    print("y" * 50_000)
    return "well"
"""
    running = start(relaying, source)
    assert running.end()["value"] == "well"
