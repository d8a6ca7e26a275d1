"""Bundles in a directory that several gateways share: one tar file each.

    <root>/<category>/<platform>/<created>_<attempt id>-<digest of the manifest>[.run2].tar

Made durable under a temporary name, then renamed, read-only. What is written twice is the same, and nobody's
takes the place of another's. Seven small files would cost eight flushes of the disk, one costs two.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tarfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from assayd.errors import StoreError
from assayd.model.bundle import Bundle, Written
from assayd.store import folders
from assayd.store.artifacts import (
    MANIFEST,
    OTHERS_S,
    PIECE_BYTES,
    bundle_contents,
    bundle_folder,
    bundle_name,
    location_parts,
    missing,
    tar_header,
)
from assayd.store.faults import translated
from assayd_cluster.bundles.manifest import damaged

SUFFIX = ".tar"
KEPT = 64
"""Bundles of which it is known where their files lie: one is often read file by file."""
Index = Mapping[str, tuple[int, int]]
"""Where each file begins, and its size."""
_TEMPORARY = ".tmp-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = (FileNotFoundError, NotADirectoryError)


class PackedArtifactStore:
    """Implements `ports.artifacts.ArtifactStore`; `VerifiedArtifactStore` checks what is read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._indexes: OrderedDict[tuple[str, int, int, int], Index] = OrderedDict()
        self._lock = Lock()

    async def write(self, bundle: Bundle) -> Written:
        """Write a bundle: durable when this returns. Raises: StoreError."""
        return await asyncio.to_thread(self._write, bundle)

    def path(self, location: str) -> Path | None:
        """Return None: there is no folder."""
        return None

    async def read(self, location: str, name: str) -> bytes:
        """Return one file. Raises: StoreError ``artifact.missing``."""
        return b"".join([piece async for piece in self.pieces(location, name)])

    async def pieces(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Return one file in pieces: who takes it may be slow. Raises: as `read`."""
        within, start = location_parts(location), 0
        while piece := await asyncio.to_thread(self._piece, within, name, start):
            yield piece
            start += len(piece)

    async def tar(self, location: str) -> AsyncIterator[bytes]:
        """Return nothing by itself: a stream of unchecked files is nobody's. Raises: StoreError."""
        raise StoreError("artifact.unchecked", f"{location}: read it through VerifiedArtifactStore")
        yield b""

    async def remove(self, location: str) -> None:
        """Remove a bundle; one that is gone is fine."""
        await asyncio.to_thread(self._remove, location_parts(location))

    async def doubles(self) -> Sequence[str]:
        """Return nothing: names tell runs apart, and what no verdict names goes by age."""
        return ()

    async def sweep(self) -> int:
        """Remove what an interrupted write has left, unless it may go on; return how many."""
        return await asyncio.to_thread(self._sweep)

    async def locations(self) -> AsyncIterator[tuple[str, float, bool]]:
        """Return each location, how many seconds ago it was written, and that it is whole."""
        found = await asyncio.to_thread(lambda: list(self._root.glob(f"*/*/[0-9]*{SUFFIX}")))
        for path in found:
            with suppress(FileNotFoundError):
                location = str(path.relative_to(self._root)).removesuffix(SUFFIX)
                yield location, time.time() - path.stat().st_mtime, True

    async def free_bytes(self) -> int:
        """Return how much room is left."""
        return await asyncio.to_thread(self._free_bytes)

    def _write(self, bundle: Bundle) -> Written:
        files, artifacts = bundle_contents(bundle)
        folder, name = bundle_folder(bundle), bundle_name(bundle, files[MANIFEST])
        temporary = f"{_TEMPORARY}{secrets.token_hex(16)}"
        with translated("writing a bundle"), self._made(*folder) as parent:
            try:
                _write_durably(os.open(temporary, _NEW, 0o400, dir_fd=parent), _packed(files))
                os.rename(temporary, name + SUFFIX, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
        return Written(location="/".join((*folder, name)), artifacts=artifacts)

    @contextmanager
    def _made(self, category: str, platform: str) -> Iterator[int]:
        """Open a folder for bundles, which is made where it is missing."""
        with ExitStack() as stack:
            try:
                parent = stack.enter_context(folders.opened(self._root, category, platform))
            except FileNotFoundError:
                self._make(category, platform)
                parent = stack.enter_context(folders.opened(self._root, category, platform))
            yield parent

    def _make(self, category: str, platform: str) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folders.opened(self._root) as root:
            folders.ensure(root, category)
            with folders.opened(root, category) as middle:
                folders.ensure(middle, platform)

    def _piece(self, within: tuple[str, ...], name: str, start: int) -> bytes:
        location = "/".join(within)
        with translated("reading a bundle"):
            try:
                with folders.opened(self._root, *within[:-1]) as parent:
                    handle = os.open(within[-1] + SUFFIX, _OLD, dir_fd=parent)
                with os.fdopen(handle, "rb") as file:
                    offset, size = self._index(location, file)[name]
                    file.seek(offset + start)
                    return file.read(max(0, min(PIECE_BYTES, size - start)))
            except (*_GONE, KeyError) as problem:
                raise missing(location, name) from problem
            except tarfile.TarError as problem:
                raise damaged(location, name) from problem

    def _index(self, location: str, file: BinaryIO) -> Index:
        """Return where each file of a bundle lies: looked for once, until its file is another (restored)."""
        facts = os.fstat(file.fileno())
        key = location, facts.st_ino, facts.st_size, facts.st_mtime_ns
        with self._lock:
            found = self._indexes.get(key)
        if found is None:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                found = {member.name: (member.offset_data, member.size) for member in tar}
        with self._lock:
            self._indexes[key] = found
            self._indexes.move_to_end(key)
            if len(self._indexes) > KEPT:
                self._indexes.popitem(last=False)
        return found

    def _remove(self, within: tuple[str, ...]) -> None:
        category, platform, name = within
        with (
            translated("removing a bundle"),
            suppress(*_GONE),
            folders.opened(self._root, category, platform) as parent,
        ):
            os.unlink(name + SUFFIX, dir_fd=parent)

    def _sweep(self) -> int:
        swept = 0
        with translated("sweeping the bundles"):
            for left in self._root.glob(f"*/*/{_TEMPORARY}*"):
                with suppress(FileNotFoundError):
                    if time.time() - left.stat().st_mtime >= OTHERS_S:
                        left.unlink()
                        swept += 1
        return swept

    def _free_bytes(self) -> int:
        with translated("checking the bundles' file system"), folders.opened(self._root) as root:
            facts = os.fstatvfs(root)
            return facts.f_bavail * facts.f_frsize


def _write_durably(handle: int, pieces: Iterator[bytes]) -> None:
    """Write a new file by few calls of the system, after each of which a thread waits for the interpreter."""
    try:
        for piece in _joined(pieces):
            folders.write_all(handle, piece)
        os.fsync(handle)
    finally:
        os.close(handle)


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Return what many small pieces have in fewer of about `PIECE_BYTES`."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _packed(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Return a tar file, whose bytes are decided by what is in it."""
    for name, content in files.items():
        yield tar_header(name, len(content))
        yield content
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
