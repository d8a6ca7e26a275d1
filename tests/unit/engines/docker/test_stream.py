import asyncio
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.engines.docker.stream import AttachedStream, Demultiplexer
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
