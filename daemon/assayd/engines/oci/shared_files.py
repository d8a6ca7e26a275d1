"""Stores files that several images share once, as hard links named by the digest of their content.

    <folder>/files/<two digits>/<sha256>       not executable; with a final x: executable

Each image still contains all files below its root, and is verified there. A stored file is compared before
another image shares it, so that damage isn't passed on to other images.
"""

from __future__ import annotations

import filecmp
import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_TWO = 2


class SharedFiles:
    """The folder of shared files. Its methods block, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, path: Path, digest: str, *, program: bool) -> None:
        """Replace a new file by a link to the stored one, or store it for other images."""
        kept = self._folder / digest[:_TWO] / f"{digest}{'x' if program else ''}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(8)}")
        # The number of links to a file is limited; beyond it, the image keeps its own copy.
        with suppress(OSError):
            if not kept.is_file() or not _is_same_file(path, kept):
                os.link(path, fresh)
                fresh.replace(kept)
            else:
                os.link(kept, fresh)
                fresh.replace(path)
        fresh.unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove files that no image uses."""
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    @staticmethod
    def shared_bytes(roots: Sequence[Path]) -> Mapping[Path, int]:
        """Return the number of bytes of each image that it shares with any of the other images."""
        files = {root: _file_sizes(root) for root in set(roots)}
        images_with = Counter(number for sizes in files.values() for number in sizes)
        return {
            root: sum(size for number, size in sizes.items() if images_with[number] > 1)
            for root, sizes in files.items()
        }


def _file_sizes(root: Path) -> Mapping[int, int]:
    """Return the size of each file by its inode number."""
    sizes = {}
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # Another process is removing the image.
            if path.is_file() and not path.is_symlink():
                status = path.lstat()
                sizes[status.st_ino] = status.st_size
    return sizes


def _is_same_file(path: Path, kept: Path) -> bool:
    one, other = path.stat(), kept.stat()
    alike = (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
    return alike and filecmp.cmp(path, kept, shallow=False)
