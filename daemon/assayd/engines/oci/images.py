"""A store of unpacked images: addressed by digest, verified once per engine, and never modified.

    <folder>/images/<sha256>/   config.json (its sha256 is the image's id) and rootfs/
    <folder>/names/<name>       the digest of a name
    <folder>/files/             files that images share, as hard links
    <folder>/locks/<sha256>     a shared lock of each engine that uses the image, to prevent its removal

Several engines can share a folder. `imaging` builds the images. `DeduplicatedFiles` stores files that several
images share once, named by the digest of their content:

    <folder>/files/<two digits>/<sha256>       not executable; with a final x: executable

Each image still contains all files below its root, and is verified there. A stored file is compared before
another image shares it, so that damage isn't passed on to other images.
"""

from __future__ import annotations

import fcntl
import filecmp
import hashlib
import json
import os
import re
import secrets
import shutil
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import quote, unquote

from assayd.errors import EngineError
from assayd.imaging.tree import LABEL_FILES, Known, compute_tree_digest, read_folder_entries
from assayd.ports.engine import ImageFacts, ListedImage, build_file_missing_error

_TWO = 2


class DeduplicatedFiles:
    """The folder of shared files. Its methods block, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, path: Path, digest: str, *, program: bool) -> None:
        """Replace a new file by a link to the stored one, or store it for other images.

        If the link can't be created, the image keeps its own copy.
        """
        kept = self._folder / digest[:_TWO] / f"{digest}{'x' if program else ''}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(8)}")
        # The number of links to a file is limited; beyond it, the image keeps its own copy.
        with suppress(OSError):
            if not kept.is_file() or not _is_same_file(path, kept):
                os.link(path, fresh)
                fresh.replace(kept)
            else:
                os.link(kept, fresh)
                fresh.replace(path)
        fresh.unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove the shared files that no image links to."""
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    @staticmethod
    def measure_shared_bytes(roots: Sequence[Path]) -> Mapping[Path, int]:
        """Return the number of bytes of each image that it shares with any of the other images."""
        files = {root: _get_file_sizes(root) for root in set(roots)}
        images_with = Counter(number for sizes in files.values() for number in sizes)
        return {
            root: sum(size for number, size in sizes.items() if images_with[number] > 1)
            for root, sizes in files.items()
        }


def _get_file_sizes(root: Path) -> Mapping[int, int]:
    """Return the size of each file by its inode number."""
    sizes = {}
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # Another process is removing the image.
            if path.is_file() and not path.is_symlink():
                status = path.lstat()
                sizes[status.st_ino] = status.st_size
    return sizes


