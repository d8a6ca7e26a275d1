"""Stores bundles as directories, written under a temporary name, flushed, renamed and protected.

    <root>/<category>/<platform>/<created>_<attempt id>[.run2]/

This module decides the names and the contents of bundles. It checks every part of a name, although the daemon
itself chooses the parts.

A file's media type depends on its name and, for pictures, its first bytes. A file is served as a picture only
if its first bytes match its name, so an arbitrary file named ``plot.png`` is served as plain bytes. The type
is intended for download clients: assayd's pages don't use it to display pictures, and clients that display
pictures must treat the content as hostile.

All file operations are relative to directory descriptors.

All operations block. They neither follow links nor overwrite existing files.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from assayd.errors import StoreError
from assayd.model.attempt import SECOND_RUN, Artifact, Bundle, WrittenBundle, format_timestamp
from assayd.store.faults import translate_errors
from assayd.store.unsynced import MAX_BYTES

MAX_BUNDLE_DEPTH = 16

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def split_relative_path(name: str) -> tuple[str, ...] | None:
    """Split a relative path into the parts between its slashes.

    Return None for an unsafe path, such as one that leaves its folder.
    """
    found = tuple(name.split("/"))
    try:
        long = any(len(os.fsencode(part)) > 255 for part in found)
    except UnicodeEncodeError:
        return None
    odd = any(part in {"", ".", ".."} or not part.isprintable() for part in found)
    return None if long or odd or len(found) > MAX_BUNDLE_DEPTH else found


@contextmanager
def open_folder(folder: int | Path, *names: str) -> Iterator[int]:
    """Open a folder by its path relative to an open folder, yield its descriptor, and close it on exit.

    Raises: OSError, if the folder doesn't exist or a part of the path is a link.
    """
    with ExitStack() as stack:
        if isinstance(folder, Path):
            folder = os.open(folder, _OPEN_FOLDER_FLAGS)
            stack.callback(os.close, folder)
        for name in names:
            folder = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder


def ensure_folder(folder: int, name: str) -> None:
    """Create a subfolder durably if it doesn't exist."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        os.fsync(folder)


def write_files(folder: int, files: Mapping[str, bytes], *, durable: bool = True) -> None:
    """Write read-only files into a new folder. `split_relative_path` must have accepted the file names.

    Unless `durable`, nothing is flushed. All files are written before the first file is flushed. A journaling
    file system then commits them together, so the flushes of the remaining files are fast.
    """
    with ExitStack() as stack:
        folders: dict[tuple[str, ...], int] = {(): folder}
        handles: list[int] = []
        for name, content in files.items():
            *within, last = name.split("/")
            parent = _open_cached_folder(tuple(within), folders, stack)
            handle = os.open(last, _CREATE_FILE_FLAGS, 0o400, dir_fd=parent)
            stack.callback(os.close, handle)
            write_all(handle, content)
            if durable:  # starts writeback without waiting for it
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            handles.append(handle)
        for inner in folders.values():
            os.fchmod(inner, 0o500)
        for written in (*handles, *folders.values()) if durable else ():
            os.fsync(written)


def rename_to_final(parent: int, temporary: str, name: str, *, durable: bool = True) -> None:
    """Rename a temporary folder to the final name.

    Raises:
        OSError: ENOTEMPTY or EEXIST, if a folder with that name exists.
    """
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    if durable:
        os.fsync(parent)


def read_file(folder: int, name: Sequence[str], *, start: int = 0, most: int = -1) -> bytes:
    """Read up to `most` bytes (-1: all) of a regular file below a folder, from the offset `start`."""
    with open_folder(folder, *name[:-1]) as parent:
        handle = os.open(name[-1], _OLD_FILE_FLAGS, dir_fd=parent)
        with os.fdopen(handle, "rb", buffering=0) as file:
            file.seek(start)
            return file.read(most) or b""


