"""Every wall of what is cloned from a template: a probe sees it hold, and the inspection sees it gone.

The template's program is the daemon's own but for one change. What a probe in the container could not tell
apart is left to the inspection, which knows the namespaces of the template.

Not shown here, as it cannot be taken away: no new privileges, and a root that is read-only, which are the
template's already; and a fresh `/proc`, without which no child can write the map of its user namespace.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assayd.clock import UlidGenerator
from assayd.engines.oci import OciEngine
from assayd.engines.oci.container import find_process_differences
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON
from support.engines import flag_probes
from support.engines.bare_container import spec
from support.engines.bare_oci import WAIT
from support.engines.oci import PYTHON, needs_oci, oci_engine

pytestmark = [needs_oci, pytest.mark.asyncio(loop_scope="module")]

PROBES = Path(flag_probes.__file__).read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """A wall: how the template's program is changed so that it is gone, and what the inspection says of that.

    `probe`, where the container itself can tell, sees `holds`, and something else without the wall.
    """

    change: tuple[str, str] = ("", "")
    said: str
    probe: str = ""
    holds: Any = None
    limits: Mapping[str, str] = field(default_factory=dict)


def namespace(name: str, flag: str) -> Wall:
    said = f"namespace {name} is also that of the template"
    return Wall(change=(f'"{name}": {flag}', '"none": 0'), said=said)


def limit(path: str, said: str) -> Wall:
    return Wall(limits={path: "-1" if path.startswith("cpu") else "max"}, said=said)


WORK = '_mount("work", root + BASE, "tmpfs", flags'
WALLS: Mapping[str, Wall] = {
    "mount namespace": namespace("mnt", "0x00020000"),
    "host name namespace": namespace("uts", "0x04000000"),
    "ipc namespace": namespace("ipc", "0x08000000"),
    "process namespace": namespace("pid", "0x20000000"),
    "network": namespace("net", "0x40000000"),
    "control group namespace": Wall(
        change=('_raise_on_error(_libc.unshare(_NEW_CGROUP), "unshare")', "pass"),
        said="namespace cgroup is also that of the template",
        probe="control_group",
        holds=["/"],
    ),
    "control groups": Wall(change=('os.write(member, b"0")', "pass"), said="control group "),
    "user": Wall(change=("os.setresuid(uid, uid, uid)", "return"), said="Uid is"),
    "capabilities": Wall(
        change=("    _drop_capabilities()\n", ""), said="CapEff is", probe="capabilities", holds=0
    ),
    "seccomp": Wall(change=("_apply_filter(self._filter)", "pass"), said="it has 1 seccomp filters"),
    "masked files": Wall(
        change=('in plan["masked"].items():', "in ():"),
        said="/proc/interrupts isn't mounted",
        probe="masked_file",
        holds=False,
    ),
    "read-only kernel settings": Wall(
        change=('in plan["readonly"]:', "in ():"),
        said="/proc/sys isn't mounted",
        probe="kernel_settings_are_writable",
        holds=False,
    ),
    "file size": Wall(
        change=('in request["limits"].items():', "in ():"),
        said="limit fsize",
        probe="file_size",
        holds=4 * 2**20,
    ),
    "open files": Wall(
        change=('in request["limits"].items():', "in ():"),
        said="limit nofile",
        probe="open_files",
        holds=128,
    ),
    "pending signals": Wall(
        change=('in request["limits"].items():', "in ():"),
        said="limit sigpending",
        probe="pending_signals",
        holds=False,
    ),
    "processes of the user": Wall(
        change=('in request["limits"].items():', "in ():"),
        said="limit nproc",
        probe="processes_of_the_user",
        holds=24,
    ),
    "work directory's size": Wall(change=("{request['work']},", ""), said="/sandbox: size"),
    "work directory's files": Wall(change=("{request['work']},", ""), said="/sandbox: nr_inodes"),
    "work directory without programs": Wall(
        change=(WORK, WORK.replace("flags", "_NOSUID | _NODEV")),
        said="/sandbox lacks noexec",
        probe="work_programs",
        holds=126,
    ),
    "work directory without set-uid": Wall(
        change=(WORK, WORK.replace("flags", "_NOEXEC | _NODEV")), said="/sandbox lacks nosuid"
    ),
    "work directory without devices": Wall(
        change=(WORK, WORK.replace("flags", "_NOEXEC | _NOSUID")), said="/sandbox lacks nodev"
    ),
    "shared memory": Wall(
        change=('plan["shm"]', '"mode=1777,size=4194304"'),
        said="/dev/shm: size",
        probe="shared_memory_bytes",
        holds=65536,
    ),
    "processes": limit("pids/pids.max", "pids.max is"),
    "processor": limit("cpu/cpu.cfs_quota_us", "cpu.cfs_quota_us is"),
}


async def cloned(
    change: tuple[str, str], limits: Mapping[str, str], *probes: str
) -> tuple[dict[str, Any], list[str]]:
    """Clone a container that runs these probes; return their values and the inspection's report."""
    engine = oci_engine(templates=True)
    try:
        image = await engine.image("assayd/python")
        stored = engine._images.get(image.digest)
        arguments = [*PYTHON, PROBES + WAIT, *probes]
        engine._images._verified[image.digest] = replace(stored, arguments=arguments)
        source = engine._templates.source.decode()
        assert change[0] in source
        engine._templates.source = source.replace(*change).encode()
        return await _run(engine, image.digest, limits)
    finally:
        await engine.close()


