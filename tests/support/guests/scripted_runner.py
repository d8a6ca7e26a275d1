"""A scripted runner's side of the conversation, over an in-memory duplex."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from assayd.guest import frames
from assayd.guest.frames import FrameDecoder, Header, encode_frame

Reply = Callable[[Header, bytes], Iterable[bytes]]


class ScriptedDuplex:
    """Answers every frame of the daemon by calling a function; `None` bytes end the stream."""

    diagnostics = b""

    def __init__(self, reply: Reply) -> None:
        self._write_answer = reply
        self._decoder = FrameDecoder()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[Header] = []
        self.closed = False

    async def read(self) -> bytes:
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        for header, body in self._decoder.feed(data):
            self.sent.append(header)
            for answer in self._write_answer(header, body):
                self._out.put_nowait(answer)

    async def close(self) -> None:
        self.closed = True


def unit_end(index: int, **changes: object) -> bytes:
    header: Header = {
        "type": "unit_end",
        "unit": index,
        "wait_status": 0,
        "end": "exited",
        "wall_s": 0.01,
        "cpu_s": 0.005,
        "starved_s": 0.0,
        "peak_memory_bytes": 10_000_000,
        "oom_kills": 0,
        "pids_refused": 0,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "results": 1,
        "malformed": None,
        "events_dropped": 0,
        "left_processes": 0,
        "work_bytes": 0,
        "work_files": 0,
        "work_full": False,
    }
    return encode_frame(header | changes)


def good_unit(index: int, record: bytes = b"{}") -> list[bytes]:
    return [
        encode_frame({"type": "started", "unit": index, "starved_s": 0.0}),
        encode_frame({"type": "result", "unit": index, "index": 0, "last": True}, record),
        unit_end(index),
    ]


BYE = encode_frame({"type": "bye", "outputs_dropped": [], "peak_memory_bytes": 12_000_000})


def good_runner(header: frames.Header, body: bytes) -> Iterable[bytes]:
    if header["type"] == "unit":
        return good_unit(int(str(header["unit"])))
    return [BYE] if header["type"] == "finish" else []
