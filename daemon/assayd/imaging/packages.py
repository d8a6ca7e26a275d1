"""Fetches the distribution's packages through this machine's apt configuration.

This module selects the machine's package sources (the distribution's own, if apt trusts them) and runs
mmdebstrap, which fetches and unpacks packages. The module contains no addresses, because the machine
configures sources, proxies and lists.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import ConfigError
from assayd.imaging.command import build_plain_environment, run_command
from assayd.imaging.inventory import Package, detect_distribution, parse_debian_package
from assayd.imaging.tree import compute_digest

Progress = Callable[[str], None]

# The apt settings of the machine that affect fetching.
_FETCH_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::GzipIndexes")
# Architectures that the distribution and the engine name differently.
_ENGINE_NAMES = {"armhf": "arm", "armel": "arm", "i386": "386", "ppc64el": "ppc64le", "mips64el": "mips64le"}
# Packages still contain files in /bin and /lib, which are links since Debian 12.
_MERGE_USR = 'for name in bin sbin lib lib64; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
_FETCH_TIMEOUT_S = 1800
_DPKG_FORMAT = r"${Package}\t${Version}\t${Architecture}\t${source:Package}\n"
# mmdebstrap lists the package files in MMDEBSTRAP_ESSENTIAL, below the root folder. A line with tabs is a
# package; its files follow.
_LIST = (
    'for deb in $MMDEBSTRAP_ESSENTIAL; do dpkg-deb --show --showformat={shown} "$1/$deb"; '
    'dpkg-deb --fsys-tarfile "$1/$deb" | tar --list --quoting-style=literal; done >{listing}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """A package source of the machine, with apt's package lists for the source."""

    line: str
    lists: tuple[Path, ...]
    release: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedPackage:
    """An unpacked package, with the paths of its files."""

    package: Package
    files: list[str]


def require_mmdebstrap(progress: Progress) -> None:
    """Check that mmdebstrap is installed. As root on a Debian-like system, install it if necessary.

    Raises:
        ConfigError: ``image.tool_missing``, with the required action.
    """
    if shutil.which("mmdebstrap"):
        return
    if not can_refresh_package_lists():
        raise ConfigError(
            "image.tool_missing", "building images needs mmdebstrap: 'apt-get install mmdebstrap'"
        )
    progress("installing mmdebstrap from the distribution")
    options = ["-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends"]
    _run_command(["apt-get", "install", *options, "mmdebstrap"])


def refresh_package_lists(progress: Progress) -> None:
    """Update apt's package lists, which requires root. A failure is only reported to `progress`."""
    progress("refreshing the package lists (apt-get update)")
    try:
        _run_command(["apt-get", "-qq", "update"])
    # One of many sources may be unavailable; the next step fails if its packages are needed.
    except ConfigError as error:
        progress(f"can't refresh all package lists: {error}")


def list_apt_sources() -> list[PackageSource]:
    """Return the distribution's own package sources for which apt has lists.

    Raises: ConfigError ``image.tool_missing``, if apt is missing.
    """
    if not shutil.which("apt-get"):
        message = "building images needs a Debian-like system; apt is missing"
        raise ConfigError("image.tool_missing", message)
    vendor = _read_os_release().get("ID", "debian").lower()
    native = _run_command(["dpkg", "--print-architecture"]).strip()
    return parse_apt_targets(
        _run_command(["apt-get", "indextargets", "Created-By: Packages"]), vendor, native
    )


def parse_apt_targets(targets: str, vendor: str, architecture: str) -> list[PackageSource]:
    """Return the vendor's trusted sources for one architecture, from the output of `apt-get indextargets`."""
    found: dict[str, PackageSource] = {}
    for paragraph in targets.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
        ours = fields.get("Origin", "").lower() == vendor and fields.get("Architecture") == architecture
        # A flat repository has no component; distributions always have one.
        if ours and fields.get("Trusted") == "yes" and fields.get("Component"):
            source = _parse_source(fields)
            found[source.line] = source
    return list(found.values())


def compute_package_lists_digest(sources: Sequence[PackageSource]) -> str:
    """Return a digest that changes with the package lists."""
    files = [path for source in sources for path in source.release or source.lists]
    return compute_digest((path.name, path.read_bytes()) for path in sorted(set(files)))


def get_engine_architecture() -> str:
    """Return this machine's architecture under its name in the container engine."""
    native = _run_command(["dpkg", "--print-architecture"]).strip()
    return _ENGINE_NAMES.get(native, native)


