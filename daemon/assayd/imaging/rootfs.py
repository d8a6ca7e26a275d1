"""Builds a root folder from the packages' files: removes and adds files, and compiles Python.

The recipe's allowlist decides which programs stay. `archive` sets modes, owners and times.
"""

import os
import re
import shutil
import tarfile
from collections.abc import Sequence, Set
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging import guest_file
from assayd.imaging.command import run_command
from assayd.imaging.recipe import Recipe
from assayd.imaging.tree import glob_in_root, list_library_files, resolve_in_root

GUEST_UID = 10001
"""Numeric user and group of all processes in a container."""
SANDBOX = "sandbox"
"""The folder on which the engine mounts the only writable file system."""
GUEST_PACKAGE = "assayd_guest"
GUEST_FILE = "usr/lib/assayd/guest.pyc"
"""The file that the entry points of images with guest code start."""

_PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "usr/libexec", "usr/games")
# The engine mounts or creates these.
_MOUNT_POINTS = ("dev", "proc", "sys", "run", SANDBOX)
_CERTIFICATES = "usr/share/ca-certificates"
_CA_BUNDLE_FILE = "etc/ssl/certs/ca-certificates.crt"
_COMPILE_TIMEOUT_S = 600
# E.g. libm.so.6, ld-linux-x86-64.so.2, libaio.so.1t64.0.2; not run.so-1.
_LIBRARY_PATTERN = re.compile(r"\.so(\.[0-9][0-9a-z]*)*\Z")

GUEST_ACCOUNT = {
    "etc/passwd": f"guest:x:{GUEST_UID}:{GUEST_UID}:guest:/{SANDBOX}:/nonexistent\n",
    "etc/group": f"guest:x:{GUEST_UID}:\n",
}
"""The account lines of the only user in a container."""
_ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/:/nonexistent\n{GUEST_ACCOUNT['etc/passwd']}",
    "etc/group": f"root:x:0:\n{GUEST_ACCOUNT['etc/group']}",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def unpack_packages(packages: Path, root: Path) -> None:
    """Unpack the packages' tar file into the new folder `root`."""
    with tarfile.open(packages) as tar:
        # Keeps links that point outside, which are correct inside the image; missing in the first 3.11
        # releases.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(root)  # noqa: S202 - mmdebstrap wrote it


def prune_files(root: Path, recipe: Recipe) -> list[str]:
    """Remove excluded files and unlisted programs, and return the removed programs' paths.

    Raises:
        ConfigError: ``image.executable_missing``, if no package has a listed program.
    """
    for pattern in recipe.drop:
        for path in glob_in_root(root, pattern):
            _remove_path(path)
    kept = set(recipe.executables)
    removed = []
    for folder in _PROGRAM_FOLDERS:
        for path in glob_in_root(root, f"{folder}/*"):
            name = path.relative_to(root).as_posix()
            if name not in kept:
                removed.append(name)
                _remove_path(path)
    removed += disable_programs(root, kept)
    _remove_dangling_links(root)
    for name in recipe.executables:
        if not resolve_in_root(root, name).exists():
            raise ConfigError(
                "image.executable_missing", f"image {recipe.name!r}: no package contains /{name}"
            )
    return removed


def add_system_files(root: Path, recipe: Recipe) -> None:
    """Add mount points, accounts, and the recipe's links and scripts, because package scripts don't run."""
    for name in _MOUNT_POINTS:
        resolve_in_root(root, name).mkdir(parents=True, exist_ok=True)
    link_tmp(root)
    for name, content in _ACCOUNTS.items():
        write_image_file(root, name, content.encode())
    for name, target in recipe.links:
        for link in _expand_link_paths(root, name, target):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    for name, content in recipe.scripts:
        write_image_file(root, name, content.encode()).chmod(0o755)
    if recipe.ca_bundle:
        names = (path.relative_to(root) for path in glob_in_root(root, f"{_CERTIFICATES}/**/*.crt"))
        write_image_file(
            root, _CA_BUNDLE_FILE, b"".join(resolve_in_root(root, name).read_bytes() for name in names)
        )


def link_tmp(root: Path) -> None:
    """Link /tmp to the sandbox's tmp/, because programs need a writable /tmp and the root is read-only."""
    _remove_path(root / "tmp")
    (root / "tmp").symlink_to(f"/{SANDBOX}/tmp")  # noqa: S108 - of the image