def file_size(folder: int, name: Sequence[str]) -> int:
    """Return the size in bytes of a file below a folder."""
    with open_folder(folder, *name[:-1]) as parent:
        return os.stat(name[-1], dir_fd=parent, follow_symlinks=False).st_size


def list_files(folder: int) -> list[str]:
    """Return the paths of all files below a folder in sorted order."""
    found: list[str] = []
    for top, _, names, _ in os.fwalk(".", dir_fd=folder):
        found += [os.path.normpath(os.path.join(top, name)) for name in names]  # noqa: PTH118 - no path yet
    return sorted(found)


def remove_folder(parent: int, name: str) -> None:
    """Remove a folder and its contents. A missing folder isn't an error."""
    with suppress(FileNotFoundError):
        for _, _, _, folder in os.fwalk(name, dir_fd=parent):
            os.fchmod(folder, 0o700)
        shutil.rmtree(name, dir_fd=parent)


def _open_cached_folder(names: tuple[str, ...], folders: dict[tuple[str, ...], int], stack: ExitStack) -> int:
    if names not in folders:
        parent = _open_cached_folder(names[:-1], folders, stack)
        os.mkdir(names[-1], 0o700, dir_fd=parent)
        folders[names] = os.open(names[-1], _OPEN_FOLDER_FLAGS, dir_fd=parent)
        stack.callback(os.close, folders[names])
    return folders[names]


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes to an open file, with repeated calls after partial writes."""
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


OTHER = "application/octet-stream"
_TYPE_BY_SUFFIX = {
    ".log": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".xml": "application/xml",
}
_PICTURES = {
    ".gif": ("image/gif", (b"GIF87a", b"GIF89a")),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".pdf": ("application/pdf", (b"%PDF-",)),
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
}
"""Without SVG, which can contain scripts."""


def detect_media_type(name: str, content: bytes) -> str:
    """Return the media type of a file.

    The type is ``application/octet-stream`` if the suffix is unknown or if a picture's first bytes don't
    match it.
    """
    suffix = _get_suffix(name)
    if suffix in _PICTURES:
        found, beginnings = _PICTURES[suffix]
        return found if content.startswith(beginnings) else OTHER
    if suffix == ".webp":
        return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else OTHER
    return _TYPE_BY_SUFFIX.get(suffix, OTHER)


def _get_suffix(name: str) -> str:
    """Return the suffix of a file name with its dot. The suffix of a name like ``.profile`` is empty."""
    stem, point, ending = name.rpartition("/")[2].rpartition(".")
    return point + ending if stem else ""


T = TypeVar("T")
MANIFEST = "manifest.json"
PIECE_BYTES = 256 * 2**10
"""Bytes of a file per read during a download."""

DIGEST_CHARS = 32
MIN_SWEEP_AGE_S = 86_400.0
"""Age in seconds below which another process's unfinished bundles aren't removed."""
_TEMP_NAME_PREFIX = ".tmp-"
_FOLDER_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ID = re.compile(r"[0-9A-Z]{26}")
_BUNDLE_PATTERN = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z_[0-9A-Z]{26}(-[0-9a-f]{32})?(\.run2)?")
_EXISTS_ERRNOS = {errno.ENOTEMPTY, errno.EEXIST}


class ContentKeeper(Protocol):
    """A part that keeps the contents of unflushed bundles, such as `unsynced.UnsyncedBundles`."""

    def keep(self, location: str, files: Mapping[str, bytes]) -> None:
        """Keep the contents of a bundle until its verdict is recorded."""
        ...


class FileArtifactStore:
    """A store that keeps bundles in a directory. Implements `ports.artifacts.ArtifactStore`."""

    def __init__(self, root: Path, unsynced: ContentKeeper | None = None) -> None:
        self._root = root
        self._unsynced = unsynced

    async def write(self, bundle: Bundle) -> WrittenBundle:
        """Write a bundle durably.

        If the contents of a bundle are stored in the verdict's transaction, the bundle becomes durable only
        with that transaction.

        Raises:
            StoreError: ``artifact.name`` for an invalid name; another code if the disk fails.
        """
        return await asyncio.to_thread(self._write_bundle, bundle)

    def path(self, location: str) -> Path:
        """Return the path of a bundle's folder, which needn't exist.

        Raises: StoreError ``artifact.missing``, if the location is malformed.
        """
        return self._root.absolute().joinpath(*split_location(location))

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file of a bundle.

        Raises: StoreError ``artifact.missing``, if it doesn't exist.
        """
        return await self._with_file(location, name, read_file)

    async def read_chunks(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Yield the content of one file of a bundle in pieces, for slow readers.

        Raises: the same errors as `read`.
        """
        start = 0
        while piece := await self._with_file(
            location, name, partial(read_file, start=start, most=PIECE_BYTES)
        ):
            yield piece
            start += len(piece)

    async def stream_tar(self, location: str) -> AsyncIterator[bytes]:
        """Yield a bundle as a tar stream. Raises: StoreError ``artifact.missing``, if it doesn't exist."""
        within = split_location(location)
        names = await asyncio.to_thread(self._with_bundle, within, list_files, "")
        for name in names:
            size = await self._with_file(location, name, file_size)
            yield build_tar_header(f"{within[-1]}/{name}", size)
            async for piece in self.read_chunks(location, name):
                yield piece
            if left := -size % tarfile.BLOCKSIZE:
                yield bytes(left)
        yield bytes(2 * tarfile.BLOCKSIZE)

    async def remove(self, location: str) -> None:
        """Remove a bundle if it exists."""
        await asyncio.to_thread(self._remove, split_location(location))

    async def list_superseded(self) -> Sequence[str]:
        """Return the location of the first bundle of each attempt that has two."""
        return await asyncio.to_thread(self._find_superseded)

    async def sweep(self) -> int:
        """Remove the folders of interrupted writes and removals, and return their number."""
        return await asyncio.to_thread(self._sweep)

    async def free_bytes(self) -> int:
        """Return the free space of the file system, in bytes.

        Raises: StoreError if the folder isn't writable.
        """
        return await asyncio.to_thread(self._free_bytes)

    def _write_bundle(self, bundle: Bundle) -> WrittenBundle:
        files, artifacts = build_bundle_contents(bundle)
        category, platform = get_bundle_folder_names(bundle)
        temporary = f"{_TEMP_NAME_PREFIX}{_check_attempt_id(bundle)}{_build_run_suffix(bundle.run_number)}"
        with translate_errors("writing a bundle"):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_folder(self._root) as root:
                ensure_folder(root, category)
                with open_folder(root, category) as middle:
                    ensure_folder(middle, platform)
                with open_folder(root, category, platform) as parent:
                    name = self._write_folder(parent, temporary, bundle, files)
        return WrittenBundle(location=f"{category}/{platform}/{name}", artifacts=artifacts)

    def _write_folder(self, parent: int, temporary: str, bundle: Bundle, files: dict[str, bytes]) -> str:
        """Write files into a temporary folder, and rename the folder to the bundle's first free name."""
        try:
            os.mkdir(temporary, 0o700, dir_fd=parent)
        except FileExistsError:  # A killed executor left it.
            remove_folder(parent, temporary)
            os.mkdir(temporary, 0o700, dir_fd=parent)
        try:
            durable = self._unsynced is None or sum(map(len, files.values())) > MAX_BYTES
            with open_folder(parent, temporary) as folder:
                write_files(folder, files, durable=durable)
            name = _rename_to_final(parent, temporary, bundle, durable=durable)
            if self._unsynced is not None and not durable:
                self._unsynced.keep(f"{bundle.category}/{bundle.platform}/{name}", files)
            return name
        except BaseException:
            remove_folder(parent, temporary)
            raise

    def repair(self, location: str, files: Mapping[str, bytes]) -> bool:
        """Replace a bundle durably if its files differ from `files`, and return whether they did. Blocks.

        Raises: StoreError, if the location is malformed or the disk fails.
        """
        category, platform, name = split_location(location)
        with translate_errors("repairing a bundle"):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_folder(self._root) as root:
                ensure_folder(root, category)
                with open_folder(root, category) as middle:
                    ensure_folder(middle, platform)
                with open_folder(root, category, platform) as parent:
                    return self._repair_existing(parent, name, files)

    def _repair_existing(self, parent: int, name: str, files: Mapping[str, bytes]) -> bool:
        try:
            with open_folder(parent, name) as folder:
                if {file: read_file(folder, file.split("/")) for file in files} == dict(files):
                    return False
            remove_folder(parent, name)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                remove_folder(parent, name)
        temporary = f"{_TEMP_NAME_PREFIX}{name}"
        os.mkdir(temporary, 0o700, dir_fd=parent)
        with open_folder(parent, temporary) as folder:
            write_files(folder, files)
        rename_to_final(parent, temporary, name)
        return True

    async def _with_file(self, location: str, name: str, act: Callable[[int, Sequence[str]], T]) -> T:
        within, file = split_location(location), split_relative_path(name)
        if file is None:
            raise build_artifact_missing_error(location, name)
        return await asyncio.to_thread(self._with_bundle, within, lambda folder: act(folder, file), name)

    def _with_bundle(self, within: Sequence[str], act: Callable[[int], T], name: str) -> T:
        with translate_errors("reading a bundle"):
            try:
                with open_folder(self._root, *within) as folder:
                    return act(folder)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as problem:
                raise build_artifact_missing_error("/".join(within), name) from problem

    def _remove(self, within: tuple[str, ...]) -> None:
        category, platform, name = within
        temporary = f"{_TEMP_NAME_PREFIX}{name}"
        with translate_errors("removing a bundle"):
            try:
                with open_folder(self._root, category, platform) as parent:
                    # If the removal is interrupted, `sweep` removes this temporary folder.
                    os.rename(name, temporary, src_dir_fd=parent, dst_dir_fd=parent)
                    remove_folder(parent, temporary)
            except FileNotFoundError:
                return

    def _sweep(self) -> int:
        swept = 0
        with translate_errors("sweeping the bundles"):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._root.glob(f"*/*/{_TEMP_NAME_PREFIX}*"):
                with open_folder(self._root, *left.parent.relative_to(self._root).parts) as parent:
                    remove_folder(parent, left.name)
                swept += 1
        return swept

    def _find_superseded(self) -> list[str]:
        with translate_errors("looking through the bundles"):
            seconds = (str(path.relative_to(self._root)) for path in self._root.glob(f"*/*/*{SECOND_RUN}"))
            firsts = (location.removesuffix(SECOND_RUN) for location in seconds)
            return sorted(first for first in firsts if (self._root / first).is_dir())

    def _free_bytes(self) -> int:
        with translate_errors("checking the bundles' file system"):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_folder(self._root) as root:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=root):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self._root))
                facts = os.fstatvfs(root)
                return facts.f_bavail * facts.f_frsize


