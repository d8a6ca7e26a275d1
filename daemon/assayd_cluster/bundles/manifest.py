"""Parses the manifest of a bundle, whose digest is part of the location, and verifies files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from assayd.errors import StoreError
from assayd.store.artifacts import (
    DIGEST_CHARS,
    MANIFEST,
    build_artifact_missing_error,
    split_location,
    split_relative_path,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a bundle, with its name, size and digest when it was written."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBundle:
    """The expected content of a bundle, with all files by name, including the manifest."""

    location: str
    files: dict[str, StoredFile]

    def file(self, name: str) -> StoredFile:
        """Return the expected name, size and digest of a file. Raises: StoreError ``artifact.missing``."""
        if name not in self.files:
            raise build_artifact_missing_error(self.location, name)
        return self.files[name]


def parse_manifest(location: str, content: bytes) -> StoredBundle:
    """Parse the manifest of a bundle. Raises: StoreError ``artifact.damaged``, ``artifact.missing``."""
    named = split_location(location)[2].partition("-")[2][:DIGEST_CHARS]
    digest = hashlib.sha256(content).hexdigest()
    if not named or not digest.startswith(named):
        raise damaged_error(location, MANIFEST)
    listed = [
        StoredFile(name=each["name"], bytes=each["bytes"], sha256=each["sha256"])
        for each in json.loads(content)["files"]
    ]
    if any(split_relative_path(each.name) is None for each in listed):
        raise damaged_error(location, MANIFEST)
    own = StoredFile(name=MANIFEST, bytes=len(content), sha256=digest)
    return StoredBundle(location=location, files={each.name: each for each in (*listed, own)})


async def verify_chunks(
    location: str, file: StoredFile, pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the pieces of a file, but the last piece only if the complete file is unchanged.

    Raises: StoreError ``artifact.damaged``.
    """
    digest, held, count = hashlib.sha256(), b"", 0
    async for piece in pieces:
        if held:
            yield held
        held, count = piece, count + len(piece)
        digest.update(piece)
        if count > file.bytes:
            break
    if digest.hexdigest() != file.sha256:
        raise damaged_error(location, file.name)
    if held:
        yield held


def damaged_error(location: str, name: str) -> StoreError:
    """Return the error for a file that doesn't match its manifest."""
    message = (
        f"{location}/{name} was changed: its SHA-256 differs; restore it from a backup of the "
        "bundles, or remove the attempt"
    )
    return StoreError("artifact.damaged", message)
