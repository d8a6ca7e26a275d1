"""An engine in memory, for tests: the same promises as a real one, and faults on demand.

What would run in a container is an async function that plays the guest over a pipe in memory. Nothing is
isolated here, and nothing is limited.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assayd.errors import EngineError
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    Capabilities,
    ContainerExitFacts,
    ContainerRef,
    ContainerSpec,
    EngineInfo,
    ImageFacts,
    ListedImage,
    OwnedContainer,
    build_file_missing_error,
)

_PIPE_BYTES = 256 * 1024
_DIAGNOSTICS_BYTES = 8 * 1024
_KILLED = 137


class GuestDiedError(Exception):
    """Ends a guest that must die after a number of bytes; a runner function must let it through."""


class Pipe:
    """Bytes in one direction, with a bound. Either side may close it.

    Args:
        limit: give only so many bytes to the reader, then end; None = all.
    """

    def __init__(self, *, limit: int | None = None) -> None:
        self._content = bytearray()
        self._changed = asyncio.Condition()
        self._closed = False
        self._left = limit

    @property
    def exhausted(self) -> bool:
        """Return whether the limit was reached."""
        return self._left == 0

    async def read(self) -> bytes:
        """Return the available bytes, or wait for some; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._content or self._closed)
            data = bytes(self._content)
            self._content.clear()
            self._changed.notify_all()
            return data

    async def write(self, data: bytes) -> bool:
        """Add bytes, waiting while the pipe is full; return False if the pipe is closed."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._content) < _PIPE_BYTES or self._closed)
            if self._closed:
                return False
            self._content += data if self._left is None else data[: self._left]
            if self._left is not None:
                self._left -= min(self._left, len(data))
                self._closed = not self._left
            self._changed.notify_all()
            return not self._closed

    async def close(self, *, discard: bool = False) -> None:
        """Close the pipe; the bytes in it can still be read unless `discard` is set."""
        async with self._changed:
            self._closed = True
            if discard:
                self._content.clear()
            self._changed.notify_all()


class Peer:
    """The guest's end: what a runner function reads, writes and complains to.

    `exit_code` is what the container ends with when the function returns.
    """

    def __init__(self, standard_input: Pipe, standard_output: Pipe) -> None:
        self._input = standard_input
        self._output = standard_output
        self.diagnostics = b""
        self.exit_code = 0
        self.killed = False

    async def read(self) -> bytes:
        """Return the next bytes of standard input; empty if the daemon has closed it."""
        return await self._input.read()

    async def write(self, data: bytes) -> None:
        """Write to standard output; waits while nobody reads.

        When the daemon has closed the stream the bytes are lost, as they are with a real engine.
        """
        if not await self._output.write(data):
            if self._output.exhausted:
                raise GuestDiedError
            await asyncio.sleep(0)

    def complain(self, data: bytes) -> None:
        """Write to standard error."""
        self.diagnostics = (self.diagnostics + data)[-_DIAGNOSTICS_BYTES:]


Runner = Callable[[Peer], Awaitable[None]]


class FakeStream:
    """The daemon's end of a fake container's pipes."""

    def __init__(self, standard_input: Pipe, standard_output: Pipe, peer: Peer) -> None:
        self._input = standard_input
        self._output = standard_output
        self._peer = peer

    async def read(self) -> bytes:
        """Return the next bytes of the runner's output; empty at the end and after `close`."""
        return await self._output.read()

    async def write(self, data: bytes) -> None:
        """Send bytes to the runner and wait while the pipe is full."""
        if not await self._input.write(data):
            raise EngineError("engine.stream_broken", "the fake container no longer reads", retryable=True)

    @property
    def diagnostics(self) -> bytes:
        """The last bytes of standard error."""
        return self._peer.diagnostics

    async def close(self) -> None:
        """Close both directions and discard the bytes in them."""
        await self._input.close(discard=True)
        await self._output.close(discard=True)


@dataclass(slots=True, kw_only=True)
class _Container:
    spec: ContainerSpec
    peer: Peer | None = None
    stream: FakeStream | None = None
    guest: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.guest is not None and not self.guest.done()


@dataclass(slots=True, kw_only=True)
class _InvalidDocument:
    failures: dict[str, list[EngineError]] = field(default_factory=lambda: defaultdict(list))
    hangs: dict[str, list[asyncio.Event]] = field(default_factory=lambda: defaultdict(list))
    output_limit: int | None = None