def _rename_to_final(parent: int, temporary: str, bundle: Bundle, *, durable: bool) -> str:
    """Rename the temporary folder of a bundle to the bundle's final name, and return this name.

    If the name for the first run exists, that run was interrupted before its verdict, so the bundle gets
    the name for the second run. If both names exist, two runs were interrupted. Because neither has a
    verdict, the new bundle replaces the later one.
    """
    stem = f"{format_timestamp(bundle.created_at)}_{bundle.attempt_id}"
    first, second = stem + _build_run_suffix(bundle.run_number), stem + SECOND_RUN
    for name in dict.fromkeys((first, second)):
        if _try_rename(parent, temporary, name, durable=durable):
            return name
    earlier = f"{temporary}-earlier"
    os.rename(second, earlier, src_dir_fd=parent, dst_dir_fd=parent)
    rename_to_final(parent, temporary, second, durable=durable)
    remove_folder(parent, earlier)
    return second


def _try_rename(parent: int, temporary: str, name: str, *, durable: bool) -> bool:
    try:
        rename_to_final(parent, temporary, name, durable=durable)
    except OSError as problem:
        if problem.errno not in _EXISTS_ERRNOS:
            raise
        return False
    return True


def get_bundle_folder_names(bundle: Bundle) -> tuple[str, str]:
    """Return the names of a bundle's category folder and platform folder.

    Raises: StoreError ``artifact.name``, if a name is invalid.
    """
    return _check_folder_name(bundle.category), _check_folder_name(bundle.platform)


