"""Computes the digest of an image's file tree, and resolves paths that can't lead out of its root folder.

The digest is computed either from the layers or from the unpacked root filesystem. It is a label of the
image. Therefore, the image id also identifies a root filesystem that was unpacked earlier.
"""

import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from assayd.errors import ConfigError

_READ_BYTES = 1 << 20


def compute_digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return ``sha256:…`` of named contents in their order. Each part is preceded by its length."""
    total = hashlib.sha256()
    for name, content in parts:
        encoded = name.encode()
        total.update(f"{len(encoded)} {len(content)}\n".encode() + encoded + content)
    return f"sha256:{total.hexdigest()}"


def list_guest_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the Python files of the guest code as (relative name, path), sorted by name."""
    files = (path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return sorted((path.relative_to(folder).as_posix(), path) for path in files)


def compute_guest_digest(folder: Path) -> str:
    """Return ``sha256:…`` of the names and contents of the guest code in `folder`.

    The image has this digest as a label. The daemon computes the digest of the daemon's copy of the guest
    code and rejects an image with a different digest.
    """
    return compute_digest((name, path.read_bytes()) for name, path in list_guest_files(folder))


def list_library_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the files directly in a library folder as (name, path), sorted by name."""
    return sorted((path.name, path) for path in folder.iterdir() if path.is_file())


def compute_library_digest(folder: Path) -> str:
    """Return ``sha256:…`` of the names and contents of the files in a library folder."""
    return compute_digest((name, path.read_bytes()) for name, path in list_library_files(folder))


def compute_file_digest(path: Path) -> str:
    """Return ``sha256:…`` of the bytes of one file."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            total.update(block)
    return f"sha256:{total.hexdigest()}"


LABEL_FILES = "org.assayd.files"
LABEL_BASELINE = "org.assayd.baseline-bytes"

_MAX_OWN_LINKS = 2
"""Links to a file that one image has: the image's, and that of `DeduplicatedFiles`."""

Known = dict[tuple[int, int, int, int, int], str]
"""Digests of files that were read before, by the metadata that the kernel changes on each write."""

Entries = Mapping[str, tuple[str, str]]
"""Path without leading slash -> kind (folder, file, program, link) and content digest or target."""


def compute_tree_digest(entries: Entries) -> str:
    """Return ``sha256:…`` of all entries, ignoring owners and times."""
    return compute_digest(
        (f"{kind} {path}", content.encode()) for path, (kind, content) in sorted(entries.items())
    )


def read_layer_entries(layers: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Return the entries that result from unpacking the layers in order, beginning with the lowest."""
    found: dict[str, tuple[str, str]] = {}
    for layer in layers:
        with tarfile.open(layer, "r:") as tar:
            found |= {member.name: _read_entry(tar, member) for member in tar}
    return found


def read_folder_entries(root: Path, known: Known | None = None) -> dict[str, tuple[str, str]]:
    """Return the entries of a root filesystem.

    Args:
        root: its folder.
        known: an optional cache of digests, so that a file shared by several images is read only once.

    Raises: OSError, if the folder is unreadable or contains special files.
    """
    return dict(_walk_entries(os.fspath(root), "", known))


def _read_entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, str]:
    if member.isdir():
        return ("folder", "")
    if member.issym():
        return ("link", member.linkname)
    stream = tar.extractfile(member)
    if stream is None:
        raise OSError(f"{member.name} isn't a file, folder or link")
    with stream:
        return ("program" if member.mode & 0o100 else "file", _compute_digest(stream))


def _walk_entries(folder: str, name: str, known: Known | None) -> Iterator[tuple[str, tuple[str, str]]]:
    with os.scandir(folder) as found:
        for each in found:
            path = f"{name}/{each.name}" if name else each.name
            if each.is_symlink():
                yield path, ("link", os.readlink(each.path))  # noqa: PTH115 - as quick as it gets
            elif each.is_dir(follow_symlinks=False):
                yield path, ("folder", "")
                yield from _walk_entries(each.path, path, known)
            elif each.is_file(follow_symlinks=False):
                facts = each.stat(follow_symlinks=False)
                yield (
                    path,
                    (
                        "program" if facts.st_mode & 0o100 else "file",
                        _get_file_digest(each.path, facts, known),
                    ),
                )
            else:
                raise OSError(f"{path} isn't a file, folder or link")


def _get_file_digest(path: str, facts: os.stat_result, known: Known | None) -> str:
    """Return the digest of a file. Use the cached digest if the file is shared and known."""
    if known is None or facts.st_nlink <= _MAX_OWN_LINKS:
        return _read_digest(path)
    key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    if key not in known:
        known[key] = _read_digest(path)
    return known[key]


def _read_digest(path: str) -> str:
    with open(path, "rb") as stream:  # noqa: PTH123 - as quick as it gets, thousands of times
        return _compute_digest(stream)


def _compute_digest(stream: IO[bytes]) -> str:
    total = hashlib.sha256()
    while block := stream.read(_READ_BYTES):
        total.update(block)
    return total.hexdigest()


_MAX_LINKS = 40
"""Maximum links on one path, as in Linux."""


def resolve_in_root(root: Path, path: str | PurePath) -> Path:
    """Resolve a path of the image below `root`. Parts that don't exist stay unchanged.

    Raises: ConfigError ``image.link_loop``, if the path passes through more than 40 links.
    """
    found, links = root, 0
    left = [*reversed(PurePosixPath(path).parts)]
    while left:
        part = left.pop()
        if part.startswith("/"):
            found = root
        elif part == "..":
            found = found.parent if found != root else root
        elif not (found / part).is_symlink():
            found /= part
        elif links < _MAX_LINKS:
            links += 1
            left += reversed((found / part).readlink().parts)
        else:
            message = f"/{path} passes through more than {_MAX_LINKS} links; remove the link (drop)"
            raise ConfigError("image.link_loop", message)
    return found


def glob_in_root(root: Path, pattern: str) -> list[Path]:
    """Return the matches of a glob pattern below `root`, sorted. Links aren't followed."""
    *folders, last = PurePosixPath(pattern).parts
    found = [root]
    for part in folders:
        inside = (path.relative_to(root) for folder in found for path in _match_entries(folder, part))
        found = [resolve_in_root(root, path) for path in inside]
    return sorted({path for folder in found for path in _match_entries(folder, last)})


def _match_entries(folder: Path, part: str) -> list[Path]:
    """Return the matches of one part of a pattern in a folder that was reached without links."""
    if part == "**":
        return [Path(each) for each, _, _ in os.walk(folder)]
    return [path for path in folder.iterdir() if fnmatchcase(path.name, part)] if folder.is_dir() else []
