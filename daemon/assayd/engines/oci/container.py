"""A container of the OCI engine, and its differences from the requested one.

Records of containers are kept in a folder if the daemon exits. A record is written before its control group
is created, so that the reaper finds all leftovers.

`read_process_facts` reads the kernel's facts about a container's first process, and `find_differences`
compares them with the request. The process is inspected once its program has sent data, because its
capabilities and filters are final only then.

Source: proc(5), namespaces(7), capabilities(7).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from assayd.engines.oci.cgroup import ControlGroup, read_text
from assayd.engines.oci.config import (
    CAPABILITIES,
    CGROUPS_PATH,
    DEVICES,
    ContainerHostConfig,
    build_configuration,
    build_template_configuration,
    compute_cgroup_limits,
    compute_rlimits,
    compute_startup_limits,
    get_work_mount_options,
)
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.process import ContainerProcess, PipeStream
from assayd.ports.engine import MASKED_PATHS, READONLY_PATHS, SHM_BYTES, WORK_DIRECTORY, ContainerSpec

log = structlog.get_logger()

_NAME = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)
_RECORD_FILE = "record.json"
_STALE_AFTER_S = 600.0
"""Seconds after which no daemon is still writing a record or removing the files next to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A container's record: its labels, control groups (see `cgroup.ControlGroup`) and image digest.

    `daemon` is the mark of the container's daemon (see `making`); earlier versions wrote no mark.
    """

    name: str
    labels: Mapping[str, str]
    cgroup_version: int
    cgroups: Mapping[str, str]
    image: str
    first_uid: int
    other_cgroups: Sequence[str] = ()
    daemon: str = ""


class ContainerRecords:
    """The records in a folder that all daemons of the same user on this host share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_container_folder(self, name: str) -> Path:
        """Return the folder of a container, which contains its bundle, runtime state, process file and log.

        Raises: ValueError, if the name isn't 1 to 64 ASCII letters and digits.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} isn't a container name")
        return self._folder / name

    def write(self, record: Record) -> Path:
        """Create the container's folder with its record, and return the folder."""
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = self.get_container_folder(record.name)
        folder.mkdir(mode=0o700)
        fresh = folder / "record.new"
        fresh.write_text(json.dumps(asdict(record)), encoding="utf-8")
        fresh.replace(folder / _RECORD_FILE)
        return folder

    def read(self, name: str) -> Record | None:
        """Return a record, or None if it is missing or has the format of another version."""
        try:
            return Record(
                **json.loads((self.get_container_folder(name) / _RECORD_FILE).read_text(encoding="utf-8"))
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            log.warning("container.record_unreadable", container=name)
            return None

    def remove(self, name: str) -> None:
        """Remove a container's folder, if it exists."""
        folder = self.get_container_folder(name)
        with suppress(OSError):
            (folder / _RECORD_FILE).unlink()
            folder.rmdir()  # If the runtime never started, the folder contained nothing else.
            return
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, now: float) -> None:
        """Remove folders without a record that are older than 10 minutes.

        They remain if a daemon is killed while it writes a record. A container's record is written before its
        other parts exist; therefore, a folder without a record has no owner.
        """
        for folder in self._folder.glob("*"):
            with suppress(OSError):
                if now - folder.stat().st_mtime > _STALE_AFTER_S and not (folder / _RECORD_FILE).exists():
                    shutil.rmtree(folder, ignore_errors=True)

    def is_stale(self, name: str, now: float) -> bool:
        """Return whether a container's folder exists and is older than 10 minutes.

        By then, all steps of the container must have ended.
        """
        try:
            return now - self.get_container_folder(name).stat().st_mtime > _STALE_AFTER_S
        except FileNotFoundError:
            return False

    def all(self) -> Iterator[Record]:
        """Yield every readable record of this host."""
        for path in sorted(self._folder.glob(f"*/{_RECORD_FILE}")):
            record = self.read(path.parent.name)
            if record is not None:
                yield record


PROCESS_ENDED_MESSAGE = "its first process has ended"


@dataclass(slots=True, kw_only=True)
class OciContainer:
    """A container of this engine, from creation to removal."""

    spec: ContainerSpec
    record: Record
    group: ControlGroup
    place: ContainerHostConfig
    image: StoredImage
    folder: Path
    claimed: bool = False
    process: ContainerProcess | None = None
    stream: PipeStream | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    handed: list[int] = field(default_factory=list)
    """Descriptors to pass to its template: control groups to join, and their mounts."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The observed namespaces of its first process."""

    @property
    def running(self) -> bool:
        """Return whether the container's first process is running."""
        return self.process is not None and not self.process.ended.is_set()

    @property
    def is_cloned(self) -> bool:
        """Return whether the container is cloned from a template."""
        return bool(self.place.clone_uid)

    def close_template_fds(self) -> None:
        """Close the descriptors for its template."""
        while self.handed:
            os.close(self.handed.pop())


