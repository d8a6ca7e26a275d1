"""Exchanges frames over a container's standard streams with the guest, a hostile peer.

This module checks the form of frames: their size, and the types and ranges of header fields. `conversation`
checks their order and meaning. The module also builds the frames that the daemon sends.

Units are sent in advance, as long as they fit into a pipe. The runner doesn't read a unit that was sent in
advance until the previous unit has ended; until then, no process in the container holds the unit's data.
Units are not sent in advance if the end of a unit determines the next step, or under an allowlist, because
connections need the stream. If the last unit can be repeated without its check, the final frame isn't sent
in advance.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assayd.documents import canonical
from assayd.guest import frames
from assayd.guest.frames import MAX_BODY_BYTES, PROTOCOL, encode_frame, split_into_bodies
from assayd.model.policy import NetworkMode
from assayd.model.run import RunSpec, Unit
from assayd.ports.egress import EgressLimits
from assayd.ports.engine import RunnerStreams

Header = frames.Header

FRAMES_PER_TURN = 64


class GuestProtocolError(Exception):
    """A protocol violation by the guest. `sandbox` always converts this exception to the run's end."""


class StreamEndedError(Exception):
    """The end of the guest's stream. `sandbox` always converts this exception to the run's end."""


class RunnerChannel:
    """The framed connection to one runner."""

    def __init__(self, duplex: RunnerStreams) -> None:
        self.duplex = duplex
        self._decoder = frames.FrameDecoder()
        self._coming: Iterator[tuple[Header, bytes]] = iter(())
        self._given = 0

    async def send(self, *parts: bytes) -> None:
        """Send several encoded frames in one write. Do nothing if they are empty.

        Raises: EngineError, if the stream is broken.
        """
        if data := b"".join(parts):
            await self.duplex.write(data)

    async def receive(self) -> tuple[Header, bytes]:
        """Return the next frame.

        After every few frames, this method yields to other tasks, because a guest that sends many small
        frames would otherwise occupy the event loop.

        Raises: GuestProtocolError, if the bytes aren't a frame; StreamEndedError at the end; EngineError, if
        the stream fails.
        """
        self._given += 1
        if self._given % FRAMES_PER_TURN == 0:
            await asyncio.sleep(0)
        while (frame := self._next()) is None:
            data = await self.duplex.read()
            if not data:
                raise StreamEndedError
            self._coming = self._decoder.feed(data)
        return frame

    def _next(self) -> tuple[Header, bytes] | None:
        try:
            return next(self._coming, None)
        except frames.FrameError as problem:
            raise GuestProtocolError(str(problem)) from None

    async def close(self) -> None:
        """Close the streams. Call this before the container is killed."""
        await self.duplex.close()


def get_integer(header: Header, field: str, *, most: int = 2**53) -> int:
    """Return a header field. Raises: GuestProtocolError, if it isn't an integer from 0 to `most`."""
    value = header.get(field)
    if type(value) is not int or not 0 <= value <= most:
        raise GuestProtocolError(f"{header['type']}.{field} is not an integer in range")
    return value


def get_number(header: Header, field: str) -> float:
    """Return a header field. Raises: GuestProtocolError, if it isn't a number from 0 to below 1e12."""
    value = header.get(field)
    if type(value) not in (int, float) or not 0 <= value < 1e12:  # type: ignore[operator]
        raise GuestProtocolError(f"{header['type']}.{field} is not a number in range")
    return float(value)  # type: ignore[arg-type]


def get_text(header: Header, field: str, *, most: int = 4096) -> str:
    """Return a header field.

    Raises: GuestProtocolError, if it isn't a string of at most `most` characters.
    """
    value = header.get(field)
    if type(value) is not str or len(value) > most:
        raise GuestProtocolError(f"{header['type']}.{field} is not a string of at most {most} characters")
    return value


def get_boolean(header: Header, field: str) -> bool:
    """Return a header field. Raises: GuestProtocolError, if it isn't a boolean."""
    value = header.get(field)
    if type(value) is not bool:
        raise GuestProtocolError(f"{header['type']}.{field} is not a boolean")
    return value


