"""Computes digests of the parts of an image."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

_READ_BYTES = 1 << 20


def compute_digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return ``sha256:…`` of named contents in their order; each part is preceded by its length."""
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