def build_container_configuration(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, object]:
    """Return the runtime's configuration of a container or template."""
    return build_template_configuration(spec, place) if place.children else build_configuration(spec, place)


def find_config_differences(container: OciContainer) -> list[str]:
    """Return the differences between a spec and the runtime's configuration, before anything is started."""
    found = container.group.differences(compute_startup_limits(compute_cgroup_limits(container.spec)))
    bundle = json.loads((container.folder / "config.json").read_text(encoding="utf-8"))
    if bundle != build_container_configuration(container.spec, container.place):
        found.append("the runtime's configuration differs from the request")
    return found


def find_process_differences(
    process: ContainerProcess,
    container: OciContainer,
    beside: Callable[[], Mapping[str, OciContainer]] = dict,
) -> list[str]:
    """Return the differences between a spec and the running process, as messages.

    The list is empty if there are none. If the process has ended, it contains only `PROCESS_ENDED_MESSAGE`.

    Args:
        process: the first process of the container.
        container: the requested container.
        beside: returns the containers whose namespaces this container must not share: its template and
            siblings. It is called once this container's namespaces are known, so that at least one of two
            concurrent checks detects a conflict.
    """
    try:
        seen = read_process_facts(process.pid, container.place, container.image.root)
    except OSError:
        return [PROCESS_ENDED_MESSAGE]
    # The data is this process's if it is still running: its process id can't be reused before it is reaped.
    if process.ended.is_set():
        return [PROCESS_ENDED_MESSAGE]
    container.namespaces = seen.namespaces
    return [
        *find_differences(seen, container.spec, container.place),
        *_find_shared_namespaces(seen, beside()),
        *container.group.differences(compute_cgroup_limits(container.spec)),
    ]


def _find_shared_namespaces(seen: ProcessFacts, others: Mapping[str, OciContainer]) -> list[str]:
    """Return the namespaces that a process shares with other running containers, as messages.

    If a recorded namespace matches, it is read again, because the kernel reuses the numbers of namespaces
    that no longer exist.
    """
    known = {name: each.namespaces for name, each in others.items()}
    if not find_shared_namespaces(seen, known):
        return []
    living: dict[str, Mapping[str, str]] = {}
    for name, each in others.items():
        with suppress(OSError):
            if each.process is not None:
                living[name] = read_namespaces(each.process.pid)
    return find_shared_namespaces(seen, living)


_NAMESPACE_NAMES = ("pid", "net", "ipc", "uts", "mnt", "cgroup", "user")
_LABEL_BY_LIMIT = {
    "core": "Max core file size",
    "fsize": "Max file size",
    "msgqueue": "Max msgqueue size",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "sigpending": "Max pending signals",
}
_HIDDEN_OPTIONS = frozenset({"nosuid", "nodev", "noexec"})
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The facts about a process that the kernel reports.

    `own_status` is the status of the daemon, whose seccomp filters are inherited by all of its descendants.

    `shared_namespaces` contains the namespaces shared with the daemon, `outside` the control groups that
    don't contain the process, and `masked` the host's paths that must be hidden.
    """

    status: str
    own_status: str
    limits: str
    mountinfo: str
    uid_map: str
    gid_map: str
    routes: str
    namespaces: Mapping[str, str]
    shared_namespaces: tuple[str, ...]
    outside: tuple[str, ...]
    is_root_image: bool
    masked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount: one line of mountinfo. `root` is the mounted part of the file system."""

    root: str
    kind: str
    options: frozenset[str]
    filesystem_options: Mapping[str, str]