def write_guest(guest: Path, system: Path, root: Path, recipe: Recipe, file: str = GUEST_FILE) -> None:
    """Write the compiled guest code into `root` as one file. `root` can otherwise be empty.

    Args:
        guest: the folder of the sources.
        system: the root folder with the interpreter.
        root: the root folder for the file.
        recipe: the recipe, which names the interpreter.
        file: the path in `root`.
    """
    target = root / file
    target.parent.mkdir(parents=True)
    script = str(Path(guest_file.__file__).resolve())
    arguments = [
        str(guest.resolve()),
        GUEST_PACKAGE,
        f"/{file.removesuffix('.pyc')}",
        str(target.resolve()),
    ]
    _run_python(system, recipe, [script, *arguments])


def copy_library(library: Path, root: Path, folder: str) -> None:
    """Copy a library folder's files to their location below `root`, which can otherwise be empty."""
    for name, path in list_library_files(library):
        write_image_file(root, f"{folder}/{name}", path.read_bytes())


def compile_python(system: Path, root: Path, folders: Sequence[str], recipe: Recipe) -> None:
    """Compile the Python files below `folders` of `root` with the interpreter of the image.

    The bytecode is marked as unchecked: it contains no file times, and imports don't compare it with the
    source. A single process compiles all files in sorted order, because earlier compilations affect the
    reference flags in the bytecode.

    Args:
        system: the root folder with the interpreter.
        root: the root folder of the files, which can differ from `system`.
        folders: folders relative to `root`; missing ones are skipped.
        recipe: the recipe, which names the interpreter.
    """
    present = [str(path) for path in (resolve_in_root(root, folder) for folder in folders) if path.is_dir()]
    options = ["-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    options += ["-e", str(root)]  # Skips links to this machine's files.
    _run_python(system, recipe, ["-m", "compileall", *options, *present])


def read_python_version(system: Path, recipe: Recipe) -> str:
    """Return the full version of the image's interpreter, e.g. ``3.11.2``."""
    return _run_python(system, recipe, ["-c", "import platform; print(platform.python_version())"]).strip()


def _run_python(system: Path, recipe: Recipe, arguments: Sequence[str]) -> str:
    """Run the image's interpreter with the image's dynamic loader, and return its output.

    It runs without root privileges or a chroot.

    Raises: ConfigError ``image.python_broken``, if the loader is missing or the interpreter fails.
    """
    # The real file: /lib64/ld-linux… is an absolute link, which would lead to this machine's loader.
    found = next(iter(glob_in_root(system, "usr/lib/*/ld-linux*.so*")), None)
    if found is None:
        raise ConfigError("image.python_broken", f"image {recipe.name!r} has no dynamic loader")
    loader = resolve_in_root(system, found.relative_to(system))
    command = [str(loader), "--inhibit-cache", "--library-path", str(found.parent)]
    command += [str(resolve_in_root(system, f"usr/bin/python{recipe.python}")), "-S", "-s", *arguments]
    settings = {"PYTHONHOME": str(system / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**settings, "LANG": "C.UTF-8"}
    return run_command(
        command, code="image.python_broken", timeout_s=_COMPILE_TIMEOUT_S, environment=environment
    )


def _expand_link_paths(root: Path, name: str, target: str) -> list[Path]:
    """Return the paths of a link. A ``*`` matches each folder that contains the link's target."""
    path = PurePosixPath(name)
    if "*" not in name:
        return [resolve_in_root(root, path.parent) / path.name]
    folders = [found.relative_to(root) for found in glob_in_root(root, str(path.parent))]
    return [
        resolve_in_root(root, each) / path.name
        for each in folders
        if resolve_in_root(root, each / target).is_file()
    ]


def disable_programs(root: Path, kept: Set[str] = frozenset()) -> list[str]:
    """Remove compiled programs that aren't in `kept`. Clear the execute bit of scripts that aren't in it.

    Return the paths of the removed programs.
    """
    removed = []
    for folder, _, files in os.walk(root):
        for path in (Path(folder, name) for name in files):
            if path.is_symlink() or not path.stat().st_mode & 0o111:
                continue
            # The loader and the C library are both library and program.
            if _LIBRARY_PATTERN.search(path.name) or path.relative_to(root).as_posix() in kept:
                continue
            with path.open("rb") as stream:
                compiled = stream.read(4) == b"\x7fELF"
            if compiled:
                removed.append(path.relative_to(root).as_posix())
                path.unlink()
            else:
                path.chmod(0o644)
    return removed


def _remove_dangling_links(root: Path) -> None:
    """Remove links whose target was removed."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            if path.is_symlink() and not resolve_in_root(root, path.relative_to(root)).exists():
                path.unlink()


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_image_file(root: Path, name: str, content: bytes) -> Path:
    """Write a non-executable file of the image, create its parent folders, and return its path."""
    path = resolve_in_root(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # Also discards the mode of a former program.
    path.write_bytes(content)
    return path
