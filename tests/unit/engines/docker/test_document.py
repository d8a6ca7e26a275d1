"""Inspection checks every requested flag; `inspected.json` was recorded from engine 20.10."""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assayd.engines.docker import document
from assayd.engines.docker.document import EngineHost, ImageSettings
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerSpec,
)

INSPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("inspected.json").read_text())
HOST = EngineHost(runtime="runc", swappiness=True)
SPEC = ContainerSpec(
    image="assayd/python",
    image_digest=INSPECTED["Image"],
    memory_bytes=128 * 2**20,
    pids=20,
    cpus=1.5,
    work_bytes=8 * 2**20,
    work_files=512,
    open_files=256,
    seccomp='{"defaultAction":"SCMP_ACT_ERRNO"}',
    labels={
        LABEL_DAEMON: "D",
        LABEL_GENERATION: "1",
        LABEL_CONTAINER: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        LABEL_POOL_KEY: "k",
    },
)
IMAGE = ImageSettings(
    environment=["LANG=C.UTF-8", "PATH=/usr/bin"],
    entrypoint=["/usr/bin/python3.11", "-I", "-S", "-m", "assayd_guest"],
    command=[],
    directory="/",
    labels={key: value for key, value in INSPECTED["Config"]["Labels"].items() if key not in SPEC.labels},
)
INHERITED = ["Config.Env", "Config.Entrypoint", "Config.Cmd", "Config.WorkingDir"]
SURROUNDINGS = ["Image", "State.Status", "Mounts", "ExecIDs", "NetworkSettings.Networks", "AppArmorProfile"]

# What nobody expected and somebody might sneak in.
UNASKED = {
    "HostConfig.Sysctls.kernel.shm_rmid_forced": "0",
    "HostConfig.Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "HostConfig.Annotations": {"run.oci.handler": "other"},
    "HostConfig.ExtraHosts": ["host:127.0.0.1"],
    "HostConfig.DnsOptions": ["ndots:5"],
    "HostConfig.Links": ["/other:/this"],
    "HostConfig.StorageOpt": {"size": "120G"},
    "HostConfig.OomKillDisable": True,
    "HostConfig.Cgroup": "container:other",
    "HostConfig.SomethingThatALaterEngineAdds": True,
    "HostConfig.Tmpfs./elsewhere": "",
    "HostConfig.PortBindings.80/tcp": None,
    "Config.Volumes./data": {},
    "Config.ExposedPorts": {"80/tcp": {}},
    "Config.Labels.another": "label",
    "Config.StopSignal": "SIGINT",
}


def section(wanted: Mapping[str, object], key: str) -> dict[str, object]:
    found = wanted[key]
    assert isinstance(found, dict)
    return found


def altered(path: str, value: object) -> dict[str, Any]:
    inspected = copy.deepcopy(INSPECTED)
    *outer, last = path.split(".")
    place = inspected
    for key in outer:
        place[key] = place.get(key) or {}
        place = place[key]
    if value is REMOVED:
        place.pop(last)
    else:
        place[last] = value
    return inspected


def differences(inspected: Mapping[str, object]) -> list[str]:
    return document.find_creation_differences(inspected, SPEC, HOST, IMAGE)


REMOVED = object()
ASKED = document.build_creation_document(SPEC, HOST)
FLAGS = [
    *(f"Config.{key}" for key in ASKED if key != "HostConfig"),
    *(f"HostConfig.{key}" for key in section(ASKED, "HostConfig")),
    *INHERITED,
]


def test_container_as_the_engine_made_it_is_accepted() -> None:
    assert differences(INSPECTED) == []


@pytest.mark.parametrize("path", [*FLAGS, *SURROUNDINGS])
def test_altered_flag_is_refused(path: str) -> None:
    assert any(path in each for each in differences(altered(path, {"something": "else"})))


@pytest.mark.parametrize("path", [*FLAGS, *SURROUNDINGS])
def test_missing_flag_is_refused(path: str) -> None:
    assert any(path in each for each in differences(altered(path, REMOVED)))


@pytest.mark.parametrize(("path", "value"), UNASKED.items(), ids=UNASKED)
def test_setting_that_nobody_asked_for_is_refused(path: str, value: object) -> None:
    flag = ".".join(path.split(".")[:2])
    assert any(each.startswith(flag) for each in differences(altered(path, value)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("HostConfig.Privileged", 0),
        ("HostConfig.Init", None),
        ("HostConfig.OomScoreAdj", None),
        ("HostConfig.MemorySwappiness", None),
        ("HostConfig.PidsLimit", None),
        ("HostConfig.PidsLimit", 20.0),
        ("HostConfig.MemorySwap", -1),
        ("HostConfig.ReadonlyRootfs", 1),
        ("HostConfig.SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"]),
        ("HostConfig.SecurityOpt", ["no-new-privileges:true"]),
        ("HostConfig.CapDrop", None),
        ("HostConfig.CapAdd", ["SYS_ADMIN"]),
        ("HostConfig.NetworkMode", "default"),
        ("HostConfig.PidMode", "host"),
        ("HostConfig.Binds", ["/:/host"]),
        ("AppArmorProfile", "unconfined"),
        ("NetworkSettings.Networks", {"none": {}, "bridge": {}}),
        ("Mounts", [{"Type": "volume"}]),
    ],
)
def test_value_that_looks_alike_but_is_weaker_is_refused(path: str, value: object) -> None:
    assert any(each.startswith(path) for each in differences(altered(path, value)))


def test_every_difference_is_named() -> None:
    inspected = altered("HostConfig.Privileged", True)
    inspected["HostConfig"]["PidsLimit"] = 0
    assert differences(inspected) == [
        "HostConfig.Privileged is True, expected False",
        "HostConfig.PidsLimit is 0, expected 20",
    ]


@pytest.mark.parametrize("name", ["Config", "HostConfig", "NetworkSettings", "State"])
def test_document_without_a_section_is_refused(name: str) -> None:
    assert differences(altered(name, REMOVED))


def test_swappiness_is_asked_for_only_where_it_exists() -> None:
    isolation = section(
        document.build_creation_document(SPEC, EngineHost(runtime="runc", swappiness=False)), "HostConfig"
    )
    assert "MemorySwappiness" not in isolation


def test_writable_places_are_the_work_directory_and_a_tiny_shared_memory() -> None:
    isolation = section(ASKED, "HostConfig")
    assert isolation["Tmpfs"] == {
        "/sandbox": "size=8388608,nr_inodes=512,uid=10001,gid=10001,mode=0700,nosuid,nodev,noexec"
    }
    assert (isolation["ReadonlyRootfs"], isolation["Binds"], isolation["ShmSize"]) == (True, [], 65536)


def test_work_directory_runs_what_is_written_only_where_it_was_asked_for() -> None:
    def mounted(*, work_exec: bool) -> str:
        asked = document.build_creation_document(replace(SPEC, work_exec=work_exec), HOST)
        return str(section(section(asked, "HostConfig"), "Tmpfs")["/sandbox"])

    assert mounted(work_exec=False).endswith(",nosuid,nodev,noexec")
    assert mounted(work_exec=True).endswith(",nosuid,nodev,exec")
    assert differences(INSPECTED) == []
    assert document.find_creation_differences(INSPECTED, replace(SPEC, work_exec=True), HOST, IMAGE) != []
