"""Every wall of the OCI engine does something: a probe sees it hold, and sees it gone when it is taken away.

The configuration is the daemon's own, but for the program and, in the second test, for one wall. Where it
is gone, the inspection of the running process must say so as well, so that nothing is said to a runner there.

Not shown here, because the kernel does not let it be taken away in a user namespace: the process namespace,
as no `/proc` can be mounted without one. What is said in `test_flags` of the others holds here too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assayd.engines.oci import OciEngine
from assayd.errors import EngineError
from support.engines import flag_probes
from support.engines.bare_oci import Change, Document, run_bare
from support.engines.oci import needs_oci, oci_engine

pytestmark = [needs_oci, pytest.mark.asyncio(loop_scope="module")]

PROBES = Path(flag_probes.__file__).read_text()
ON_THE_HOST = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("ipc", "uts")}
MIB = 2**20

Seen = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """A protection: its probe, the probe's value, how to remove it, and the inspection's report then."""

    probe: str
    holds: Seen
    taken: Change = lambda document: None
    limits: Mapping[str, str] = field(default_factory=dict)
    fires: Seen | None = None
    said: str

    def gone(self, seen: Any) -> bool:
        return not self.holds(seen) if self.fires is None else self.fires(seen)


def without_namespace(name: str) -> Change:
    def change(document: Document) -> None:
        linux = document["linux"]
        linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != name]
        if name == "network":
            del linux["sysctl"]
        if name == "uts":
            del document["hostname"]
        if name == "user":
            del linux["uidMappings"], linux["gidMappings"]

    return change


def without(*path: str) -> Change:
    def change(document: Document) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def with_capabilities(document: Document) -> None:
    document["process"]["capabilities"]["bounding"] = ["CAP_NET_RAW", "CAP_CHOWN"]


def with_root(document: Document) -> None:
    document["process"]["user"] = {"uid": 0, "gid": 0}


def with_privileges(document: Document) -> None:
    document["process"]["noNewPrivileges"] = False
    del document["linux"]["seccomp"]


def with_writable_root(document: Document) -> None:
    document["root"]["readonly"] = False


def without_limit(name: str) -> Change:
    def change(document: Document) -> None:
        limits = document["process"]["rlimits"]
        document["process"]["rlimits"] = [each for each in limits if each["type"] != name]

    return change


def mounted(place: str, option: str, instead: str = "") -> Change:
    def change(document: Document) -> None:
        [mount] = [each for each in document["mounts"] if each["destination"] == place]
        kept = [instead if each.startswith(option) else each for each in mount["options"]]
        mount["options"] = [each for each in kept if each]

    return change


WALLS: Mapping[str, Wall] = {
    "network": Wall(
        probe="network_devices",
        holds=lambda seen: not any(name.startswith(("eth", "en", "veth", "wl", "ifb")) for name in seen),
        taken=without_namespace("network"),
        fires=lambda seen: set(seen) >= {"lo"} and len(seen) > 1,
        said="namespace net",
    ),
    "user namespace": Wall(
        probe="user_map",
        holds=lambda seen: len(seen) == 6 and seen[0] == "0" and int(seen[1]) >= 0x70000000,
        taken=without_namespace("user"),
        said="namespace user",
    ),
    "ipc namespace": Wall(
        probe="ipc_namespace",
        holds=lambda seen: seen != ON_THE_HOST["ipc"],
        taken=without_namespace("ipc"),
        said="namespace ipc",
    ),
    "host name namespace": Wall(
        probe="host_name_namespace",
        holds=lambda seen: seen != ON_THE_HOST["uts"],
        taken=without_namespace("uts"),
        said="namespace uts",
    ),
    "control group namespace": Wall(
        probe="control_group",
        holds=lambda seen: seen == ["/"],
        taken=without_namespace("cgroup"),
        fires=lambda seen: any(len(path) > 1 for path in seen),
        said="namespace cgroup",
    ),
    "read-only root": Wall(
        probe="root_is_writable",
        holds=lambda seen: seen is False,
        taken=with_writable_root,
        said="/ is writable",
    ),
    "read-only kernel settings": Wall(
        probe="kernel_settings_are_writable",
        holds=lambda seen: seen is False,
        taken=without("linux", "readonlyPaths"),
        said="/proc/sys isn't mounted",
    ),
    "masked files": Wall(
        probe="masked_file",
        holds=lambda seen: seen is False,
        taken=without("linux", "maskedPaths"),
        said="/proc/interrupts isn't mounted",
    ),
    "capabilities": Wall(
        probe="capabilities", holds=lambda seen: seen == 0, taken=with_capabilities, said="CapBnd is"
    ),
    "no new privileges": Wall(
        probe="new_privileges",
        holds=lambda seen: seen is False,
        taken=with_privileges,
        said="NoNewPrivs is 0",
    ),
    "seccomp": Wall(
        probe="memory_file",
        holds=lambda seen: seen == "OSError",
        taken=without("linux", "seccomp"),
        fires=lambda seen: seen == "made",
        said="Seccomp is 0",
    ),
    "user": Wall(
        probe="user",
        holds=lambda seen: seen[:2] == [10001, 10001],
        taken=with_root,
        fires=lambda seen: seen[:2] == [0, 0],
        said="Uid is",
    ),
    "memory": Wall(
        probe="memory",
        holds=lambda seen: seen == "signal 9",
        limits={"memory/memory.memsw.limit_in_bytes": "-1", "memory/memory.limit_in_bytes": "-1"},
        fires=lambda seen: seen == 200,
        said="memory.limit_in_bytes is",
    ),
    "processes": Wall(
        probe="processes",
        holds=lambda seen: seen == 14,
        limits={"pids/pids.max": "max"},
        fires=lambda seen: seen > 14,  # up to what its user may have
        said="pids.max is",
    ),
    "processor": Wall(
        probe="processor_quota",
        holds=lambda seen: seen == "100000",
        limits={"cpu/cpu.cfs_quota_us": "-1"},
        fires=lambda seen: seen == "-1",
        said="cpu.cfs_quota_us is",
    ),
    "core files": Wall(
        probe="core_size", holds=lambda seen: seen == 0, taken=without_limit("RLIMIT_CORE"), said="limit core"
    ),
    "file size": Wall(
        probe="file_size",
        holds=lambda seen: seen == 4 * MIB,
        taken=without_limit("RLIMIT_FSIZE"),
        said="limit fsize",
    ),
    "message queues": Wall(
        probe="queue_bytes",
        holds=lambda seen: seen == 0,
        taken=without_limit("RLIMIT_MSGQUEUE"),
        said="limit msgqueue",
    ),
    "pending signals": Wall(
        probe="pending_signals",
        holds=lambda seen: seen is False,
        taken=without_limit("RLIMIT_SIGPENDING"),
        said="limit sigpending",
    ),
    "processes of the user": Wall(
        probe="processes_of_the_user",
        holds=lambda seen: seen == 24,
        taken=without_limit("RLIMIT_NPROC"),
        said="limit nproc",
    ),
    "open files": Wall(
        probe="open_files",
        holds=lambda seen: seen == 128,
        taken=without_limit("RLIMIT_NOFILE"),
        said="limit nofile",
    ),
    "work directory's size": Wall(
        probe="work_bytes",
        holds=lambda seen: seen <= 4,
        taken=mounted("/sandbox", "size="),
        fires=lambda seen: seen == 16,
        said="/sandbox: size",
    ),
    "work directory's files": Wall(
        probe="work_files",
        holds=lambda seen: 32 < seen < 64,
        taken=mounted("/sandbox", "nr_inodes="),
        fires=lambda seen: seen == 1000,
        said="/sandbox: nr_inodes",
    ),
    "work directory without programs": Wall(
        probe="work_programs",
        holds=lambda seen: seen == 126,
        taken=mounted("/sandbox", "noexec", "exec"),
        fires=lambda seen: seen == 0,
        said="/sandbox lacks noexec",
    ),
    "work directory without set-uid": Wall(
        probe="work_set_uid",
        holds=lambda seen: seen is False,
        taken=mounted("/sandbox", "nosuid", "suid"),
        said="/sandbox lacks nosuid",
    ),
    "work directory without devices": Wall(
        probe="work_devices",
        holds=lambda seen: seen is False,
        taken=mounted("/sandbox", "nodev", "dev"),
        said="/sandbox lacks nodev",
    ),
    "shared memory": Wall(
        probe="shared_memory_bytes",
        holds=lambda seen: seen == 65536,
        taken=mounted("/dev/shm", "size=", "size=4194304"),
        said="/dev/shm: size",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[OciEngine]:
    made = oci_engine()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(engine: OciEngine) -> tuple[Document, list[str]]:
    """Return every probe's value with all protections, and the inspection's report."""
    names = [wall.probe for wall in WALLS.values()] + ["connection_bytes"]
    output, found = await run_bare(engine, PROBES, *names, change=lambda document: None, limits={})
    return json.loads(output), found


@pytest.mark.parametrize("name", WALLS)
async def test_wall_holds(whole: tuple[Document, list[str]], name: str) -> None:
    wall = WALLS[name]
    assert wall.holds(whole[0][wall.probe]), whole[0][wall.probe]


async def test_memory_of_connections_is_small(whole: tuple[Document, list[str]]) -> None:
    assert whole[0]["connection_bytes"] < MIB // 4


async def test_inspection_is_silent_where_every_wall_stands(whole: tuple[Document, list[str]]) -> None:
    assert whole[1] == []


@pytest.mark.parametrize("name", WALLS)
async def test_probe_and_inspection_see_a_wall_that_is_taken_away(engine: OciEngine, name: str) -> None:
    wall = WALLS[name]
    output, found = await run_bare(engine, PROBES, wall.probe, change=wall.taken, limits=dict(wall.limits))
    assert wall.gone(json.loads(output)[wall.probe]), output
    assert [each for each in found if each.startswith(wall.said)], found


async def test_container_without_a_process_namespace_does_not_start(engine: OciEngine) -> None:
    with pytest.raises(EngineError) as caught:
        await run_bare(engine, PROBES, "user", change=without_namespace("pid"), limits={})
    assert caught.value.code == "engine.start_failed"