FINISH_FRAME = encode_frame({"type": "finish"})
LEAVE_FRAME = encode_frame({"type": "leave"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReport:
    """A runner's report that it is ready. `memory_bytes` is the container's memory use at that time."""

    python: str
    memory_bytes: int
    cgroup: int
    not_preloaded: tuple[str, ...] = ()


async def wait_until_ready(channel: RunnerChannel, preload: Sequence[str]) -> ReadyReport:
    """Open the conversation, wait until the runner is ready, and return its report.

    Raises: GuestProtocolError, if the answer violates the protocol; StreamEndedError, if the runner ends.
    """
    await channel.send(encode_frame({"type": "hello", "protocol": PROTOCOL, "preload": list(preload)}))
    header, _ = await channel.receive()
    if header["type"] == "fault":
        raise GuestProtocolError(f"the runner can't start: {get_text(header, 'message')}")
    if header["type"] != "ready" or header.get("protocol") != PROTOCOL:
        raise GuestProtocolError("the runner speaks another protocol; rebuild the image")
    return ReadyReport(
        python=get_text(header, "python", most=32),
        memory_bytes=get_integer(header, "memory_bytes"),
        cgroup=get_integer(header, "cgroup", most=2),
        not_preloaded=_list_failed_modules(preload, header.get("preload_failed")),
    )


def _list_failed_modules(preload: Sequence[str], named: object) -> tuple[str, ...]:
    """Return the modules that the runner couldn't preload. Ignore names that weren't requested."""
    return tuple(name for name in preload if name in named) if isinstance(named, list) else ()


def build_begin_frame(spec: RunSpec, relay: EgressLimits | None = None) -> bytes:
    """Return the frame that begins an attempt and contains its rules.

    The frame contains no submitted code and starts no unit.

    Args:
        spec: the run spec.
        relay: the relay's limits, or None if the policy has no allowlist. The allowlist itself isn't sent.
    """
    limits, imports = spec.limits, spec.imports
    return encode_frame(
        {
            "type": "begin",
            "limits": {
                "max_processes": limits.max_processes,
                "open_files": limits.open_files,
                "output_kept_bytes": limits.output_kept_bytes,
                "output_read_bytes": limits.output_read_bytes,
                "unit_result_bytes": limits.unit_result_bytes,
                "outputs_files": limits.outputs_files,
                "outputs_bytes": limits.outputs_bytes,
                "work_bytes": limits.work_bytes,
            },
            "imports": {
                "mode": imports.mode.value,
                "allowed": sorted(imports.allowed),
                "denied": sorted(imports.denied),
                "submodules": imports.submodules.value,
                "enforce_forbidden": imports.enforce_forbidden,
            },
            "network": {"mode": "blocked"}
            if relay is None
            else {"mode": "allowlist", "streams": relay.streams, "connections": relay.connections},
            "allow_exec": spec.allow_exec,
            "folders": list(spec.folders),
            "collect": list(spec.collect),
            "changed_only": spec.changed_only,
            "programs": sorted({unit.program.value for unit in spec.units}),
            "preload": list(spec.needed),
        }
    )


def iter_content_frames(spec: RunSpec) -> Iterator[bytes]:
    """Yield the frames with the content for all units: solution, tests, files and database."""
    if spec.paired is not None:
        # First, because the solution's processes must not hold any of its tests.
        yield encode_frame({"type": "solution"}, canonical(spec.paired.solution))
        for part in split_into_bodies(canonical(spec.paired.tests)):
            yield encode_frame({"type": "common"}, part)
    yield from iter_file_frames(spec.files)
    for part in split_into_bodies(spec.database) if spec.database else ():
        yield encode_frame({"type": "database"}, part)


def iter_file_frames(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the frames that stage files. A large file has several frames."""
    for path, content in files.items():
        for index, part in enumerate(split_into_bodies(content)):
            yield encode_frame({"type": "file", "path": path, "append": index > 0}, part)


def iter_unit_frames(index: int, unit: Unit, *, more: bool) -> Iterator[bytes]:
    """Yield a unit's frames. The last frame starts the unit. `more` is true if another unit follows."""
    yield from iter_file_frames(unit.files)
    for part in split_into_bodies(unit.stdin) if unit.stdin else ():
        yield encode_frame({"type": "stdin"}, part)
    arguments = canonical(unit.arguments)
    whole, last = divmod(max(len(arguments) - 1, 0), MAX_BODY_BYTES)
    for part in list(split_into_bodies(arguments))[:whole]:
        yield encode_frame({"type": "arguments"}, part)
    yield encode_frame(
        {
            "type": "unit",
            "unit": index,
            "name": unit.name[:256],
            "program": unit.program.value,
            "deadline_s": unit.deadline_s,
            "fresh_cwd": unit.fresh_cwd,
            "more": more,
        },
        arguments[whole * MAX_BODY_BYTES : whole * MAX_BODY_BYTES + last + 1],
    )


AHEAD_BYTES = 32 * 2**10
"""Maximum bytes to send in advance: half a pipe, so that sending never blocks."""


class SendAheadWindow:
    """The frames of a run's units and its final frame, in portions that can be sent in advance."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._alone = (
            spec.stop_on_failure
            or spec.network.mode is NetworkMode.ALLOWLIST
            or any(unit.log is not None for unit in spec.units)
        )
        self._frames = self._iter_all_frames()
        self._next: bytes | None = next(self._frames, None)
        self._under_way: deque[int] = deque()

    def pop_due_frames(self) -> bytes:
        """Return the frames to send now: at least the next unit's frames, unless they were already sent."""
        portion = []
        while self._next is not None and self._can_send(self._next):
            portion.append(self._next)
            self._under_way.append(len(self._next))
            self._next = next(self._frames, None)
        return b"".join(portion)

    def ended(self) -> None:
        """Record that the oldest unit in progress has ended."""
        self._under_way.popleft()

    def finish(self) -> bytes:
        """Return the frame that ends the conversation, or no bytes if it was sent in advance."""
        return b"" if self._under_way else FINISH_FRAME

    def _can_send(self, frames: bytes) -> bool:
        if not self._under_way:
            return True
        return not self._alone and sum(self._under_way) + len(frames) <= AHEAD_BYTES

    def _iter_all_frames(self) -> Iterator[bytes]:
        last = len(self._spec.units) - 1
        for index, unit in enumerate(self._spec.units):
            yield b"".join(iter_unit_frames(index, unit, more=index < last))
        if not self._alone and not any(unit.without_check for unit in self._spec.units[-1:]):
            yield FINISH_FRAME
