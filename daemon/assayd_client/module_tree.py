"""Manages a folder tree of installed modules, ``TREE/CATEGORY/PLATFORM``, which are replaced atomically.

A version is written to a new folder, flushed, and exchanged with the installed version by a single rename,
so that readers see one complete version at any time, even after a crash. The replaced version is kept. A
module's hidden folder `.assayd` contains its record (digests, attempt) and, if the daemon signs verdicts,
the attestation.

Because the tree is treated as hostile, each folder is opened relative to its parent, and symbolic links
aren't followed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from assayd.did_you_mean import format_did_you_mean_hint
from assayd.errors import RequestError, StoreError
from assayd.model.policy import REPORT_ONLY

OWN = ".assayd"
"""The folder for a module's record, and for the lock and the kept versions of a tree."""
RECORD, ATTESTATION = f"{OWN}/record.json", f"{OWN}/attestation.json"
MOST_FILES, MAX_BYTES, MAX_FOLDER_DEPTH = 100, 4 * 2**20, 8
MAX_ENTRIES, MAX_MODULES, MAX_RECORD_BYTES = 1000, 10_000, 2**18
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"[a-z][a-z_]{0,63}/[a-z0-9][a-z0-9_]{0,63}")
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)
_NOREPLACE, _EXCHANGE = 1, 2
"""Flags of renameat2(2)."""

Checkpoint = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPermissions:
    """The exceptional changes that an installation is allowed to make.

    `new_category` allows it to create the category's folder, and `downgrade` to replace a newer version.
    """

    new_category: bool = False
    downgrade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A module to install, with its name (``category/platform``), version, payload and files."""

    name: str
    version: str
    payload: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def input_digest(self) -> str:
        """Return the digest of the module's submission, as the daemon computes it."""
        from assayd.documents.base import canonical, digest

        return digest(canonical({"kind": "module", "payload": self.payload}))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModule:
    """A module as its record describes it. `problems` contains the differences from the files.

    `declared` is the name in the current manifest, and `input_digest` is the digest that the daemon would
    compute from the current files. Both are empty if the files can't be read.
    """

    name: str
    version: str
    record: Mapping[str, Any] = field(default_factory=dict)
    kept: str | None = None
    problems: tuple[str, ...] = ()
    declared: str = ""
    input_digest: str = ""
    attestation: bytes | None = None

    def document(self) -> Mapping[str, object]:
        """Return the module, its record and its problems as a JSON object."""
        facts = {"module": self.name, "version": self.version, "kept": self.kept, "record": self.record}
        return {**facts, "problems": list(self.problems)}


def build_verdict_record(
    attempt: Mapping[str, Any], candidate: Candidate, now: datetime
) -> dict[str, object]:
    """Return an attempt's entry for a module's record, including the time of installation.

    Raises: RequestError ``module.refused``, if the attempt didn't validate the candidate's files.
    """
    if attempt["verdict"] != "validated" or attempt["input_digest"] != candidate.input_digest:
        raise _build_refusal_error(f"attempt {attempt['id']} didn't validate these files")
    if not attempt.get("approvable", True):
        raise _build_refusal_error(f"attempt {attempt['id']}: {REPORT_ONLY}")
    return {
        "attempt_id": attempt["id"],
        "policy": attempt["policy"],
        "input_digest": attempt["input_digest"],
        "validated_at": attempt["finished_at"],
        "installed_at": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }


def read_candidate(folder: Path) -> Candidate:
    """Read the folder of a module, and return the module as a candidate.

    Raises: RequestError ``module.refused`` or ``request.files``, if the folder isn't a valid module.
    """
    with _translate_errors(), _open_folder(folder) as descriptor:
        return _build_candidate(_read_files(descriptor))