def _is_same_file(path: Path, kept: Path) -> bool:
    one, other = path.stat(), kept.stat()
    alike = (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
    return alike and filecmp.cmp(path, kept, shallow=False)


_DIGEST_PATTERN = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
_CONFIG_BYTES = 1 << 20
_ROOTFS_FOLDER = "rootfs"
_LOADING_PREFIX, _REMOVAL_PREFIX = ".loading-", ".going-"
_MIN_STALE_AGE_S = 3600.0
_CONFIG = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """A verified image, with its location and the settings that a container inherits.

    `place` contains the device, inode and change time of the root filesystem when it was verified. If one
    of these values changes, the image is verified again.
    """

    digest: str
    folder: Path
    place: tuple[int, int, int]
    arguments: Sequence[str]
    environment: Sequence[str]
    labels: Mapping[str, str]
    size_bytes: int

    @property
    def root(self) -> Path:
        """Return the folder of the root filesystem."""
        return self.folder / _ROOTFS_FOLDER


class ImageStore:
    """A store of images in one folder. Its methods block, and raise EngineError ``image.*``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared = DeduplicatedFiles(folder / "files")
        self._verified: dict[str, StoredImage] = {}
        self._known: Known = {}
        self._verifying = threading.Lock()
        self._locks: dict[str, int] = {}

    @property
    def roots(self) -> Path:
        """Return the folder of all root filesystems: ``<sha256>/rootfs``."""
        return self._folder / "images"

    def prepare(self) -> None:
        """Create the folders of the image store.

        Raises: EngineError ``image.store``.
        """
        try:
            for folder in (
                self._folder,
                *(self._folder / name for name in ("images", "names", "locks", "files")),
            ):
                _make_folder(folder)
        except OSError as problem:
            message = f"can't use {self._folder} for images: {problem.strerror}; see engine.images_dir"
            raise EngineError("image.store", message) from problem

    def find(self, name: str) -> ImageFacts:
        """Return the image with this name or digest, after verification.

        Raises: EngineError ``image.missing``, if it doesn't exist; ``image.damaged``, if its files don't
        match its digest.
        """
        try:
            image = self.get(self._resolve_digest(name))
        except EngineError as problem:
            if problem.code != "image.missing":
                raise
            raise _build_missing_image_error(
                name
            ) from problem  # Its message names a digest, which the reader can't build.
        return ImageFacts(name=name, digest=image.digest, size_bytes=image.size_bytes, labels=image.labels)

    def listed(self) -> list[ListedImage]:
        """Return all named images, verified or unverified."""
        named = []
        for path in sorted((self._folder / "names").glob("*")):
            with suppress(OSError):
                digest = path.read_text(encoding="ascii").strip()
                root = self.roots / digest.removeprefix("sha256:") / _ROOTFS_FOLDER
                size = sum(each.lstat().st_size for each in root.rglob("*") if each.is_file())
                named.append((path.name, digest, root, size, path.stat().st_mtime))
        shared = self._shared.measure_shared_bytes([root for _, _, root, _, _ in named])
        return [
            ListedImage(
                name=unquote(name).removesuffix(":latest"),
                digest=digest,
                size_bytes=size,
                shared_bytes=shared[root],
                loaded_at=loaded_at,
            )
            for name, digest, root, size, loaded_at in named
        ]

    def get_verified(self, digest: str) -> StoredImage | None:
        """Return an image if it was verified and its folder is unchanged, otherwise None. Don't block."""
        image = self._verified.get(digest)
        if image is not None and _get_folder_identity(image.root) != image.place:
            self._verified.pop(digest, None)
            return None
        return image

    def get(self, digest: str) -> StoredImage:
        """Return an image. Verify it at its first use.

        Raises: EngineError ``image.missing``, if it doesn't exist; ``image.damaged``, if its files don't
        match its digest.
        """
        with self._verifying:
            return self.get_verified(digest) or self._verify(digest)

    def _verify(self, digest: str) -> StoredImage:
        found = _DIGEST_PATTERN.fullmatch(digest)
        if found is None:
            raise _build_missing_image_error(digest)
        self._pin_image(found[1])
        image = self._verified[digest] = _verify_image(digest, self.roots / found[1], self._known)
        return image

    def load(self, archive: Path) -> ImageFacts:
        """Unpack an archive in the format of `imaging`, and assign its name. Replace damaged files.

        Raises: EngineError ``image.archive_missing``, if the archive doesn't exist;
        ``image.archive_refused``, if it can't be unpacked.
        """
        if not archive.is_file():
            message = f"image archive {archive.name} doesn't exist; build it first"
            raise EngineError("image.archive_missing", message)
        self.prepare()
        try:
            with tarfile.open(archive, "r:") as tar:
                name, digest = self._unpack(tar)
        except (OSError, tarfile.TarError, ValueError, KeyError, IndexError, TypeError) as problem:
            message = f"{archive.name} can't be unpacked; build it again"
            raise EngineError("image.archive_refused", message) from problem
        self.get(digest)
        self._write_name(name, digest)
        self.collect()
        return self.find(name)

    def file(self, name: str, path: str, most_bytes: int) -> bytes:
        """Return the content of a regular file of an image, without following links.

        Raises: EngineError ``image.file_missing``, if no such file exists, its path contains a link, or it is
        larger than `most_bytes`.
        """
        root = self.get(self._resolve_digest(name)).root
        place = root / path
        leads_away = any(each.is_symlink() for each in (place, *place.relative_to(root).parents))
        if leads_away or not place.is_file() or place.stat().st_size > most_bytes:
            raise build_file_missing_error(name, path, most_bytes)
        return place.read_bytes()

    def forget(self, name: str) -> None:
        """Remove a name, and the images that become unused. Ignore a missing name.

        The caller must ensure that no container of the image is running on this engine.

        Raises: EngineError ``image.in_use``, if another engine uses the image.
        """
        named = self._get_name_path(name)
        if not named.is_file():
            return
        digest = named.read_text(encoding="ascii").strip()
        self._verified.pop(digest, None)
        lock = self._locks.pop(digest.removeprefix("sha256:"), None)
        if lock is not None:
            os.close(lock)
        try:
            with _hold_lock(self._get_lock_path(digest.removeprefix("sha256:")), fcntl.LOCK_EX):
                named.unlink(missing_ok=True)
        except BlockingIOError:
            message = (
                f"image {name} is used by a daemon; stop the daemon, or remove the image from its profiles"
            )
            raise EngineError("image.in_use", message) from None
        self.collect()

    def collect(self) -> None:
        """Remove unnamed images that no engine uses, and shared files that no image links to.

        Also remove partially unpacked images that are older than an hour.
        """
        named = {path.read_text(encoding="ascii").strip() for path in (self._folder / "names").glob("*")}
        for folder in list(self.roots.iterdir()):
            digest = f"sha256:{folder.name}"
            if _DIGEST_PATTERN.fullmatch(digest) and digest not in named and digest not in self._verified:
                with suppress(BlockingIOError), _hold_lock(self._get_lock_path(folder.name), fcntl.LOCK_EX):
                    _remove_image_folder(folder)
            elif folder.name.startswith((_LOADING_PREFIX, _REMOVAL_PREFIX)) and _is_stale(folder):
                shutil.rmtree(folder, ignore_errors=True)
        self._shared.collect()

    def close(self) -> None:
        """Release all images, so that other engines can remove them."""
        for lock in self._locks.values():
            os.close(lock)
        self._locks.clear()
        self._verified.clear()

    def _resolve_digest(self, name: str) -> str:
        if _DIGEST_PATTERN.fullmatch(name):
            return name
        try:
            return self._get_name_path(name).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise _build_missing_image_error(name) from None

    def _get_name_path(self, name: str) -> Path:
        tagged = name if ":" in name else f"{name}:latest"
        return self._folder / "names" / quote(tagged, safe="")

    def _write_name(self, name: str, digest: str) -> None:
        path = self._get_name_path(name)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(digest, encoding="ascii")
        fresh.replace(path)

    def _unpack(self, tar: tarfile.TarFile) -> tuple[str, str]:
        """Unpack an image, unless an undamaged copy exists, and return its name and digest.

        The image is unpacked into a sibling folder, which is then moved into place.
        """
        manifest = json.loads(_read_member(tar, "manifest.json"))[0]
        config = _read_member(tar, manifest["Config"])
        digest = hashlib.sha256(config).hexdigest()
        if not self._is_intact(digest):
            work = Path(tempfile.mkdtemp(prefix=_LOADING_PREFIX, dir=self.roots))
            try:
                root = work / _ROOTFS_FOLDER
                _make_folder(root)
                wanted = json.loads(config)["rootfs"]["diff_ids"]
                for layer, expected in zip(manifest["Layers"], wanted, strict=True):
                    _unpack_layer(tar, layer, expected, root, self._shared)
                (work / _CONFIG).write_bytes(config)
                work.chmod(0o755)
                # Another process was faster; its result is verified.
                with suppress(FileExistsError, OSError):
                    work.rename(self.roots / digest)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return str(manifest["RepoTags"][0]), f"sha256:{digest}"

    def _is_intact(self, digest: str) -> bool:
        """Return whether an image is unpacked and undamaged. If it is damaged, remove it."""
        folder = self.roots / digest
        if not folder.is_dir():
            return False
        try:
            self._verified[f"sha256:{digest}"] = _verify_image(f"sha256:{digest}", folder)
        except EngineError:
            self._verified.pop(f"sha256:{digest}", None)
            _remove_image_folder(folder)
            return False
        return True

    def _get_lock_path(self, digest: str) -> Path:
        return self._folder / "locks" / digest

    def _pin_image(self, digest: str) -> None:
        """Prevent the removal of an image during this engine's lifetime.

        Do nothing if the image doesn't exist.
        """
        if digest not in self._locks and (self.roots / digest).is_dir():
            lock = os.open(self._get_lock_path(digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(lock, fcntl.LOCK_SH)
            self._locks[digest] = lock


def _verify_image(digest: str, folder: Path, known: Known | None = None) -> StoredImage:
    """Return an image after verifying its files against its digest. For `known`, see `read_folder_entries`.

    Raises: EngineError ``image.missing``, if it doesn't exist; ``image.damaged``, if its files differ.
    """
    try:
        config = (folder / _CONFIG).read_bytes()
    except FileNotFoundError:
        raise _build_missing_image_error(digest) from None
    said = json.loads(config) if hashlib.sha256(config).hexdigest() == folder.name else {}
    taken = said.get("config") or {}
    labels = taken.get("Labels") or {}
    try:
        held = compute_tree_digest(read_folder_entries(folder / _ROOTFS_FOLDER, known))
    except OSError:
        held = ""
    if not held or labels.get(LABEL_FILES) != held:
        message = f"image {digest[:19]} in {folder} is damaged; run: assay images build --repair"
        raise EngineError("image.damaged", message)
    return StoredImage(
        digest=digest,
        folder=folder,
        place=_get_folder_identity(folder / _ROOTFS_FOLDER),
        arguments=tuple(taken.get("Entrypoint") or ()) + tuple(taken.get("Cmd") or ()),
        environment=tuple(taken.get("Env") or ()),
        labels=labels,
        size_bytes=_measure_folder_size(folder),
    )


def _measure_folder_size(folder: Path | str) -> int:
    """Return the total bytes of all files below a folder."""
    with os.scandir(folder) as found:
        return sum(
            _measure_folder_size(each.path)
            if each.is_dir(follow_symlinks=False)
            else each.stat(follow_symlinks=False).st_size
            for each in found
            if each.is_dir(follow_symlinks=False) or each.is_file()
        )


def _unpack_layer(
    tar: tarfile.TarFile, name: str, expected: str, root: Path, shared: DeduplicatedFiles
) -> None:
    with _open_member(tar, name) as stream:
        total = hashlib.sha256()
        while block := stream.read(1 << 20):
            total.update(block)
        if f"sha256:{total.hexdigest()}" != expected:
            raise ValueError(f"layer {name} doesn't match the image's digest")
        stream.seek(0)
        with tarfile.open(fileobj=stream, mode="r:") as layer:
            for member in layer:
                _extract_member(layer, member, root, shared)


def _extract_member(
    layer: tarfile.TarFile, member: tarfile.TarInfo, root: Path, shared: DeduplicatedFiles
) -> None:
    """Write an archive member as a file that only root can change, without following links.

    Raises: ValueError, if its path leaves the image or passes through a link, or if it has another type.
    """
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{member.name} points outside the image")
    target = root / path
    if any(parent.is_symlink() for parent in target.parents if parent != root and root in parent.parents):
        raise ValueError(f"{member.name} passes through a link")
    if member.isdir():
        _make_folder(target)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.isreg():
        total = hashlib.sha256()
        with _open_member(layer, member) as stream, target.open("xb") as file:
            while block := stream.read(1 << 20):
                total.update(block)
                file.write(block)
        program = bool(member.mode & 0o100)
        target.chmod(0o555 if program else 0o444)
        shared.share(target, total.hexdigest(), program=program)
    else:
        raise ValueError(f"{member.name} isn't a file, folder or link")


def _make_folder(path: Path) -> None:
    """Create a world-readable folder regardless of the umask. Leave an existing folder unchanged."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def _read_member(tar: tarfile.TarFile, name: str) -> bytes:
    with _open_member(tar, name) as stream:
        return stream.read(_CONFIG_BYTES)


def _open_member(tar: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(member)
    if stream is None:
        raise ValueError(f"{member} isn't a file")
    return stream


@contextmanager
def _hold_lock(path: Path, how: int) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _remove_image_folder(folder: Path) -> None:
    """Remove an image. Rename it first, so that other processes never see an incomplete image."""
    going = folder.with_name(f"{_REMOVAL_PREFIX}{folder.name}")
    shutil.rmtree(going, ignore_errors=True)
    folder.rename(going)
    shutil.rmtree(going)


def _is_stale(folder: Path) -> bool:
    """Return whether a folder is so old that no process can still be writing it."""
    try:
        return time.time() - folder.stat().st_mtime > _MIN_STALE_AGE_S
    except FileNotFoundError:
        return False


def _get_folder_identity(root: Path) -> tuple[int, int, int]:
    """Return the device, inode and change time of a folder; zeros if the folder doesn't exist."""
    try:
        status = root.stat()
    except OSError:
        return 0, 0, 0
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _build_missing_image_error(name: str) -> EngineError:
    short = name.removeprefix("assayd/").removesuffix(":latest")
    return EngineError("image.missing", f"image {name} doesn't exist; run: assay images build {short}")
