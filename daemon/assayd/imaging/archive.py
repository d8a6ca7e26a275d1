"""Writes layers and the `docker load` file; equal input produces equal bytes.

Entries are sorted, times and owners are fixed, and only two modes are used, so that an image id doesn't
depend on the machine that builds the image. No file can be setuid, because modes are never copied.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assayd.errors import ConfigError
from assayd.imaging.digest import compute_file_digest

# 2020-01-01T00:00:00Z: any constant would do, but zero makes some programs warn.
_TIME_S = 1577836800
_CREATED = "2020-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The configuration of an image for the engine."""

    tag: str
    architecture: str
    user: str
    entrypoint: Sequence[str]
    environment: Mapping[str, str]
    labels: Mapping[str, str]


def pack_layer(root: Path, layer: Path, owners: Mapping[str, int] | None = None) -> str:
    """Write the folder `root` as a layer and return its digest.

    Args:
        root: the folder that becomes `/`; symbolic links stay unchanged.
        layer: the tar file to write.
        owners: maps paths without leading slash to uid and gid, for files that don't belong to root.
    """
    owners = owners or {}
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(_list_tree(root), key=lambda each: each.relative_to(root).as_posix()):
            name = path.relative_to(root).as_posix()
            _add_path(tar, path, _create_member(name, owners.get(name, 0)))
    return compute_file_digest(layer)


def write_archive(archive: Path, image: Image, layers: Sequence[tuple[str, Path]]) -> str:
    """Write a file for `docker load` and return the image's id.

    Args:
        archive: the file to write.
        image: the image's configuration for the engine.
        layers: the digest and file of each layer, from the lowest to the highest.
    """
    config = _encode_canonical(_build_config(image, [digest for digest, _ in layers]))
    identity = hashlib.sha256(config).hexdigest()
    names = [f"{digest.removeprefix('sha256:')}/layer.tar" for digest, _ in layers]
    manifest = [{"Config": f"{identity}.json", "RepoTags": [image.tag], "Layers": names}]
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        _add_bytes(tar, "manifest.json", _encode_canonical(manifest))
        _add_bytes(tar, f"{identity}.json", config)
        for name, (_, layer) in zip(names, layers, strict=True):
            with layer.open("rb") as stream:
                _add_stream(tar, name, stream, layer.stat().st_size)
    return f"sha256:{identity}"


def image_id(archive: Path) -> str:
    """Return the id that the image in `archive` has after it is loaded.

    Raises:
        ConfigError: ``image.archive_invalid``, if `write_archive` didn't write the file.
    """
    try:
        with tarfile.open(archive, "r:") as tar:
            stream = tar.extractfile("manifest.json")
            name = json.load(stream)[0]["Config"] if stream else ""
    except (OSError, tarfile.TarError, ValueError, KeyError, IndexError, TypeError) as error:
        message = f"{archive} isn't an image archive; build it again"
        raise ConfigError("image.archive_invalid", message) from error
    return f"sha256:{str(name).removesuffix('.json')}"


def _build_config(image: Image, layers: Sequence[str]) -> dict[str, object]:
    return {
        "architecture": image.architecture,
        "os": "linux",
        "created": _CREATED,
        "config": {
            "User": image.user,
            "Env": [f"{name}={value}" for name, value in sorted(image.environment.items())],
            "Entrypoint": list(image.entrypoint),
            "WorkingDir": "/",
            "Labels": dict(image.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": list(layers)},
        "history": [{"created": _CREATED, "created_by": "assayd"} for _ in layers],
    }


def _encode_canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _list_tree(root: Path) -> list[Path]:
    """Return all paths below `root`; links to folders aren't followed."""
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        found += [Path(folder, name) for name in folders + files]
    return found


def _create_member(name: str, owner: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mtime = _TIME_S
    member.uid = member.gid = owner
    member.mode = 0o644
    return member


def _add_path(tar: tarfile.TarFile, path: Path, member: tarfile.TarInfo) -> None:
    if path.is_symlink():
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        tar.addfile(member)
    elif path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
    elif path.is_file():
        status = path.stat()
        member.mode = 0o755 if status.st_mode & 0o100 else 0o644
        with path.open("rb") as stream:
            member.size = status.st_size
            tar.addfile(member, stream)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    _add_stream(tar, name, io.BytesIO(content), len(content))


def _add_stream(tar: tarfile.TarFile, name: str, stream: IO[bytes], size: int) -> None:
    member = _create_member(name)
    member.size = size
    tar.addfile(member, stream)
