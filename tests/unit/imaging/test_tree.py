"""One digest for an image's files, computed from its layers and from the unpacked files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assayd.imaging.archive import pack_layer
from assayd.imaging.tree import Known, compute_tree_digest, read_folder_entries, read_layer_entries


def files(root: Path) -> Path:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_text("#!/bin/sh\n")
    (root / "usr/bin/tool").chmod(0o755)
    (root / "usr/data").write_text("text")
    (root / "bin").symlink_to("usr/bin")
    return root


def test_layers_and_folder_give_the_same(tmp_path: Path) -> None:
    root = files(tmp_path / "root")
    pack_layer(root, tmp_path / "layer.tar")
    assert read_layer_entries([tmp_path / "layer.tar"]) == read_folder_entries(root)


def test_upper_layer_adds_to_the_lower(tmp_path: Path) -> None:
    root, more = files(tmp_path / "root"), tmp_path / "more"
    (more / "usr").mkdir(parents=True)
    (more / "usr/extra").write_text("more")
    pack_layer(root, tmp_path / "1.tar")
    pack_layer(more, tmp_path / "2.tar")
    (root / "usr/extra").write_text("more")
    assert read_layer_entries([tmp_path / "1.tar", tmp_path / "2.tar"]) == read_folder_entries(root)


@pytest.mark.parametrize("change", ["content", "name", "mode", "target", "more"])
def test_every_change_gives_another_digest(tmp_path: Path, change: str) -> None:
    root = files(tmp_path / "root")
    before = compute_tree_digest(read_folder_entries(root))
    match change:
        case "content":
            (root / "usr/data").write_text("tex")
        case "name":
            (root / "usr/data").rename(root / "usr/date")
        case "mode":
            (root / "usr/data").chmod(0o755)
        case "target":
            (root / "bin").unlink()
            (root / "bin").symlink_to("usr")
        case "more":
            (root / "new").mkdir()
    assert compute_tree_digest(read_folder_entries(root)) != before


def test_times_and_rights_to_write_are_left_out(tmp_path: Path) -> None:
    root = files(tmp_path / "root")
    before = compute_tree_digest(read_folder_entries(root))
    (root / "usr/data").chmod(0o444)
    os.utime(root / "usr/data", (0, 0))
    assert compute_tree_digest(read_folder_entries(root)) == before


def test_what_no_image_holds_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe isn't a file"):
        read_folder_entries(tmp_path)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder with a file that has three links, as if two images shared it."""
    root = files(tmp_path / "root")
    for name in ("kept", "other"):
        os.link(root / "usr/data", tmp_path / name)
    return root


def test_shared_file_that_is_known_is_not_read_again(shared: Path) -> None:
    known: Known = {}
    before = read_folder_entries(shared, known)
    assert len(known) == 1
    known.update(dict.fromkeys(known, "the known digest"))
    assert read_folder_entries(shared, known) == {**before, "usr/data": ("file", "the known digest")}


@pytest.mark.parametrize("text", ["tex", "next"])
def test_shared_file_that_was_written_to_is_read_again(shared: Path, text: str) -> None:
    known: Known = {}
    before = read_folder_entries(shared, known)
    (shared / "usr/data").write_text(text)
    os.utime(shared / "usr/data", (0, 0))
    assert read_folder_entries(shared, known) == read_folder_entries(shared) != before


def test_file_of_one_image_is_not_remembered(tmp_path: Path) -> None:
    known: Known = {}
    read_folder_entries(files(tmp_path / "root"), known)
    assert not known
