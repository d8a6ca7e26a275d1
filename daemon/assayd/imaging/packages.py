"""The distribution's packages, fetched through this machine's own apt configuration.

Decides which of the machine's package sources count (the distribution's own, as far as apt trusts them) and
lets mmdebstrap fetch and unpack. No address is written here: sources, proxies and lists are the machine's.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import ConfigError
from assayd.imaging.command import plain_environment, run
from assayd.imaging.digest import digest_of
from assayd.imaging.inventory import Package, debian_package, system_of

Progress = Callable[[str], None]

# What of the machine's apt settings matters for fetching.
_FETCH_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::GzipIndexes")
# Architectures whose names differ between the distribution and the engine.
_ENGINE_NAMES = {"armhf": "arm", "armel": "arm", "i386": "386", "ppc64el": "ppc64le", "mips64el": "mips64le"}
# Packages still name files in /bin and /lib, which are links since Debian 12.
_MERGE_USR = 'for name in bin sbin lib lib64; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
_FETCH_TIMEOUT_S = 1800
_SHOWN = r"${Package}\t${Version}\t${Architecture}\t${source:Package}\n"
# mmdebstrap names the packages' files in MMDEBSTRAP_ESSENTIAL, below the root folder. A line with tabs is a
# package, those after it are its files.
_LIST = (
    'for deb in $MMDEBSTRAP_ESSENTIAL; do dpkg-deb --show --showformat={shown} "$1/$deb"; '
    'dpkg-deb --fsys-tarfile "$1/$deb" | tar --list --quoting-style=literal; done >{listing}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One package source of the machine, with the lists that apt has of it."""

    line: str
    lists: tuple[Path, ...]
    release: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """A package that was unpacked, with the paths of its files."""

    package: Package
    files: list[str]


def require_mmdebstrap(progress: Progress) -> None:
    """Check for mmdebstrap; as root on a Debian-like system, install it.

    Raises:
        ConfigError: ``image.tool_missing``, with the remedy.
    """
    if shutil.which("mmdebstrap"):
        return
    if not _is_root_with_apt():
        raise ConfigError(
            "image.tool_missing", "building images needs mmdebstrap: 'apt-get install mmdebstrap'"
        )
    progress("installing mmdebstrap from the distribution")
    options = ["-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends"]
    _run(["apt-get", "install", *options, "mmdebstrap"])


def refresh(progress: Progress) -> None:
    """Bring apt's package lists up to date; only root can."""
    progress("refreshing the package lists (apt-get update)")
    try:
        _run(["apt-get", "-qq", "update"])
    except ConfigError as error:  # one source of many may be down; what is missing shows in the next step
        progress(f"can't refresh all package lists: {error}")


def can_refresh() -> bool:
    """Return whether `refresh` is possible for us."""
    return _is_root_with_apt()


def apt_sources() -> list[Source]:
    """List the distribution's own sources among those that apt has lists of.

    Raises: ConfigError ``image.tool_missing``.
    """
    if not shutil.which("apt-get"):
        message = "building images needs a Debian-like system; apt is missing"
        raise ConfigError("image.tool_missing", message)
    vendor = _os_release().get("ID", "debian").lower()
    native = _run(["dpkg", "--print-architecture"]).strip()
    return read_targets(_run(["apt-get", "indextargets", "Created-By: Packages"]), vendor, native)


def read_targets(targets: str, vendor: str, architecture: str) -> list[Source]:
    """Pick the vendor's trusted sources for one architecture out of what `apt-get indextargets` prints."""
    found: dict[str, Source] = {}
    for paragraph in targets.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
        ours = fields.get("Origin", "").lower() == vendor and fields.get("Architecture") == architecture
        # A flat repository has no component, and no distribution has one.
        if ours and fields.get("Trusted") == "yes" and fields.get("Component"):
            source = _source(fields)
            found[source.line] = source
    return list(found.values())


def lists_state(sources: Sequence[Source]) -> str:
    """Return a digest that changes when the package lists do."""
    files = [path for source in sources for path in source.release or source.lists]
    return digest_of((path.name, path.read_bytes()) for path in sorted(set(files)))


