"""Declared outputs: which files are collected, and why others aren't."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from assayd.guest.outputs import OutputCollector


def collect(
    folder: Path,
    *patterns: str,
    max_files: int = 10,
    max_bytes: int = 10_000,
    known: Mapping[str, bytes] | None = None,
) -> tuple[dict[str, bytes], list[str]]:
    """Return the collected files, and the reasons for dropped ones."""
    root = os.open(folder, os.O_RDONLY)
    found: dict[str, bytes] = {}
    try:
        collector = OutputCollector(
            root, patterns, max_files=max_files, max_bytes=max_bytes, known=known or {}
        )
        for piece in collector.collect():
            assert (piece.path in found) == piece.append
            found[piece.path] = found.get(piece.path, b"") + piece.content
    finally:
        os.close(root)
    return found, collector.dropped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a few files."""
    (tmp_path / "logs/deep").mkdir(parents=True)
    for name in ("a.txt", "b.csv", "logs/run.log", "logs/deep/more.log"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.txt", ["a.txt"]),
        ("missing", []),
        ("*", ["a.txt", "b.csv"]),
        ("*.csv", ["b.csv"]),
        ("?.txt", ["a.txt"]),
        ("[ab].*", ["a.txt", "b.csv"]),
        ("logs/*", ["logs/run.log"]),
        ("logs/**", ["logs/deep/more.log", "logs/run.log"]),
        ("**/*.log", ["logs/deep/more.log", "logs/run.log"]),
        ("**/deep/**/*.log", ["logs/deep/more.log"]),
        ("**", ["a.txt", "b.csv", "logs/deep/more.log", "logs/run.log"]),
        ("logs", []),
        ("../*", []),
        ("/etc/passwd", []),
    ],
)
def test_pattern_matches_whole_paths_inside(folder: Path, pattern: str, names: list[str]) -> None:
    found, dropped = collect(folder, pattern)

    assert (list(found), dropped) == (names, [])
    assert all(content.decode() == name for name, content in found.items())


def test_pattern_full_of_stars_is_matched_quickly(tmp_path: Path) -> None:
    (tmp_path / ("a" * 250)).write_text("x")

    assert collect(tmp_path, "*a" * 100 + "b", "**/" * 100 + "b") == ({}, [])


def test_links_and_special_files_stay(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "linked").symlink_to("logs")
    os.mkfifo(folder / "pipe")

    found, dropped = collect(folder, "link", "dangling", "pipe", "linked/*", "linked")

    assert found == {}
    assert dropped == [f"{name!r} is not a regular file" for name in ("dangling", "link", "linked", "pipe")]


def test_odd_names_stay(folder: Path) -> None:
    for name in (b"new\nline", b"bell\x07", b"not-utf8-\xff"):
        (folder / os.fsdecode(name)).write_bytes(b"x")

    found, dropped = collect(folder, "*")

    assert set(found) == {"a.txt", "b.csv"}
    assert [reason.split(" has ")[0] for reason in dropped] == [
        r"'bell\x07'",
        r"'new\nline'",
        r"'not-utf8-\udcff'",
    ]


def test_sparse_file_is_cut_at_the_cap(folder: Path) -> None:
    with (folder / "big").open("wb") as file:
        file.truncate(10**12)

    found, _ = collect(folder, "big", max_bytes=1000)

    assert found == {"big": bytes(1000)}


def test_bytes_are_capped_in_all(folder: Path) -> None:
    found, _ = collect(folder, "**", max_bytes=7)

    assert [len(content) for content in found.values()] == [5, 2, 0, 0]


def test_large_file_leaves_in_pieces(folder: Path) -> None:
    content = os.urandom(600_000)
    (folder / "big").write_bytes(content)

    assert collect(folder, "big", max_bytes=10**6)[0] == {"big": content}


def test_files_over_their_number_stay(folder: Path) -> None:
    found, dropped = collect(folder, "**", max_files=3)

    assert (len(found), dropped) == (3, ["'logs/run.log' is one file too many"])


def test_too_deep_a_tree_stays(folder: Path) -> None:
    (folder / "/".join("d" * 20)).mkdir(parents=True)

    assert collect(folder, "d/**") == ({}, [f"'{'/'.join('d' * 17)}' is too deep"])


def test_unreadable_files_and_directories_are_read(folder: Path) -> None:
    (folder / "logs/run.log").chmod(0)
    (folder / "logs").chmod(0)

    assert collect(folder, "logs/run.log")[0] == {"logs/run.log": b"logs/run.log"}


def test_reasons_are_capped(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").symlink_to("x")

    assert len(collect(tmp_path, "*")[1]) == 100


def test_nothing_declared_reads_nothing(folder: Path) -> None:
    assert collect(folder) == ({}, [])


def test_what_a_pattern_takes_back_stays(folder: Path) -> None:
    (folder / "logs/link").symlink_to("/etc/passwd")

    assert collect(folder, "**", "!logs/**", "!b.*") == ({"a.txt": b"a.txt"}, [])


def test_files_that_are_as_they_were_laid_stay(folder: Path) -> None:
    known = {"a.txt": b"a.txt", "b.csv": b"other", "logs/run.log": b"longer than it is", "gone": b""}
    (folder / "a.txt").chmod(0)

    found, _ = collect(folder, "**", known=known)

    assert list(found) == ["b.csv", "logs/deep/more.log", "logs/run.log"]
