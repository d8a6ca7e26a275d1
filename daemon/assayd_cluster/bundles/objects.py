"""Stores bundles in S3-compatible object storage: one object per file, with the manifest written last.

    <category>/<platform>/<created>_<attempt id>-<digest of the manifest>[.run2]/<SHA-256 of the file>

Objects are named after the digests of their content and never overwritten, so several gateways can write
concurrently. A bundle exists once its manifest exists.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

from assayd.aio import run_concurrently
from assayd.errors import StoreError
from assayd.model.attempt import Bundle, WrittenBundle
from assayd.store.artifacts import (
    MANIFEST,
    MIN_SWEEP_AGE_S,
    PIECE_BYTES,
    build_artifact_missing_error,
    build_bundle_contents,
    build_bundle_name,
    get_bundle_folder_names,
    split_location,
)
from assayd_cluster.bundles.verified import StoredBundle, StoredFile, parse_manifest

AT_ONCE = 8
"""Maximum number of objects of one bundle to write concurrently."""
LISTED = 1000
ASSUMED_FREE_BYTES = 2**50
"""The number of free bytes to assume if the storage doesn't report any."""
_NO_BUCKET_MARKER = "<Code>NoSuchBucket</Code>"
_REFUSAL_ERRORS = (PermissionDeniedError, UnauthenticatedError)
_REFUSED_TEXTS = ("status code: 401", "status code: 403")
_CODE_PATTERN = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")


class ObjectArtifactStore:
    """An `ArtifactStore` on a bucket. `VerifiedArtifactStore` checks the files that are read."""

    def __init__(self, store: obstore.store.ObjectStore) -> None:
        self._store = store

    async def write(self, bundle: Bundle) -> WrittenBundle:
        """Write a bundle, which is durable once this method returns.

        Raises: StoreError ``artifact.name``, for an invalid name; another code if the storage fails.
        """
        files, artifacts = build_bundle_contents(bundle)
        manifest = files.pop(MANIFEST)
        location = "/".join((*get_bundle_folder_names(bundle), build_bundle_name(bundle, manifest)))
        described = parse_manifest(location, manifest)
        turns = asyncio.Semaphore(AT_ONCE)

        contents = {
            _build_object_key(location, described.files[name]): content for name, content in files.items()
        }

        async def put(key: str, content: bytes) -> None:
            async with turns:
                await obstore.put_async(self._store, key, content)

        with _translate_errors("writing a bundle"):
            await run_concurrently(*(put(key, content) for key, content in contents.items()))
            await obstore.put_async(self._store, f"{location}/{MANIFEST}", manifest)
        return WrittenBundle(location=location, artifacts=artifacts)

    def path(self, location: str) -> Path | None:
        """Return None, because bundles in a bucket have no folders."""
        return None

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file. Raises: StoreError ``artifact.missing``, if it doesn't exist."""
        return b"".join([piece async for piece in self.read_chunks(location, name)])

    async def read_chunks(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Yield the content of one file in pieces. Raises: the same errors as `read`."""
        split_location(location)
        key = f"{location}/{MANIFEST}"
        if name != MANIFEST:
            key = _build_object_key(location, (await self._read_manifest(location)).file(name))
        with _translate_errors("reading a bundle"):
            try:
                found = await obstore.get_async(self._store, key)
            except (NotFoundError, FileNotFoundError) as problem:
                if _NO_BUCKET_MARKER in str(problem):
                    raise
                raise build_artifact_missing_error(location, name) from problem
            async for part in found.stream(min_chunk_size=PIECE_BYTES):
                for begin in range(0, len(part), PIECE_BYTES):
                    yield bytes(part[begin : begin + PIECE_BYTES])

    async def _read_manifest(self, location: str) -> StoredBundle:
        return parse_manifest(location, await self.read(location, MANIFEST))

    async def stream_tar(self, location: str) -> AsyncIterator[bytes]:
        """Always raise `StoreError`, because files must be checked before they are streamed."""
        raise StoreError("artifact.unchecked", f"{location}: read it through VerifiedArtifactStore")
        yield b""

    async def remove(self, location: str) -> None:
        """Remove a bundle, beginning with its manifest. A missing bundle isn't an error."""
        split_location(location)
        with _translate_errors("removing a bundle"):
            await self._delete_objects([f"{location}/{MANIFEST}"])
            keys = [each["path"] async for each in self._list_objects(location)]
            await self._delete_objects(keys)

    async def list_superseded(self) -> Sequence[str]:
        """Return an empty sequence, because each bundle has a unique name. Old bundles are removed by age."""
        return ()

    async def sweep(self) -> int:
        """Remove the objects of old bundles without a manifest, and return the number of these bundles."""
        swept = 0
        async for location, age_s, is_whole in self.iter_locations():
            if not is_whole and age_s > MIN_SWEEP_AGE_S:
                await self.remove(location)
                swept += 1
        return swept

    async def iter_locations(self) -> AsyncIterator[tuple[str, float, bool]]:
        """Yield each bundle's location, its age in seconds, and whether the bundle is complete."""
        now, location, newest, is_whole = time.time(), "", 0.0, False
        with _translate_errors("listing the bundles"):
            async for each in self._list_objects(None):
                folder, _, name = each["path"].rpartition("/")
                if folder != location:
                    if location:
                        yield location, now - newest, is_whole
                    location, newest, is_whole = folder, 0.0, False
                newest = max(newest, each["last_modified"].timestamp())
                is_whole = is_whole or name == MANIFEST
            if location:
                yield location, now - newest, is_whole

    async def free_bytes(self) -> int:
        """Return a very large number, because object storage doesn't report its free space."""
        return ASSUMED_FREE_BYTES

    async def _list_objects(self, prefix: str | None) -> AsyncIterator[obstore.ObjectMeta]:
        async for chunk in obstore.list(self._store, prefix, chunk_size=LISTED):
            for each in chunk:
                yield each

    async def _delete_objects(self, keys: Sequence[str]) -> None:
        try:
            await obstore.delete_async(self._store, keys)
        except (NotFoundError, FileNotFoundError) as problem:
            if _NO_BUCKET_MARKER in str(problem):
                raise


def _build_object_key(location: str, file: StoredFile) -> str:
    return f"{location}/{file.sha256}"


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, OSError) as problem:
        failed = f"{what} failed: {_format_error_line(problem)}"
        # A refused listing has no separate class.
        if isinstance(problem, _REFUSAL_ERRORS) or any(each in failed for each in _REFUSED_TEXTS):
            message = (
                f"{failed}; check that the keys are correct and have read, write, list and delete "
                "rights on the bucket"
            )
            raise StoreError("store.unwritable", message) from problem
        message = f"{failed}; check that the object storage answers and that the bucket exists"
        raise StoreError("store.unreachable", message, retryable=True) from problem


def _format_error_line(problem: Exception) -> str:
    """Return the storage's error message on one line, without the HTML page and the library's options."""
    text = str(problem)
    line = text.partition("\n")[0].partition("<")[0].rstrip(" :")
    code = _CODE_PATTERN.search(text)
    return f"{line} ({code[1]})" if code else line
