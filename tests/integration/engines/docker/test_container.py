"""A container of the Docker engine, seen from inside."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from assayd.clock import UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerRef,
    ContainerSpec,
)
from support.engines import engine_image

pytestmark = pytest.mark.engine

IMAGE = f"assayd-test/look-around-{os.getpid()}"
PROGRAM = Path(engine_image.__file__).with_name("look_around.py")
ULIDS = UlidGenerator()


@pytest.fixture(scope="module")
def looking_image() -> Iterator[str]:
    engine_image.commit(IMAGE, PROGRAM.read_text())
    yield IMAGE
    engine_image.drop(IMAGE)


@pytest.fixture
async def engine() -> AsyncIterator[DockerEngine]:
    made = DockerEngine(base_url=None)
    yield made
    await made.close()


@pytest.fixture
async def container(engine: DockerEngine, looking_image: str) -> AsyncIterator[ContainerRef]:
    image = await engine.image(looking_image)
    spec = ContainerSpec(
        image=image.name,
        image_digest=image.digest,
        memory_bytes=96 * 2**20,
        pids=16,
        cpus=1.0,
        work_bytes=4 * 2**20,
        work_files=256,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={
            LABEL_DAEMON: ULIDS.new(),
            LABEL_GENERATION: "1",
            LABEL_CONTAINER: ULIDS.new(),
            LABEL_POOL_KEY: "test",
        },
    )
    ref = await engine.create(spec)
    yield ref
    await engine.remove(ref)


@pytest.fixture
async def seen(engine: DockerEngine, container: ContainerRef) -> dict[str, Any]:
    stream = await engine.start(container)
    text = b""
    async with asyncio.timeout(20):
        while not text.endswith(b"\n"):
            piece = await stream.read()
            assert piece, stream.diagnostics
            text += piece
    return dict(json.loads(text))


async def test_guest_has_no_privilege_and_no_way_to_one(seen: dict[str, Any]) -> None:
    status = seen["status"]
    assert {status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert set(status["Uid"].split() + status["Gid"].split()) == {"10001"}
    assert status["Groups"].split() in ([], ["10001"])


async def test_guest_is_alone(seen: dict[str, Any]) -> None:
    assert (seen["pid"], seen["processes"]) == (1, ["1"])
    assert (seen["hostname"], seen["interfaces"]) == ("sandbox", ["lo"])
    assert seen["environment"] == ["HOME", "HOSTNAME", "LANG", "PATH"]


async def test_guest_can_write_to_its_work_directory_and_to_shared_memory_only(seen: dict[str, Any]) -> None:
    assert seen["writable"] == ["/dev/shm", "/sandbox"]
    assert not seen["queues"]
    assert {"rw", "nosuid", "nodev", "noexec"} <= set(seen["sandbox"])
    assert (seen["sandbox_bytes"], seen["sandbox_files"]) == (4 * 2**20, 256)


async def test_guest_is_limited(seen: dict[str, Any]) -> None:
    assert seen["limits"] == {
        "RLIMIT_CORE": [0, 0],
        "RLIMIT_FSIZE": [4 * 2**20] * 2,
        "RLIMIT_NOFILE": [128, 128],
        "RLIMIT_MSGQUEUE": [0, 0],
    }
