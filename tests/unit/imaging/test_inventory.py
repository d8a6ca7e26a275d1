from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging import inventory
from assayd.imaging.inventory import Package, build_python_package, list_root_packages

LIBC = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.36-9+deb12u1
Description: GNU C Library: Shared libraries
 Contains the standard libraries.
 Version: 1
"""
GONE = "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"
FOUND = Package(
    kind="deb",
    name="libc6",
    version="2.36-9+deb12u1",
    architecture="amd64",
    source="glibc",
    system="debian-12",
)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def distribution(root: Path, folder: str, name: str, version: str) -> None:
    write(
        root, f"{folder}/{name}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n\nText.\n"
    )


@pytest.mark.parametrize("place", ["var/lib/dpkg/status", "var/lib/dpkg/status.d/libc6"])
def test_packages_that_dpkg_installed_are_found(tmp_path: Path, place: str) -> None:
    write(tmp_path, "usr/lib/os-release", 'ID=debian\nVERSION_ID="12"\n')
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").symlink_to("../usr/lib/os-release")
    write(tmp_path, place, f"{LIBC}\n{GONE}")

    assert list_root_packages(tmp_path).packages == (FOUND,)


def test_python_distributions_are_found_but_for_those_of_debian(tmp_path: Path) -> None:
    distribution(tmp_path, "opt/venv/lib/python3.11/site-packages", "Ruamel.Yaml", "1.0")
    distribution(tmp_path, "usr/local/lib/python3.11/dist-packages", "six", "1.17.0")
    distribution(tmp_path, "usr/lib/python3/dist-packages", "numpy", "1.24")

    named = [(each.kind, each.name, each.version) for each in list_root_packages(tmp_path).packages]

    assert named == [("pypi", "ruamel-yaml", "1.0"), ("pypi", "six", "1.17.0")]


def test_entry_of_another_form_is_counted_and_left_out(tmp_path: Path) -> None:
    write(tmp_path, "var/lib/dpkg/status", "Package: ../../etc\nVersion: \x1b[31m\nArchitecture: amd64\n")
    distribution(tmp_path, "usr/lib/python3.11/site-packages", "a", "1 <script>")

    found = list_root_packages(tmp_path)

    assert (found.packages, found.unreadable) == ((), 2)


def test_links_do_not_lead_out_of_the_image(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(tmp_path, "status", LIBC)
    distribution(tmp_path, "elsewhere/site-packages", "six", "1.17.0")
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").symlink_to(tmp_path / "status")
    (root / "lib").symlink_to(tmp_path / "elsewhere")

    assert list_root_packages(root).packages == ()


def test_list_beyond_its_cap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "var/lib/dpkg/status", "x" * (inventory._MAX_BYTES + 1))

    with pytest.raises(ConfigError) as caught:
        list_root_packages(tmp_path)

    assert caught.value.code == "image.source_too_large"


def test_more_packages_than_the_cap_are_refused(tmp_path: Path) -> None:
    paragraph = "Package: p{0}\nVersion: 1\nArchitecture: all\n"
    write(
        tmp_path,
        "var/lib/dpkg/status",
        "\n".join(paragraph.format(number) for number in range(inventory.MAX_PACKAGES + 1)),
    )

    with pytest.raises(ConfigError) as caught:
        list_root_packages(tmp_path)

    assert caught.value.code == "image.source_too_large"


def test_unreadable_entries_count_and_nothing_is_read_beyond_the_cap(tmp_path: Path) -> None:
    def endless() -> Iterator[Package | None]:
        for number in range(inventory.MAX_PACKAGES):
            yield None if number % 2 else replace(FOUND, name=f"p{number}")
        yield None
        pytest.fail("read on beyond the cap")

    with pytest.raises(ConfigError, match=f"more than {inventory.MAX_PACKAGES} packages"):
        list_root_packages(tmp_path, endless())


@pytest.mark.parametrize("name", ["var/lib/dpkg/status.d/p{}", "site-packages/p{}.egg-info"])
def test_links_to_one_list_count_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path, name.format(0), f"Name: six\n{LIBC}")
    monkeypatch.setattr(inventory, "_MAX_BYTES", 5 * len(LIBC))
    for number in range(1, 4):
        (tmp_path / name.format(number)).hardlink_to(tmp_path / name.format(0))
    assert len(list_root_packages(tmp_path).packages) == 1

    for number in range(4, 9):
        (tmp_path / name.format(number)).hardlink_to(tmp_path / name.format(0))
    with pytest.raises(ConfigError) as caught:
        list_root_packages(tmp_path)
    assert caught.value.code == "image.source_too_large"


def test_python_name_is_normalized() -> None:
    package = build_python_package("Foo__Bar.baz", "1.0+local")
    assert package is not None
    assert package.name == "foo-bar-baz"
