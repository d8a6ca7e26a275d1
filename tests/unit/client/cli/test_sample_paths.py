"""Sample paths from a list and from a folder."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.submitting import (
    MAX_CHOSEN_PATHS,
    MAX_PATHS_PER_SHAPE,
    collect_sample_paths,
    compute_shape,
    group_files_by_shape,
    read_lines,
    select_sample_paths,
)

CODE = "def extract(path: str) -> dict:\n    return {}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with twelve reports of one shape, and one file of each of two others."""
    root = tmp_path / "tree"
    for client in ("ABC", "XYZ"):
        for year in ("2023", "2024"):
            for quarter in "123":
                file = root / f"CLIENT-{client}" / year / f"Q{quarter}" / "report.csv"
                file.parent.mkdir(parents=True)
                file.touch()
    (root / "notes.txt").touch()
    (root / "2024-01-02.json").touch()
    return root


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2023/Q3/totals.csv"),
        ("/data/part-7.csv", "/data/part-112.csv"),
        ("/data/v1/README", "/data/v2/README"),
    ],
)
def test_paths_that_look_alike_have_one_shape(one: str, other: str) -> None:
    assert compute_shape(one) == compute_shape(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/2024/a.csv", "/data/2024/a.json"),
        ("/data/2024-01-02.csv", "/data/20240102.csv"),
        ("/data/2024/a.csv", "/data/24/a.csv"),
        ("/data/ABC/a.csv", "/data/abc/a.csv"),
        ("/data/a.csv", "/data/x/a.csv"),
        ("/data/a_b.csv", "/data/a-b.csv"),
    ],
)
def test_paths_that_need_different_code_have_different_shapes(one: str, other: str) -> None:
    assert compute_shape(one) != compute_shape(other)


def test_folder_gives_some_paths_of_each_shape_and_says_so(tree: Path, capsys) -> None:
    chosen = collect_sample_paths(None, None, tree)

    assert len([path for path in chosen if path.endswith("report.csv")]) == MAX_PATHS_PER_SHAPE
    assert {str(tree / "notes.txt"), str(tree / "2024-01-02.json")} <= set(chosen)
    assert all(Path(path).is_file() for path in chosen)
    assert f"{tree} has 14 files of 3 shapes; chosen: 5 paths of 3\n" in capsys.readouterr().err
    assert collect_sample_paths(None, None, tree) == chosen


def test_one_path_of_each_shape_comes_before_a_second_of_any(tmp_path: Path, capsys) -> None:
    for shape in range(MAX_CHOSEN_PATHS + 5):
        for number in range(2):
            file = tmp_path / "/".join("d" * (shape + 1)) / f"{number}.csv"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    chosen = list(select_sample_paths(group_files_by_shape(tmp_path)))

    assert len({compute_shape(path) for path in chosen}) == len(chosen) == MAX_CHOSEN_PATHS
    collect_sample_paths(None, None, tmp_path)
    assert (
        f"chosen: {MAX_CHOSEN_PATHS} paths of {MAX_CHOSEN_PATHS} of {MAX_CHOSEN_PATHS + 5}"
        in capsys.readouterr().err
    )


def test_links_and_names_that_are_not_text_are_left_out(tree: Path) -> None:
    (tree / "link.xml").symlink_to("/etc/passwd")
    (tree / "etc").symlink_to("/etc")
    Path(os.fsdecode(bytes(tree) + b"/bad\xff.xml")).touch()

    assert len(group_files_by_shape(tree)) == 3


@pytest.mark.parametrize(("name", "why"), [("nowhere", "no such folder"), ("file", "not a folder")])
def test_folder_that_cannot_be_walked_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=f"--sample-tree: .*{name}: {why}"):
        group_files_by_shape(tmp_path / name)


def test_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="contains no readable files"):
        group_files_by_shape(tmp_path)


def test_list_has_a_path_on_each_line_and_each_is_taken_once(tmp_path: Path) -> None:
    listed = tmp_path / "paths.txt"
    listed.write_text("/a/1.csv\r\n\n/b/ 2.csv\n/named\n")

    assert collect_sample_paths(["/named"], listed, None) == ("/named", "/a/1.csv", "/b/ 2.csv")


def test_list_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"/a\n/b\n")))

    assert collect_sample_paths(None, Path("-"), None) == ("/a", "/b")


def test_standard_input_is_not_read_for_two_things() -> None:
    with pytest.raises(RequestError, match="read standard input"):
        collect_sample_paths(None, Path("-"), None, [Path("-")])


@pytest.mark.parametrize(
    ("content", "why"), [(b"\n\n", "is empty"), (b"\xff\n", "isn't valid UTF-8"), (None, "No such file")]
)
def test_list_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    listed = tmp_path / "paths.txt"
    if content is not None:
        listed.write_bytes(content)
    with pytest.raises(RequestError, match=f"--sample-paths: .*paths.txt.*{why}"):
        read_lines(listed)


def test_validate_submits_what_list_and_folder_give(assay, service, tree: Path, tmp_path: Path) -> None:
    source, listed = tmp_path / "a.py", tmp_path / "paths.txt"
    source.write_text(CODE)
    listed.write_text("/listed\n")

    options = ["--sample-path", "/named", "--sample-paths", str(listed), "--sample-tree", str(tree)]
    assert assay("validate", "extractor", str(source), *options) == 0
    (submission,) = service.submissions.values()
    paths = json.loads(submission.document)["payload"]["sample_paths"]
    assert paths[:2] == ["/named", "/listed"]
    assert len(paths) == 7