def build_bundle_name(bundle: Bundle, manifest: bytes) -> str:
    """Return a name that is unique even if several hosts write the same bundle.

    Raises: StoreError ``artifact.name``, if the attempt id is invalid.
    """
    digest = hashlib.sha256(manifest).hexdigest()[:DIGEST_CHARS]
    created, suffix = format_timestamp(bundle.created_at), _build_run_suffix(bundle.run_number)
    return f"{created}_{_check_attempt_id(bundle)}-{digest}{suffix}"


def build_bundle_contents(bundle: Bundle) -> tuple[dict[str, bytes], tuple[Artifact, ...]]:
    """Return all files of a bundle, including its manifest, with the description of each file.

    Raises: StoreError ``artifact.name``, if a file name is invalid.
    """
    for name in bundle.files:
        if split_relative_path(name) is None or name == MANIFEST:
            raise StoreError("artifact.name", f"{name!r} isn't a valid artifact name")
    described = [_describe_file(name, content, bundle) for name, content in sorted(bundle.files.items())]
    listed = [{key: getattr(a, key) for key in ("name", "bytes", "sha256", "truncated")} for a in described]
    text = json.dumps({**bundle.manifest, "files": listed}, sort_keys=True, indent=1, ensure_ascii=False)
    manifest = (text + "\n").encode()
    everything = (*described, _describe_file(MANIFEST, manifest, bundle))
    return {**bundle.files, MANIFEST: manifest}, everything


