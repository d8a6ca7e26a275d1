"""Streams over plain pipes, on both event loops; the launcher, with shell scripts instead of the runtime."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from assayd.engines.oci.process import (
    ContainerStartError,
    LauncherConnection,
    LauncherProcess,
    LaunchRequest,
    PipeEnd,
    PipeStream,
    create_pipes,
)
from assayd.errors import EngineError

LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


async def nothing() -> None:
    """Report no problem."""


async def opened(inspect: Callable[[], object] = nothing) -> tuple[PipeStream, list[int]]:
    ends, theirs = create_pipes()
    stream = PipeStream(inspect)  # type: ignore[arg-type]
    await stream.connect(ends)
    return stream, theirs


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@LOOPS
def test_bytes_go_both_ways_and_output_ends(loop: NewLoop) -> None:
    async def act() -> tuple[bytes, bytes, bytes]:
        stream, (stdin, stdout, stderr) = await opened()
        await stream.write(b"in")
        os.write(stdout, b"out")
        first, came = await stream.read(), os.read(stdin, 10)
        close(stdin, stdout, stderr)
        last = await stream.read()
        await stream.close()
        return came, first, last

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(act()) == (b"in", b"out", b"")


@LOOPS
def test_closed_stream_gives_nothing_takes_nothing_and_may_be_closed_again(loop: NewLoop) -> None:
    async def act() -> tuple[bytes, str]:
        stream, theirs = await opened()
        os.write(theirs[1], b"late")
        await stream.close()
        await stream.close()
        with pytest.raises(EngineError) as caught:
            await stream.write(b"more")
        close(*theirs)
        return await stream.read(), caught.value.code

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(act()) == (b"", "engine.stream_broken")


@LOOPS
def test_writer_waits_while_nobody_reads_and_is_told_when_nobody_can(loop: NewLoop) -> None:
    async def act() -> str:
        stream, theirs = await opened()
        waiting = asyncio.ensure_future(stream.write(b"x" * 2**20))
        await asyncio.wait({waiting}, timeout=0.05)
        assert not waiting.done()
        close(*theirs)
        with pytest.raises(EngineError) as caught:
            await waiting
        await stream.close()
        return caught.value.code

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(act()) == "engine.stream_broken"


async def test_nothing_is_passed_on_before_the_container_was_inspected() -> None:
    seen: list[str] = []

    async def inspect() -> None:
        seen.append("inspected")
        raise EngineError("engine.mismatch", "not what was asked for")

    stream, theirs = await opened(inspect)
    os.write(theirs[1], b"ready")
    with pytest.raises(EngineError) as caught:
        await stream.read()
    assert (caught.value.code, seen) == ("engine.mismatch", ["inspected"])
    await stream.close()
    close(*theirs)


async def test_only_the_end_of_standard_error_is_kept() -> None:
    stream, theirs = await opened()
    os.write(theirs[2], b"a" * 10_000 + b"last")
    close(*theirs)
    assert await stream.read() == b""
    async with asyncio.timeout(10):
        while not stream.diagnostics.endswith(b"last"):
            await asyncio.sleep(0)
    assert len(stream.diagnostics) == 8192
    await stream.close()


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[LauncherProcess]:
    """Start the launcher without mounts, which would need root."""
    made = await LauncherProcess.start(images=str(tmp_path), image_mount_folder="", hugetlb="", timeout_s=20)
    yield made
    made.close()


def runtime(folder: Path, script: str) -> LaunchRequest:
    """Return a launch of a shell script instead of a runtime; the script's child is the container."""
    return LaunchRequest(
        name="C", arguments=["/bin/sh", "-c", script, str(folder / "pid")], join=(), pid_file=folder / "pid"
    )


def detached(program: str) -> str:
    return f"sh -c '{program}' & echo $! >\"$0\""


async def launched(launcher: LauncherProcess, folder: Path, script: str):
    ends, theirs = create_pipes()
    try:
        return await launcher.launch(runtime(folder, script), theirs)
    finally:
        close(*theirs)
        ends.close()


async def test_end_of_a_container_is_told_with_its_code(launcher: LauncherProcess, tmp_path: Path) -> None:
    # It lives for as long as its input is open; a shell that is still there would wait for it in our place.
    process = await launched(launcher, tmp_path, "exec 3<&0; " + detached("cat <&3; exit 7"))
    async with asyncio.timeout(10):
        await process.ended.wait()
    assert process.exit_code == 7


async def test_container_that_its_runtime_has_waited_for_has_failed(
    launcher: LauncherProcess, tmp_path: Path
) -> None:
    with pytest.raises(ContainerStartError):
        await launched(launcher, tmp_path, detached("exit 7") + "; wait")
    process = await launched(launcher, tmp_path, "exec 3<&0; " + detached("cat <&3"))
    assert process.pid


