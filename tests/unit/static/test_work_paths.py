from __future__ import annotations

import pytest

from assayd.guest.requests import parse_path_header
from assayd.static.work_paths import MAX_PATHS, check_paths


def rules(*paths: str, field: str = "files") -> list[str]:
    return [finding.rule for finding in check_paths(paths, field=field)]


@pytest.mark.parametrize(
    "path", ["a", "data/in.csv", "a b.txt", ".hidden", "ü/é.txt", "a" * 255, "[1].csv", "a*"]
)
def test_plain_relative_paths_pass_here_and_in_the_guest(path: str) -> None:
    assert rules(path) == []
    assert parse_path_header({"path": path}) == path


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "C:\\x", "..", "../x", "a/../b", "./a", "a/./b", "a//b", "a/", "/", "a\nb", "a\0b",
        "a\\b", "a\u202eb", "é" * 128, "a/" * 12 + "a", "x/" + "a" * 256, "/".join(["a" * 100] * 6),
    ],
)  # fmt: skip
def test_other_paths_are_refused_with_field_and_remedy(path: str) -> None:
    [finding] = check_paths([path], field="collect")
    assert finding.rule == "path.invalid"
    assert finding.message.startswith("collect: ")
    assert finding.message.isascii()
    assert finding.suggestion


def test_file_that_is_a_folder_too_is_refused() -> None:
    assert rules("out", "out/a.csv") == ["path.clash"]
    assert rules("out", "outer/a.csv", "out.csv") == []


def test_too_many_paths_are_refused() -> None:
    assert rules(*(f"{n}" for n in range(MAX_PATHS))) == []
    assert rules(*(f"{n}" for n in range(MAX_PATHS + 1))) == ["path.too_many"]


def test_outputs_fit_the_header_of_a_frame() -> None:
    for part in ("é" * 100, "[" * 200):
        long = [f"{n:03}/{part}" for n in range(MAX_PATHS)]
        assert rules(*long, field="files") == []
        assert rules(*long, field="collect") == ["path.too_many"]
