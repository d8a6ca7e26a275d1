"""Parses the manifests of bundles, checks the files that are read, and reports modified files as errors.

The digest of a manifest is part of its bundle's location.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tarfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog
from sqlalchemy import Connection, bindparam, select

from assayd.aio import open_task_group
from assayd.errors import StoreError
from assayd.model.attempt import Bundle, WrittenBundle
from assayd.ports.artifacts import ArtifactStore
from assayd.store.access import DatabaseAccess
from assayd.store.artifacts import (
    DIGEST_CHARS,
    MANIFEST,
    MIN_SWEEP_AGE_S,
    build_artifact_missing_error,
    build_tar_header,
    split_location,
    split_relative_path,
)
from assayd.store.tables import verdicts

log = structlog.get_logger()
MAX_MANIFEST_BYTES = 8 * 2**20
KEPT = 256
"""Maximum number of cached manifests, because a bundle's files are often read together."""
EVERY_S = 6 * 3600.0
AT_ONCE = 500
_SELECT_BUNDLES = select(verdicts.c.bundle).where(verdicts.c.attempt_id.in_(bindparam("ids", expanding=True)))


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
        """Return the expected name, size and digest of a file.

        Raises: StoreError ``artifact.missing``, if the manifest doesn't list the file.
        """
        if name not in self.files:
            raise build_artifact_missing_error(self.location, name)
        return self.files[name]


def parse_manifest(location: str, content: bytes) -> StoredBundle:
    """Parse the manifest of a bundle.

    Raises: StoreError ``artifact.damaged``, if its digest differs from that in the location or a file name is
    invalid; ``artifact.missing``, if the location is malformed.
    """
    named = split_location(location)[2].partition("-")[2][:DIGEST_CHARS]
    digest = hashlib.sha256(content).hexdigest()
    if not named or not digest.startswith(named):
        raise build_damaged_error(location, MANIFEST)
    listed = [
        StoredFile(name=each["name"], bytes=each["bytes"], sha256=each["sha256"])
        for each in json.loads(content)["files"]
    ]
    if any(split_relative_path(each.name) is None for each in listed):
        raise build_damaged_error(location, MANIFEST)
    own = StoredFile(name=MANIFEST, bytes=len(content), sha256=digest)
    return StoredBundle(location=location, files={each.name: each for each in (*listed, own)})


