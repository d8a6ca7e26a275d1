"""Lists the packages of an image: the Linux distribution's packages, and Python distributions.

This module reads metadata of the root filesystem. An adopted image's metadata is hostile: every file, entry
and list has a limit, and only well-formed names and versions are returned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from assayd.errors import ConfigError
from assayd.imaging.tree import resolve_in_root

MAX_PACKAGES = 4000
"""Maximum packages of one image, including unreadable entries; a complete desktop has about 3,000."""
_MAX_BYTES = 32 * 2**20
"""Maximum bytes of all package lists and metadata; links to one file count each time."""
_MAX_HEAD_BYTES = 64 * 1024
"""Bytes to read of a Python distribution's metadata, whose description follows."""
_MAX_LISTS = 2 * MAX_PACKAGES

_STATUS = "var/lib/dpkg/status"
_STATUS_FOLDER = "var/lib/dpkg/status.d"
_OS_RELEASE_FILE = "etc/os-release"
_DEBIAN_FOLDER = "usr/lib/python3/dist-packages"
"""The folder of the distribution's Python modules, which are listed as its packages."""
_LIBRARIES = ("site-packages", "dist-packages")
_METADATA_BY_SUFFIX = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}

_DEBIAN_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9+.-]{0,127}", re.ASCII)
_DEBIAN_VERSION_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~-]{0,127}", re.ASCII)
_ARCHITECTURE_PATTERN = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
_PYTHON_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_PYTHON_VERSION_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,127}", re.ASCII)
_FIELD = re.compile(r"^(?P<key>Package|Status|Architecture|Source|Name|Version):(?P<value>.*)$", re.MULTILINE)
_SYSTEM_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Package:
    """A package. `kind` is ``deb`` or ``pypi``. The other optional fields apply only to ``deb``.

    `source` is the name of the source package, and `system` is the distribution, e.g. ``debian-12``.
    """

    kind: str
    name: str
    version: str
    architecture: str = ""
    source: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The packages of an image, and the number of unreadable entries."""

    packages: tuple[Package, ...]
    unreadable: int = 0


def list_root_packages(root: Path, debian: Iterable[Package] | None = None) -> Inventory:
    """Return the inventory of packages in a root filesystem.

    Args:
        root: the folder; links that lead out of it aren't followed.
        debian: the distribution's packages. Default: dpkg's own list.

    Raises: ConfigError ``image.source_too_large``, if a list or the number of packages exceeds its limit.
    """
    reader = _LimitedReader()
    packages: set[Package] = set()
    unreadable = 0
    for package in chain(
        _read_dpkg_packages(root, reader) if debian is None else debian, _read_python_packages(root, reader)
    ):
        if package is None:
            unreadable += 1
        else:
            packages.add(package)
        if len(packages) + unreadable > MAX_PACKAGES:
            raise _too_large_error(f"more than {MAX_PACKAGES} packages")
    return Inventory(packages=tuple(sorted(packages)), unreadable=unreadable)


def parse_debian_package(fields: dict[str, str], system: str) -> Package | None:
    """Return the package that a control file's fields describe, or None if they are malformed."""
    name, version, architecture = (fields.get(key, "") for key in ("Package", "Version", "Architecture"))
    source = fields.get("Source", "").partition(" ")[0] or name
    wellformed = (
        _DEBIAN_NAME_PATTERN.fullmatch(name)
        and _DEBIAN_VERSION_PATTERN.fullmatch(version)
        and _ARCHITECTURE_PATTERN.fullmatch(architecture)
        and _DEBIAN_NAME_PATTERN.fullmatch(source)
    )
    if not wellformed:
        return None
    return Package(
        kind="deb", name=name, version=version, architecture=architecture, source=source, system=system
    )


