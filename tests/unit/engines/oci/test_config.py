"""The runtime's configuration contains every protection, and nothing else is possible."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from assayd.engines.oci.config import (
    ContainerHostConfig,
    build_configuration,
    build_id_mappings,
    build_mounts,
    compute_cgroup_limits,
    compute_startup_limits,
)
from assayd.errors import EngineError
from assayd.ports.engine import ContainerSpec


@pytest.fixture
def written(spec: ContainerSpec, place: ContainerHostConfig) -> dict[str, Any]:
    return json.loads(json.dumps(build_configuration(spec, place)))


def test_process_has_no_rights_and_the_guests_user(written: dict[str, Any]) -> None:
    process = written["process"]
    assert process["user"] == {"uid": 10001, "gid": 10001}
    assert process["noNewPrivileges"] is True
    assert set(process["capabilities"]) == {"bounding", "effective", "inheritable", "permitted", "ambient"}
    assert not any(process["capabilities"].values())


def test_every_namespace_is_its_own_and_none_is_joined(written: dict[str, Any]) -> None:
    namespaces = written["linux"]["namespaces"]
    assert {each["type"] for each in namespaces} == {
        "pid",
        "network",
        "ipc",
        "uts",
        "mount",
        "cgroup",
        "user",
    }
    assert all(set(each) == {"type"} for each in namespaces)


def test_root_and_guest_are_two_users_that_the_host_does_not_have(written: dict[str, Any]) -> None:
    wanted = [
        {"containerID": 0, "hostID": 1879048192, "size": 1},
        {"containerID": 10001, "hostID": 1879048193, "size": 1},
    ]
    assert (written["linux"]["uidMappings"], written["linux"]["gidMappings"]) == (wanted, wanted)


def test_root_is_read_only_and_only_own_control_groups_are_bound(written: dict[str, Any]) -> None:
    assert written["root"]["readonly"] is True
    bound = [each for each in written["mounts"] if "bind" in each["options"]]
    assert [each["source"] for each in bound] == [
        "/sys/fs/cgroup/memory/assayd-1",
        "/sys/fs/cgroup/pids/assayd-1",
        "/sys/fs/cgroup/cpu/assayd-1",
    ]
    assert all("ro" in each["options"] for each in bound)


def test_work_directory_is_bounded_and_runs_nothing(spec: ContainerSpec, place: ContainerHostConfig) -> None:
    [work] = [each for each in build_mounts(spec, place.cgroups) if each["destination"] == "/sandbox"]
    assert work["type"] == "tmpfs"
    wanted = {
        "nosuid",
        "nodev",
        "noexec",
        "size=4194304",
        "nr_inodes=64",
        "mode=0700",
        "uid=10001",
        "gid=10001",
    }
    assert set(work["options"]) == wanted


def test_work_directory_runs_what_is_written_where_the_profile_says_so(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    asked = replace(spec, work_exec=True)
    [work] = [each for each in build_mounts(asked, place.cgroups) if each["destination"] == "/sandbox"]
    others = [each for each in build_mounts(asked, place.cgroups) if each["destination"] != "/sandbox"]

    assert "noexec" not in work["options"]
    assert {"nosuid", "nodev"} <= set(work["options"])
    assert all("noexec" in each["options"] for each in others)


def test_one_group_of_version_2_is_bound_where_the_guest_looks(spec: ContainerSpec) -> None:
    [bound] = [each for each in build_mounts(spec, {"": "/sys/fs/cgroup/a"}) if "bind" in each["options"]]
    assert bound["destination"] == "/sys/fs/cgroup"


def test_every_mount_outside_the_device_folder_hides_programs_and_devices(written: dict[str, Any]) -> None:
    for each in written["mounts"]:
        assert {"nosuid", "noexec"} <= set(each["options"]), each
        assert "nodev" in each["options"] or each["destination"] == "/dev"


def test_filter_is_the_shared_one_for_this_architecture(written: dict[str, Any], spec: ContainerSpec) -> None:
    seccomp = written["linux"]["seccomp"]
    assert (seccomp["defaultAction"], seccomp["architectures"]) == ("SCMP_ACT_ERRNO", ["SCMP_ARCH_X86_64"])
    assert len(seccomp["syscalls"]) == len(json.loads(spec.seccomp)["syscalls"])


@pytest.mark.parametrize("text", ["unconfined", "{}", "[]", '{"syscalls": 1, "defaultAction": "x"}'])
def test_container_without_a_filter_is_refused(
    spec: ContainerSpec, place: ContainerHostConfig, text: str
) -> None:
    with pytest.raises(EngineError) as caught:
        build_configuration(replace(spec, seccomp=text), place)
    assert caught.value.code == "engine.seccomp"


def test_architecture_that_the_filter_does_not_know_is_refused(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    with pytest.raises(EngineError, match="this machine is riscv64"):
        build_configuration(spec, replace(place, machine="riscv64"))


def test_limits_are_those_of_the_spec_and_wider_in_processes_alone_while_starting(
    spec: ContainerSpec,
) -> None:
    exact = compute_cgroup_limits(spec)
    assert exact == {
        "memory_bytes": 100663296,
        "pids": 16,
        "cpu_quota_us": 50_000,
        "cpu_period_us": 100_000,
        "cpu_weight": 25,
    }
    starting = compute_startup_limits(exact)
    assert starting["pids"] > exact["pids"]
    assert {**starting, "pids": exact["pids"]} == exact


def test_runtime_that_makes_control_groups_is_told_ours_and_gives_no_device(
    spec: ContainerSpec, place: ContainerHostConfig, written: dict[str, Any]
) -> None:
    linux: Any = build_configuration(spec, replace(place, joins="assayd-1"))["linux"]
    assert (linux["cgroupsPath"], linux["resources"]) == (
        "assayd-1",
        {"devices": [{"allow": False, "access": "rwm"}]},
    )
    assert {"cgroupsPath", "resources"}.isdisjoint(written["linux"])


def test_nothing_of_the_labels_reaches_the_runtime(spec: ContainerSpec, place: ContainerHostConfig) -> None:
    marked = replace(spec, labels={"org.assayd.container": "marked-label"}, image="marked-image")
    assert "marked" not in json.dumps(build_configuration(marked, place))


def test_ids_are_counted_for_the_runtime_as_in_the_namespace_that_it_is_root_of(
    place: ContainerHostConfig,
) -> None:
    users = replace(place, first_uid=100_006, less=99_999)
    mapped = [(each["hostID"], each["size"]) for each in build_id_mappings(users)]
    assert (mapped, users.first_process_uid) == ([(7, 1), (8, 1)], 100_007)
