"""The work directory: the only writable directory, which guest code can leave in any state; and its database.

All operations use descriptors and never follow links. They run only while no guest process is alive, so the
directory can't change during an operation.

The database of an attempt is bytes in the runner's memory, and a file only while a `sql` unit runs.
Therefore, no other unit can access the database, and a unit that fails leaves it unchanged.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from .substitutes import Value, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_EMPTY_LIMIT_S = 10.0


class WorkDirectoryNotEmptiedError(RuntimeError):
    """An exception raised when a work directory can't be emptied in time."""


class WorkdirUsage(Value):
    """The used bytes and files of the work directory's file system, and whether it is full."""

    used_bytes: int
    used_files: int
    full: bool


class _OpenDescriptor:
    """A context manager that closes a descriptor."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


class WorkDirectory:
    """A directory accessed by an open descriptor, so that renaming it or its parents has no effect."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, _DIRECTORY)
        self.path = os.path.realpath(path)
        self._baseline = self._measure_usage()

    def use(self) -> WorkdirUsage:
        """Return the growth in space and files since the start, and whether the directory is full."""
        now = self._measure_usage()
        return WorkdirUsage(
            used_bytes=max(now.used_bytes - self._baseline.used_bytes, 0),
            used_files=max(now.used_files - self._baseline.used_files, 0),
            full=now.full,
        )

    def restore_access(self) -> None:
        """Restore the directory's mode, which an earlier child could have changed."""
        os.fchmod(self.descriptor, 0o700)

    def remove_content(self) -> None:
        """Remove all content, even deep, unusual or protected entries.

        Raises: WorkDirectoryNotEmptiedError, if it takes more than 10 s; OSError.
        """
        self.restore_access()
        clear_directory(self.descriptor)

    def write_file(self, path: str, content: bytes | bytearray) -> None:
        """Write a file to a relative path that `requests.parse_path_header` has accepted.

        Anything that guest code created at this path, or at the path of a parent directory, is removed.
        Raises: OSError, e.g. if the disk is full.
        """
        *folders, name = path.split("/")
        with self._open_directory(folders) as parent:
            _write_file(parent, name, content)

    def create_directory(self, folder: str) -> None:
        """Create a directory at a relative path. Leave an existing one unchanged. Raises: OSError."""
        with self._open_directory(folder.split("/")):
            pass

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """Return a regular file's content, or None for other entries and for larger files.

        Raises: OSError, e.g. if the file doesn't exist.
        """
        *folders, name = path.split("/")
        with self._open_directory(folders) as parent:
            descriptor = os.open(name, _FILE, dir_fd=parent)
        with open(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
                return None
            return stream.read(most_bytes)

    def remove(self, name: str) -> None:
        """Remove the entry with this name and its content, if it exists.

        Raises: WorkDirectoryNotEmptiedError, if it takes more than 10 s; OSError.
        """
        _remove_if_present(self.descriptor, name)

    def _open_directory(self, folders: list[str]) -> _OpenDescriptor:
        """Open a directory. Create it and its parents if they are missing."""
        entered = _OpenDescriptor(os.dup(self.descriptor))
        try:
            for folder in folders:
                parent, entered.descriptor = entered.descriptor, _open_or_create(entered.descriptor, folder)
                os.close(parent)
        except BaseException:
            os.close(entered.descriptor)
            raise
        return entered

    def _measure_usage(self) -> WorkdirUsage:
        found = os.fstatvfs(self.descriptor)
        return WorkdirUsage(
            used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
            used_files=found.f_files - found.f_ffree,
            full=found.f_blocks > 0 and (found.f_bavail == 0 or (found.f_files > 0 and found.f_ffree == 0)),
        )


def clear_directory(directory: int) -> None:
    """Remove all content of a directory.

    Raises: WorkDirectoryNotEmptiedError, if it takes more than 10 s; OSError.

    Subdirectories aren't traversed recursively: their content is moved up into the directory itself, so
    that deep nesting needs neither more descriptors nor more stack.
    """
    end = time.monotonic() + _EMPTY_LIMIT_S
    while names := os.listdir(directory):
        for name in names:
            _remove_entry(name, directory)
            if time.monotonic() > end:
                raise WorkDirectoryNotEmptiedError(f"{len(names)} entries remain in the work directory")


def _remove_entry(name: str, parent: int) -> None:
    if not _is_directory(name, parent):
        os.unlink(name, dir_fd=parent)
        return
    with _open_subdirectory(name, parent) as inner:
        for below in os.listdir(inner):
            if _is_directory(below, inner):
                os.chmod(below, 0o700, dir_fd=inner)
                _move_to_parent(below, inner, parent)
            else:
                os.unlink(below, dir_fd=inner)
    os.rmdir(name, dir_fd=parent)


def _move_to_parent(name: str, origin: int, parent: int) -> None:
    for target in _generate_names():
        try:
            os.rename(name, target, src_dir_fd=origin, dst_dir_fd=parent)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                raise
        else:
            return


def _generate_names() -> Iterator[str]:
    number = time.monotonic_ns()
    while True:
        yield f"removed-{number:x}"
        number += 1


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)


def _open_subdirectory(name: str, parent: int) -> _OpenDescriptor:
    os.chmod(name, 0o700, dir_fd=parent)
    return _OpenDescriptor(os.open(name, _DIRECTORY, dir_fd=parent))


def _open_or_create(parent: int, name: str) -> int:
    """Open a directory in `parent`. Create it if it doesn't exist, replacing any other entry."""
    try:
        if not _is_directory(name, parent):
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o700, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=parent)
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _write_file(parent: int, name: str, content: bytes | bytearray) -> None:
    _remove_if_present(parent, name)
    descriptor = os.open(name, _NEW_FILE, 0o644, dir_fd=parent)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _remove_if_present(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if _is_directory(name, parent):
            with _open_subdirectory(name, parent) as inner:
                clear_directory(inner)
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


FOLDER = ".database"
FILE = f"{FOLDER}/pipeline.sqlite"
"""Path of the file, relative to the work directory. SQLite puts its journals in the same folder."""

RESULT = "database.sqlite"
"""Name of the database among the declared outputs."""


class AttemptDatabase:
    """An attempt's database as bytes, which only successful units change."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._given = bytearray()
        self._content: bytes | None = None

    def add(self, body: bytes) -> None:
        """Append a part of the initial database."""
        self._given += body

    @property
    def changed_content(self) -> bytes | None:
        """Return the database if it differs from the initial database, otherwise None."""
        return None if self._content is None or self._content == self._given else self._content

    def create_file(self, work: WorkDirectory) -> None:
        """Create the database file for a unit. On failure, remove every part of it. Raises: OSError."""
        work.remove(FOLDER)
        try:
            work.write_file(FILE, self._given if self._content is None else self._content)
        except OSError:
            work.remove(FOLDER)
            raise

    def remove_file(self, work: WorkDirectory, *, keep: bool) -> str | None:
        """Remove the file. If `keep` is true, first store its content.

        Return the reason why the content can't be kept, or None.
        """
        try:
            content = work.read(FILE, self.most_bytes) if keep else None
        except OSError as problem:
            return f"the database can't be read: {problem.strerror}"
        finally:
            work.remove(FOLDER)
        if keep and content is None:
            return "the database is too large, or no longer a file"
        self._content = content or self._content
        return None