def read_process_facts(pid: int, place: ContainerHostConfig, image: Path) -> ProcessFacts:
    """Read the kernel's facts about a process. `image` is the root filesystem on the host.

    Raises: OSError, if the process has exited or isn't accessible.
    """
    namespaces = read_namespaces(pid)
    return ProcessFacts(
        **{
            name: read_text(f"/proc/{pid}/{path}")
            for name, path in (
                ("status", "status"),
                ("limits", "limits"),
                ("mountinfo", "mountinfo"),
                ("uid_map", "uid_map"),
                ("gid_map", "gid_map"),
                ("routes", "net/route"),
            )
        },
        own_status=read_text("/proc/self/status"),
        namespaces=namespaces,
        shared_namespaces=tuple(
            name for name in _NAMESPACE_NAMES if namespaces[name] == _read_namespace("self", name)
        ),
        outside=tuple(path for path in place.cgroups.values() if str(pid) not in _read_group_pids(path)),
        is_root_image=os.path.samestat(Path(f"/proc/{pid}/root").stat(), image.stat()),
        masked=tuple(path for path in MASKED_PATHS if _is_visible(path)),
    )


def read_namespaces(pid: int) -> dict[str, str]:
    """Return the namespaces of a process. Raises: OSError, if the process has exited."""
    return {name: _read_namespace(str(pid), name) for name in _NAMESPACE_NAMES}


def find_differences(seen: ProcessFacts, spec: ContainerSpec, place: ContainerHostConfig) -> list[str]:
    """Return a message for each difference between a process and the requested one."""
    return [
        *(f"namespace {name} is the daemon's" for name in seen.shared_namespaces),
        *(f"control group {path} doesn't contain the process" for path in seen.outside),
        *([] if seen.is_root_image else ["the root is not the image's"]),
        *([] if len(seen.routes.splitlines()) <= 1 else ["the network has routes"]),
        *_find_identity_differences(seen, place),
        *([] if place.children else _find_limit_differences(seen, compute_rlimits(spec))),
        *(
            _find_template_mount_differences(seen)
            if place.children
            else _find_mount_differences(seen, spec, place)
        ),
    ]