async def verify_chunks(
    location: str, file: StoredFile, pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the pieces of a file, but the last piece only if the complete file is unchanged.

    Raises: StoreError ``artifact.damaged``, if the file was changed.
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
        raise build_damaged_error(location, file.name)
    if held:
        yield held


def build_damaged_error(location: str, name: str) -> StoreError:
    """Return the error for a file that doesn't match its manifest."""
    message = (
        f"{location}/{name} was changed: its SHA-256 differs; restore it from a backup of the "
        "bundles, or remove the attempt"
    )
    return StoreError("artifact.damaged", message)


class SharedBundles(ArtifactStore, Protocol):
    """The interface of a bundle store to which several gateways write."""

    def iter_locations(self) -> AsyncIterator[tuple[str, float, bool]]:
        """Yield each bundle's location, its age in seconds, and whether the bundle is complete."""
        ...


class VerifiedArtifactStore:
    """An `ArtifactStore` that verifies the files of a wrapped store when they are read."""

    def __init__(self, inner: SharedBundles) -> None:
        self._inner = inner
        self._kept: OrderedDict[str, StoredBundle] = OrderedDict()

    async def write(self, bundle: Bundle) -> WrittenBundle:
        """Write a bundle durably to the wrapped store. Raises: StoreError, if the write fails."""
        return await self._inner.write(bundle)

    def path(self, location: str) -> Path | None:
        """Return the folder of a bundle, or None if the store doesn't use folders."""
        return self._inner.path(location)

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file.

        Raises: StoreError ``artifact.missing``, if it doesn't exist; ``artifact.damaged``, if it was changed.
        """
        return b"".join([piece async for piece in self.read_chunks(location, name)])

    async def read_chunks(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Yield the content of one file in pieces, and the last piece only if the file is intact.

        Raises: the same errors as `read`.
        """
        file = (await self._read_verified_manifest(location)).file(name)
        async for piece in verify_chunks(location, file, self._inner.read_chunks(location, name)):
            yield piece

    async def stream_tar(self, location: str) -> AsyncIterator[bytes]:
        """Yield a bundle as a tar stream that is read file by file. Raises: the same errors as `read`."""
        described = await self._read_verified_manifest(location)
        folder = split_location(location)[-1]
        for name in sorted(described.files):
            size = described.files[name].bytes
            yield build_tar_header(f"{folder}/{name}", size)
            async for piece in self.read_chunks(location, name):
                yield piece
            if left := -size % tarfile.BLOCKSIZE:
                yield bytes(left)
        yield bytes(2 * tarfile.BLOCKSIZE)

    async def remove(self, location: str) -> None:
        """Remove a bundle. A missing bundle isn't an error."""
        self._kept.pop(location, None)
        await self._inner.remove(location)

    async def list_superseded(self) -> Sequence[str]:
        """Return the first bundle of every attempt that has two bundles."""
        return await self._inner.list_superseded()

    async def sweep(self) -> int:
        """Remove the files of interrupted writes, and return their number."""
        return await self._inner.sweep()

    def iter_locations(self) -> AsyncIterator[tuple[str, float, bool]]:
        """Yield each bundle's location, its age in seconds, and whether the bundle is complete."""
        return self._inner.iter_locations()

    async def free_bytes(self) -> int:
        """Return the free space in bytes."""
        return await self._inner.free_bytes()

    async def _read_verified_manifest(self, location: str) -> StoredBundle:
        if location not in self._kept:
            self._kept[location] = parse_manifest(location, await self._read_manifest(location))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(location)
        return self._kept[location]

    async def _read_manifest(self, location: str) -> bytes:
        content = b""
        async for piece in self._inner.read_chunks(location, MANIFEST):
            content += piece
            if len(content) > MAX_MANIFEST_BYTES:
                raise build_damaged_error(location, MANIFEST)
        return content


@asynccontextmanager
async def sweep_in_background(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> AsyncIterator[None]:
    """Sweep repeatedly while the body runs. Several gateways can sweep at the same time without errors."""
    async with open_task_group() as tasks:
        keeping = tasks.create_task(_sweep_periodically(bundles, access), name="sweep-bundles")
        try:
            yield
        finally:
            keeping.cancel()


async def _sweep_periodically(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            count = await bundles.sweep() + await remove_unreferenced_bundles(bundles, access)
        except StoreError as trouble:
            log.warning("bundles.not_swept", code=trouble.code)
        else:
            log.info("bundles.swept", count=count)


async def remove_unreferenced_bundles(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> int:
    """Remove old complete bundles that no verdict references, and return their number.

    Raises: StoreError, if the database or the storage fails.
    """
    removed, old = 0, []
    async for location, age_s, is_whole in bundles.iter_locations():
        if is_whole and age_s > MIN_SWEEP_AGE_S:
            old.append(location)
        if len(old) == AT_ONCE:
            removed += await _remove_unreferenced(bundles, access, old)
            old = []
    return removed + await _remove_unreferenced(bundles, access, old)


async def _remove_unreferenced(
    bundles: VerifiedArtifactStore, access: DatabaseAccess, locations: Sequence[str]
) -> int:
    ids = [location.rpartition("/")[2].partition("_")[2][:26] for location in locations]

    def fetch(connection: Connection) -> set[str | None]:
        return set(connection.execute(_SELECT_BUNDLES, {"ids": ids}).scalars())

    named = await access.read(fetch)
    unnamed = [location for location in locations if location not in named]
    for location in unnamed:
        await bundles.remove(location)
    return len(unnamed)
