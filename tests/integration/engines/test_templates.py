"""Templates: their clones, the clones' ends, and what a template leaves."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd.engines.oci import OciEngine
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON, ContainerRef, ContainerSpec
from support.engines.oci import IMAGES, PYTHON, derive, needs_oci, oci_engine, traces

pytestmark = needs_oci

NAME = "assayd-test/waits"
PROGRAM = "import os; os.write(1, b'%s'); os.read(0, 1)"
ULIDS = UlidGenerator()
LEFT_BY_A_DAEMON = """
import asyncio, os, sys
from assayd.engines.oci import OciEngine
from integration.engines import test_templates as tests
from support.engines.oci import RUN
from pathlib import Path

async def main():
    engine = OciEngine(images=Path(sys.argv[1]), run=RUN, templates=True)
    ref = await engine.create(await tests.spec(engine, sys.argv[2]))
    await (await engine.start(ref)).read()
    both = engine._templates.of(ref.engine_id).container, engine._containers[ref.engine_id]
    print("left", *(f"{each.record.name}={each.process.pid}" for each in both), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def store() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="test-", dir=IMAGES))
    folder.chmod(0o755)
    derive(NAME, [*PYTHON, PROGRAM % "one"], folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def engine(store: Path) -> AsyncIterator[OciEngine]:
    made = oci_engine(store, templates=True)
    yield made
    await made.close()


async def spec(engine: OciEngine, daemon_id: str, preload: tuple[str, ...] = ()) -> ContainerSpec:
    image = await engine.image(NAME)
    return ContainerSpec(
        image=image.name,
        image_digest=image.digest,
        memory_bytes=48 * 2**20,
        pids=16,
        cpus=1.0,
        work_bytes=4 * 2**20,
        work_files=64,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={LABEL_DAEMON: daemon_id, LABEL_CONTAINER: ULIDS.new()},
        preload=preload,
    )


async def begun(engine: OciEngine, preload: tuple[str, ...] = ()) -> tuple[ContainerRef, bytes]:
    ref = await engine.create(await spec(engine, ULIDS.new(), preload))
    return ref, await (await engine.start(ref)).read()


def pid_of(engine: OciEngine, ref: ContainerRef) -> int:
    process = engine._containers[ref.engine_id].process
    assert process is not None
    return process.pid


def template_of(engine: OciEngine, ref: ContainerRef) -> str:
    template = engine._templates.of(ref.engine_id)
    assert template is not None
    return template.container.record.name


async def test_containers_of_an_image_are_cloned_from_one_template_which_ends_with_the_engine(
    engine: OciEngine,
) -> None:
    refs = [(await begun(engine))[0] for _ in range(3)]
    [name] = {template_of(engine, ref) for ref in refs}
    for ref in refs:
        await engine.remove(ref)
    alive = traces(name)
    await engine.close()
    assert alive
    assert traces(name) == []
    assert [traces(ref.engine_id) for ref in refs] == [[], [], []]


async def test_containers_share_no_namespace_user_or_control_group(engine: OciEngine) -> None:
    refs = [(await begun(engine))[0] for _ in range(2)]
    template = engine._templates.of(refs[0].engine_id)
    assert template is not None
    assert template.container.process is not None
    pids = [template.container.process.pid, *(pid_of(engine, ref) for ref in refs)]
    for name in ("pid", "net", "ipc", "uts", "mnt", "cgroup", "user"):
        assert len({Path(f"/proc/{pid}/ns/{name}").readlink() for pid in pids}) == 3, name
    assert len({Path(f"/proc/{pid}").stat().st_uid for pid in pids}) == 3
    assert len({Path(f"/proc/{pid}/cgroup").read_text() for pid in pids}) == 3
    for ref in refs:
        await engine.remove(ref)


async def test_loopback_is_up_only_where_code_can_use_the_network(engine: OciEngine) -> None:
    for loopback in (False, True):
        ref = await engine.create(replace(await spec(engine, ULIDS.new()), loopback=loopback))
        await (await engine.start(ref)).read()
        addresses = Path(f"/proc/{pid_of(engine, ref)}/net/fib_trie").read_text()
        assert ("127.0.0.1" in addresses) is loopback
        await engine.remove(ref)


async def test_many_containers_that_come_and_go_are_never_taken_for_each_other(engine: OciEngine) -> None:
    places = asyncio.Semaphore(4)

    async def one() -> bytes:
        async with places:
            ref, said = await begun(engine)
            await engine.remove(ref)
            return said

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one()) for _ in range(40)]
    assert {task.result() for task in tasks} == {b"one"}
    assert engine.templates == "on"


async def test_child_holds_no_descriptor_but_its_streams(engine: OciEngine) -> None:
    ref, _ = await begun(engine)
    held = {int(path.name) for path in Path(f"/proc/{pid_of(engine, ref)}/fd").iterdir()}
    assert held == {0, 1, 2}
    await engine.remove(ref)


async def test_template_remembers_neither_the_names_nor_the_limits_of_its_children(engine: OciEngine) -> None:
    ref, _ = await begun(engine)
    template = engine._templates.of(ref.engine_id)
    assert template is not None
    assert template.container.process is not None
    pid, held = template.container.process.pid, b""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(part, 16) for part in place.split("-"))
                memory.seek(start)
                held += memory.read(end - start)
    await engine.remove(ref)
    assert b"ASSAYD" in held or b"python3.11" in held  # it was read
    assert [said for said in (ref.engine_id.encode(), b"nr_inodes=64,") if said in held] == []


