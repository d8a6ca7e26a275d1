"""Root folders: the allowlist decides which programs stay."""

import sys
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.recipe import Recipe
from assayd.imaging.rootfs import (
    add_system_files,
    compile_python,
    copy_library,
    disable_programs,
    prune_files,
    write_image_file,
)


def recipe(**changes: object) -> Recipe:
    values: dict[str, object] = {
        "name": "sample", "description": "", "packages": (), "executables": ("usr/bin/kept",), "drop": (),
        "links": (), "scripts": (), "environment": (), "python": None, "python_path": (), "guest": False,
        "ca_bundle": False, "entrypoint": ("/usr/bin/kept",), "digest": "sha256:0", "library_folder": None,
        "baseline_mb": None, "offer": "", "preload": (), "on_demand": False,
    }  # fmt: skip
    return Recipe(**(values | changes))  # type: ignore[arg-type]


def place(root: Path, name: str, content: bytes = b"\x7fELF", mode: int = 0o755) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place(tmp_path, "usr/bin/kept")
    return tmp_path


def test_program_outside_the_list_is_removed(root: Path) -> None:
    gone = [
        place(root, name) for name in ("usr/bin/sh", "usr/sbin/dpkg", "usr/libexec/x/y", "usr/lib/tool/run")
    ]
    prune_files(root, recipe())
    assert (root / "usr/bin/kept").exists()
    assert not [path for path in gone if path.exists()]


def test_script_in_a_library_stays_without_its_execute_bit(root: Path) -> None:
    script = place(root, "usr/lib/python3.11/pdb.py", b"#! /usr/bin/python3")
    prune_files(root, recipe())
    assert script.stat().st_mode & 0o777 == 0o644


def test_shared_library_stays_as_it_is(root: Path) -> None:
    library = place(root, "usr/lib/x/libc.so.6")
    prune_files(root, recipe())
    assert library.stat().st_mode & 0o777 == 0o755


def test_drop_takes_files_folders_and_links(root: Path) -> None:
    place(root, "usr/share/doc/a/copyright", b"")
    place(root, "usr/lib/x/libmd.so.0.1", b"")
    (root / "usr/lib/x/libmd.so.0").symlink_to("libmd.so.0.1")
    prune_files(root, recipe(drop=("usr/share/doc", "usr/lib/*/libmd.so*")))
    assert not (root / "usr/share/doc").exists()
    assert not list((root / "usr/lib/x").iterdir())


@pytest.mark.parametrize("name", ["run.so-1", "run.sofa", "my.socket.d"])
def test_program_that_is_no_library_by_its_name_is_removed(root: Path, name: str) -> None:
    place(root, f"site/{name}")
    assert disable_programs(root / "site") == [name]


@pytest.mark.parametrize(
    "name", ["_x.cpython-311-x86_64-linux-gnu.so", "libm-04b9.so.5.0", "libaio.so.1t64.0.2"]
)
def test_library_of_a_wheel_or_package_stays(root: Path, name: str) -> None:
    library = place(root, f"site/{name}")
    assert disable_programs(root / "site") == []
    assert library.exists()