class FakeEngine:
    """An engine whose containers are tasks of this event loop.

    Args:
        runner: plays the guest in every container that is started.
        images: what the engine has from the beginning.
        timeout_s: how long a call hangs, when told to, before it fails as ``engine.timeout``.
    """

    def __init__(self, runner: Runner, *, images: Iterable[ImageFacts] = (), timeout_s: float = 20.0) -> None:
        self.calls: list[str] = []
        self.quick = False
        self._runner = runner
        self._images = {image.name: image for image in images}
        self._timeout_s = timeout_s
        self._containers: dict[str, _Container] = {}
        self._faults = _InvalidDocument()
        self._made = 0

    def fail_next(self, call: str, problem: EngineError) -> None:
        """Make the next call of the method `call` raise `problem` before it does anything."""
        self._faults.failures[call].append(problem)

    def hang_next(self, call: str) -> asyncio.Event:
        """Make the next call of the method `call` wait for the returned event, or until its timeout."""
        release = asyncio.Event()
        self._faults.hangs[call].append(release)
        return release

    def die_after(self, output_bytes: int) -> None:
        """Make the next container die after the daemon has received this number of bytes."""
        self._faults.output_limit = output_bytes

    async def info(self) -> EngineInfo:
        """Return the name of the fake."""
        await self._enter("info")
        return EngineInfo(name="fake", version="0", runtime="none", kernel="none", cgroup_version=0)

    def capabilities(self) -> Capabilities:
        """Claim all capabilities; nothing here enforces them."""
        return Capabilities(
            seccomp=True,
            tmpfs_owner=True,
            tmpfs_inodes=True,
            private_cgroup=True,
            facts_after_exit=True,
            pid1_immune=True,
            quick=self.quick,
        )

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        """Record a container without starting it."""
        await self._enter("create")
        if spec.image_digest not in {image.digest for image in self._images.values()}:
            raise _image_missing()
        self._made += 1
        ref = ContainerRef(engine_id=f"{self._made:064x}", ulid=spec.labels[LABEL_CONTAINER])
        self._containers[ref.engine_id] = _Container(spec=spec)
        return ref

    async def verify(self, ref: ContainerRef, spec: ContainerSpec) -> None:
        """Compare the spec with the one that the container was created with."""
        await self._enter("verify")
        if self._container(ref).spec != spec:
            raise EngineError("engine.mismatch", "the fake container was created with another spec")

    async def start(self, ref: ContainerRef) -> FakeStream:
        """Start the guest in a task."""
        await self._enter("start")
        container = self._container(ref)
        standard_input, standard_output = Pipe(), Pipe(limit=self._faults.output_limit)
        self._faults.output_limit = None
        container.peer = Peer(standard_input, standard_output)
        container.stream = FakeStream(standard_input, standard_output, container.peer)
        # The task belongs to the container, which outlives this call: kill, remove and close end it.
        container.guest = asyncio.ensure_future(self._live(container.peer, standard_input, standard_output))
        return container.stream

    async def make_way(self, ref: ContainerRef) -> None:
        """Record the call."""
        await self._enter("make_way")

    async def kill(self, ref: ContainerRef) -> None:
        """End the guest immediately, and close its stream if the caller hasn't."""
        await self._enter("kill")
        container = self._containers.get(ref.engine_id)
        if container is not None:
            await self._end(container)

    async def remove(self, ref: ContainerRef) -> None:
        """Delete the container, running or not."""
        await self._enter("remove")
        container = self._containers.pop(ref.engine_id, None)
        if container is not None:
            await self._end(container)

    async def facts(self, ref: ContainerRef) -> ContainerExitFacts:
        """Return how the guest ended."""
        await self._enter("facts")
        container = self._container(ref)
        if container.peer is None or container.running:
            return ContainerExitFacts(running=container.running, exit_code=None, oom_killed=None)
        code = _KILLED if container.peer.killed else container.peer.exit_code
        return ContainerExitFacts(running=False, exit_code=code, oom_killed=False)

    async def list_owned(self, daemon_id: str) -> Sequence[OwnedContainer]:
        """List the containers with the daemon's label."""
        await self._enter("list_owned")
        return [
            OwnedContainer(engine_id=engine_id, labels=container.spec.labels, running=container.running)
            for engine_id, container in self._containers.items()
            if container.spec.labels.get(LABEL_DAEMON) == daemon_id
        ]

    async def image(self, name: str) -> ImageFacts:
        """Find an image by name or digest."""
        await self._enter("image")
        for image in self._images.values():
            if name in {image.name, image.digest}:
                return image
        raise _image_missing()

    def add_image(self, image: ImageFacts) -> None:
        """Add an image."""
        self._images[image.name] = image

    async def load_image(self, archive: Path) -> ImageFacts:
        """Add an image named after the archive."""
        await self._enter("load_image")
        image = ImageFacts(name=archive.stem, digest=f"sha256:{archive.stem}", size_bytes=0, labels={})
        self._images[image.name] = image
        return image

    async def list_images(self) -> Sequence[ListedImage]:
        """List the images."""
        await self._enter("list_images")
        return [
            ListedImage(
                name=one.name, digest=one.digest, size_bytes=one.size_bytes, shared_bytes=None, loaded_at=None
            )
            for one in self._images.values()
        ]

    async def remove_image(self, name: str) -> None:
        """Delete an image."""
        await self._enter("remove_image")
        self._images.pop(name, None)

    async def image_file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Raise the error of a missing file, because a fake image has no files."""
        await self._enter("image_file")
        raise build_file_missing_error(name, path, most_bytes)

    async def close(self) -> None:
        """End every guest."""
        for container in self._containers.values():
            await self._end(container)

    async def _live(self, peer: Peer, *pipes: Pipe) -> None:
        try:
            await self._runner(peer)
        except GuestDiedError:
            peer.killed = True
        finally:
            for pipe in pipes:
                await pipe.close()

    async def _end(self, container: _Container) -> None:
        if container.peer is None or container.stream is None or container.guest is None:
            return
        await container.stream.close()
        if container.guest.cancel():
            container.peer.killed = True
            await asyncio.wait({container.guest})
        if not container.guest.cancelled():
            # A runner function that raised is a mistake of the test, which has to hear of it.
            container.guest.result()

    def _container(self, ref: ContainerRef) -> _Container:
        try:
            return self._containers[ref.engine_id]
        except KeyError:
            raise EngineError("container.missing", "the fake engine does not know the container") from None

    async def _enter(self, call: str) -> None:
        self.calls.append(call)
        if self._faults.hangs[call]:
            await self._hang(self._faults.hangs[call].pop(0))
        if self._faults.failures[call]:
            raise self._faults.failures[call].pop(0)

    async def _hang(self, release: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await release.wait()
        except TimeoutError as problem:
            message = "the fake engine did not answer in time"
            raise EngineError("engine.timeout", message, retryable=True) from problem


def _image_missing() -> EngineError:
    return EngineError("image.missing", "the fake engine lacks the image; run `assay images build`")
