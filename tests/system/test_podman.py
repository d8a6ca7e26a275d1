"""What Podman does not do of what is asked of an engine, and that the daemon refuses it for that.

The rest of the conformance suite is run against it in tests/contract/test_engine.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from assayd.clock import UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.errors import EngineError
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerSpec,
)
from support.daemons.daemon_fixtures import MakeDaemon
from support.engines import podman_service

pytestmark = pytest.mark.system

IMAGE = "assayd/python"
WEAKER = {
    "HostConfig.IpcMode": "shared memory can be joined by other containers",
    "HostConfig.MaskedPaths": "the paths that we mask are not taken, or not told",
    "HostConfig.ReadonlyPaths": "nor those that are to be read-only",
    "HostConfig.CgroupnsMode": "on cgroup v1, the control groups of the host are seen",
    "HostConfig.Tmpfs": "no owner and no count of files for the work directory; /run is writable beside it",
    "HostConfig.SecurityOpt": "the filter is a file's path, so that it can't be compared",
}
"""Walls that are missing or can't be seen to stand. Others are only told in other words."""


@pytest.fixture(scope="module")
def podman(tools: object, docker_host: str) -> Iterator[str]:
    with podman_service.serving() as address:
        podman_service.copy_image(IMAGE, address)
        yield address


@pytest.fixture
def spec() -> ContainerSpec:
    return ContainerSpec(
        image=IMAGE,
        image_digest="",
        memory_bytes=96 * 2**20,
        pids=16,
        cpus=1.0,
        work_bytes=4 * 2**20,
        work_files=256,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={
            LABEL_DAEMON: UlidGenerator().new(),
            LABEL_GENERATION: "1",
            LABEL_CONTAINER: UlidGenerator().new(),
            LABEL_POOL_KEY: "test",
        },
    )


async def test_podman_is_told_apart_and_refused(podman: str) -> None:
    engine = DockerEngine(base_url=podman)
    with pytest.raises(EngineError, match="this is Podman"):
        await engine.info()
    await engine.close()


async def test_walls_that_podman_does_not_build_are_the_declared_ones(
    podman: str, spec: ContainerSpec
) -> None:
    engine = podman_service.PodmanEngine(podman)
    asked = replace(spec, image_digest=(await engine.image(IMAGE)).digest)
    ref = await engine.create(asked)

    with pytest.raises(EngineError) as caught:
        await engine.verify(ref, asked)

    await engine.remove(ref)
    await engine.close()
    assert caught.value.code == "engine.mismatch"
    said = caught.value.message
    assert [wall for wall in WEAKER if f"{wall} is" not in said] == []


def test_daemon_on_podman_is_up_and_says_why_it_does_not_serve(make_daemon: MakeDaemon, podman: str) -> None:
    daemon = make_daemon(podman)
    daemon.spawn()

    line = daemon.log.wait_for("sandbox.not_ready", 90)

    assert line["code"] == "engine.unsupported"
    assert "this is Podman" in line["problem"]
    assert "fail\tengine" in daemon.assay("doctor").stdout
    assert daemon.stop() == 0
