"""Bundles of several verdicts, written together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assayd.errors import StoreError
from assayd.model.attempt import Bundle
from assayd_cluster.bundles.packed import MAX_GROUPED_BUNDLES, SMALL_BYTES, PackedArtifactStore

BUNDLE = Bundle(
    attempt_id="01" + "0" * 23 + "1",
    run_number=1,
    created_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    category="weather",
    platform="sea",
    files={"report.json": b"{}"},
    truncated=frozenset(),
    manifest={"kind": "code"},
)


class Counted(PackedArtifactStore):
    """Records how many bundles were written together."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.groups: list[int] = []

    def _write_all(self, group: Sequence[Any]) -> list[Any]:
        self.groups.append(len(group))
        return super()._write_all(group)


def bundles(count: int, **changes: Any) -> list[Bundle]:
    return [replace(BUNDLE, attempt_id=f"01{number:024d}", **changes) for number in range(count)]


async def test_bundles_that_wait_are_written_together_and_each_is_whole(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    many = [replace(each, platform=f"p{place % 3}") for place, each in enumerate(bundles(100))]
    written = await asyncio.gather(*map(store.write, many))
    assert sum(store.groups) == 100
    assert len(store.groups) < 10
    assert max(store.groups) == MAX_GROUPED_BUNDLES
    for bundle, each in zip(many, written, strict=True):
        assert bundle.attempt_id in each.location
        assert await store.read(each.location, "report.json") == b"{}"


async def test_large_bundle_keeps_no_other_waiting(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    large = replace(BUNDLE, files={"report.json": b"x" * (SMALL_BYTES + 1)})
    await asyncio.gather(store.write(large), *map(store.write, bundles(3, category="small")))
    assert sorted(store.groups) == [1, 1, 2]


async def test_bundle_that_cannot_be_written_fails_alone_and_leaves_nothing(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    many = bundles(5)
    location = (await store.write(many[3])).location
    place = tmp_path / f"{location}.tar"
    place.unlink()
    place.mkdir()  # nothing can be renamed to it
    written = await asyncio.gather(*map(store.write, many), return_exceptions=True)
    assert [isinstance(each, StoreError) for each in written] == [False, False, False, True, False]
    assert not list(tmp_path.rglob(".tmp-*"))


async def test_writer_that_is_cancelled_fails_no_other(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    writing = [asyncio.create_task(store.write(each)) for each in bundles(6)]
    await asyncio.sleep(0)
    for each in (writing[0], writing[2]):
        each.cancel()
    done = await asyncio.gather(*writing, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in done) == 2
    assert not [each for each in done if isinstance(each, StoreError)]


@pytest.mark.parametrize("label", ["a/b", ""])
async def test_folder_that_is_no_name_is_refused_before_anything_is_written(
    tmp_path: Path, label: str
) -> None:
    store = Counted(tmp_path)
    with pytest.raises(StoreError):
        await store.write(replace(BUNDLE, category=label))
    assert store.groups == []
