"""Walking a folder: order, exclusions, and where a walk continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assayd_client import trees
from assayd_client.trees import TreeWalk


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("b/2.csv", "b/1.csv", "a.csv", "a/x.csv", "a/deep/er/y.csv", "c"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


def names(tree: Path, after: str | None = None) -> list[str]:
    return [os.path.relpath(found.path, tree) for found in TreeWalk(tree).files(after)]


def test_files_come_in_the_order_of_their_names(tree: Path) -> None:
    assert names(tree) == ["a/deep/er/y.csv", "a/x.csv", "a.csv", "b/1.csv", "b/2.csv", "c"]


def test_walk_continues_after_each_of_its_paths(tree: Path) -> None:
    whole = names(tree)

    assert all(names(tree, str(tree / path)) == whole[number + 1 :] for number, path in enumerate(whole))


def test_walk_continues_after_a_path_that_was_removed(tree: Path) -> None:
    (tree / "a/x.csv").unlink()

    assert names(tree, str(tree / "a/x.csv")) == ["a.csv", "b/1.csv", "b/2.csv", "c"]


def test_links_are_counted_and_not_followed(tree: Path) -> None:
    (tree / "loop").symlink_to(tree)
    (tree / "link.csv").symlink_to(tree / "a.csv")
    walk = TreeWalk(tree)

    assert len(list(walk.files())) == 6
    assert walk.links == 2


def test_name_that_is_not_utf8_is_reported_with_its_path(tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree) + b"/caf\xe9.csv")).touch()

    found = [one for one in TreeWalk(tree).files() if one.code is not None]

    assert [one.code for one in found] == ["path.not_utf8"]
    assert os.fsencode(found[0].path).endswith(b"caf\xe9.csv")


def test_too_long_path_is_reported(tree: Path, monkeypatch) -> None:
    monkeypatch.setattr(trees, "SAMPLE_PATH_CHARS", len(str(tree)) + 8)

    found = {os.path.relpath(one.path, tree): one.code for one in TreeWalk(tree).files()}

    assert found["a/deep/er/y.csv"] == "path.too_long"
    assert (found["b/1.csv"], found["c"]) == (None, None)


def test_unreadable_folder_is_reported_and_the_rest_is_walked(tree: Path, monkeypatch) -> None:
    scan = os.scandir

    def refuse(folder: str):
        if folder.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)

    found = list(TreeWalk(tree).files())

    assert [(os.path.relpath(one.path, tree), one.code) for one in found][3:] == [
        ("b", "folder.unreadable"),
        ("c", None),
    ]
