"""A guest runner as a process without a container, and its messages about a unit."""

from __future__ import annotations

import json
import os
import select
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from assayd.guest.frames import PROTOCOL, FrameDecoder, Header, encode_frame, split_into_bodies
from assayd.guest.programs import PROGRAMS
from support.guests.nursery import Fork, nursery

Frame = tuple[Header, bytes]

PATIENCE_S = 20.0
DEADLINE_S = 10.0
LIMITS: Mapping[str, int] = {
    "max_processes": 4,
    "open_files": 64,
    "output_kept_bytes": 1000,
    "output_read_bytes": 100_000,
    "unit_result_bytes": 200_000,
    "outputs_files": 10,
    "outputs_bytes": 10_000,
    "work_bytes": 2**20,
}
ALLOWED = (
    "array", "asyncio", "collections", "dataclasses", "datetime", "decimal", "enum", "functools", "itertools",
    "json", "logging", "math", "os.path", "pathlib", "random", "re", "string", "time", "typing", "zoneinfo",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All messages of the runner about one unit."""

    end: Header
    frames: list[Frame]
    records: list[dict[str, object]] = field(default_factory=list)

    @property
    def record(self) -> dict[str, object]:
        """Return the only result."""
        (record,) = self.records
        return record

    @property
    def value(self) -> object:
        """Return the value that the only call returned."""
        assert self.record["status"] == "returned", self.record
        return self.record["value"]

    def output(self, stream: str, part: str | None = None) -> bytes:
        """Return the forwarded output of a stream."""
        return b"".join(
            body
            for header, body in self.frames
            if header["type"] == "output" and header["stream"] == stream and part in {None, header["part"]}
        )

    @property
    def events(self) -> list[tuple[object, ...]]:
        """Return every event as a tuple of kind, detail, allowed, enforced and line."""
        names = ("kind", "detail", "allowed", "enforced", "line")
        return [tuple(h[name] for name in names) for h, _ in self.frames if h["type"] == "event"]

    @property
    def refusals(self) -> list[tuple[object, object, object]]:
        """Return kind, detail and line of every event that wasn't allowed."""
        return [(kind, detail, line) for kind, detail, allowed, _, line in self.events if not allowed]


class GuestRunner:
    """The daemon's side of a conversation, one step at a time."""

    def __init__(self, process: Fork) -> None:
        self.process = process
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self._units = 0

    def send(self, kind: str, body: bytes = b"", **header: object) -> None:
        """Send one frame."""
        self.process.stdin.write(encode_frame({"type": kind, **header}, body))

    def receive(self) -> Frame:
        """Return the next frame. Raises: EOFError."""
        while not self._frames:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
            assert ready, "the runner says nothing"
            content = os.read(self.process.stdout.fileno(), 65536)
            if not content:
                raise EOFError
            self._frames.extend(self._decoder.feed(content))
        return self._frames.pop(0)

    def until(self, kind: str) -> list[Frame]:
        """Return all frames up to the first of a kind."""
        frames = [self.receive()]
        while frames[-1][0]["type"] != kind:
            assert frames[-1][0]["type"] != "fault", frames[-1][0]
            frames.append(self.receive())
        return frames

    def hello(self, *preload: str) -> Header:
        """Send the greeting; return the header of `ready`."""
        self.send("hello", protocol=PROTOCOL, preload=list(preload))
        return self.until("ready")[-1][0]

    def begin(
        self,
        *,
        mode: str = "enforce",
        allowed: tuple[str, ...] = ALLOWED,
        denied: tuple[str, ...] = (),
        submodules: str = "inherit",
        network: str = "blocked",
        allow_exec: bool = False,
        folders: tuple[str, ...] = (),
        collect: tuple[str, ...] = (),
        preload: tuple[str, ...] = (),
        changed_only: bool = False,
        hidden_tests: bool = False,
        **limits: int,
    ) -> None:
        """Greet and begin an attempt; with hidden tests, the runner expects a solution first."""
        self.hello(*preload)
        imports = {"mode": mode, "allowed": list(allowed), "denied": list(denied)}
        imports |= {"submodules": submodules, "enforce_forbidden": True}
        self.send(
            "begin",
            limits={**LIMITS, **limits},
            imports=imports,
            network={"mode": network, "streams": 4, "connections": 8},
            allow_exec=allow_exec,
            folders=list(folders),
            collect=list(collect),
            changed_only=changed_only,
            programs=sorted(PROGRAMS if hidden_tests else PROGRAMS - {"tests"}),
            preload=[],
        )

    def file(self, path: str, content: bytes) -> None:
        """Send a file."""
        for number, piece in enumerate(split_into_bodies(content)):
            self.send("file", piece, path=path, append=number > 0)

    def start(
        self,
        program: str,
        arguments: Mapping[str, object],
        *,
        deadline_s: float = DEADLINE_S,
        fresh_cwd: bool = True,
        stdin: bytes = b"",
        more: bool = False,
    ) -> int:
        """Send a unit; return its number."""
        if stdin:
            for piece in split_into_bodies(stdin):
                self.send("stdin", piece)
        *parts, last = split_into_bodies(json.dumps(arguments).encode())
        for part in parts:
            self.send("arguments", part)
        number, self._units = self._units, self._units + 1
        header = {"unit": number, "name": "tested", "program": program}
        self.send("unit", last, **header, deadline_s=deadline_s, fresh_cwd=fresh_cwd, more=more)
        return number

    def run(self, program: str, arguments: Mapping[str, object], **unit: object) -> Seen:
        """Run a unit until it ends."""
        number = self.start(program, arguments, **unit)  # type: ignore[arg-type]
        frames = self.until("unit_end")
        assert {header["unit"] for header, _ in frames} == {number}
        return Seen(end=frames[-1][0], frames=frames, records=_records(frames))

    def call(
        self, source: str, *args: object, builtins: str = "full", function: str = "extract", **unit: object
    ) -> Seen:
        """Run a unit that executes a text and calls its function."""
        return self.run("call", call_of(source, *args, builtins=builtins, function=function), **unit)

    def finish(self) -> list[Frame]:
        """Finish the attempt; return the outputs and the goodbye."""
        self.send("finish")
        return self.until("bye")


def call_of(
    source: str, *args: object, builtins: str = "full", function: str = "extract"
) -> dict[str, object]:
    """Return the arguments of a `call` unit."""
    text = {"source": textwrap.dedent(source), "filename": "given.py", "builtins": builtins}
    return {**text, "function": function, "args": list(args), "kwargs": {}}


def _records(frames: list[Frame]) -> list[dict[str, object]]:
    bodies: dict[object, bytes] = {}
    for header, body in frames:
        if header["type"] == "result":
            bodies[header["index"]] = bodies.get(header["index"], b"") + body
    return [json.loads(body) if _is_one_object(body) else {"raw": body} for body in bodies.values()]


def _is_one_object(body: bytes) -> bool:
    return body.startswith(b"{") and b"\n" not in body


@contextmanager
def guest_runner(work: Path, *libraries: str, patch: str = "") -> Iterator[GuestRunner]:
    """Start a runner that works in a directory, as images do but for the container.

    `libraries` are folders to import from, as an image's `python_path`; `patch` is Python that changes the
    runner before it starts.
    """
    process = nursery().start(work, *libraries, patch=patch)
    try:
        yield GuestRunner(process)
    finally:
        process.end(PATIENCE_S)