async def test_template_is_not_among_the_containers_of_a_daemon(engine: OciEngine) -> None:
    owner = ULIDS.new()
    ref = await engine.create(await spec(engine, owner))
    assert [each.engine_id for each in await engine.list_owned(owner)] == [ref.engine_id]
    await engine.remove(ref)
    assert await engine.list_owned(owner) == []


async def test_other_list_of_modules_is_another_template(engine: OciEngine) -> None:
    refs = [(await begun(engine, preload))[0] for preload in ((), ("json",), ("json",))]
    names = [template_of(engine, ref) for ref in refs]
    for ref in refs:
        await engine.remove(ref)
    assert (names[0] != names[1], names[1] == names[2]) == (True, True)


async def test_template_that_died_takes_its_children_along_and_is_made_anew(engine: OciEngine) -> None:
    first, _ = await begun(engine)
    template, process = engine._templates.of(first.engine_id), engine._containers[first.engine_id].process
    assert template is not None
    assert template.container.process is not None
    assert process is not None
    template.container.process.kill()
    async with asyncio.timeout(20):
        await process.ended.wait()
    second, said = await begun(engine)
    names = template.container.record.name, template_of(engine, second)
    for ref in (first, second):
        await engine.remove(ref)
    await engine.close()
    assert (said, names[0] != names[1], [traces(name) for name in names]) == (b"one", True, [[], []])


async def test_template_does_not_outlive_a_change_of_its_image(engine: OciEngine, store: Path) -> None:
    first, before = await begun(engine)
    old = template_of(engine, first)
    derive(NAME, [*PYTHON, PROGRAM % "two"], store)
    second, after = await begun(engine)
    kept = traces(old)
    await engine.remove(first)
    assert (before, after, bool(kept), traces(old)) == (b"one", b"two", True, [])
    await engine.remove(second)


async def test_image_that_a_template_cannot_hold_is_started_by_the_runtime(
    engine: OciEngine, store: Path
) -> None:
    derive(NAME, ["/usr/bin/python3.11", "/nowhere"], store)
    ref = await engine.create(await spec(engine, ULIDS.new()))
    assert engine._templates.of(ref.engine_id) is None
    assert engine.templates.startswith("on: assayd-test/waits: templates need a Python program")
    await engine.remove(ref)


async def test_template_that_does_not_start_is_tried_three_times_and_never_stands_in_the_way(
    engine: OciEngine,
) -> None:
    engine._templates.source = b"raise SystemExit(3)"
    said = []
    for _ in range(4):
        ref, word = await begun(engine)
        assert engine._templates.of(ref.engine_id) is None
        said.append(word)
        await engine.remove(ref)
    assert (said, max(engine._templates._failures.values())) == ([b"one"] * 4, 3)


async def test_template_that_could_not_be_started_is_tried_again_after_a_pause(engine: OciEngine) -> None:
    whole = engine._templates.source
    engine._templates.source = b"raise SystemExit(3)"
    for _ in range(3):
        await engine.remove((await begun(engine))[0])
    engine._templates.source = whole
    paused, _ = await begun(engine)
    without = engine._templates.of(paused.engine_id)
    engine._templates.pause_s = 0.0
    again, said = await begun(engine)
    assert (without, said, engine.templates) == (None, b"one", "on")
    assert template_of(engine, again)
    for ref in (paused, again):
        await engine.remove(ref)


async def test_given_up_templates_end_with_their_last_child(engine: OciEngine) -> None:
    first, _ = await begun(engine)
    name = template_of(engine, first)
    await engine.disable_templates("a wall does not hold")
    second, _ = await begun(engine)
    assert (engine._templates.of(second.engine_id), engine.templates) == (None, "off: a wall does not hold")
    await engine.remove(first)
    assert traces(name) == []
    await engine.remove(second)


async def test_template_and_children_end_with_a_daemon_that_is_killed(store: Path) -> None:
    owner = ULIDS.new()
    paths = [*sys.path, str(Path(__file__).parents[2])]
    command = [sys.executable, "-c", LEFT_BY_A_DAEMON, str(store), owner]
    daemon = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    )
    assert daemon.stdout is not None
    line = next(line for line in daemon.stdout if line.startswith(b"left"))
    left = dict(word.decode().split("=") for word in line.split()[1:])
    descriptors = [os.pidfd_open(int(pid)) for pid in left.values()]
    daemon.send_signal(signal.SIGKILL)
    daemon.communicate()
    ended = [bool(select.select([each], [], [], 20)[0]) for each in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)

    other = oci_engine(store, templates=True)
    for each in await other.list_owned(owner):  # unless the start of another test's engine swept them
        await other.remove(ContainerRef(engine_id=each.engine_id, ulid=""))
    await other.close()
    async with asyncio.timeout(20):  # a sweep may be under way
        while any(traces(name) for name in left):
            await asyncio.sleep(0.05)
    assert (ended, len(left)) == ([True, True], 2)