async def test_killed_container_ends_with_the_signal(launcher: LauncherProcess, tmp_path: Path) -> None:
    process = await launched(launcher, tmp_path, detached("exec sleep 60"))
    process.kill()
    async with asyncio.timeout(10):
        await process.ended.wait()
    assert process.exit_code == 128 + signal.SIGKILL


async def test_runtime_that_fails_is_told(launcher: LauncherProcess, tmp_path: Path) -> None:
    with pytest.raises(ContainerStartError, match="3"):
        await launched(launcher, tmp_path, "exit 3")


async def test_container_does_not_start_where_its_control_group_is_gone(
    launcher: LauncherProcess, tmp_path: Path
) -> None:
    launch = LaunchRequest(
        name="C",
        arguments=["/bin/sh", "-c", f"echo started >{tmp_path}/started"],
        join=[f"{tmp_path}/gone/cgroup.procs"],
        pid_file=tmp_path / "pid",
    )
    ends, theirs = create_pipes()
    with pytest.raises(ContainerStartError):
        await launcher.launch(launch, theirs)
    close(*theirs)
    ends.close()
    assert not (tmp_path / "started").exists()


async def test_containers_end_with_the_daemons_end_of_the_socket(
    launcher: LauncherProcess, tmp_path: Path
) -> None:
    process = await launched(launcher, tmp_path, detached("exec sleep 60"))
    handle = os.pidfd_open(process.pid)
    launcher._process.poll()
    launcher.close()
    assert process.ended.is_set()
    os.set_blocking(handle, False)
    assert not Path(f"/proc/{process.pid}/exe").exists()
    os.close(handle)


async def test_launcher_that_dies_fails_what_waits_and_is_known_to_be_gone(
    launcher: LauncherProcess, tmp_path: Path
) -> None:
    process = await launched(launcher, tmp_path, detached("exec sleep 60"))
    launcher._process.kill()
    async with asyncio.timeout(10):
        await process.ended.wait()
    assert (launcher.gone, process.exit_code) == (True, None)
    with pytest.raises(EngineError) as caught:
        await launched(launcher, tmp_path, detached("exit 0"))
    assert caught.value.code == "engine.launcher"


async def test_launcher_that_cannot_mount_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="didn't start") as caught:
        await LauncherProcess.start(
            images=str(tmp_path / "absent"), image_mount_folder=str(tmp_path), hugetlb="", timeout_s=20
        )
    assert caught.value.code == "engine.launcher"


def test_an_end_is_closed_once_though_its_number_is_used_anew() -> None:
    reading, writing = os.pipe()
    end = PipeEnd(reading)
    end.close()
    other = os.dup(writing)
    assert other == reading
    end.close()
    assert os.fstat(other)
    os.close(other)
    os.close(writing)


def test_a_descriptor_that_the_loop_closes_itself_is_left_to_it() -> None:
    reading, writing = os.pipe()
    end = PipeEnd(reading)
    loop = uvloop.new_event_loop()
    end.release_to(loop)
    end.close()
    assert os.fstat(reading)
    loop.close()
    os.close(reading)
    os.close(writing)


def test_uvloop_closes_what_it_was_given_itself() -> None:
    async def descriptor_left_open() -> bool:
        ends, theirs = create_pipes()
        stream = PipeStream(nothing)
        await stream.connect(ends)
        await stream.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for descriptor in theirs:
            os.close(descriptor)
        return all(Path(f"/proc/self/fd/{end.fileno()}").exists() for end in (ends.stdin, ends.stdout))

    assert uvloop.run(descriptor_left_open()) is False


Pair = tuple[LauncherConnection, socket.socket]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control = LauncherConnection(ours, "the other", lambda: None)
    yield control, theirs
    control.disconnect()
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
    with pytest.raises(ContainerStartError, match="11"):
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
    asked = asyncio.ensure_future(control.request_descriptor("A", {"id": "A", "tree": "/"}))
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
    asked = asyncio.ensure_future(control.request_descriptor("A", {"id": "A", "tree": "/"}))
    await asyncio.sleep(0)
    say(theirs, {"id": "A", "failed": 38})
    with pytest.raises(ContainerStartError, match="38"):
        await asked


async def test_descriptor_that_nobody_waits_for_any_more_is_closed(pair: Pair) -> None:
    control, theirs = pair
    asked = asyncio.ensure_future(control.request_descriptor("A", {"id": "A", "tree": "/"}))
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
        asked = asyncio.ensure_future(control.request_descriptor("A", {"id": "A", "tree": "/"}))
        await asyncio.sleep(0)
    say(theirs, {"id": "A", "tree": "/"})
    if asked_for:
        with pytest.raises(EngineError, match="has died"):
            await asked
    else:
        await wait_until_gone(control)
    assert control.gone


async def wait_until_gone(control: LauncherConnection) -> None:
    async with asyncio.timeout(10):
        while not control.gone:
            await asyncio.sleep(0)