def test_drop_through_an_absolute_link_takes_the_files_of_the_image(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = place(tmp_path_factory.mktemp("machine"), "certs/a.pem", b"")
    inside = place(root, f"{outside.relative_to('/')}", b"")
    (root / "usr/lib").mkdir()
    (root / "usr/lib/certs").symlink_to(outside.parent)
    prune_files(root, recipe(drop=("usr/lib/certs/*",)))
    assert outside.exists()
    assert not inside.exists()


@pytest.mark.parametrize(("link", "target"), [("certs", "etc"), ("certs/a.pem", "etc/a.pem")])
def test_file_written_through_an_absolute_link_is_the_images(
    root: Path, tmp_path_factory: pytest.TempPathFactory, link: str, target: str
) -> None:
    machine = tmp_path_factory.mktemp("machine")
    outside = place(machine, "etc/a.pem", b"machine")
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(machine / target)
    write_image_file(root, "certs/a.pem", b"image")
    assert outside.read_bytes() == b"machine"
    assert (root / outside.relative_to("/")).read_bytes() == b"image"


def test_file_written_through_a_link_of_merged_folders_is_where_it_leads(root: Path) -> None:
    (root / "usr/lib").mkdir()
    (root / "lib").symlink_to("usr/lib")
    write_image_file(root, "lib/python3/own.py", b"x = 1")
    assert (root / "usr/lib/python3/own.py").read_bytes() == b"x = 1"
    assert (root / "lib").is_symlink()


def test_file_in_the_place_of_a_program_is_no_program(root: Path) -> None:
    write_image_file(root, "usr/bin/kept", b"")
    assert not (root / "usr/bin/kept").stat().st_mode & 0o111


def test_link_to_what_only_the_building_machine_has_is_removed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "usr/gone").symlink_to(tmp_path_factory.mktemp("machine"))
    (root / "first").symlink_to("/usr/gone")
    prune_files(root, recipe())
    assert not (root / "first").is_symlink()


def test_link_to_what_is_gone_is_removed_and_others_stay(root: Path) -> None:
    place(root, "usr/bin/sh")
    (root / "etc").mkdir()
    (root / "etc/gone").symlink_to("/usr/bin/sh")
    (root / "etc/there").symlink_to("/usr/bin/kept")
    prune_files(root, recipe())
    assert not (root / "etc/gone").is_symlink()
    assert (root / "etc/there").is_symlink()


def test_listed_program_that_no_package_brings_is_an_error(root: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        prune_files(root, recipe(executables=("usr/bin/kept", "usr/bin/absent")))
    assert raised.value.code == "image.executable_missing"
    assert "/usr/bin/absent" in raised.value.message


def test_furnish_adds_accounts_mount_points_links_and_certificates(root: Path) -> None:
    place(root, "usr/share/ca-certificates/mozilla/B.crt", b"B\n")
    place(root, "usr/share/ca-certificates/mozilla/A.crt", b"A\n")
    add_system_files(root, recipe(links=(("usr/bin/sh", "kept"),), ca_bundle=True))
    assert "guest:x:10001:10001:" in (root / "etc/passwd").read_text()
    assert (root / "sandbox").is_dir()
    assert (root / "usr/bin/sh").resolve() == root / "usr/bin/kept"
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text() == "A\nB\n"


def test_furnish_writes_scripts_that_can_be_run(root: Path) -> None:
    add_system_files(root, recipe(scripts=(("usr/lib/tools/egrep", "#!/usr/bin/bash\n"),)))
    written = root / "usr/lib/tools/egrep"
    assert (written.read_text(), written.stat().st_mode & 0o777) == ("#!/usr/bin/bash\n", 0o755)


def test_library_of_the_operator_is_copied_as_files_without_their_modes(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = tmp_path_factory.mktemp("library")
    place(library, "core.fs", b": x ;")
    place(library, "inner/other.fs", b": y ;")
    copy_library(library, root, "usr/share/forth/lib")
    files = sorted(path for path in (root / "usr/share/forth/lib").rglob("*") if path.is_file())
    assert [path.name for path in files] == ["core.fs"]
    assert files[0].read_bytes() == b": x ;"
    assert not files[0].stat().st_mode & 0o111


def test_what_a_link_leads_to_on_the_building_machine_is_not_compiled(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loader = f'#!/bin/sh\nunset PYTHONHOME\nshift 4\nexec {sys.executable} "$@"\n'
    place(root, "usr/lib/x/ld-linux.so.2", loader.encode())
    outside = place(tmp_path_factory.mktemp("machine"), "site.py", b"x = 1")
    inside = place(root, "usr/lib/python3.11/own.py", b"x = 1")
    inside.with_name("within.py").symlink_to("own.py")
    inside.with_name("sitecustomize.py").symlink_to(outside)
    compile_python(root, root, ["usr/lib/python3.11"], recipe(python="3.11"))
    compiled = {path.name.partition(".")[0] for path in inside.parent.rglob("*.pyc")}
    assert compiled == {"own", "within"}
