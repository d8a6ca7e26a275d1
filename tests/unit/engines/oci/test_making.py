"""Leftover containers of daemons that never return."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.engines.oci.container import Record
from assayd.engines.oci.images import ImageStore
from assayd.engines.oci.making import ContainerFactory, ThreadRunner, create_process_mark, has_process_ended

GONE = "00000000-0000-0000-0000-000000000000:1:1:1"
NAME = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def maker(tmp_path: Path) -> ContainerFactory:
    return ContainerFactory(
        images=ImageStore(tmp_path / "images"),
        run=tmp_path / "run",
        threads=ThreadRunner(1, 5.0),
        runtimes=(),
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Return the record of a container whose daemon has ended, with its control group."""
    group = tmp_path / "memory" / "assayd-1"
    group.mkdir(parents=True)
    return Record(
        name=NAME,
        labels={},
        cgroup_version=1,
        cgroups={"memory": str(group)},
        image="sha256:0",
        first_uid=7,
        daemon=GONE,
    )


def left(record: Record, maker: ContainerFactory) -> tuple[bool, bool]:
    return maker.records.read(record.name) is not None, Path(record.cgroups["memory"]).exists()


def test_dead_container_of_a_daemon_that_has_gone_is_swept_with_its_group(
    maker: ContainerFactory, record: Record
) -> None:
    maker.records.write(record)
    maker._remove_orphans()
    assert left(record, maker) == (False, False)


@pytest.mark.parametrize("daemon", [create_process_mark(), ""], ids=["this one", "unmarked"])
def test_container_of_a_daemon_that_may_live_is_left_alone(
    maker: ContainerFactory, record: Record, daemon: str
) -> None:
    maker.records.write(replace(record, daemon=daemon))
    maker._remove_orphans()
    assert left(record, maker) == (True, True)


def test_dead_container_of_an_earlier_version_is_swept_once_it_is_old(
    maker: ContainerFactory, record: Record
) -> None:
    folder = maker.records.write(replace(record, daemon=""))
    os.utime(folder, (0, 0))
    maker._remove_orphans()
    assert left(record, maker) == (False, False)


def test_container_that_lives_is_left_to_its_daemons_reaper(maker: ContainerFactory, record: Record) -> None:
    maker.records.write(record)
    (Path(record.cgroups["memory"]) / "cgroup.procs").write_text(f"{os.getpid()}\n")
    maker._remove_orphans()
    assert left(record, maker) == (True, True)


def test_container_whose_groups_cannot_be_seen_here_is_left_alone(
    maker: ContainerFactory, record: Record, tmp_path: Path
) -> None:
    maker.records.write(replace(record, cgroups={"memory": str(tmp_path / "elsewhere/memory/assayd-1")}))
    maker._remove_orphans()
    assert maker.records.read(NAME) is not None


TELL = "from assayd.engines.oci.making import create_process_mark; print(create_process_mark())"


def changed(place: int, value: str) -> str:
    parts = create_process_mark().split(":")
    parts[place] = value
    return ":".join(parts)


def test_process_that_lives_has_not_gone() -> None:
    assert not has_process_ended(create_process_mark())


def test_process_that_has_ended_has_gone() -> None:
    mark = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True).stdout
    assert mark.strip().count(":") == create_process_mark().count(":")
    assert has_process_ended(mark.strip())


def test_number_that_another_process_has_by_now_is_of_one_that_has_gone() -> None:
    assert has_process_ended(changed(3, "1"))


def test_process_of_an_earlier_boot_has_gone() -> None:
    assert has_process_ended(changed(0, "00000000-0000-0000-0000-000000000000"))


@pytest.mark.parametrize(
    "mark",
    ["", "1", "a:b:c:d", "::::", changed(1, "4026531999")],
    ids=["none", "one part", "no numbers", "empty parts", "another namespace"],
)
def test_of_another_namespace_or_by_no_mark_nobody_can_tell(mark: str) -> None:
    assert not has_process_ended(mark)
