"""Files that several images have in common, kept once: by the digest of their content, as hard links.

    <folder>/files/<two digits>/<sha256>       what is no program; with an x at the end: a program

An image has its files under its own root as before, and is verified there. What is in the folder is compared
before another image shares it, so that a file that was damaged is not passed on.
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
    """The folder of shared files. All methods block, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, path: Path, digest: str, *, program: bool) -> None:
        """Let a file that was just written be the one that other images have, or be theirs from now on."""
        kept = self._folder / digest[:_TWO] / f"{digest}{'x' if program else ''}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(8)}")
        # A file may have only so many links; the image keeps its own then.
        with suppress(OSError):
            if not kept.is_file() or not _same(path, kept):
                os.link(path, fresh)
                fresh.replace(kept)
            else:
                os.link(kept, fresh)
                fresh.replace(path)
        fresh.unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove what no image has any more."""
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    @staticmethod
    def shared_bytes(roots: Sequence[Path]) -> Mapping[Path, int]:
        """Return how many bytes of each of these images another of them has as well."""
        files = {root: _sizes(root) for root in set(roots)}
        images_with = Counter(number for sizes in files.values() for number in sizes)
        return {
            root: sum(size for number, size in sizes.items() if images_with[number] > 1)
            for root, sizes in files.items()
        }


def _sizes(root: Path) -> Mapping[int, int]:
    """Return the size of each file by its inode's number."""
    sizes = {}
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # another process is removing the image
            if path.is_file() and not path.is_symlink():
                status = path.lstat()
                sizes[status.st_ino] = status.st_size
    return sizes


def _same(path: Path, kept: Path) -> bool:
    one, other = path.stat(), kept.stat()
    alike = (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
    return alike and filecmp.cmp(path, kept, shallow=False)
