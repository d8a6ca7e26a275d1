"""Protects unflushed bundles by storing their contents in the transaction of their verdict.

Therefore, verdict and bundle together need only one durable write, and the bundle's folder is written
without waiting for the disk. At start, each such folder is compared with the stored contents, and rewritten
if a power failure has damaged it. At intervals, the file system is flushed for all bundles at once; after
that, the stored contents are deleted.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    insert,
    select,
)

from assayd.aio import open_task_group, pause
from assayd.errors import StoreError
from assayd.model.attempt import Attempt
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd.store.faults import translate_errors

log = structlog.get_logger()

UNSYNCED = Table(
    "unsynced_bundles",
    MetaData(),
    Column("attempt_id", String(26), ForeignKey(tables.attempts.c.id, ondelete="CASCADE"), primary_key=True),
    Column("location", String(255), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("contents", LargeBinary, nullable=False),
)
MAX_BYTES = 128 * 2**10
"""Size in bytes above which a bundle is flushed on its own, because writing its contents twice would take
longer and need more space.
"""
FLUSH_INTERVAL_S = 15.0
"""Seconds between flushes of the file system, after which stored contents are deleted."""
EARLY_FLUSH_BYTES = 8 * 2**20
"""Bytes of stored contents that trigger an early flush, so that the database stays small."""
_MAX_KEPT = 1024
_LENGTHS_STRUCT = struct.Struct(">II")
_ADD = insert(UNSYNCED)
_SELECT_JUDGED_ROWS = (
    select(UNSYNCED.c.attempt_id, UNSYNCED.c.location, UNSYNCED.c.contents)
    .join(tables.verdicts, tables.verdicts.c.attempt_id == UNSYNCED.c.attempt_id)
    .where(tables.verdicts.c.bundle == UNSYNCED.c.location)
)
_IDS = select(UNSYNCED.c.attempt_id)

Repair = Callable[[str, Mapping[str, bytes]], bool]
"""Replace a bundle durably if it differs from these files; return whether it did."""


class UnsyncedBundles:
    """A store that keeps the contents of bundles until the file system is flushed."""

    def __init__(self, access: DatabaseAccess, root: Path) -> None:
        self._access = access
        self._root = root
        self._kept: dict[str, bytes] = {}
        self._unflushed_bytes = 0
        self._early_flush = asyncio.Event()

    def keep(self, location: str, files: Mapping[str, bytes]) -> None:
        """Keep the contents of a bundle in memory until its verdict is recorded."""
        self.keep_serialized(location, serialize_files(files))

    def keep_serialized(self, location: str, contents: bytes) -> None:
        """Keep the serialized contents of a bundle that an executor has written, like `keep`.

        If too many bundles are kept, drop the oldest.
        """
        while len(self._kept) >= _MAX_KEPT:  # The oldest belong to attempts that never got a verdict.
            del self._kept[next(iter(self._kept))]
        self._kept[location] = contents

    def build_contents_writer(self, attempt: Attempt) -> Callable[[Connection], None]:
        """Return the function that stores a bundle's contents in the transaction of the verdict.

        The function does nothing if no contents are kept.
        """
        contents = self._kept.pop(attempt.bundle, None) if attempt.bundle is not None else None
        if contents is None:
            return lambda _: None
        self._unflushed_bytes += len(contents)
        if self._unflushed_bytes >= EARLY_FLUSH_BYTES:
            self._early_flush.set()
        values = {
            "attempt_id": attempt.id,
            "location": attempt.bundle,
            "bytes": len(contents),
            "contents": contents,
        }
        return lambda connection: _insert_contents(connection, values)

    async def repair(self, repair: Repair) -> int:
        """Rewrite damaged bundles that have a verdict, and return their number.

        Raises: StoreError, if the database or the disk fails.
        """
        found = await self._access.read(lambda connection: list(connection.execute(_SELECT_JUDGED_ROWS)))
        again = 0
        for _, location, contents in found:
            again += await asyncio.to_thread(repair, location, deserialize_files(bytes(contents)))
        await self.flush_bundles()
        if again:
            log.warning("bundles.written_again", count=again)
        return again

    async def flush_bundles(self) -> None:
        """Flush the bundles' file system, then delete their stored contents. Do nothing if none are stored.

        Raises: StoreError, if the database or the disk fails.
        """
        ids = await self._access.read(lambda connection: list(connection.execute(_IDS).scalars()))
        if not ids:
            return
        await asyncio.to_thread(self._flush)
        gone = delete(UNSYNCED).where(UNSYNCED.c.attempt_id.in_(ids))
        await self._access.write(lambda connection: connection.execute(gone), durable=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Flush bundles at intervals while the body runs."""
        async with open_task_group() as tasks:
            settling = tasks.create_task(self._flush_periodically(), name="settle-bundles")
            try:
                yield
            finally:
                settling.cancel()

    async def _flush_periodically(self) -> None:
        while True:
            await pause(FLUSH_INTERVAL_S, unless=self._early_flush)
            self._early_flush.clear()
            self._unflushed_bytes = 0
            try:
                await self.flush_bundles()
            except StoreError as trouble:
                # The contents stay in the database until the next flush.
                log.error("bundles.not_settled", code=trouble.code)

    def _flush(self) -> None:
        with translate_errors("flushing the bundles"):
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                flush_file_system(descriptor)
            finally:
                os.close(descriptor)


def flush_file_system(descriptor: int) -> None:
    """Flush a file system to its disk (``syncfs(2)``). Raises: OSError, if the flush fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def serialize_files(files: Mapping[str, bytes]) -> bytes:
    """Serialize files, each as the lengths of name and content, the name, and the content."""
    parts: list[bytes] = []
    for name, content in files.items():
        encoded = name.encode()
        parts += (_LENGTHS_STRUCT.pack(len(encoded), len(content)), encoded, content)
    return b"".join(parts)


def deserialize_files(contents: bytes) -> dict[str, bytes]:
    """Return the files that `serialize_files` serialized."""
    files, at = {}, 0
    while at < len(contents):
        name, size = _LENGTHS_STRUCT.unpack_from(contents, at)
        at += _LENGTHS_STRUCT.size
        files[contents[at : at + name].decode()] = contents[at + name : at + name + size]
        at += name + size
    return files


def _insert_contents(connection: Connection, values: Mapping[str, object]) -> None:
    connection.execute(_ADD, dict(values))
