"""Computes a digest of an image's files, either from the layers or from the unpacked root filesystem.

The digest is a label of the image. Therefore, the image id also identifies a root filesystem that was
unpacked earlier.
"""

import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from assayd.imaging.digest import compute_digest

LABEL_FILES = "org.assayd.files"
_READ_BYTES = 1 << 20
_LINKS = 2
"""Links to a file that one image has: the image's, and that of `SharedFiles`."""

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
                    ("program" if facts.st_mode & 0o100 else "file", _file_digest(each.path, facts, known)),
                )
            else:
                raise OSError(f"{path} isn't a file, folder or link")


def _file_digest(path: str, facts: os.stat_result, known: Known | None) -> str:
    """Return the digest of a file; use the cached digest if the file is shared and known."""
    if known is None or facts.st_nlink <= _LINKS:
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
