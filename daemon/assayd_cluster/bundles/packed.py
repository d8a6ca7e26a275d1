"""Stores bundles in a directory that several gateways share, with one tar file per bundle.

    <root>/<category>/<platform>/<created>_<attempt id>-<digest of the manifest>[.run2].tar

Each file is flushed to disk under a temporary name, made read-only and then renamed. Writing a bundle twice
gives the same file, and no bundle replaces a different one. Writing seven separate files would need eight
disk flushes, whereas one tar file needs two. The small bundles that arrive while a thread is writing are
then written as one group, with one flush per folder.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tarfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

from assayd.errors import StoreError
from assayd.model.attempt import Bundle, WrittenBundle
from assayd.store import artifacts
from assayd.store.artifacts import (
    MANIFEST,
    MIN_SWEEP_AGE_S,
    PIECE_BYTES,
    build_artifact_missing_error,
    build_bundle_contents,
    build_bundle_name,
    build_tar_header,
    get_bundle_folder_names,
    split_location,
)
from assayd.store.faults import translate_errors
from assayd_cluster.bundles.verified import build_damaged_error

T = TypeVar("T")
SUFFIX = ".tar"
SMALL_BYTES = 256 * 2**10
"""Maximum size of a bundle that is written together with others, which a large bundle would delay."""
MAX_GROUPED_BUNDLES = 32
KEPT = 64
"""Maximum number of cached indexes, because a bundle is often read file by file."""
Index = Mapping[str, tuple[int, int]]
"""The offset and the size of each file."""
_TEMPORARY_PREFIX = ".tmp-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MISSING_ERRORS = (FileNotFoundError, NotADirectoryError)


@dataclass(slots=True, eq=False)
class _QueuedBundle:
    """A bundle in the write queue.

    `group` provides the results of the group that is written with this bundle, and `place` is the bundle's
    index in the results.
    """

    bundle: Bundle
    folder: tuple[str, str]
    group: asyncio.Future[list[WrittenBundle | BaseException]] | None = None
    place: int = 0


class PackedArtifactStore:
    """An `ArtifactStore` in a shared directory. `VerifiedArtifactStore` checks the files that are read."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._waiting: list[_QueuedBundle] = []
        self._working: asyncio.Future[list[WrittenBundle | BaseException]] | None = None
        self._indexes: OrderedDict[tuple[str, int, int, int], Index] = OrderedDict()
        self._lock = Lock()

    async def write(self, bundle: Bundle) -> WrittenBundle:
        """Write a bundle, which is durable once this method returns.

        Raises: StoreError ``artifact.name``, for an invalid name; another code if the disk fails.
        """
        writing = _QueuedBundle(bundle, get_bundle_folder_names(bundle))
        if sum(map(len, bundle.files.values())) > SMALL_BYTES:
            [written] = await asyncio.to_thread(self._write_all, [writing])
            return _get_result_or_raise(written)
        self._waiting.append(writing)
        while writing.group is None:
            if self._working is None or self._working.done():
                self._start_writer()
            else:
                await asyncio.wait((self._working,))
        return _get_result_or_raise((await asyncio.shield(writing.group))[writing.place])

    def _start_writer(self) -> None:
        """Start a thread that writes the waiting bundles in the order of their arrival."""
        group, self._waiting = self._waiting[:MAX_GROUPED_BUNDLES], self._waiting[MAX_GROUPED_BUNDLES:]
        self._working = asyncio.get_running_loop().run_in_executor(None, self._write_all, group)
        for place, writing in enumerate(group):
            writing.group, writing.place = self._working, place

    def path(self, location: str) -> Path | None:
        """Return None, because a bundle is a single file and has no folder."""
        return None

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file. Raises: StoreError ``artifact.missing``, if it doesn't exist."""
        return b"".join([piece async for piece in self.read_chunks(location, name)])

    async def read_chunks(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Yield the content of one file in pieces, because the caller may read slowly.

        Raises: the same errors as `read`.
        """
        within, start = split_location(location), 0
        while piece := await asyncio.to_thread(self._read_chunk, within, name, start):
            yield piece
            start += len(piece)

    async def stream_tar(self, location: str) -> AsyncIterator[bytes]:
        """Always raise `StoreError`, because files must be checked before they are streamed."""
        raise StoreError("artifact.unchecked", f"{location}: read it through VerifiedArtifactStore")
        yield b""

    async def remove(self, location: str) -> None:
        """Remove a bundle. A missing bundle isn't an error."""
        await asyncio.to_thread(self._remove_bundle, split_location(location))

    async def list_superseded(self) -> Sequence[str]:
        """Return an empty sequence, because each bundle has a unique name. Old bundles are removed by age."""
        return ()

    async def sweep(self) -> int:
        """Remove the files of interrupted writes, and return their number. Writes in progress are kept."""
        return await asyncio.to_thread(self._remove_leftovers)

    async def iter_locations(self) -> AsyncIterator[tuple[str, float, bool]]:
        """Yield each bundle's location, its age in seconds, and True, because every bundle is complete."""
        found = await asyncio.to_thread(lambda: list(self._root.glob(f"*/*/[0-9]*{SUFFIX}")))
        for path in found:
            with suppress(FileNotFoundError):
                location = str(path.relative_to(self._root)).removesuffix(SUFFIX)
                yield location, time.time() - path.stat().st_mtime, True

    async def free_bytes(self) -> int:
        """Return the free disk space in bytes."""
        return await asyncio.to_thread(self._free_bytes)

    def _write_all(self, group: Sequence[_QueuedBundle]) -> list[WrittenBundle | BaseException]:
        """Write bundles, and return a result or an exception for each bundle."""
        results: list[WrittenBundle | BaseException] = [
            StoreError("store.failed", "not written") for _ in group
        ]
        for folder in {writing.folder for writing in group}:
            places = [place for place, writing in enumerate(group) if writing.folder == folder]
            try:
                with translate_errors("writing a bundle"), self._open_or_create_folder(*folder) as parent:
                    for place, found in zip(
                        places, _write_and_flush(parent, [group[p] for p in places]), strict=True
                    ):
                        results[place] = found
                    os.fsync(parent)
            except Exception as problem:  # noqa: BLE001 - who asked gets it; other folders go on
                for place in places:
                    results[place] = problem
        return results

    @contextmanager
    def _open_or_create_folder(self, category: str, platform: str) -> Iterator[int]:
        """Open a folder for bundles, and create the folder if it is missing."""
        with ExitStack() as stack:
            try:
                parent = stack.enter_context(artifacts.open_folder(self._root, category, platform))
            except FileNotFoundError:
                self._create_folders(category, platform)
                parent = stack.enter_context(artifacts.open_folder(self._root, category, platform))
            yield parent

    def _create_folders(self, category: str, platform: str) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with artifacts.open_folder(self._root) as root:
            artifacts.ensure_folder(root, category)
            with artifacts.open_folder(root, category) as middle:
                artifacts.ensure_folder(middle, platform)

    def _read_chunk(self, within: tuple[str, ...], name: str, start: int) -> bytes:
        location = "/".join(within)
        with translate_errors("reading a bundle"):
            try:
                with artifacts.open_folder(self._root, *within[:-1]) as parent:
                    handle = os.open(within[-1] + SUFFIX, _OLD, dir_fd=parent)
                with os.fdopen(handle, "rb") as file:
                    offset, size = self._load_index(location, file)[name]
                    file.seek(offset + start)
                    return file.read(max(0, min(PIECE_BYTES, size - start)))
            except (*_MISSING_ERRORS, KeyError) as problem:
                raise build_artifact_missing_error(location, name) from problem
            except tarfile.TarError as problem:
                raise build_damaged_error(location, name) from problem

    def _load_index(self, location: str, file: BinaryIO) -> Index:
        """Return the offsets of a bundle's files, which are cached until the tar file is replaced."""
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

    def _remove_bundle(self, within: tuple[str, ...]) -> None:
        category, platform, name = within
        with (
            translate_errors("removing a bundle"),
            suppress(*_MISSING_ERRORS),
            artifacts.open_folder(self._root, category, platform) as parent,
        ):
            os.unlink(name + SUFFIX, dir_fd=parent)

    def _remove_leftovers(self) -> int:
        swept = 0
        with translate_errors("sweeping the bundles"):
            for left in self._root.glob(f"*/*/{_TEMPORARY_PREFIX}*"):
                with suppress(FileNotFoundError):
                    if time.time() - left.stat().st_mtime >= MIN_SWEEP_AGE_S:
                        left.unlink()
                        swept += 1
        return swept

    def _free_bytes(self) -> int:
        with translate_errors("checking the bundles' file system"), artifacts.open_folder(self._root) as root:
            facts = os.fstatvfs(root)
            return facts.f_bavail * facts.f_frsize


def _write_and_flush(parent: int, group: Sequence[_QueuedBundle]) -> list[WrittenBundle | BaseException]:
    """Write files into a folder, flush them after all are written, and return the results."""
    begun = [_call_and_catch(partial(_write_temporary_file, parent, writing)) for writing in group]
    return [
        each if isinstance(each, BaseException) else _call_and_catch(partial(_flush_and_rename, parent, each))
        for each in begun
    ]


def _call_and_catch(act: Callable[[], T]) -> T | BaseException:
    """Return the result of an action, or the exception that the action raises."""
    try:
        with translate_errors("writing a bundle"):
            return act()
    except Exception as problem:  # noqa: BLE001 - who asked gets it; the neighbours go on
        return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenFile:
    """A file that has been written under a temporary name but not yet flushed."""

    handle: int
    temporary: str
    name: str
    written: WrittenBundle


def _write_temporary_file(parent: int, writing: _QueuedBundle) -> _WrittenFile:
    """Write a file with few system calls, because each makes the thread wait for the interpreter lock."""
    files, listed = build_bundle_contents(writing.bundle)
    name = build_bundle_name(writing.bundle, files[MANIFEST])
    temporary = f"{_TEMPORARY_PREFIX}{secrets.token_hex(16)}"
    handle = os.open(temporary, _NEW, 0o400, dir_fd=parent)
    try:
        for piece in _join_chunks(_iter_tar_chunks(files)):
            artifacts.write_all(handle, piece)
    except BaseException:
        os.close(handle)
        os.unlink(temporary, dir_fd=parent)
        raise
    written = WrittenBundle(location="/".join((*writing.folder, name)), artifacts=listed)
    return _WrittenFile(handle=handle, temporary=temporary, name=name + SUFFIX, written=written)


def _flush_and_rename(parent: int, begun: _WrittenFile) -> WrittenBundle:
    """Flush a file and rename it to its final name. The caller must flush the folder."""
    try:
        try:
            os.fsync(begun.handle)
        finally:
            os.close(begun.handle)
        os.rename(begun.temporary, begun.name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(begun.temporary, dir_fd=parent)
        raise
    return begun.written


def _get_result_or_raise(written: WrittenBundle | BaseException) -> WrittenBundle:
    if isinstance(written, BaseException):
        raise written
    return written


def _join_chunks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces of content, and yield the content in pieces of about `PIECE_BYTES`."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _iter_tar_chunks(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the pieces of a tar file whose bytes depend only on its content."""
    for name, content in files.items():
        yield build_tar_header(name, len(content))
        yield content
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
