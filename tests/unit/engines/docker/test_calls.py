import asyncio
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import requests
import urllib3.exceptions
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from hypothesis import given
from hypothesis import strategies as st

from assayd.engines.docker.calls import (
    AttachedStream,
    Demultiplexer,
    DockerApi,
    DockerCallRunner,
    to_engine_error,
)
from assayd.errors import EngineError


def piece(stream: int, data: bytes) -> bytes:
    return struct.pack(">B3xI", stream, len(data)) + data


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)), max_size=20),
    st.lists(st.integers(1, 50), min_size=1),
)
def test_output_is_the_same_however_it_is_cut(pieces: list[tuple[int, bytes]], cuts: list[int]) -> None:
    rest = b"".join(piece(stream, data) for stream, data in pieces)
    demultiplexer = Demultiplexer()
    output = b""
    turn = 0
    while rest:
        size = cuts[turn % len(cuts)]
        output += demultiplexer.feed(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert output == b"".join(data for stream, data in pieces if stream == 1)
    assert demultiplexer.diagnostics == b"".join(data for stream, data in pieces if stream == 2)


def test_only_the_end_of_standard_error_is_kept() -> None:
    demultiplexer = Demultiplexer()
    assert demultiplexer.feed(piece(2, b"a" * 9000) + piece(2, b"b" * 100)) == b""
    assert demultiplexer.diagnostics == b"a" * 8092 + b"b" * 100


def test_header_that_names_no_stream_is_refused() -> None:
    with pytest.raises(EngineError) as caught:
        Demultiplexer().feed(piece(9, b"x"))
    assert caught.value.code == "engine.stream_invalid"


async def attached() -> tuple[AttachedStream, socket.socket, list[str]]:
    ours, theirs = socket.socketpair()
    released: list[str] = []
    return await AttachedStream.open(ours, lambda: released.append("released")), theirs, released


async def test_read_waits_for_output_and_skips_standard_error() -> None:
    stream, theirs, _ = await attached()
    theirs.sendall(piece(2, b"noise") + piece(1, b"") + piece(1, b"signal"))
    assert await stream.read() == b"signal"
    assert stream.diagnostics == b"noise"
    theirs.close()
    assert await stream.read() == b""
    await stream.close()


async def test_end_in_the_middle_of_a_piece_gives_what_there_was() -> None:
    stream, theirs, _ = await attached()
    theirs.sendall(piece(1, b"whole") + piece(1, b"torn")[:-2])
    theirs.close()
    assert await stream.read() + await stream.read() == b"wholeto"
    assert await stream.read() == b""
    await stream.close()


async def test_close_releases_once_and_ends_a_read_that_waits() -> None:
    stream, theirs, released = await attached()
    async with asyncio.TaskGroup() as both:
        waiting = both.create_task(stream.read())
        await asyncio.sleep(0)
        await stream.close()
        await stream.close()
    assert waiting.result() == b""
    assert released == ["released"]
    theirs.close()


async def test_close_ends_a_write_that_nobody_reads() -> None:
    stream, theirs, _ = await attached()

    async def write_into_the_void() -> None:
        with pytest.raises(EngineError, match="is gone"):
            await stream.write(b"x" * 2**24)

    async with asyncio.TaskGroup() as both:
        both.create_task(write_into_the_void())
        await asyncio.sleep(0)
        await stream.close()
    theirs.close()


async def test_write_to_a_lost_connection_is_our_trouble() -> None:
    stream, theirs, _ = await attached()
    theirs.close()
    assert await stream.read() == b""
    with pytest.raises(EngineError) as caught:
        await stream.write(b"x" * 2**24)
    assert (caught.value.code, caught.value.retryable) == ("engine.stream_broken", True)
    await stream.close()


def answered(status: int) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("/var/lib/docker said something", response=response)


@pytest.mark.parametrize(
    ("problem", "code", "retryable"),
    [
        (ImageNotFound("no such image: secret"), "image.missing", False),
        (NotFound("no such container", response=answered(404).response), "container.missing", False),
        (answered(400), "engine.refused", False),
        (answered(409), "engine.conflict", True),
        (answered(500), "engine.failed", True),
        (requests.ReadTimeout(), "engine.timeout", True),
        (requests.ConnectTimeout(), "engine.timeout", True),
        (urllib3.exceptions.ReadTimeoutError(None, "", ""), "engine.timeout", True),  # type: ignore[arg-type]
        (requests.ConnectionError("/run/docker.sock"), "engine.unreachable", True),
        (PermissionError(13, "/run/docker.sock"), "engine.unreachable", True),
        (urllib3.exceptions.ProtocolError("torn"), "engine.failed", True),
        (requests.JSONDecodeError("not JSON", "", 0), "engine.failed", True),
        (DockerException("strange"), "engine.failed", True),
    ],
)
def test_foreign_exception_becomes_ours(problem: Exception, code: str, retryable: bool) -> None:
    ours = to_engine_error(problem)
    assert (ours.code, ours.retryable) == (code, retryable)


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_message_does_not_carry_the_words_of_the_engine(status: int) -> None:
    assert "/var/lib" not in to_engine_error(answered(status)).message


def test_reason_that_the_client_wraps_is_found() -> None:
    wrapper = DockerException("Error while fetching server API version")
    wrapper.__cause__ = requests.ReadTimeout()
    assert to_engine_error(wrapper).code == "engine.timeout"


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """Serve an engine that answers with its version, and to nothing else."""
    version = json.dumps({"ApiVersion": "1.41"}).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"GET /version" in await reader.readline():
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(version), version))
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "engine.sock")
    yield f"unix://{tmp_path}/engine.sock"
    server.close()


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.info(),
        lambda client: client.attach_socket("id", params={"stdin": 1}),
        lambda client: client.start("id"),
        lambda client: client.remove_container("id", v=True, force=True),
    ],
    ids=["info", "attach", "start", "remove"],
)
async def test_engine_that_does_not_answer_is_a_timeout(
    address: str, act: Callable[[DockerApi], object]
) -> None:
    calls = DockerCallRunner(address, threads=1, timeout_s=0.1)
    with pytest.raises(EngineError) as caught:
        await calls(act)
    assert (caught.value.code, caught.value.retryable) == ("engine.timeout", True)
    assert isinstance(caught.value.__cause__, requests.ReadTimeout)
    calls.close()


async def test_engine_that_is_not_there_is_unreachable(unused_tcp_port: int) -> None:
    calls = DockerCallRunner(f"tcp://127.0.0.1:{unused_tcp_port}", threads=1, timeout_s=1)
    with pytest.raises(EngineError) as caught:
        await calls(lambda client: client.info())
    assert caught.value.code == "engine.unreachable"
    calls.close()


async def test_closed_calls_refuse(address: str) -> None:
    calls = DockerCallRunner(address, threads=1, timeout_s=1)
    calls.close()
    with pytest.raises(EngineError) as caught:
        await calls(lambda client: client.info())
    assert caught.value.code == "engine.closed"


async def test_result_of_a_call_that_was_cancelled_is_discarded(address: str) -> None:
    calls = DockerCallRunner(address, threads=1, timeout_s=5)
    entered, proceed = asyncio.Event(), threading.Event()
    discarded: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def act(client: DockerApi) -> str:
        loop.call_soon_threadsafe(entered.set)
        proceed.wait(5)
        return "connection"

    def discard(result: str) -> None:
        loop.call_soon_threadsafe(discarded.put_nowait, result)

    call = asyncio.ensure_future(calls(act, discard=discard))
    await entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    proceed.set()
    assert await discarded.get() == "connection"
    calls.close()
