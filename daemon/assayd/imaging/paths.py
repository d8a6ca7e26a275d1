"""Resolves paths below an image's root folder as after a chroot, so that no link leads out of the root."""

import os
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

from assayd.errors import ConfigError

_MAX_LINKS = 40
"""Maximum links on one path, as in Linux."""


def resolve_in_root(root: Path, path: str | PurePath) -> Path:
    """Resolve a path of the image below `root`; parts that don't exist stay unchanged.

    Raises: ConfigError ``image.link_loop``.
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


def find_matching(root: Path, pattern: str) -> list[Path]:
    """Return the matches of a glob pattern below `root`, sorted; links aren't followed."""
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
