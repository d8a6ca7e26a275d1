"""Reads a foreign image: an OCI layout (folder or archive), or the output of `docker save`.

This module selects one of several images, and verifies the digest of every part. `archive` unpacks the
layers. All input is treated as hostile: sizes are checked before anything is read.

Source: Open Container Initiative, image specification 1.1, image-layout.md, manifest.md, config.md.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from assayd.errors import ConfigError
from assayd.imaging.tree import resolve_in_root

_SHA256_PATTERN = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_MAX_DOCUMENT_BYTES = 8 << 20
_MAX_HEADER_BYTES = 16 << 20
_MAX_MEMBERS = 100_000
_MAX_INDEX_DEPTH = 3
_NAME_KEYS = ("org.opencontainers.image.ref.name", "io.containerd.image.name")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_COPY_BYTES = 1 << 20
_READ_ERRORS = (
    OSError, EOFError, tarfile.TarError, ValueError, TypeError, OverflowError, RecursionError, zlib.error,
)  # fmt: skip
"""Errors from reading a malformed file."""

Table = Mapping[str, object]


class ImageFiles(Protocol):
    """Access to the files of an image."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open the image's file with this path. Return None if the file doesn't exist."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer: its path, and the digests of its file (None if unknown) and of its uncompressed tar file."""

    path: str
    digest: str | None
    unpacked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """An image to adopt. `digest` is the digest of its configuration, which lists the layers."""

    digest: str
    architecture: str
    environment: Sequence[str]
    layers: Sequence[Layer]
    parts: ImageFiles


@contextmanager
def open_image_source(path: Path, tag: str | None, architecture: str) -> Iterator[ImageSource]:
    """Open an image for the duration of the `with` block.

    Raises: ConfigError ``image.source_invalid``, if the image is malformed; ``image.source_ambiguous``, if
    not exactly one image matches.
    """
    with _translate_errors(path):
        if path.is_dir():
            yield _read_source(_FolderFiles(path), path, tag, architecture)
            return
        with path.open("rb") as raw, open_tar(_open_decompressed(raw)) as tar:
            yield _read_source(_ArchiveFiles(tar), path, tag, architecture)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except _READ_ERRORS as error:
        message = f"{path} can't be adopted; pass an OCI layout or the output of `docker save`: {error}"
        raise ConfigError("image.source_invalid", message[:500]) from error


def unpack_layer(source: ImageSource, layer: Layer, target: Path, most_bytes: int) -> None:
    """Write the uncompressed tar file of a layer, and verify its digest.

    Raises: ConfigError ``image.source_too_large``, if the tar file exceeds `most_bytes`; OSError or
    ValueError, if the layer is missing, malformed or has another digest.
    """
    stream = source.parts.open(layer.path)
    if stream is None:
        raise ValueError(f"{layer.path} is missing")
    with stream:
        packed = _HashingStream(stream)
        with target.open("wb") as file:
            unpacked = _copy_limited(_decompress_layer(packed), file, most_bytes)
        while packed.read(_COPY_BYTES):
            pass
    for wanted, found in ((layer.digest, packed.total.hexdigest()), (layer.unpacked, unpacked)):
        if wanted is not None and wanted != f"sha256:{found}":
            raise ValueError(f"{layer.path} doesn't match the layer's digest in the image")


def open_tar(file: IO[bytes]) -> tarfile.TarFile:
    """Open a tar file with a limit of header sizes, because `tarfile` reads each header as a whole."""
    return tarfile.open(fileobj=cast("IO[bytes]", _BoundedFile(file)), mode="r:")


def _open_decompressed(raw: IO[bytes]) -> IO[bytes]:
    zipped = raw.read(2) == _GZIP
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw


class _BoundedFile:
    """A file that refuses large reads, because a tar header could request too much memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes. Raises: tarfile.ReadError for a large header."""
        if size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is too large")
        return self._file.read(size)


class _HashingStream:
    """A stream that computes the digest of the bytes read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._head = stream.read(4)
        self.head = self._head
        self.total = hashlib.sha256(self._head)

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes. First return the bytes that were read for inspection."""
        if self._head:
            count = len(self._head) if size < 0 else size
            head, self._head = self._head[:count], self._head[count:]
            return head
        block = self._stream.read(_COPY_BYTES if size < 0 else size)
        self.total.update(block)
        return block


class _FolderFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> IO[bytes] | None:
        path = resolve_in_root(self._folder, name)
        return path.open("rb") if path.is_file() else None


class _ArchiveFiles:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members: dict[str, tarfile.TarInfo] = {}
        for count, member in enumerate(tar):
            if count > _MAX_MEMBERS:
                raise ValueError(f"it has more than {_MAX_MEMBERS} files")
            self._members[member.name.removeprefix("./")] = member

    def open(self, name: str) -> IO[bytes] | None:
        member = self._members.get(name)
        return self._tar.extractfile(member) if member is not None else None


def _read_source(parts: ImageFiles, path: Path, tag: str | None, architecture: str) -> ImageSource:
    index = _read_document(parts, "index.json")
    if index is not None:
        return _read_oci_layout(
            parts, _choose_manifest(parts, _require_table(index), tag, architecture, path)
        )
    manifest = _read_document(parts, "manifest.json")
    if manifest is None:
        raise ValueError("it has neither index.json nor manifest.json")
    return _read_docker_archive(parts, manifest, tag, path)


def _read_oci_layout(parts: ImageFiles, manifest: Table) -> ImageSource:
    content = _read_blob(parts, _require_table(manifest.get("config")))
    layers = [_require_table(one) for one in _require_list(manifest.get("layers"))]
    named = [(_get_blob_path(layer), _text(layer.get("digest"))) for layer in layers]
    return _build_source(parts, content, named)


def _read_docker_archive(parts: ImageFiles, manifest: object, tag: str | None, path: Path) -> ImageSource:
    images = [_require_table(one) for one in _require_list(manifest)]
    if tag is not None:
        wanted = {tag, f"{tag}:latest"}
        images = [image for image in images if wanted & set(_read_tags(image))]
    if len(images) != 1:
        raise _ambiguous_image_error(
            path, [name for one in _require_list(manifest) for name in _read_tags(_require_table(one))]
        )
    [image] = images
    content = _read_bytes(parts, _text(image.get("Config")))
    return _build_source(
        parts, content, [(_text(layer), None) for layer in _require_list(image.get("Layers"))]
    )


def _read_tags(image: Table) -> list[str]:
    return [_text(tag) for tag in _require_list(image.get("RepoTags") or [])]


def _build_source(parts: ImageFiles, content: bytes, named: Sequence[tuple[str, str | None]]) -> ImageSource:
    config = _require_table(json.loads(content))
    unpacked = [
        _require_digest(one) for one in _require_list(_require_table(config.get("rootfs")).get("diff_ids"))
    ]
    if len(unpacked) != len(named):
        raise ValueError(f"it has {len(named)} layers, but lists {len(unpacked)}")
    settings = _require_table(config.get("config") or {})
    return ImageSource(
        digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
        architecture=_text(config.get("architecture")),
        environment=[_text(one) for one in _require_list(settings.get("Env") or [])],
        layers=[
            Layer(path=path, digest=digest, unpacked=tar)
            for (path, digest), tar in zip(named, unpacked, strict=True)
        ],
        parts=parts,
    )


def _choose_manifest(
    parts: ImageFiles, index: Table, tag: str | None, architecture: str, path: Path
) -> Table:
    """Return the selected manifest. Follow nested indexes and select the platform.

    Raises: ConfigError ``image.source_ambiguous``, if not exactly one manifest matches.
    """
    found = [_require_table(one) for one in _require_list(index.get("manifests"))]
    if tag is not None:
        found = [one for one in found if tag in _read_names(one)]
    for _ in range(_MAX_INDEX_DEPTH):
        if len(found) != 1:
            raise _ambiguous_image_error(path, [name for one in found for name in _read_names(one)])
        manifest = _require_table(json.loads(_read_blob(parts, found[0])))
        if "manifests" not in manifest:
            return manifest
        found = [
            one
            for one in (_require_table(each) for each in _require_list(manifest.get("manifests")))
            if _require_table(one.get("platform") or {}).get("architecture") == architecture
            and _require_table(one.get("platform") or {}).get("os") == "linux"
        ]
    raise ValueError("its index is nested too deeply")


def _read_names(descriptor: Table) -> list[str]:
    said = _require_table(descriptor.get("annotations") or {})
    return [_text(said[key]) for key in _NAME_KEYS if key in said]


def _ambiguous_image_error(path: Path, names: Sequence[str]) -> ConfigError:
    known = ", ".join(sorted(set(names))[:20]) or "none has a name"
    message = f"{path} has no single matching image; choose one with --tag: {known}"
    return ConfigError("image.source_ambiguous", message)


def _read_blob(parts: ImageFiles, descriptor: Table) -> bytes:
    content = _read_bytes(parts, _get_blob_path(descriptor))
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != descriptor.get("digest"):
        raise ValueError(f"{descriptor.get('digest')} doesn't match its digest")
    return content


def _get_blob_path(descriptor: Table) -> str:
    return f"blobs/sha256/{_require_digest(descriptor.get('digest')).removeprefix('sha256:')}"


def _read_document(parts: ImageFiles, name: str) -> object:
    stream = parts.open(name)
    if stream is None:
        return None
    with stream:
        return json.loads(_read_limited(stream, name))


def _read_bytes(parts: ImageFiles, name: str) -> bytes:
    stream = parts.open(name)
    if stream is None:
        raise ValueError(f"{name} is missing")
    with stream:
        return _read_limited(stream, name)


def _read_limited(stream: IO[bytes], name: str) -> bytes:
    content = stream.read(_MAX_DOCUMENT_BYTES + 1)
    if len(content) > _MAX_DOCUMENT_BYTES:
        raise ValueError(f"{name} is larger than {_MAX_DOCUMENT_BYTES >> 20} MiB")
    return content


def _decompress_layer(packed: _HashingStream) -> IO[bytes]:
    stream = cast("IO[bytes]", packed)
    if packed.head.startswith(_GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    if packed.head == _ZSTD:
        raise ValueError("its layers are packed with zstd; unpack them: skopeo copy --dest-decompress")
    return stream


def _copy_limited(stream: IO[bytes], target: IO[bytes], most_bytes: int) -> str:
    total, size = hashlib.sha256(), 0
    while block := stream.read(_COPY_BYTES):
        size += len(block)
        if size > most_bytes:
            message = f"the image is larger than {most_bytes >> 20} MiB, unpacked; take a smaller one"
            raise ConfigError("image.source_too_large", message)
        total.update(block)
        target.write(block)
    return total.hexdigest()


def _require_digest(value: object) -> str:
    text = _text(value)
    if not _SHA256_PATTERN.fullmatch(text):
        raise ValueError(f"{text[:80]!a} isn't a sha256 digest")
    return text


def _require_table(value: object) -> Table:
    if not isinstance(value, dict):
        raise TypeError("the image is malformed")
    return value


def _require_list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError("the image is malformed")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("the image is malformed")
    return value
