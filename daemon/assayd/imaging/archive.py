"""Writes layers and the `docker load` file, and applies the layers of foreign images to a folder.

When layers are written, equal input produces equal bytes. Entries are sorted, times and owners are fixed, and
only two modes are used, so that an image id doesn't depend on the machine that builds the image. No file can
be setuid, because modes are never copied.

The layers of a foreign image can contain whiteouts, hard links and arbitrary links. Every path is resolved as
after a chroot, so that no file outside the folder is read or written. Owners, special modes and extended
attributes are ignored. `LayeredRoot.removed` lists the entries that are omitted from the folder.

Source: Open Container Initiative, image specification 1.1, layer.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from assayd.errors import ConfigError
from assayd.imaging.tree import compute_file_digest, resolve_in_root

# 2020-01-01T00:00:00Z: any constant would do, but zero makes some programs warn.
_MEMBER_MTIME_S = 1577836800
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


def read_image_id(archive: Path) -> str:
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
    """Return all paths below `root`. Links to folders aren't followed."""
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        found += [Path(folder, name) for name in folders + files]
    return found


def _create_member(name: str, owner: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mtime = _MEMBER_MTIME_S
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


_WHITEOUT_PREFIX = ".wh."
_OPAQUE = ".wh..wh..opq"
_SOCKETS = frozenset({"containerd.sock", "crio.sock", "docker.sock", "podman.sock"})
"""Sockets through which a container could control an engine, and so be root on its host."""
_SET_ID = stat.S_ISUID | stat.S_ISGID
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """The maximum size of an unpacked image: entries, bytes, layers, and depth of nested folders."""

    entries: int = 500_000
    unpacked_bytes: int = 8 * 2**30
    layers: int = 256
    depth: int = 128


CAPS = UnpackLimits()


class LayeredRoot:
    """A root filesystem in a private folder, to which layers are applied.

    `removed` maps each reason to the entries omitted for it.
    """

    def __init__(self, folder: Path, caps: UnpackLimits) -> None:
        self._root = folder
        self._caps = caps
        self._entries = 0
        self._bytes = 0
        self._with_id: set[Path] = set()
        self.removed: defaultdict[str, list[str]] = defaultdict(list)

    def apply_layer(self, layer: tarfile.TarFile) -> None:
        """Apply one layer on top of the previous layers.

        Raises: ConfigError ``image.source_refused``, if an entry isn't allowed; ``image.source_too_large``,
        if the image exceeds the caps; OSError or tarfile.TarError, if the layer is malformed.
        """
        fresh: set[Path] = set()
        for member in layer:
            self._count_member(member)
            parts = _split_member_path(member.name)
            if not parts:
                continue
            if not _is_encodable(member.name) or not _is_encodable(member.linkname):
                self.removed["its name isn't UTF-8"].append(ascii(member.name))
                continue
            parent = resolve_in_root(self._root, PurePosixPath(*parts[:-1]))
            if parts[-1].startswith(_WHITEOUT_PREFIX):
                self._apply_whiteout(parent, parts[-1], fresh)
                continue
            target = parent / parts[-1]
            self._check_depth(target)
            parent.mkdir(parents=True, exist_ok=True)
            self._create_entry(layer, member, target)
            fresh.add(target)

    def _count_member(self, member: tarfile.TarInfo) -> None:
        if (
            member.issparse() or member.size < 0
        ):  # Image builders don't create sparse files, which can claim any size.
            message = f"the image has {member.name[:200]!a}, a sparse file; save the image again"
            raise ConfigError("image.source_refused", message)
        self._entries += 1
        self._bytes += member.size if member.isreg() else 0
        if self._entries > self._caps.entries or self._bytes > self._caps.unpacked_bytes:
            most = f"{self._caps.entries} files, or {self._caps.unpacked_bytes >> 20} MiB of them"
            message = f"the image has more than {most}, unpacked; take a smaller one"
            raise ConfigError("image.source_too_large", message)

    def _check_depth(self, target: Path) -> None:
        """Raise ConfigError ``image.source_refused`` for a path that is too deep to be removed later.

        Links to folders in it are resolved.
        """
        if len(target.relative_to(self._root).parts) > self._caps.depth:
            message = f"the image has files in more than {self._caps.depth} nested folders; remove them"
            raise ConfigError("image.source_refused", message)

    def _apply_whiteout(self, parent: Path, name: str, fresh: set[Path]) -> None:
        """Apply a whiteout: remove the entries of lower layers, but not those of the same layer."""
        if name == _OPAQUE:
            victims = list(parent.iterdir()) if parent.is_dir() else []
        elif name.startswith(_WHITEOUT_PREFIX * 2):
            return
        else:
            gone = name.removeprefix(_WHITEOUT_PREFIX)
            if gone in {"", ".", ".."}:
                raise ConfigError("image.source_refused", f"invalid whiteout entry {name!r} in the image")
            victims = [parent / gone]
        for victim in victims:
            if victim not in fresh:
                remove_tree(victim)

    def _create_entry(self, layer: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
        shown = target.relative_to(self._root).as_posix()
        if target.name in _SOCKETS and not member.isdir():
            message = f"the image has /{shown}, where programs look for an engine's socket; remove it"
            raise ConfigError("image.source_refused", message)
        if member.isdir():
            self._create_folder(target)
        elif member.islnk():
            self._create_hard_link(member, target)
        elif member.issym():
            remove_tree(target)
            target.symlink_to(member.linkname)
        elif not member.isreg():
            remove_tree(target)
            self.removed["it is a device or a pipe"].append(shown)
        elif member.mode & _SET_ID:
            remove_tree(target)
            self._with_id.add(target)
            self.removed["it is setuid or setgid"].append(shown)
        else:
            remove_tree(target)
            self._with_id.discard(target)
            _extract_file(layer, member, target)

    def _create_folder(self, target: Path) -> None:
        if target.is_symlink() or not target.is_dir():
            remove_tree(target)
            target.mkdir()

    def _create_hard_link(self, member: tarfile.TarInfo, target: Path) -> None:
        parts = _split_member_path(member.linkname)
        source = resolve_in_root(self._root, PurePosixPath(*parts[:-1])) / parts[-1] if parts else self._root
        if source in self._with_id:
            remove_tree(target)
            self._with_id.add(target)
            self.removed["it is setuid or setgid"].append(target.relative_to(self._root).as_posix())
        elif source != target:
            remove_tree(target)
            os.link(source, target, follow_symlinks=False)


def remove_tree(path: Path) -> None:
    """Remove a file, a link or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _split_member_path(name: str) -> tuple[str, ...]:
    """Return the parts of a member's path below the root. Raises: ConfigError for ".."."""
    parts = tuple(part for part in PurePosixPath(name).parts if part.strip("/"))
    if ".." in parts:
        raise ConfigError("image.source_refused", f"the image has {name[:200]!a}, which points outside it")
    return parts


def _is_encodable(name: str) -> bool:
    """Return whether a name can be encoded as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _extract_file(layer: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content: IO[bytes] | None = layer.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{member.name} has no content")
    with content, target.open("xb") as file:
        shutil.copyfileobj(content, file, _COPY_BYTES)
    target.chmod(0o755 if member.mode & 0o111 else 0o644)
