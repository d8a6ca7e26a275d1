"""Records of containers: another daemon finds them, and only inside their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.oci.container import ContainerRecords, Record

RECORD = Record(
    name="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    labels={"org.assayd.daemon": "d"},
    cgroup_version=1,
    cgroups={"memory": "/sys/fs/cgroup/memory/a"},
    other_cgroups=["/sys/fs/cgroup/freezer/a"],
    image="sha256:0",
    first_uid=7,
)


def test_record_is_found_by_another_reader(tmp_path: Path) -> None:
    ContainerRecords(tmp_path / "run").write(RECORD)
    assert list(ContainerRecords(tmp_path / "run").all()) == [RECORD]
    assert ContainerRecords(tmp_path / "run").read(RECORD.name) == RECORD


def test_removed_record_is_gone_and_may_be_removed_again(tmp_path: Path) -> None:
    records = ContainerRecords(tmp_path)
    records.write(RECORD)
    records.remove(RECORD.name)
    records.remove(RECORD.name)
    assert (list(records.all()), records.read(RECORD.name)) == ([], None)


def test_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    assert ContainerRecords(tmp_path).write(RECORD).stat().st_mode & 0o777 == 0o700


def test_folder_without_a_record_is_no_container(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    assert list(ContainerRecords(tmp_path).all()) == []


def test_old_folder_without_a_record_is_swept_and_no_other(tmp_path: Path) -> None:
    records = ContainerRecords(tmp_path)
    kept = records.write(RECORD)
    (tmp_path / "half").mkdir()
    (tmp_path / "half/record.new").write_text("{")
    now = kept.stat().st_mtime
    records.sweep(now)
    assert (tmp_path / "half").exists()
    records.sweep(now + 3600)
    assert sorted(tmp_path.iterdir()) == [kept]


def test_removed_container_leaves_nothing_whatever_stood_in_its_folder(tmp_path: Path) -> None:
    records = ContainerRecords(tmp_path)
    (records.write(RECORD) / "log").touch()
    records.remove(RECORD.name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "x", "unknown": 1}'])
def test_record_of_another_form_does_not_keep_others_from_being_read(tmp_path: Path, text: str) -> None:
    records = ContainerRecords(tmp_path)
    records.write(RECORD)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/record.json").write_text(text)
    assert list(records.all()) == [RECORD]


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", "a.b", "a\n"])
def test_name_that_is_no_word_leads_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="isn't a container name"):
        ContainerRecords(tmp_path).get_container_folder(name)