def install(
    tree: Path,
    candidate: Candidate,
    record: Mapping[str, object],
    attestation: bytes | None = None,
    allowed: InstallPermissions = InstallPermissions(),
    *,
    checkpoint: Checkpoint = lambda _: None,
) -> str | None:
    """Write a validated module into a tree, and return the version that was replaced, or None.

    Args:
        tree: the folder of all modules.
        candidate: the validated module.
        record: the result of `build_verdict_record`.
        attestation: the signed verdict.
        allowed: whether the installation can create a category's folder or replace a newer version.
        checkpoint: the function that is called at each step, for use in tests.

    Raises: RequestError ``module.refused``; StoreError ``module.not_written``.
    """
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in candidate.files.items()}
    document = {**record, "module": candidate.name, "version": candidate.version, "files": digests}
    content = {**candidate.files, RECORD: json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"}
    if attestation is not None:
        content[ATTESTATION] = attestation
    category, platform = candidate.name.split("/")
    slot = f"{category}.{platform}.{record['attempt_id']}"
    with _translate_errors(), _ModuleTree.open_locked(tree) as held:
        installed = held.check(candidate, allowed)
        _write_files(held.own, f"part.{slot}", content, checkpoint)
        _rename_folder(held.own, f"part.{slot}", held.own, f"new.{slot}", _NOREPLACE)
        checkpoint("staged")
        with _open_or_create(held.descriptor, category) as within:
            flag = _NOREPLACE if installed is None else _EXCHANGE
            _rename_folder(held.own, f"new.{slot}", within, platform, flag)
            checkpoint("exchanged")
            os.fsync(within)
        held.recover(checkpoint)
    return None if installed is None else installed.version


def check(tree: Path, candidate: Candidate, allowed: InstallPermissions = InstallPermissions()) -> None:
    """Ensure that a module can be installed in a tree, without writing anything.

    Raises: RequestError ``module.refused``, if it can't be installed.
    """
    with _translate_errors(), _open_folder(tree) as descriptor:
        _require_owned_folder(descriptor, str(tree))
        _ModuleTree(descriptor, -1, tree).check(candidate, allowed)


def roll_back(tree: Path, name: str) -> tuple[str, str]:
    """Exchange an installed module with its kept version, and return both versions.

    The versions are returned in the order before and after the exchange. Because the replaced version is
    kept, a second call undoes the first. Raises: the same errors as `install`.
    """
    if _NAME.fullmatch(name) is None:
        raise _build_refusal_error(f"{name!r} is not CATEGORY/PLATFORM, like weather/open_meteo")
    category, platform = name.split("/")
    with _translate_errors(), _ModuleTree.open_locked(tree) as held:
        before = held.get_installed(name)
        if before is None:
            close = format_did_you_mean_hint(name, [each.name for each in list_installed_modules(tree)])
            raise _build_refusal_error(f"{name} isn't installed in {tree}{close}")
        after = held.kept(name)
        if after is None:
            raise _build_refusal_error(f"{name}: no earlier version is kept in {tree}")
        if after.problems:
            problems = "; ".join(after.problems)[:500]
            raise _build_refusal_error(
                f"{name}: the kept version {after.version} can't be restored: {problems}"
            )
        with _open_subfolder(held.descriptor, category) as within:
            _rename_folder(held.own, f"kept.{category}.{platform}", within, platform, _EXCHANGE)
            os.fsync(within)
            os.fsync(held.own)
    return before.version, after.version


def list_installed_modules(tree: Path, *, attestations: bool = False) -> list[InstalledModule]:
    """Return the modules of a tree by name, each compared with its record.

    Entries that aren't modules are included with their problem. Attestations are read only on request.
    Raises: the same errors as `install`.
    """
    with _translate_errors(), _open_folder(tree) as descriptor:
        own = -1
        with suppress(FileNotFoundError):
            own = os.open(OWN, _FOLDER_FLAGS, dir_fd=descriptor)
        try:
            found = _ModuleTree(descriptor, own, tree).modules()
            return list(found) if attestations else [replace(each, attestation=None) for each in found]
        finally:
            if own >= 0:
                os.close(own)


class _ModuleTree:
    """An open folder tree of modules.

    `own` is the descriptor of the folder with the tree's lock and kept versions, or -1 without such a
    folder.
    """

    def __init__(self, descriptor: int, own: int, path: Path) -> None:
        self.descriptor, self.own, self._path = descriptor, own, path

    @classmethod
    @contextmanager
    def open_locked(cls, path: Path) -> Iterator[_ModuleTree]:
        """Open a tree under an exclusive lock, and complete an installation that was interrupted."""
        with _open_folder(path) as descriptor:
            _require_owned_folder(descriptor, str(path))
            with _open_or_create(descriptor, OWN) as own:
                lock = os.open(
                    "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=own
                )
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    tree = cls(descriptor, own, path)
                    tree.recover()
                    yield tree
                except BlockingIOError:
                    raise _build_refusal_error(
                        f"another install or rollback in {path} is running; try again"
                    ) from None
                finally:
                    os.close(lock)

    def recover(self, checkpoint: Checkpoint = lambda _: None) -> None:
        """Keep the version that an interrupted installation replaced, and delete unfinished versions.

        The folder ``new.CATEGORY.PLATFORM.ATTEMPT`` contains the attempt's version before the exchange and
        the replaced version afterwards.
        """
        for entry in [name for name in self._list_owned_entries() if name.startswith("new.")]:
            _, category, platform, attempt_id = (*entry.split("."), "", "", "")[:4]
            with _open_subfolder(self.own, entry) as folder:
                was_exchanged = _read_record(folder).get("attempt_id") != attempt_id
            kept = f"kept.{category}.{platform}"
            if not was_exchanged:
                _rename_folder(self.own, entry, self.own, f"old.{entry}", _NOREPLACE)
                continue
            if kept in self._list_owned_entries():
                _rename_folder(self.own, kept, self.own, f"old.{entry}", _NOREPLACE)
                checkpoint("set aside")
            _rename_folder(self.own, entry, self.own, kept, _NOREPLACE)
            checkpoint("kept")
        os.fsync(self.own)
        for entry in self._list_owned_entries():
            if entry.startswith(("old.", "part.")):
                shutil.rmtree(entry, dir_fd=self.own)
        checkpoint("cleaned")

    def _list_owned_entries(self) -> list[str]:
        with os.scandir(self.own) as entries:
            return sorted(each.name for each in entries)

    def check(self, candidate: Candidate, allowed: InstallPermissions) -> InstalledModule | None:
        """Return the module that a candidate would replace. Raises: RequestError ``module.refused``."""
        category, _ = candidate.name.split("/")
        try:
            with _open_subfolder(self.descriptor, category) as within:
                _require_owned_folder(within, f"{self._path}/{category}")
        except FileNotFoundError:
            if allowed.new_category:
                return None
            close = format_did_you_mean_hint(
                category, [name for name, is_file in self._list_entries(self.descriptor) if not is_file]
            )
            message = f"{self._path} has no category {category!r}{close}; pass --new-category to create it"
            raise _build_refusal_error(message) from None
        installed = self.get_installed(candidate.name)
        if installed is None or allowed.downgrade:
            return installed
        if _build_version_key(candidate.version) < _build_version_key(installed.version):
            raise _build_refusal_error(
                f"{candidate.name} {candidate.version} is older than the installed {installed.version}; "
                "pass --allow-downgrade to install it"
            )
        return installed

    def get_installed(self, name: str) -> InstalledModule | None:
        """Return an installed module, or None if its folder doesn't exist. Raises: RequestError."""
        category, platform = name.split("/")
        try:
            with (
                _open_subfolder(self.descriptor, category) as within,
                _open_subfolder(within, platform) as folder,
            ):
                for each, shown in ((within, category), (folder, name)):
                    _require_owned_folder(each, f"{self._path}/{shown}")
                found = _examine_folder(folder, name, self.kept(name))
        except FileNotFoundError:
            return None
        if found.declared != name:
            raise _build_refusal_error(f"{self._path}/{name} isn't the module {name}; move it elsewhere")
        return found

    def kept(self, name: str) -> InstalledModule | None:
        """Return the kept version of a module, or None if there isn't one."""
        if self.own < 0:
            return None
        try:
            with _open_subfolder(self.own, f"kept.{name.replace('/', '.')}") as folder:
                return _examine_folder(folder, name, None)
        except FileNotFoundError:
            return None

    def modules(self) -> Iterator[InstalledModule]:
        """Yield the modules by name, and all stray files. Links are reported but not followed."""
        for category, is_stray in self._list_entries(self.descriptor):
            if is_stray:
                yield _build_stray_entry(category)
                continue
            try:
                with _open_subfolder(self.descriptor, category) as within:
                    for platform, is_file in self._list_entries(within):
                        name = f"{category}/{platform}"
                        yield _build_stray_entry(name) if is_file else self._examine_module(within, name)
            except OSError as problem:
                yield InstalledModule(name=category, version="", problems=(_describe_problem(problem),))

    def _examine_module(self, within: int, name: str) -> InstalledModule:
        try:
            with _open_subfolder(within, name.partition("/")[2]) as folder:
                return _examine_folder(folder, name, self.kept(name))
        except OSError as problem:
            return InstalledModule(name=name, version="", problems=(_describe_problem(problem),))

    def _list_entries(self, descriptor: int) -> list[tuple[str, bool]]:
        """Return each name in a folder and whether it is a file, without hidden files and caches."""
        with os.scandir(descriptor) as entries:
            found = list(islice(entries, MAX_MODULES + 1))
            if len(found) > MAX_MODULES:
                raise _build_refusal_error(f"a folder of {self._path} has more than {MAX_MODULES} entries")
            shown = [each for each in found if not each.name.startswith(".") and each.name != "__pycache__"]
            return sorted((each.name, not (each.is_symlink() or each.is_dir())) for each in shown)


def _build_stray_entry(name: str) -> InstalledModule:
    return InstalledModule(name=name, version="", problems=("was added: it isn't the folder of a module",))


def _examine_folder(folder: int, name: str, kept: InstalledModule | None) -> InstalledModule:
    """Return the module in a folder, compared with its record."""
    kept_version = None if kept is None else kept.version
    record = _read_record(folder)
    try:
        candidate = _build_candidate(_read_files(folder))
    except RequestError as problem:
        version = str(record.get("version", ""))[:32]
        return InstalledModule(name=name, version=version, kept=kept_version, problems=(problem.message,))
    return InstalledModule(
        name=name,
        version=candidate.version,
        record=record,
        kept=kept_version,
        problems=tuple(_find_differences(candidate, name, record)),
        declared=candidate.name,
        input_digest=candidate.input_digest,
        attestation=_read_content(folder, ATTESTATION, MAX_RECORD_BYTES),
    )


def _find_differences(candidate: Candidate, name: str, record: Mapping[str, Any]) -> Iterator[str]:
    if not record:
        yield "has no record: it wasn't installed by `assay module install`"
        return
    if candidate.name != name:
        yield f"is the module {candidate.name}"
    if candidate.input_digest == record.get("input_digest"):
        return
    digests = record.get("files")
    digests = digests if isinstance(digests, dict) else {}
    yield from (f"{file} is missing" for file in sorted(digests.keys() - candidate.files.keys()))
    yield from (f"{file} was added" for file in sorted(candidate.files.keys() - digests.keys()))
    for file, content in sorted(candidate.files.items()):
        if file in digests and hashlib.sha256(content).hexdigest() != digests[file]:
            yield f"{file} was changed"


def _build_candidate(files: Mapping[str, bytes]) -> Candidate:
    from assayd.kinds.module.command_line import from_files
    from assayd.ports.command_line import FileOptions

    payload = from_files(files, FileOptions())
    manifest: Any = payload["manifest"]
    fields = {key: str(manifest.get(key)) for key in ("module_id", "category", "platform", "version")}
    name = f"{fields['category']}/{fields['platform']}"
    if _NAME.fullmatch(name) is None or _VERSION.fullmatch(fields["version"]) is None:
        form = "category and platform must be lowercase words that don't begin with _, version like 1.0.0"
        raise _build_refusal_error(f"manifest: {name} {fields['version']}: {form}")
    if fields["module_id"] != name:
        raise _build_refusal_error(
            f"manifest: module_id is {fields['module_id']!r}, category and platform say {name!r}"
        )
    return Candidate(name=name, version=fields["version"], payload=payload, files=files)


def _build_version_key(version: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(version)
    return tuple(map(int, found.groups())) if found else ()


def _read_files(folder: int, prefix: str = "", depth: int = 1) -> dict[str, bytes]:
    """Read the files in a folder, except hidden files and caches.

    Raises: RequestError ``module.refused``, for links and exceeded limits; OSError.
    """
    files: dict[str, bytes] = {}
    with os.scandir(folder) as entries:
        found = sorted(islice(entries, MAX_ENTRIES + 1), key=lambda each: each.name)
    if len(found) > MAX_ENTRIES:
        raise _build_refusal_error(f"{prefix or 'the folder'} has more than {MAX_ENTRIES} entries")
    for entry in found:
        name = f"{prefix}{entry.name}"
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_symlink():
            raise _build_refusal_error(f"{name} is a symbolic link; replace it by the file")
        if entry.is_dir(follow_symlinks=False):
            if depth == MAX_FOLDER_DEPTH:
                raise _build_refusal_error(f"{name}: folders are more than {MAX_FOLDER_DEPTH} deep")
            with _open_subfolder(folder, entry.name) as inner:
                files |= _read_files(inner, f"{name}/", depth + 1)
        else:
            content = _read_content(folder, entry.name)
            if content is None:
                raise _build_refusal_error(f"{name} isn't a regular file")
            files[name] = content
        if len(files) > MOST_FILES or sum(map(len, files.values())) > MAX_BYTES:
            raise _build_refusal_error(f"a module has at most {MOST_FILES} files and {MAX_BYTES >> 20} MiB")
    return files


def _read_content(folder: int, name: str, most_bytes: int = MAX_BYTES) -> bytes | None:
    """Return a file's content, truncated above the limit, or None if no regular file has this name."""
    *folders, last = name.split("/")
    try:
        if folders:
            with _open_subfolder(folder, folders[0]) as inner:
                return _read_content(inner, "/".join((*folders[1:], last)), most_bytes)
        descriptor = os.open(last, _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(most_bytes + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _read_record(folder: int) -> Mapping[str, Any]:
    """Return the record of a module, or an empty mapping if the record is missing or unreadable."""
    try:
        found = json.loads(_read_content(folder, RECORD, MAX_RECORD_BYTES) or b"{}")
    except (ValueError, RecursionError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_files(parent: int, name: str, files: Mapping[str, bytes], checkpoint: Checkpoint) -> None:
    """Write files durably into a new folder, and remove the folder if writing fails."""
    try:
        with _open_or_create(parent, name) as folder:
            for path, content in files.items():
                *folders, last = path.split("/")
                _write_nested_file(folder, folders, last, content)
                checkpoint("file")
    except BaseException:
        shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
        raise


def _write_nested_file(folder: int, folders: list[str], last: str, content: bytes) -> None:
    if folders:
        with _open_or_create(folder, folders[0]) as inner:
            _write_nested_file(inner, folders[1:], last, content)
        return
    with os.fdopen(os.open(last, _NEW_FILE_FLAGS, 0o644, dir_fd=folder), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.fsync(folder)


def _rename_folder(source: int, old: str, target: int, new: str, flag: int) -> None:
    """Atomically rename a folder without replacing an existing one, or exchange two folders."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None or call(source, os.fsencode(old), target, os.fsencode(new), flag):
        number = errno.ENOSYS if call is None else ctypes.get_errno()
        if number in {errno.EINVAL, errno.ENOSYS, errno.EXDEV}:
            message = "the file system of the tree can't exchange two folders in one step; use a local one"
            raise StoreError("module.not_written", message)
        raise OSError(number, os.strerror(number), new)


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_subfolder(parent: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _open_or_create(parent: int, name: str) -> Iterator[int]:
    """Open a folder that the caller owns, and create it if it doesn't exist."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
        os.fsync(parent)
    with _open_subfolder(parent, name) as descriptor:
        _require_owned_folder(descriptor, name)
        yield descriptor


def _require_owned_folder(descriptor: int, shown: str) -> None:
    """Raise RequestError if another user owns a folder, or if all users can write to the folder."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise _build_refusal_error(f"{shown} belongs to the user with id {found.st_uid}, not to you")
    if found.st_mode & stat.S_IWOTH:
        raise _build_refusal_error(f"all users can write to {shown}; remove that permission first: chmod o-w")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise RequestError in place of an OSError about an unusable path, and StoreError for any other."""
    try:
        yield
    except OSError as problem:
        if problem.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EACCES}:
            raise _build_refusal_error(_describe_problem(problem)) from problem
        message = f"{problem.filename}: {problem.strerror}; each module of the tree is still whole; try again"
        raise StoreError("module.not_written", message) from problem


def _describe_problem(problem: OSError) -> str:
    if problem.errno in {errno.ELOOP, errno.ENOTDIR}:
        return f"{problem.filename} is a symbolic link or not a folder"
    return f"{problem.filename}: {problem.strerror}"


def _build_refusal_error(message: str) -> RequestError:
    return RequestError("module.refused", message)
