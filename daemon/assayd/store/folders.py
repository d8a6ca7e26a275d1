"""Performs file operations relative to directory descriptors.

All operations block. They neither follow links nor overwrite existing files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

MOST_DEEP = 16

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def split_parts(name: str) -> tuple[str, ...] | None:
    """Split a relative path into the parts between its slashes.

    Return None for an unsafe path, such as one that leaves its folder.
    """
    found = tuple(name.split("/"))
    try:
        long = any(len(os.fsencode(part)) > 255 for part in found)
    except UnicodeEncodeError:
        return None
    odd = any(part in {"", ".", ".."} or not part.isprintable() for part in found)
    return None if long or odd or len(found) > MOST_DEEP else found


@contextmanager
def open_folder(folder: int | Path, *names: str) -> Iterator[int]:
    """Open a folder by its path relative to an open folder, and close it on exit."""
    with ExitStack() as stack:
        if isinstance(folder, Path):
            folder = os.open(folder, _FOLDER)
            stack.callback(os.close, folder)
        for name in names:
            folder = os.open(name, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder


def ensure_folder(folder: int, name: str) -> None:
    """Create a subfolder durably if it doesn't exist."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        os.fsync(folder)


def write_files(folder: int, files: Mapping[str, bytes], *, durable: bool = True) -> None:
    """Write read-only files into a new folder. The file names must have passed `parts`.

    All files are written before the first file is flushed. A journaling file system then commits them
    together, so the flushes of the remaining files are fast.
    """
    with ExitStack() as stack:
        folders: dict[tuple[str, ...], int] = {(): folder}
        handles: list[int] = []
        for name, content in files.items():
            *within, last = name.split("/")
            parent = _open_cached_folder(tuple(within), folders, stack)
            handle = os.open(last, _NEW_FILE, 0o400, dir_fd=parent)
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
        handle = os.open(name[-1], _OLD_FILE, dir_fd=parent)
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
        folders[names] = os.open(names[-1], _FOLDER, dir_fd=parent)
        stack.callback(os.close, folders[names])
    return folders[names]


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes to an open file, with repeated calls after partial writes."""
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
