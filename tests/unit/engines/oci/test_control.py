"""The daemon's end of the socket that starts containers: unexpected messages aren't trusted."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest

from assayd.engines.oci.control import Control, StartFailed
from assayd.errors import EngineError

Pair = tuple[Control, socket.socket]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control = Control(ours, "the other", lambda: None)
    yield control, theirs
    control.lose()
    theirs.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def say(theirs: socket.socket, reply: object, *descriptors: int) -> None:
    socket.send_fds(theirs, [json.dumps(reply).encode()], list(descriptors))


async def test_process_is_the_one_that_the_descriptor_stands_for(
    pair: Pair, sleeper: subprocess.Popen[bytes]
) -> None:
    control, theirs = pair
    starting = asyncio.ensure_future(control.start("A", {"id": "A"}, []))
    await asyncio.sleep(0)
    descriptor = os.pidfd_open(sleeper.pid)
    say(theirs, {"id": "A", "pid": 0}, descriptor)
    os.close(descriptor)
    process = await starting
    process.kill()
    assert (process.pid, sleeper.wait()) == (sleeper.pid, -9)


async def test_refusal_is_told_to_who_waits(pair: Pair) -> None:
    control, theirs = pair
    starting = asyncio.ensure_future(control.start("A", {"id": "A"}, []))
    await asyncio.sleep(0)
    say(theirs, {"id": "A", "failed": 11})
    with pytest.raises(StartFailed, match="11"):
        await starting


@pytest.mark.parametrize(
    "reply",
    [
        {},
        [],
        {"id": "A", "code": "x"},
        {"id": "A", "pid": 0},
        {"id": "A"},
        "not a reply",
    ],
)
async def test_other_end_that_says_the_unexpected_is_lost_with_all_that_it_started(
    pair: Pair, sleeper: subprocess.Popen[bytes], reply: object
) -> None:
    control, theirs = pair
    starting = asyncio.ensure_future(control.start("A", {"id": "A"}, []))
    await asyncio.sleep(0)
    descriptor = os.pidfd_open(sleeper.pid)
    say(theirs, {"id": "A", "pid": 0}, descriptor)
    os.close(descriptor)
    process = await starting
    say(theirs, reply)
    await asyncio.wait_for(process.ended.wait(), 10)
    assert (control.gone, sleeper.wait()) == (True, -9)
    with pytest.raises(EngineError):
        await control.start("B", {"id": "B"}, [])


async def test_descriptor_that_is_no_process_is_not_believed(pair: Pair) -> None:
    control, theirs = pair
    starting = asyncio.ensure_future(control.start("A", {"id": "A"}, []))
    await asyncio.sleep(0)
    with open(os.devnull, "rb") as null:  # noqa: PTH123 - any descriptor
        say(theirs, {"id": "A", "pid": 0}, null.fileno())
    with pytest.raises(EngineError, match="has died"):
        await starting
    assert control.gone


async def test_descriptor_that_was_asked_for_is_handed_over(pair: Pair) -> None:
    control, theirs = pair
    asked = asyncio.ensure_future(control.borrow("A", {"id": "A", "tree": "/"}))
    await asyncio.sleep(0)
    reading, writing = os.pipe()
    say(theirs, {"id": "A", "tree": "/"}, writing)
    os.close(writing)
    lent = await asked
    os.write(lent, b"x")
    assert os.read(reading, 1) == b"x"
    os.close(lent)
    os.close(reading)


async def test_descriptor_that_is_refused_is_told(pair: Pair) -> None:
    control, theirs = pair
    asked = asyncio.ensure_future(control.borrow("A", {"id": "A", "tree": "/"}))
    await asyncio.sleep(0)
    say(theirs, {"id": "A", "failed": 38})
    with pytest.raises(StartFailed, match="38"):
        await asked


async def test_descriptor_that_nobody_waits_for_any_more_is_closed(pair: Pair) -> None:
    control, theirs = pair
    asked = asyncio.ensure_future(control.borrow("A", {"id": "A", "tree": "/"}))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait({asked})
    reading, writing = os.pipe()
    say(theirs, {"id": "A", "tree": "/"}, writing)
    os.close(writing)
    ended = asyncio.get_running_loop().run_in_executor(None, os.read, reading, 1)
    assert await asyncio.wait_for(ended, 10) == b""
    assert not control.gone
    os.close(reading)


@pytest.mark.parametrize("asked_for", [True, False])
async def test_answer_without_a_descriptor_and_one_that_nobody_asked_for_are_not_believed(
    pair: Pair, asked_for: bool
) -> None:
    control, theirs = pair
    if asked_for:
        asked = asyncio.ensure_future(control.borrow("A", {"id": "A", "tree": "/"}))
        await asyncio.sleep(0)
    say(theirs, {"id": "A", "tree": "/"})
    if asked_for:
        with pytest.raises(EngineError, match="has died"):
            await asked
    else:
        await wait_until_gone(control)
    assert control.gone


async def wait_until_gone(control: Control) -> None:
    async with asyncio.timeout(10):
        while not control.gone:
            await asyncio.sleep(0)