def find_shared_namespaces(seen: ProcessFacts, others: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the namespaces that a process shares with others, as messages.

    `others` maps container names to their namespaces.
    """
    return [
        f"namespace {name} is also that of {other}"
        for other, theirs in others.items()
        for name, link in seen.namespaces.items()
        if theirs.get(name) == link
    ]


def _find_identity_differences(seen: ProcessFacts, place: ContainerHostConfig) -> Iterator[str]:
    status = _parse_fields(seen.status)
    uid = str(place.first_process_uid)
    held_caps = f"{sum(1 << number for number in CAPABILITIES.values()) if place.children else 0:016x}"
    wanted = {
        "Uid": [uid] * 4,
        "Gid": [uid] * 4,
        "Groups": [],
        "CapInh": ["0" * 16],
        "CapPrm": [held_caps],
        "CapEff": [held_caps],
        "CapBnd": [held_caps],
        "CapAmb": ["0" * 16],
        "NoNewPrivs": ["1"],
        "Seccomp": ["2"],
    }
    for name, value in wanted.items():
        held = status.get(name, "missing").split()
        if held != value:
            yield f"{name} is {' '.join(held) or 'empty'}, expected {' '.join(value) or 'none'}"
    if status.get("NSpid", "").split()[-1:] != ["1"]:
        yield "it isn't the first process of its namespace"
    yield from _find_filter_differences(status, _parse_fields(seen.own_status), place)
    mapping = [[str(number) for number in line] for line in place.ids]
    for name, text in (("uid_map", seen.uid_map), ("gid_map", seen.gid_map)):
        if [line.split() for line in text.splitlines()] != mapping:
            yield f"{name} doesn't map the requested ids"


def _find_filter_differences(
    status: Mapping[str, str], own: Mapping[str, str], place: ContainerHostConfig
) -> Iterator[str]:
    """Yield a message if too few seccomp filters are active.

    Kernels before Linux 5.9 don't report the number.

    A clone has two filters: its template's more permissive filter, and the filter that every container has.
    """
    name, wanted = "Seccomp_filters", 2 if place.clone_uid else 1
    if name in status and name in own:
        held = int(status[name]) - int(own[name])
        if held < wanted:
            yield f"it has {held} seccomp filters, expected {wanted}"


def _parse_fields(status: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)


def _find_limit_differences(seen: ProcessFacts, limits: Mapping[str, int]) -> Iterator[str]:
    for name, wanted in limits.items():
        title = _LABEL_BY_LIMIT[name]
        line = next((line for line in seen.limits.splitlines() if line.startswith(title)), title)
        held = line.removeprefix(title).split()[:2]
        if held != [str(wanted)] * 2:
            yield f"limit {name} is {' '.join(held) or 'missing'}, expected {wanted}"


def _find_mount_differences(
    seen: ProcessFacts, spec: ContainerSpec, place: ContainerHostConfig
) -> Iterator[str]:
    held = parse_mountinfo(seen.mountinfo)
    wanted = _get_required_mounts(spec, place)
    readonly = {"/", *READONLY_PATHS, *(f"{CGROUPS_PATH}/{name}".rstrip("/") for name in place.cgroups)}
    for path in sorted({*wanted, *seen.masked, *readonly} - held.keys()):
        yield f"{path} isn't mounted"
    known = {*wanted, *MASKED_PATHS, *readonly, *(f"/dev/{name}" for name in DEVICES)}
    for path in sorted(held.keys() - known):
        yield f"{path} is mounted but wasn't requested"
    for path in sorted((readonly | set(seen.masked) | {"/sys"}) & held.keys()):
        # A file hidden by the null device is writable, but writes are discarded.
        hidden = path in seen.masked and held[path].root == "/null"
        if "ro" not in held[path].options and not hidden:
            yield f"{path} is writable"
    for path, (kind, options) in wanted.items():
        if path in held:
            yield from _compare_mount(
                path, held[path], kind, options, _get_required_mount_options(path, spec)
            )


def _find_template_mount_differences(seen: ProcessFacts) -> Iterator[str]:
    """Yield the faults in the mounts of a template.

    It mounts its clones' roots below a folder in its container.
    """
    held = parse_mountinfo(seen.mountinfo)
    known = {
        "/",
        "/proc",
        "/sys",
        "/dev",
        *MASKED_PATHS,
        *READONLY_PATHS,
        *(f"/dev/{name}" for name in DEVICES),
    }
    for path in sorted(held.keys() - known):
        if not f"{path}/".startswith(f"{WORK_DIRECTORY}/"):
            yield f"{path} is mounted but wasn't requested"
    if "/" not in held or "ro" not in held["/"].options:
        yield "/ is writable"


def _get_required_mounts(
    spec: ContainerSpec, place: ContainerHostConfig
) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Return the required type and file system options of each mount, by path."""
    size = -(-spec.work_bytes // _PAGE_BYTES) * _PAGE_BYTES // 1024
    uid = str(place.first_process_uid)
    work = {"size": f"{size}k", "nr_inodes": str(spec.work_files), "mode": "700", "uid": uid, "gid": uid}
    return {
        "/proc": ("proc", {}),
        "/sys": ("sysfs", {}),
        "/dev": ("tmpfs", {"size": "64k"}),
        "/dev/shm": ("tmpfs", {"size": f"{SHM_BYTES // 1024}k"}),  # noqa: S108
        WORK_DIRECTORY: ("tmpfs", work),
        **({} if "" in place.cgroups else {CGROUPS_PATH: ("tmpfs", {"size": "64k"})}),
    }


def _get_required_mount_options(path: str, spec: ContainerSpec) -> frozenset[str]:
    if path == WORK_DIRECTORY:
        return frozenset(get_work_mount_options(spec))
    return _HIDDEN_OPTIONS - {"nodev"} if path == "/dev" else _HIDDEN_OPTIONS


def _compare_mount(
    path: str, mount: Mount, kind: str, options: Mapping[str, str], hidden: frozenset[str]
) -> Iterator[str]:
    if mount.kind != kind:
        yield f"{path} is of kind {mount.kind}, expected {kind}"
    missing = sorted(hidden - mount.options)
    if missing:
        yield f"{path} lacks {', '.join(missing)}"
    for name, wanted in options.items():
        held = mount.filesystem_options.get(name)
        if held != wanted:
            yield f"{path}: {name} is {held}, expected {wanted}"


def parse_mountinfo(text: str) -> dict[str, Mount]:
    """Parse mountinfo. Map each path to its topmost mount."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        root, place, options = before.split(" ")[3:6]
        kind, _, filesystem_options = after.split(" ", 2)
        pairs = (option.partition("=") for option in filesystem_options.split(","))
        found[place] = Mount(
            root=root,
            kind=kind,
            options=frozenset(options.split(",")),
            filesystem_options={name: value for name, _, value in pairs},
        )
    return found


def _is_visible(path: str) -> bool:
    """Return whether this path exists on the host, below `/proc` or `/sys`.

    A container's `/dev` is created from scratch.
    """
    return path.startswith(("/proc/", "/sys/")) and os.path.exists(path)  # noqa: PTH110 - as below


def _read_namespace(process: str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")  # noqa: PTH115 - a path object costs as much again


def _read_group_pids(group: str) -> list[str]:
    return read_text(f"{group}/cgroup.procs").split()