def engine_architecture() -> str:
    """Return this machine's architecture under the engine's name for it."""
    native = _run(["dpkg", "--print-architecture"]).strip()
    return _ENGINE_NAMES.get(native, native)


def extract(
    packages: Sequence[str], sources: Sequence[Source], work: Path, progress: Progress
) -> tuple[Path, list[Extracted]]:
    """Fetch packages with all they depend on; return a tar file of their files, and what each brought.

    Nothing of them is run.

    Raises:
        ConfigError: ``image.packages_failed``, when a package does not exist or cannot be fetched.
    """
    settings = work / "apt.conf"
    settings.write_text(_fetch_settings())
    listing = work / "sources.list"
    listing.write_text("".join(f"{source.line}\n" for source in sources))
    lists = [str(path) for source in sources for path in source.lists + source.release]
    tar, listed = work / "packages.tar", work / "packages.txt"
    listing_hook = _LIST.format(shown=shlex.quote(_SHOWN), listing=shlex.quote(str(listed)))
    progress(f"fetching and unpacking {', '.join(packages)}")
    command = ["mmdebstrap", "--variant=extract", "--format=tar"]
    if os.geteuid() != 0:  # no script of a package is run, so that nothing needs root
        command += ["--mode=chrootless"]
    command += [f"--include={','.join(packages)}"]
    command += ["--skip=update,output/dev,chroot/mount", f"--aptopt={settings}", f"--setup-hook={_MERGE_USR}"]
    # The machine's own lists, instead of fetching them again: what is built is what apt here would install.
    command += [f'--setup-hook=cp -t "$1/var/lib/apt/lists" {shlex.join(sorted(set(lists)))}']
    command += [f"--extract-hook={listing_hook}"]
    try:
        _run([*command, "", str(tar), str(listing)], temporary=work)
    except ConfigError as error:
        message = f"can't fetch the packages; try 'apt-get update'. {error.message}"
        raise ConfigError("image.packages_failed", message, retryable=True) from error
    return tar, _extracted(listed.read_text(), system_of(Path("/")))


def _extracted(listing: str, system: str) -> list[Extracted]:
    found: list[Extracted] = []
    for line in listing.splitlines():
        if "\t" in line:
            shown = dict(zip(("Package", "Version", "Architecture", "Source"), line.split("\t"), strict=True))
            if (package := debian_package(shown, system)) is None:
                raise ConfigError("image.packages_failed", f"dpkg-deb shows a package as {line[:200]!a}")
            found.append(Extracted(package=package, files=[]))
        elif not line.endswith("/"):
            found[-1].files.append(line.removeprefix("./"))
    return found


def _source(fields: dict[str, str]) -> Source:
    packages = Path(fields["Filename"])
    # Lists are called <address>_<component>_<…>_Packages, the release file beside them <address>_InRelease.
    prefix = packages.name.partition("_" + fields["MetaKey"].replace("/", "_"))[0]
    release = [packages.with_name(f"{prefix}_{name}") for name in ("InRelease", "Release", "Release.gpg")]
    return Source(
        # apt of the machine has verified the lists that are used here.
        line=f"deb [trusted=yes] {fields['Repo-URI']} {fields['Release']} {fields['Component']}",
        lists=(packages,),
        release=tuple(path for path in release if path.is_file()),
    )


def _fetch_settings() -> str:
    lines = [line for line in _run(["apt-config", "dump"]).splitlines() if line.startswith(_FETCH_SETTINGS)]
    lines += ['Acquire::Languages "none";']
    lines += ['Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";']
    return "\n".join(lines) + "\n"


def _os_release() -> dict[str, str]:
    text = Path("/etc/os-release").read_text()
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}


def _is_root_with_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _run(command: Sequence[str], temporary: Path | None = None) -> str:
    # mmdebstrap makes its root folder below TMPDIR, which is ours to remove whatever happens.
    environment = plain_environment() | ({"TMPDIR": str(temporary)} if temporary else {})
    return run(command, code="image.tool_failed", timeout_s=_FETCH_TIMEOUT_S, environment=environment)
