"""Layers of foreign images: their contents, and that nothing is written outside."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.archive import CAPS, LayeredRoot, UnpackLimits, remove_tree
from support.engines.foreign_images import files, layer, member

SETUID = 0o4755
Members = Iterable[tuple[tarfile.TarInfo, bytes]]


def applied(root: Path, *layers: bytes, caps: UnpackLimits = CAPS) -> LayeredRoot:
    root.mkdir(exist_ok=True)
    layered = LayeredRoot(root, caps)
    for content in layers:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            layered.apply_layer(tar)
    return layered


def listed(root: Path) -> list[str]:
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if not path.is_dir() or path.is_symlink()
    )


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, link=target), b""


def hard(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.LNKTYPE, link=target), b""


def test_later_layer_replaces_takes_away_and_clears(tmp_path: Path) -> None:
    below = files({"a": b"1", "gone": b"", "dir/old": b"", "dir/sub/old": b"", "./usr/bin/tool": b"x"})
    above = files({"a": b"2", ".wh.gone": b"", "dir/.wh..wh..opq": b"", "dir/new": b"", ".wh..wh.plnk": b""})

    applied(tmp_path / "root", below, above)

    assert listed(tmp_path / "root") == ["a", "dir/new", "usr/bin/tool"]
    assert (tmp_path / "root/a").read_bytes() == b"2"


def test_folders_that_are_nested_too_deeply_are_refused_and_the_rest_can_be_removed(tmp_path: Path) -> None:
    """Regression: a layer with 1,500 nested folders ended in a RecursionError."""
    applied(tmp_path / "fine", files({"a/" * (CAPS.depth - 1) + "b": b""}))
    with pytest.raises(ConfigError, match="nested folders") as refused:
        applied(tmp_path / "deep", files({"a/" * 1_500 + "b": b""}))
    assert refused.value.code == "image.source_refused"
    for name in ("fine", "deep"):
        remove_tree(tmp_path / name)


def test_folders_that_are_nested_by_links_are_refused(tmp_path: Path) -> None:
    """Regression: 1,800 folders that were nested through links could not be removed."""
    step = "a/" * 50
    members = []
    for number in range(36):
        before = f"l{number - 1}/" if number else ""
        members += [(member(f"{before}{step}b"), b""), link(f"l{number}", f"/{before}{step}".rstrip("/"))]
    with pytest.raises(ConfigError, match="nested folders"):
        applied(tmp_path / "deep", layer(members))
    remove_tree(tmp_path / "deep")


def test_what_a_layer_brings_stays_where_the_same_layer_takes_away(tmp_path: Path) -> None:
    applied(tmp_path / "root", files({"dir/old": b""}), files({"dir/new": b"", "dir/.wh..wh..opq": b""}))

    assert listed(tmp_path / "root") == ["dir/new"]


def test_links_that_lead_out_are_kept_and_followed_as_after_a_chroot(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    below = layer([link("lib", "/usr/lib"), link("evil", str(outside)), link("up", "../../outside")])
    above = files({"lib/a.so": b"1", "evil/b": b"2", "up/c": b"3"})

    applied(tmp_path / "root", below, above)

    assert list(outside.iterdir()) == []
    assert (tmp_path / "root/usr/lib/a.so").read_bytes() == b"1"
    assert (tmp_path / "root" / str(outside).lstrip("/") / "b").read_bytes() == b"2"
    assert (tmp_path / "root/evil").is_symlink()
    assert (tmp_path / "root/outside/c").read_bytes() == b"3"


def test_file_in_the_place_of_a_link_leaves_its_target_alone(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.write_text("safe")

    applied(tmp_path / "root", layer([link("a", str(host))]), files({"a": b"mine"}))

    assert host.read_text() == "safe"
    assert (tmp_path / "root/a").read_bytes() == b"mine"


def test_folder_in_the_place_of_a_link_is_a_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    applied(tmp_path / "root", layer([link("d", str(outside)), (member("d", tarfile.DIRTYPE), b"")]))

    assert not (tmp_path / "root/d").is_symlink()


def test_hard_link_shares_its_file_and_cannot_reach_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host")
    good = layer([(member("a"), b"1"), hard("b", "a"), hard("a", "a")])

    applied(tmp_path / "root", good)

    assert (tmp_path / "root/a").samefile(tmp_path / "root/b")
    for bad in (hard("c", "../secret"), hard("c", str(tmp_path / "secret"))):
        with pytest.raises((ConfigError, OSError)):
            applied(tmp_path / "root", layer([bad]))
    assert not (tmp_path / "root/c").exists()


def test_write_to_one_of_two_hard_links_in_a_later_layer_leaves_the_other(tmp_path: Path) -> None:
    applied(tmp_path / "root", layer([(member("a"), b"1"), hard("b", "a")]), files({"a": b"2"}))

    assert (tmp_path / "root/b").read_bytes() == b"1"


@pytest.mark.parametrize(
    "name", ["../a", "a/../../b", ".wh...", ".wh..", "dir/.wh...", "/../x"], ids=range(6)
)
def test_path_that_leads_up_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(ConfigError) as raised:
        applied(tmp_path / "root", files({name: b""}))

    assert raised.value.code == "image.source_refused"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "root"]


def test_setuid_files_devices_and_pipes_are_left_out_and_said(tmp_path: Path) -> None:
    special = [
        (member("bin/su", mode=SETUID), b"x"),
        (member("bin/wall", mode=0o2755), b"x"),
        hard("bin/su2", "bin/su"),
        (member("dev/sda", tarfile.BLKTYPE), b""),
        (member("fifo", tarfile.FIFOTYPE), b""),
        (member("bin/plain", mode=0o755), b"x"),
        (member("shared", tarfile.DIRTYPE, mode=0o2775), b""),
    ]

    layered = applied(tmp_path / "root", layer(special))

    assert listed(tmp_path / "root") == ["bin/plain"]
    assert os.access(tmp_path / "root/bin/plain", os.X_OK)
    assert dict(layered.removed) == {
        "it is setuid or setgid": ["bin/su", "bin/wall", "bin/su2"],
        "it is a device or a pipe": ["dev/sda", "fifo"],
    }


def test_socket_of_an_engine_is_refused_and_a_page_about_it_is_not(tmp_path: Path) -> None:
    applied(tmp_path / "root", files({"usr/share/doc/docker.sock.html": b""}))

    for kind in (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE):
        with pytest.raises(ConfigError, match=r"/var/run/docker\.sock"):
            applied(tmp_path / "root", layer([(member("var/run/docker.sock", kind, link="x"), b"")]))


def test_image_that_is_larger_than_the_cap_ends_before_it_is_written(tmp_path: Path) -> None:
    caps = UnpackLimits(entries=3, unpacked_bytes=10)

    for contents in ({"a": b"x" * 11}, {"a": b"", "b": b"", "c": b"", "d": b""}):
        with pytest.raises(ConfigError) as raised:
            applied(tmp_path / "root", files(contents), caps=caps)
        assert raised.value.code == "image.source_too_large"
    assert applied(tmp_path / "root", files({"ok": b"x" * 10}), caps=caps).removed == {}


def test_name_that_is_not_text_is_left_out_and_said(tmp_path: Path) -> None:
    layered = applied(tmp_path / "root", files({"bad\udcff": b"", "gut-ä": b""}))

    assert listed(tmp_path / "root") == ["gut-ä"]
    assert layered.removed["its name isn't UTF-8"] == ["'bad\\udcff'"]


@pytest.mark.parametrize("size", [-1, 2**20])
def test_file_with_holes_whose_size_is_only_claimed_is_refused(tmp_path: Path, size: int) -> None:
    claimed = tarfile.TarInfo("big")
    claimed.pax_headers = {"GNU.sparse.map": f"{max(size, 0)},0", "GNU.sparse.size": str(size)}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(claimed)
    with pytest.raises(ConfigError, match="a sparse file"):
        applied(tmp_path / "root", made.getvalue())
    assert listed(tmp_path / "root") == []
