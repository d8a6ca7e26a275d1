"""The Python of an adopted image is found by its files only, and never outside its root."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.imaging.adopting import ImagePython, find_known_programs, find_pythons

FOLDERS = ["/usr/local/bin", "/usr/bin"]


def add(root: Path, path: str, *, link: str | None = None) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if link is not None:
        target.symlink_to(link)
    else:
        target.write_bytes(b"")
        target.chmod(0o755)


def test_python3_of_the_path_comes_first_and_others_that_fit_follow(tmp_path: Path) -> None:
    for minor in (9, 12):
        add(tmp_path, f"usr/bin/python3.{minor}")
        add(tmp_path, f"usr/lib/python3.{minor}/os.py")
    add(tmp_path, "usr/bin/python3", link="python3.9")
    (tmp_path / "usr/lib/python3/dist-packages").mkdir(parents=True)

    found = find_pythons(tmp_path, FOLDERS)

    assert [(one.path, one.minor, one.is_compatible) for one in found] == [
        ("usr/bin/python3.9", 9, False),
        ("usr/bin/python3.12", 12, True),
    ]
    assert found[1].libraries == ["usr/lib/python3/dist-packages"]


def test_environment_of_its_own_brings_its_packages_and_those_below(tmp_path: Path) -> None:
    add(tmp_path, "opt/venv/bin/python3", link="/usr/local/bin/python3.13")
    add(tmp_path, "usr/local/bin/python3.13")
    add(tmp_path, "usr/local/lib/python3.13/os.py")
    for prefix in ("opt/venv", "usr/local"):
        (tmp_path / prefix / "lib/python3.13/site-packages").mkdir(parents=True)

    [found] = find_pythons(tmp_path, ["/opt/venv/bin"])

    assert found == ImagePython(
        path="usr/local/bin/python3.13",
        minor=13,
        libraries=["opt/venv/lib/python3.13/site-packages", "usr/local/lib/python3.13/site-packages"],
    )


@pytest.mark.parametrize(
    ("path", "link"),
    [("usr/bin/python3", "/usr/bin/python3.11"), ("usr/bin/python3", "../../../../usr/bin/env")],
)
def test_link_to_a_program_of_this_machine_is_no_python(tmp_path: Path, path: str, link: str) -> None:
    add(tmp_path, path, link=link)

    assert find_pythons(tmp_path, FOLDERS) == []


def test_python_without_its_library_or_with_a_strange_path_is_none(tmp_path: Path) -> None:
    add(tmp_path, "usr/bin/python3.12")
    add(tmp_path, "usr/local/bin/python3", link="/opt/my python/bin/python3.12")
    add(tmp_path, "opt/my python/bin/python3.12")
    add(tmp_path, "opt/my python/lib/python3.12/os.py")

    assert find_pythons(tmp_path, FOLDERS) == []


def test_programs_are_named_that_can_be_run(tmp_path: Path) -> None:
    add(tmp_path, "usr/bin/bash")
    add(tmp_path, "usr/bin/gcc", link="/etc/passwd")
    (tmp_path / "usr/bin/node").write_bytes(b"")

    assert find_known_programs(tmp_path, FOLDERS, []) == ["bash"]
