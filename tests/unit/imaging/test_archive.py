"""Archives: the same bytes for the same content, and nothing of the building machine inside."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.archive import Image, pack_layer, read_image_id, write_archive

IMAGE = Image(
    tag="assayd/sample:latest",
    architecture="amd64",
    user="10001:10001",
    entrypoint=["/usr/bin/program"],
    environment={"PATH": "/usr/bin", "LANG": "C.UTF-8"},
    labels={"org.assayd.image": "sample"},
)


def make_root(root: Path, names: list[str], time_s: int) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (time_s, time_s))
    (root / "usr" / "bin" / "program").chmod(0o4777)
    (root / "bin").symlink_to("usr/bin")
    (root / "sandbox").mkdir(mode=0o700)
    return root


NAMES = ["usr/bin/program", "etc/passwd", "usr/lib/a.py"]


def test_same_content_gives_same_bytes(tmp_path: Path) -> None:
    one = make_root(tmp_path / "one", NAMES, 1)
    two = make_root(tmp_path / "two", NAMES[::-1], 2)
    digests = [pack_layer(root, tmp_path / f"{root.name}.tar") for root in (one, two)]
    ids = [write_archive(tmp_path / f"{n}.image", IMAGE, [(digests[n], tmp_path / f"{name}.tar")])
           for n, name in enumerate(["one", "two"])]  # fmt: skip
    assert digests[0] == digests[1]
    assert ids[0] == ids[1]
    assert (tmp_path / "0.image").read_bytes() == (tmp_path / "1.image").read_bytes()


def test_layer_holds_no_setuid_no_owner_no_foreign_mode(tmp_path: Path) -> None:
    pack_layer(make_root(tmp_path / "root", NAMES, 1), tmp_path / "layer.tar", {"sandbox": 10001})
    with tarfile.open(tmp_path / "layer.tar") as tar:
        members = {member.name: member for member in tar}
    assert list(members) == sorted(members)
    assert members["usr/bin/program"].mode == 0o755
    assert members["etc/passwd"].mode == 0o644
    assert members["bin"].linkname == "usr/bin"
    assert {name for name, member in members.items() if member.uid or member.gid} == {"sandbox"}
    assert {member.uname for member in members.values()} == {""}


def test_archive_tells_the_engine_what_to_run(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    digest = pack_layer(make_root(tmp_path / "root", NAMES, 1), layer)
    identity = write_archive(tmp_path / "image.tar", IMAGE, [(digest, layer)])
    with tarfile.open(tmp_path / "image.tar") as tar:
        stored = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    (entry,) = json.loads(stored["manifest.json"])
    config = json.loads(stored[entry["Config"]])
    assert entry["RepoTags"] == ["assayd/sample:latest"]
    assert stored[entry["Layers"][0]] == layer.read_bytes()
    assert config["rootfs"]["diff_ids"] == [digest]
    assert config["config"]["User"] == "10001:10001"
    assert config["config"]["Env"] == ["LANG=C.UTF-8", "PATH=/usr/bin"]
    assert read_image_id(tmp_path / "image.tar") == identity


def test_other_file_is_not_taken_for_an_archive(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_text("not a tar file")
    with pytest.raises(ConfigError) as raised:
        read_image_id(tmp_path / "image.tar")
    assert raised.value.code == "image.archive_invalid"