async def _run(engine: OciEngine, digest: str, limits: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    labels = {LABEL_DAEMON: "test-flags", LABEL_CONTAINER: UlidGenerator().new()}
    ref = await engine.create(replace(spec(), image_digest=digest, labels=labels))
    try:
        container = engine._containers[ref.engine_id]
        template = engine._templates.of(ref.engine_id)
        assert template is not None
        stream = await engine.start(ref)
        for path, value in limits.items():
            controller, _, name = path.partition("/")
            Path(container.group.folders[controller], name).write_text(value)
        stream._inspect = None  # what differs is asked for below
        said = await stream.read()
        assert container.process is not None
        assert said, stream.diagnostics.decode()
        found = find_process_differences(
            container.process, container, partial(template.list_template_and_siblings, container)
        )
        return json.loads(said), found
    finally:
        await engine.remove(ref)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole() -> AsyncIterator[tuple[dict[str, Any], list[str]]]:
    names = {wall.probe for wall in WALLS.values()} - {""}
    others = ("network_devices", "new_privileges", "root_is_writable", "user", "user_map")
    yield await cloned(("", ""), {}, *sorted(names), *others)


@pytest.mark.parametrize("name", [name for name, wall in WALLS.items() if wall.probe])
async def test_wall_holds(whole: tuple[dict[str, Any], list[str]], name: str) -> None:
    assert whole[0][WALLS[name].probe] == WALLS[name].holds


async def test_inspection_is_silent_where_every_wall_stands(whole: tuple[dict[str, Any], list[str]]) -> None:
    assert whole[1] == []


async def test_walls_that_are_the_templates_already_hold(whole: tuple[dict[str, Any], list[str]]) -> None:
    names = ("new_privileges", "root_is_writable")
    assert [whole[0][name] for name in names] == [False, False]
    assert whole[0]["user"][:2] == [10001, 10001]
    assert (whole[0]["user_map"][0], whole[0]["user_map"][2:]) == ("10001", ["1"])
    assert not any(name.startswith(("eth", "en", "veth", "wl")) for name in whole[0]["network_devices"])


@pytest.mark.parametrize("name", WALLS)
async def test_wall_that_is_taken_away_is_seen(name: str) -> None:
    wall = WALLS[name]
    seen, found = await cloned(wall.change, wall.limits, wall.probe or "user")
    assert [each for each in found if each.startswith(wall.said)], found
    assert not wall.probe or seen[wall.probe] != wall.holds


async def test_child_without_a_user_namespace_of_its_own_cannot_give_up_its_rights_and_does_not_start() -> (
    None
):
    change = ('_raise_on_error(_libc.unshare(_NEW_USER), "unshare user")', "return")
    with pytest.raises(AssertionError, match="can't be confined: PermissionError"):
        await cloned(change, {}, "user")
