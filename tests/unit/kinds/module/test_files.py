"""Names, number and size of a module's files."""

from __future__ import annotations

import pytest

from assayd.kinds.module.files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    check_files,
    find_adapter_file,
    is_test,
    list_own_modules,
    list_test_files,
)

GOOD = {"adapter.py": "x", "test_adapter.py": "x"}
PROVIDED = ("assayd_adapter", "shared.base")


def rules(*names: str) -> list[str]:
    return [finding.rule for finding in check_files(dict.fromkeys((*GOOD, *names), "x"), PROVIDED)]


@pytest.mark.parametrize(
    "name",
    [
        "client.py",
        "pkg/__init__.py",
        "pkg/json.py",
        "data/current weather.json",
        "README.md",
        "json",
        "tests/test_b.py",
    ],
)
def test_ordinary_name_is_accepted(name: str) -> None:
    assert rules(name) == []


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../other.py", "paths.not_inside"),
        ("/etc/other.py", "paths.not_inside"),
        ("a/../../other.py", "paths.not_inside"),
        ("a\\b.py", "paths.not_inside"),
        ("c:/x.py", "paths.not_inside"),
        ("~/x.py", "paths.not_inside"),
        ("./x.py", "paths.not_normal"),
        ("a//b.py", "paths.not_normal"),
        ("a/", "paths.not_normal"),
        ("", "paths.not_normal"),
        ("a\nb.py", "paths.not_normal"),
        ("my-client.py", "paths.not_normal"),
        ("ünit.py", "paths.not_normal"),
        ("a/" * 9 + "b.py", "paths.not_normal"),
        ("x" * 300, "paths.not_normal"),
        ("conftest.py", "paths.planted"),
        ("tests/conftest.py", "paths.planted"),
        ("pytest.ini", "paths.planted"),
        ("pyproject.toml", "paths.planted"),
        ("sitecustomize.py", "paths.planted"),
        ("evil.pth", "paths.planted"),
        ("evil.so", "paths.planted"),
        ("evil.dist-info/entry_points.txt", "paths.planted"),
        ("json.py", "paths.shadows"),
        ("json/__init__.py", "paths.shadows"),
        ("json/data.txt", "paths.shadows"),
        ("pytest.py", "paths.shadows"),
        ("_pytest/runner.py", "paths.shadows"),
        ("httpx.py", "paths.shadows"),
        ("assayd_adapter.py", "paths.shadows"),
        ("shared/x.py", "paths.shadows"),
        ("adapter.py/x.txt", "paths.conflict"),
        ("adapter/__init__.py", "paths.conflict"),
        ("Adapter.py", "paths.conflict"),
    ],
)
def test_name_that_may_not_be_is_refused(name: str, rule: str) -> None:
    assert rules(name) == [rule]


def test_every_refusal_says_what_to_do_and_names_the_file() -> None:
    names = dict.fromkeys((*GOOD, "../x.py", "conftest.py", "json.py", "a//b.py"), "x")
    found = list(check_files(names, ()))
    assert [finding.file for finding in found] == ["../x.py", "conftest.py", "json.py", "a//b.py"]
    assert all(finding.suggestion for finding in found)


def test_ten_files_are_allowed_and_eleven_are_not() -> None:
    names = [f"f{number}.txt" for number in range(MAX_FILES - len(GOOD))]
    assert rules(*names) == []
    assert rules(*names, "more.txt") == ["paths.too_many"]


def test_size_counts_bytes() -> None:
    most = {**GOOD, "data.txt": "é" * (MAX_FILE_BYTES // 2)}
    assert list(check_files(most, ())) == []
    [finding] = check_files({**most, "data.txt": most["data.txt"] + "x"}, ())
    assert (finding.rule, finding.file) == ("paths.too_large", "data.txt")


def test_files_are_told_apart_by_their_names() -> None:
    names = ["adapter.py", "test_a.py", "tests/b_test.py", "testing.py", "test_data.json"]
    assert list_test_files(names) == ("test_a.py", "tests/b_test.py")
    assert [is_test(name) for name in names] == [False, True, True, False, False]
    assert list_own_modules(["adapter.py", "pkg/__init__.py", "a/b/c.py", "x.json"]) == {
        "adapter",
        "pkg",
        "a",
        "a.b",
        "a.b.c",
    }


@pytest.mark.parametrize(
    ("files", "entrypoint", "adapter"),
    [
        (["adapter.py", "client.py"], "client", "adapter.py"),
        (["weather.py", "client.py"], "weather", "weather.py"),
        (["weather.py", "__init__.py", "test_w.py"], "Weather", "weather.py"),
        (["weather.py", "client.py"], "Weather", None),
        (["test_adapter.py"], "Weather", None),
    ],
)
def test_adapter_is_found_by_its_name(files: list[str], entrypoint: str, adapter: str | None) -> None:
    assert find_adapter_file(files, entrypoint) == adapter