def build_python_package(name: str, version: str) -> Package | None:
    """Return a Python distribution with its normalized name.

    Return None if the name or the version is malformed.
    """
    if not (_PYTHON_NAME_PATTERN.fullmatch(name) and _PYTHON_VERSION_PATTERN.fullmatch(version)):
        return None
    return Package(kind="pypi", name=re.sub(r"[-_.]+", "-", name).lower(), version=version)


def detect_distribution(root: Path) -> str:
    """Return the distribution of a root filesystem, e.g. ``debian-12``, or "" if it is unknown."""
    path = resolve_in_root(root, _OS_RELEASE_FILE)
    if not path.is_file():
        return ""
    lines = _LimitedReader().head(path).splitlines()
    said = {key: value.strip("\"' ") for key, _, value in (line.partition("=") for line in lines)}
    named = "-".join(filter(None, (said.get("ID", ""), said.get("VERSION_ID", ""))))
    return named if _SYSTEM_PATTERN.fullmatch(named) else ""


def _read_dpkg_packages(root: Path, reader: _LimitedReader) -> Iterator[Package | None]:
    system = detect_distribution(root)
    for path in _find_package_lists(root):
        for paragraph in _split_paragraphs(reader.text(path)):
            fields = _parse_fields(paragraph)
            if fields and fields.get("Status", "installed").endswith("installed"):
                yield parse_debian_package(fields, system)


def _find_package_lists(root: Path) -> list[Path]:
    """Return the package lists: dpkg's status file, and one file per package in images without dpkg.

    Raises: ConfigError ``image.source_too_large``, if there are too many.
    """
    folder = resolve_in_root(root, _STATUS_FOLDER)
    each = sorted(folder.iterdir()) if folder.is_dir() else []
    if len(each) > _MAX_LISTS:
        raise _too_large_error(f"more than {_MAX_LISTS} files in /{_STATUS_FOLDER}")
    paths = [resolve_in_root(root, _STATUS), *(path for path in each if path.suffix != ".md5sums")]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _read_python_packages(root: Path, reader: _LimitedReader) -> Iterator[Package | None]:
    skipped = root / _DEBIAN_FOLDER
    for folder, folders, files in os.walk(root):
        if not folder.endswith(_LIBRARIES) or Path(folder) == skipped:
            continue
        for name in sorted((*folders, *files)):
            metadata = _METADATA_BY_SUFFIX.get(Path(name).suffix)
            path = Path(folder, name, metadata) if metadata and name in folders else Path(folder, name)
            if metadata and path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
                fields = _parse_fields(reader.head(path).partition("\n\n")[0])
                yield build_python_package(fields.get("Name", ""), fields.get("Version", ""))


def _parse_fields(paragraph: str) -> dict[str, str]:
    """Return the known single-line fields. Continuation lines are ignored."""
    return {found["key"]: found["value"].strip() for found in _FIELD.finditer(paragraph)}


def _split_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a file one at a time, because a complete list could exhaust the memory."""
    start = 0
    while start < len(text):
        end = text.find("\n\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 2


class _LimitedReader:
    """A reader of files that limits their total number of bytes."""

    def __init__(self) -> None:
        self._left = _MAX_BYTES

    def text(self, path: Path) -> str:
        """Return a whole file. Raises: ConfigError, if the total size of the files exceeds the limit."""
        return self._read_limited(path, self._left + 1)

    def head(self, path: Path) -> str:
        """Return the first 64 KiB of a file. Raises: the same errors as `text`."""
        return self._read_limited(path, _MAX_HEAD_BYTES).replace("\r\n", "\n")

    def _read_limited(self, path: Path, most: int) -> str:
        with path.open("rb") as stream:
            content = stream.read(most)
        self._left -= len(content)
        if self._left < 0:
            raise _too_large_error(f"lists of packages with more than {_MAX_BYTES >> 20} MiB in all")
        return content.decode("utf-8", "replace")


def _too_large_error(what: str) -> ConfigError:
    return ConfigError("image.source_too_large", f"the image has {what}; use a smaller one")
