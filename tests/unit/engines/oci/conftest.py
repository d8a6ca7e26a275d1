"""A spec, and its place on a host with cgroup v1."""

from __future__ import annotations

import pytest

from assayd.engines.oci.config import ContainerHostConfig
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON, ContainerSpec

MIB = 2**20


@pytest.fixture
def spec() -> ContainerSpec:
    return ContainerSpec(
        image="assayd/python",
        image_digest="sha256:" + "0" * 64,
        memory_bytes=96 * MIB,
        pids=16,
        cpus=0.5,
        work_bytes=4 * MIB,
        work_files=64,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={LABEL_DAEMON: "daemon", LABEL_CONTAINER: "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    )


@pytest.fixture
def place() -> ContainerHostConfig:
    return ContainerHostConfig(
        root="/run/assayd-oci/images/0/rootfs",
        arguments=("/usr/bin/python3.11", "-I"),
        environment=("LANG=C.UTF-8",),
        first_uid=1879048192,
        cgroups={
            "memory": "/sys/fs/cgroup/memory/assayd-1",
            "pids": "/sys/fs/cgroup/pids/assayd-1",
            "cpu": "/sys/fs/cgroup/cpu/assayd-1",
        },
        machine="x86_64",
    )
