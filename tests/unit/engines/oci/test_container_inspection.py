"""The kernel's state of a container is compared with the request: each missing protection is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.engines.oci.config import ContainerHostConfig
from assayd.engines.oci.container import (
    ProcessFacts,
    find_differences,
    find_shared_namespaces,
    parse_mountinfo,
)
from assayd.ports.engine import ContainerSpec

NO_CAPABILITIES = "".join(f"Cap{name}:\t{'0' * 16}\n" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
STATUS = (
    "Name:\tpython3.11\nUid:\t1879048193\t1879048193\t1879048193\t1879048193\n"
    "Gid:\t1879048193\t1879048193\t1879048193\t1879048193\nGroups:\t \nNSpid:\t4711\t1\n"
    f"{NO_CAPABILITIES}NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
)
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max file size             4194304              4194304              bytes     \n"
    "Max core file size        0                    0                    bytes     \n"
    "Max open files            128                  128                  files     \n"
    "Max msgqueue size         0                    0                    bytes     \n"
    "Max processes             24                   24                   processes \n"
    "Max pending signals       256                  256                  signals   \n"
)
MOUNTS = """\
176 153 254:0 /images/rootfs / ro,relatime - ext4 /dev/vda rw,discard
177 176 0:41 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
178 176 0:42 / /dev rw,nosuid,noexec - tmpfs tmpfs rw,size=64k,nr_inodes=64,mode=755
179 178 0:43 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,size=64k,uid=1879048192
180 176 0:44 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs rw
181 180 0:45 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,size=64k,mode=755
182 181 0:32 /a /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory
183 181 0:36 /a /sys/fs/cgroup/pids ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,pids
184 181 0:29 /a /sys/fs/cgroup/cpu ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu
192 176 0:46 / /sandbox rw,nosuid,nodev,noexec - tmpfs - rw,size=4096k,nr_inodes=64,mode=700,uid=UID,gid=UID
193 178 0:6 /null /dev/null rw,nosuid,noexec,relatime - devtmpfs devtmpfs rw,size=12334524k,mode=755
202 177 0:6 /null /proc/interrupts ro,relatime - devtmpfs devtmpfs rw,size=12334524k,mode=755
207 180 0:51 / /sys/firmware ro,relatime - tmpfs tmpfs rw,size=0k
210 177 0:41 /sys /proc/sys ro,relatime - proc proc rw
""".replace("UID", "1879048193")
MAP = "         0 1879048192          1\n     10001 1879048193          1\n"
GOOD = ProcessFacts(
    status=STATUS,
    own_status="Seccomp_filters:\t0\n",
    limits=LIMITS,
    mountinfo=MOUNTS,
    uid_map=MAP,
    gid_map=MAP,
    routes="Iface\tDestination\tGateway\n",
    namespaces={"net": "net:[2]", "user": "user:[3]"},
    shared_namespaces=(),
    outside=(),
    is_root_image=True,
    masked=("/proc/interrupts", "/sys/firmware"),
)


CLONE_MAP = "     10001 1879048193          1\n"
CLONE = replace(
    GOOD, status=STATUS.replace("filters:\t1", "filters:\t2"), uid_map=CLONE_MAP, gid_map=CLONE_MAP
)


@pytest.fixture
def clones_place(place: ContainerHostConfig) -> ContainerHostConfig:
    return replace(place, first_uid=1879048193, clone_uid=5)


def test_clone_that_was_asked_for_has_no_differences(
    spec: ContainerSpec, clones_place: ContainerHostConfig
) -> None:
    assert find_differences(CLONE, spec, clones_place) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (replace(CLONE, uid_map=MAP), "uid_map doesn't map the requested ids"),
        (replace(CLONE, gid_map="10001 1879048192 1\n"), "gid_map doesn't map the requested ids"),
        (replace(CLONE, status=STATUS), "it has 1 seccomp filters, expected 2"),
        (replace(CLONE, own_status="Seccomp_filters:\t1\n"), "it has 1 seccomp filters"),
    ],
    ids=["user", "group", "filter", "filter beside the daemon's"],
)
def test_clone_without_a_wall_of_its_own_is_a_difference(
    spec: ContainerSpec, clones_place: ContainerHostConfig, seen: ProcessFacts, said: str
) -> None:
    [found] = find_differences(seen, spec, clones_place)
    assert found.startswith(said)


def test_namespace_of_the_template_or_of_another_child_is_a_difference() -> None:
    others = {"the template": {"net": "net:[1]", "user": "user:[3]"}, "A": {"net": "net:[2]"}}
    assert find_shared_namespaces(GOOD, others) == [
        "namespace user is also that of the template",
        "namespace net is also that of A",
    ]
    assert find_shared_namespaces(GOOD, {"the template": {"net": "net:[1]", "user": "user:[1]"}}) == []


TEMPLATES_STATUS = STATUS.replace("1879048193", "1879048192").replace("0000000000000000", "00000000002011c0")


def test_template_has_five_capabilities_and_no_more(spec: ContainerSpec, place: ContainerHostConfig) -> None:
    mapping = "0 1879048192 128\n"
    held = TEMPLATES_STATUS
    for name in ("CapInh", "CapAmb"):
        held = held.replace(f"{name}:\t00000000002011c0", f"{name}:\t0000000000000000")
    seen = replace(GOOD, status=held, uid_map=mapping, gid_map=mapping, outside=())
    own = replace(place, children=127)
    found = [each for each in find_differences(seen, spec, own) if "mounted" not in each]
    more = replace(seen, status=held.replace("CapEff:\t00000000002011c0", "CapEff:\t00000000002011c1"))
    assert found == []
    assert [each for each in find_differences(more, spec, own) if each.startswith("CapEff")]


def test_container_that_was_asked_for_has_no_differences(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    assert find_differences(GOOD, spec, place) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (replace(GOOD, shared_namespaces=("net",)), "namespace net is the daemon's"),
        (
            replace(GOOD, outside=("/sys/fs/cgroup/pids/a",)),
            "control group /sys/fs/cgroup/pids/a doesn't contain",
        ),
        (replace(GOOD, is_root_image=False), "the root is not the image's"),
        (replace(GOOD, routes=GOOD.routes + "eth0\t0\t0\n"), "the network has routes"),
        (replace(GOOD, uid_map="0 0 4294967295\n"), "uid_map doesn't map the requested ids"),
        (replace(GOOD, gid_map=MAP + "10002 5 1\n"), "gid_map doesn't map the requested ids"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wall_that_is_not_the_containers_own_is_a_difference(
    spec: ContainerSpec, place: ContainerHostConfig, seen: ProcessFacts, said: str
) -> None:
    [difference] = find_differences(seen, spec, place)
    assert difference.startswith(said)


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("Uid:\t1879048193\t", "Uid:\t0\t", "Uid is 0"),
        ("Gid:\t1879048193\t", "Gid:\t0\t", "Gid is 0"),
        ("Groups:\t ", "Groups:\t27 ", "Groups is 27, expected none"),
        (f"CapBnd:\t{'0' * 16}", "CapBnd:\t00000000a80425fb", "CapBnd is 00000000a80425fb"),
        (f"CapAmb:\t{'0' * 16}\n", "", "CapAmb is missing"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs is 0"),
        ("Seccomp:\t2", "Seccomp:\t0", "Seccomp is 0"),
        ("NSpid:\t4711\t1", "NSpid:\t4711", "it isn't the first process"),
    ],
)
def test_right_that_a_process_has_is_a_difference(
    spec: ContainerSpec, place: ContainerHostConfig, line: str, instead: str, said: str
) -> None:
    assert line in STATUS
    [difference] = find_differences(replace(GOOD, status=STATUS.replace(line, instead)), spec, place)
    assert difference.startswith(said)


@pytest.mark.parametrize(
    "name", ["file size", "core file size", "open files", "msgqueue size", "processes", "pending signals"]
)
def test_limit_that_is_another_is_a_difference(
    spec: ContainerSpec, place: ContainerHostConfig, name: str
) -> None:
    lines = [
        line if f"Max {name} " not in line else f"Max {name}  unlimited  unlimited"
        for line in LIMITS.split("\n")
    ]
    [difference] = find_differences(replace(GOOD, limits="\n".join(lines)), spec, place)
    assert difference.startswith("limit ")


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        (" / ro,relatime - ext4", " / rw,relatime - ext4", "/ is writable"),
        ("/sys ro,nosuid", "/sys rw,nosuid", "/sys is writable"),
        ("/proc/sys ro", "/proc/sys rw", "/proc/sys is writable"),
        ("0:6 /null /proc/interrupts ro", "0:6 / /proc/interrupts rw", "/proc/interrupts is writable"),
        ("/sys/firmware ro", "/sys/firmware rw", "/sys/firmware is writable"),
        ("/sys/fs/cgroup/pids ro", "/sys/fs/cgroup/pids rw", "/sys/fs/cgroup/pids is writable"),
        ("/sandbox rw,nosuid,nodev,noexec", "/sandbox rw,nosuid,nodev", "/sandbox lacks noexec"),
        ("/dev/shm rw,nosuid,nodev", "/dev/shm rw,nodev", "/dev/shm lacks nosuid"),
        ("size=4096k", "size=8192k", "/sandbox: size is 8192k, expected 4096k"),
        ("nr_inodes=64,mode=700", "nr_inodes=65,mode=700", "/sandbox: nr_inodes is 65"),
        ("rw,size=64k,uid=", "rw,size=65536k,uid=", "/dev/shm: size is 65536k"),
        (" /sandbox rw", " /data rw", "/sandbox isn't mounted"),
        (" /sandbox rw", " /data rw", "/data is mounted but wasn't requested"),
        (" /sys/firmware ro", " /sys/firm ro", "/sys/firmware isn't mounted"),
        ("- proc proc rw\n178", "- tmpfs proc rw\n178", "/proc is of kind tmpfs, expected proc"),
    ],
)
def test_mount_that_is_another_is_a_difference(
    spec: ContainerSpec, place: ContainerHostConfig, part: str, instead: str, said: str
) -> None:
    assert part in MOUNTS
    found = find_differences(replace(GOOD, mountinfo=MOUNTS.replace(part, instead, 1)), spec, place)
    assert [each for each in found if each.startswith(said)], found


def test_file_that_is_hidden_behind_the_null_device_may_be_written(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    hidden = MOUNTS.replace("/null /proc/interrupts ro", "/null /proc/interrupts rw")
    assert hidden != MOUNTS
    assert find_differences(replace(GOOD, mountinfo=hidden), spec, place) == []


def test_uppermost_of_two_mounts_at_a_place_counts() -> None:
    twice = MOUNTS + "300 176 0:99 / /sandbox rw - ext4 /dev/vdb rw\n"
    assert parse_mountinfo(twice)["/sandbox"].kind == "ext4"


def test_work_directory_that_runs_programs_is_a_difference_unless_it_was_asked_for(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    lines = MOUNTS.splitlines()
    work = next(line for line in lines if " /sandbox " in line)
    seen = replace(GOOD, mountinfo=MOUNTS.replace(work, work.replace(",noexec", "")))

    assert find_differences(seen, spec, place) == ["/sandbox lacks noexec"]
    assert find_differences(seen, replace(spec, work_exec=True), place) == []