def _describe_file(name: str, content: bytes, bundle: Bundle) -> Artifact:
    return Artifact(
        name=name,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        media_type=detect_media_type(name, content),
        truncated=name in bundle.truncated,
    )


def _check_folder_name(name: str) -> str:
    if not _FOLDER_PATTERN.fullmatch(name):
        raise StoreError("artifact.name", f"{name!r} isn't a valid category or platform")
    return name


def _check_attempt_id(bundle: Bundle) -> str:
    if not _ID.fullmatch(bundle.attempt_id):
        raise StoreError("artifact.name", f"{bundle.attempt_id!r} isn't an attempt id")
    return bundle.attempt_id


def _build_run_suffix(run_number: int) -> str:
    return SECOND_RUN if run_number == 2 else ""


def split_location(location: str) -> tuple[str, ...]:
    """Split the location of a bundle into its three parts.

    Raises: StoreError ``artifact.missing`` if the location is malformed.
    """
    parts = tuple(location.split("/"))
    fits = (
        len(parts) == 3
        and all(map(_FOLDER_PATTERN.fullmatch, parts[:2]))
        and _BUNDLE_PATTERN.fullmatch(parts[2])
    )
    if not fits:
        raise build_artifact_missing_error(location, "")
    return parts


def build_artifact_missing_error(location: str, name: str) -> StoreError:
    """Return the error for an artifact that doesn't exist."""
    return StoreError("artifact.missing", f"artifact {location}/{name} doesn't exist".rstrip("/"))


def build_tar_header(name: str, size: int) -> bytes:
    """Return the header of a file of `size` bytes in a tar archive."""
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o444
    return header.tobuf(tarfile.PAX_FORMAT)
