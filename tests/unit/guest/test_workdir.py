"""The work directory: emptied of everything, and written despite obstacles."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.guest.workdir import WorkDirectory


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assayd.guest.workdir._EMPTY_LIMIT_S", 300.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the directory."""
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def work(folder: Path) -> WorkDirectory:
    """Return the runner's object for the directory."""
    return WorkDirectory(str(folder))


@pytest.fixture
def folder_for_depth() -> Iterator[Path]:
    """Return a directory outside pytest's clean-up, which is limited by Python's recursion depth."""
    path = Path(tempfile.mkdtemp(prefix="assayd-deep-"))
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


def test_deep_tree_is_emptied_with_few_descriptors(folder_for_depth: Path) -> None:
    here = os.open(folder_for_depth, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    WorkDirectory(str(folder_for_depth)).remove_content()

    assert list(folder_for_depth.iterdir()) == []


def test_wide_and_unwritable_trees_are_emptied(folder: Path, work: WorkDirectory) -> None:
    for number in range(500):
        inner = folder / f"d{number}" / "inner"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        inner.chmod(0)
        inner.parent.chmod(0o500)
    folder.chmod(0)

    work.remove_content()

    assert list(folder.iterdir()) == []


def test_links_go_and_what_they_point_to_stays(folder: Path, work: WorkDirectory, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (folder / "d").mkdir()
    for place in (folder / "link", folder / "d/link"):
        place.symlink_to(kept)
    os.mkfifo(folder / "pipe")

    work.remove_content()

    assert list(folder.iterdir()) == []
    assert (kept / "file").exists()


def test_names_that_moved_directories_would_get_are_no_obstacle(folder: Path, work: WorkDirectory) -> None:
    for name in ("same", "same/same", "same/same/same"):
        (folder / name).mkdir()
    for name in ("a", "b"):
        (folder / "other" / name / "same").mkdir(parents=True)

    work.remove_content()

    assert list(folder.iterdir()) == []


def test_directory_that_was_renamed_is_still_the_one(folder: Path, work: WorkDirectory) -> None:
    (folder / "file").touch()
    moved = folder.rename(folder.with_name("moved"))
    folder.mkdir()

    work.remove_content()
    work.write_file("new", b"content")

    assert [path.name for path in moved.iterdir()] == ["new"]
    assert list(folder.iterdir()) == []


def test_file_is_laid_with_its_folders(folder: Path, work: WorkDirectory) -> None:
    work.write_file("data/in/a.txt", b"one")
    work.write_file("data/in/b.txt", b"two")

    assert (folder / "data/in/a.txt").read_bytes() == b"one"
    assert (folder / "data/in/b.txt").read_bytes() == b"two"


@pytest.mark.parametrize("obstacle", ["link", "file", "pipe"])
def test_what_stands_in_the_place_of_a_folder_goes(
    folder: Path, work: WorkDirectory, tmp_path: Path, obstacle: str
) -> None:
    match obstacle:
        case "link":
            (folder / "data").symlink_to(tmp_path)
        case "file":
            (folder / "data").touch()
        case _:
            os.mkfifo(folder / "data")

    work.write_file("data/a.txt", b"content")

    assert (folder / "data/a.txt").read_bytes() == b"content"
    assert not (tmp_path / "a.txt").exists()


def test_link_in_the_place_of_a_file_goes(folder: Path, work: WorkDirectory, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("kept")
    (folder / "a.txt").symlink_to(tmp_path / "outside")

    work.write_file("a.txt", b"content")

    assert (tmp_path / "outside").read_text() == "kept"
    assert (folder / "a.txt").read_bytes() == b"content"


def test_directory_in_the_place_of_a_file_goes(folder: Path, work: WorkDirectory) -> None:
    (folder / "a.txt/inner").mkdir(parents=True)

    work.write_file("a.txt", b"content")

    assert (folder / "a.txt").read_bytes() == b"content"


def test_folder_is_made_once_and_keeps_what_is_in_it(folder: Path, work: WorkDirectory) -> None:
    work.create_directory("data/deep")
    (folder / "data/deep/a").write_text("a")
    work.create_directory("data/deep")

    assert (folder / "data/deep/a").read_text() == "a"


def test_file_is_read_up_to_a_size(folder: Path, work: WorkDirectory) -> None:
    work.write_file("x/a", b"12345")

    assert (work.read("x/a", 5), work.read("x/a", 4)) == (b"12345", None)


def test_what_is_no_plain_file_is_not_read(folder: Path, work: WorkDirectory) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")

    with pytest.raises(OSError, match="symbolic links"):
        work.read("link", 10**6)
    assert work.read("pipe", 10**6) is None
    with pytest.raises(IsADirectoryError):
        work.read("folder", 10**6)


def test_name_is_removed_whatever_it_is(folder: Path, work: WorkDirectory) -> None:
    work.write_file("full/a/b", b"x")
    (folder / "link").symlink_to("full")
    for name in ("full", "link", "nothing"):
        work.remove(name)

    assert list(folder.iterdir()) == []