def extract_packages(
    packages: Sequence[str], sources: Sequence[PackageSource], work: Path, progress: Progress
) -> tuple[Path, list[ExtractedPackage]]:
    """Fetch packages with their dependencies. Return a tar file, and the list of files per package.

    No code of the packages is run.

    Raises:
        ConfigError: ``image.packages_failed``, if a package doesn't exist or can't be fetched.
    """
    settings = work / "apt.conf"
    settings.write_text(_build_fetch_settings())
    listing = work / "sources.list"
    listing.write_text("".join(f"{source.line}\n" for source in sources))
    lists = [str(path) for source in sources for path in source.lists + source.release]
    tar, listed = work / "packages.tar", work / "packages.txt"
    listing_hook = _LIST.format(shown=shlex.quote(_DPKG_FORMAT), listing=shlex.quote(str(listed)))
    progress(f"fetching and unpacking {', '.join(packages)}")
    command = ["mmdebstrap", "--variant=extract", "--format=tar"]
    if os.geteuid() != 0:  # No package script runs, so root isn't needed.
        command += ["--mode=chrootless"]
    command += [f"--include={','.join(packages)}"]
    command += ["--skip=update,output/dev,chroot/mount", f"--aptopt={settings}", f"--setup-hook={_MERGE_USR}"]
    # Use the machine's own lists instead of fetching them again, to get what apt would install here.
    command += [f'--setup-hook=cp -t "$1/var/lib/apt/lists" {shlex.join(sorted(set(lists)))}']
    command += [f"--extract-hook={listing_hook}"]
    try:
        _run_command([*command, "", str(tar), str(listing)], temporary=work)
    except ConfigError as error:
        message = f"can't fetch the packages; try 'apt-get update'. {error.message}"
        raise ConfigError("image.packages_failed", message, retryable=True) from error
    return tar, _parse_listing(listed.read_text(), detect_distribution(Path("/")))


def _parse_listing(listing: str, system: str) -> list[ExtractedPackage]:
    found: list[ExtractedPackage] = []
    for line in listing.splitlines():
        if "\t" in line:
            shown = dict(zip(("Package", "Version", "Architecture", "Source"), line.split("\t"), strict=True))
            if (package := parse_debian_package(shown, system)) is None:
                raise ConfigError("image.packages_failed", f"dpkg-deb shows a package as {line[:200]!a}")
            found.append(ExtractedPackage(package=package, files=[]))
        elif not line.endswith("/"):
            found[-1].files.append(line.removeprefix("./"))
    return found


def _parse_source(fields: dict[str, str]) -> PackageSource:
    packages = Path(fields["Filename"])
    # Lists are named <address>_<component>_<…>_Packages, the release file next to them <address>_InRelease.
    prefix = packages.name.partition("_" + fields["MetaKey"].replace("/", "_"))[0]
    release = [packages.with_name(f"{prefix}_{name}") for name in ("InRelease", "Release", "Release.gpg")]
    return PackageSource(
        # The machine's apt has verified these lists.
        line=f"deb [trusted=yes] {fields['Repo-URI']} {fields['Release']} {fields['Component']}",
        lists=(packages,),
        release=tuple(path for path in release if path.is_file()),
    )


def _build_fetch_settings() -> str:
    lines = [
        line for line in _run_command(["apt-config", "dump"]).splitlines() if line.startswith(_FETCH_SETTINGS)
    ]
    lines += ['Acquire::Languages "none";']
    lines += ['Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";']
    return "\n".join(lines) + "\n"


def _read_os_release() -> dict[str, str]:
    text = Path("/etc/os-release").read_text()
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def can_refresh_package_lists() -> bool:
    """Return whether this process can call `refresh_package_lists`."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _run_command(command: Sequence[str], temporary: Path | None = None) -> str:
    # mmdebstrap creates its root folder below TMPDIR, so that this code can always remove it.
    environment = build_plain_environment() | ({"TMPDIR": str(temporary)} if temporary else {})
    return run_command(command, code="image.tool_failed", timeout_s=_FETCH_TIMEOUT_S, environment=environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolders:
    """The folder of an image, a temporary folder inside it, and the progress callback."""

    folder: Path
    work: Path
    progress: Progress


@contextlib.contextmanager
def lock_build_folders(folder: Path, progress: Progress) -> Iterator[BuildFolders]:
    """Wait for the exclusive lock of an image's folder, and hold it for the `with` block.

    Yield the folder with a temporary folder, which is removed at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as work:
            yield BuildFolders(folder=folder, work=Path(work), progress=progress)
