"""Readiness over the fake engine: what keeps the daemon from serving."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import assayd.guest
from assayd.ids import SystemClock
from assayd.model.health import Health
from assayd.model.run import Limits, RunSpec
from assayd.ports.engine import EngineInfo
from assayd.sandbox.images import Images
from assayd.sandbox.pool.reaper import Reaper
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.sandbox.sandbox import Sandbox
from support.engines.sandboxes import no_way_out
from support.engines.warm_pool import IMAGE, polite_guest, running, until
from support.fakes.engine import FakeEngine

LIMITS = Limits(timeout_s=5, unit_timeout_s=1, memory_bytes=2**20, max_processes=1)


class HoledEngine(FakeEngine):
    """An engine of a version with a known hole."""

    async def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake", version="0", runtime="none", kernel="none", cgroup_version=0, warnings=("CVE-1",)
        )


async def held(_: Sandbox) -> list[str]:
    """Find every wall holding."""
    return []


@pytest.mark.parametrize(("refuse", "health"), [(False, Health.WARN), (True, Health.FAIL)])
async def test_known_holes_of_the_engine_are_a_warning_or_by_setting_an_error(
    refuse: bool, health: Health
) -> None:
    engine = HoledEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        sandbox = Sandbox(
            pool=pool,
            images=Images(engine, Path(assayd.guest.__file__).parent),
            clock=SystemClock(),
            seccomp="{}",
            egress=no_way_out(),
        )
        reaper = Reaper(engine=engine, daemon_id="d", live=pool.live, on_gone=pool.forget)
        house = ReadinessSupervisor(
            engine=engine,
            reaper=reaper,
            sandbox=sandbox,
            usual=(),
            isolation_check=held,
            refuse_vulnerable=refuse,
        )
        preparing = asyncio.create_task(house.prepare())
        await until(lambda: preparing.done() or "CVE-1" in house.problem)
        assert house.ready()[0] is not refuse
        assert (await house.examine())[0].status is health
        preparing.cancel()


async def test_engine_row_says_how_containers_are_made_and_what_else_could_be_had() -> None:
    class Cloning(FakeEngine):
        async def info(self) -> EngineInfo:
            return EngineInfo(
                name="oci", version="1", runtime="/bin/r", kernel="k", cgroup_version=1, mode="templates on"
            )

    engine = Cloning(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        images = Images(engine, Path(assayd.guest.__file__).parent)
        house = ReadinessSupervisor(
            engine=engine,
            reaper=Reaper(engine=engine, daemon_id="d", live=pool.live, on_gone=pool.forget),
            sandbox=Sandbox(pool=pool, images=images, clock=SystemClock(), seccomp="{}", egress=no_way_out()),
            usual=(),
            isolation_check=held,
        )
        house.engine_note = "another is here too"
        await house.prepare()
        [row, *_] = await house.examine()
    assert row.detail == "oci 1, /bin/r, templates on, cgroup v1, k; another is here too"


async def test_all_images_that_are_to_be_built_are_named_at_once() -> None:
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        house = ReadinessSupervisor(
            engine=engine,
            reaper=Reaper(engine=engine, daemon_id="d", live=pool.live, on_gone=pool.forget),
            sandbox=Sandbox(
                pool=pool,
                images=Images(engine, Path(assayd.guest.__file__).parent),
                clock=SystemClock(),
                seccomp="{}",
                egress=no_way_out(),
            ),
            usual=[RunSpec(image=image, limits=LIMITS, units=()) for image in ("forth", "adapter", "forth")],
            isolation_check=held,
        )
        preparing = asyncio.create_task(house.prepare())
        await until(lambda: preparing.done() or "run: assay" in house.problem)
        preparing.cancel()
    assert house.problem.endswith("run: assay images build adapter forth")
