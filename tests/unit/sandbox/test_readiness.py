"""Readiness on the fake engine: what keeps the daemon from serving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import assayd.guest
from assayd.clock import SystemClock
from assayd.errors import EngineError
from assayd.imaging.tree import compute_guest_digest
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.run import Limits, RunSpec
from assayd.ports.engine import EngineInfo, ImageFacts
from assayd.sandbox.pool import STUCK_REMOVAL_RETRY_S, ContainerPool, Reaper
from assayd.sandbox.readiness import IsolationCheck, ReadinessSupervisor
from assayd.sandbox.sandbox import LABEL_GUEST, ImageCache, Sandbox
from support.engines.sandboxes import no_way_out
from support.engines.warm_pool import IMAGE, A, polite_guest, running, until
from support.fakes.engine import FakeEngine

GUEST = Path(assayd.guest.__file__).parent
LIMITS = Limits(timeout_s=5, unit_timeout_s=1, memory_bytes=2**20, max_processes=1)


class FrozenClock(SystemClock):
    """A clock that a test sets."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at


class HoledEngine(FakeEngine):
    """An engine version with a known vulnerability."""

    async def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake", version="0", runtime="none", kernel="none", cgroup_version=0, warnings=("CVE-1",)
        )


async def held(_: Sandbox) -> list[str]:
    """Report that every protection holds."""
    return []


@pytest.mark.parametrize(("refuse", "health"), [(False, HealthStatus.WARN), (True, HealthStatus.FAIL)])
async def test_known_holes_of_the_engine_are_a_warning_or_by_setting_an_error(
    refuse: bool, health: HealthStatus
) -> None:
    engine = HoledEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        sandbox = Sandbox(
            pool=pool,
            images=ImageCache(engine, Path(assayd.guest.__file__).parent),
            clock=SystemClock(),
            seccomp="{}",
            egress=no_way_out(),
        )
        reaper = Reaper(engine=engine, daemon_id="d", live=pool.list_live_containers, on_gone=pool.forget)
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
        assert (await house.run_health_checks())[0].status is health
        preparing.cancel()


async def test_engine_row_says_how_containers_are_made_and_what_else_could_be_had() -> None:
    class Cloning(FakeEngine):
        async def info(self) -> EngineInfo:
            return EngineInfo(
                name="oci", version="1", runtime="/bin/r", kernel="k", cgroup_version=1, mode="templates on"
            )

    engine = Cloning(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        images = ImageCache(engine, Path(assayd.guest.__file__).parent)
        house = ReadinessSupervisor(
            engine=engine,
            reaper=Reaper(engine=engine, daemon_id="d", live=pool.list_live_containers, on_gone=pool.forget),
            sandbox=Sandbox(pool=pool, images=images, clock=SystemClock(), seccomp="{}", egress=no_way_out()),
            usual=(),
            isolation_check=held,
        )
        house.engine_note = "another is here too"
        await house.prepare()
        [row, *_] = await house.run_health_checks()
    assert row.detail == "oci 1, /bin/r, templates on, cgroup v1, k; another is here too"


async def test_all_images_that_are_to_be_built_are_named_at_once() -> None:
    engine = FakeEngine(polite_guest, images=[IMAGE])
    async with running(engine) as pool:
        house = ReadinessSupervisor(
            engine=engine,
            reaper=Reaper(engine=engine, daemon_id="d", live=pool.list_live_containers, on_gone=pool.forget),
            sandbox=Sandbox(
                pool=pool,
                images=ImageCache(engine, Path(assayd.guest.__file__).parent),
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


def built(name: str) -> ImageFacts:
    """Return an image with the current guest code."""
    labels = {LABEL_GUEST: compute_guest_digest(GUEST)}
    return ImageFacts(name=f"assayd/{name}", digest=f"sha256:{name}", size_bytes=1, labels=labels)


def supervisor(
    engine: FakeEngine, pool: ContainerPool, *images: str, isolation_check: IsolationCheck = held
) -> ReadinessSupervisor:
    sandbox = Sandbox(
        pool=pool, images=ImageCache(engine, GUEST), clock=SystemClock(), seccomp="{}", egress=no_way_out()
    )
    return ReadinessSupervisor(
        engine=engine,
        reaper=Reaper(engine=engine, daemon_id="d", live=pool.list_live_containers, on_gone=pool.forget),
        sandbox=sandbox,
        usual=[RunSpec(image=image, limits=LIMITS, units=()) for image in images],
        isolation_check=isolation_check,
    )


async def test_missing_image_takes_out_its_kinds_alone() -> None:
    engine = FakeEngine(polite_guest, images=[built("python")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", "forth")
        await house.prepare()

        assert house.ready() == (True, "")
        assert "assay images build" in house.image_problem("forth")
        assert house.image_problem("python") == ""
        rows = {row.check: row.status for row in await house.run_health_checks()}
    assert rows["image forth"] is HealthStatus.FAIL
    assert rows["containers"] is HealthStatus.OK


async def test_image_that_was_missing_is_used_once_it_is_built() -> None:
    engine = FakeEngine(polite_guest, images=[built("python")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", "forth")
        house.look_again_s = 0
        await house.prepare()
        keeping = asyncio.create_task(house.keep_ready())
        await until(lambda: house.image_problem("forth"))
        engine.add_image(built("forth"))
        await until(lambda: not house.image_problem("forth"))
        keeping.cancel()


async def test_nothing_runs_without_the_image_of_the_isolation_check() -> None:
    engine = FakeEngine(polite_guest, images=[built("forth")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", "forth")
        preparing = asyncio.create_task(house.prepare())
        await until(house.tried.is_set)
        preparing.cancel()
        assert not house.ready()[0]


async def test_all_missing_images_are_named_if_the_isolation_check_fails_for_one() -> None:
    async def lacks_its_image(_: Sandbox) -> Sequence[str]:
        raise EngineError("image.missing", "no image python")

    engine = FakeEngine(polite_guest, images=[built("forth")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", "adapter", isolation_check=lacks_its_image)
        preparing = asyncio.create_task(house.prepare())
        await until(house.tried.is_set)
        preparing.cancel()
    assert house.problem.endswith("run: assay images build python adapter")


async def test_images_are_looked_up_while_the_isolation_is_checked() -> None:
    engine = FakeEngine(polite_guest, images=[built("python"), built("forth")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", "forth", isolation_check=lambda _: looked_up(house))
        await asyncio.wait_for(house.prepare(), 5)
        assert house.ready()[0]


async def looked_up(house: ReadinessSupervisor) -> Sequence[str]:
    """Wait until the last image is known; report no fault."""
    await until(lambda: "forth" in house.sandbox.images._known)
    return []


async def test_image_that_only_a_profile_needs_is_no_fault_and_has_its_command() -> None:
    """Regression: doctor said "ok … the engine lacks the image"."""
    engine = FakeEngine(polite_guest, images=[built("python")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python")
        house.list_profile_images = lambda: {"cpp": ["cpp"]}
        house.build_command = "DOCKER_HOST=unix:///d assay images build"
        await house.prepare()
        [row] = [row for row in await house.run_health_checks() if row.check == "image cpp"]
    assert (row.status, row.detail) == (HealthStatus.OK, "not built; only the profile cpp needs it")
    assert row.remedy == "DOCKER_HOST=unix:///d assay images build cpp"


async def examined(house: ReadinessSupervisor, check: str) -> HealthRow:
    """Return a row of doctor."""
    rows = [*await house.run_health_checks(), await house.check_isolation()]
    return next(row for row in rows if row.check == check)


async def test_engine_that_was_started_is_well() -> None:
    engine = FakeEngine(polite_guest, images=[built("python")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python")
        await house.prepare()
        engine.fail_next("info", EngineError("engine.unreachable", "no engine", retryable=True))
        row = await examined(house, "engine")
        assert (row.status, row.remedy) == (HealthStatus.FAIL, "start the container engine")

        assert (await examined(house, "engine")).status is HealthStatus.OK  # it answers again


async def test_container_that_was_removed_by_hand_is_left_no_longer() -> None:
    engine, clock = FakeEngine(polite_guest, images=[IMAGE]), FrozenClock()
    async with running(engine, clock=clock) as pool:
        house = supervisor(engine, pool)
        await house.prepare()
        container, _ = await pool.acquire(A)
        engine.fail_next("remove", EngineError("engine.timeout", "slow", retryable=True))
        pool.release(container)
        await until(lambda: bool(pool.stuck))
        row = await examined(house, "containers")
        assert container.ref.ulid in row.detail
        assert "remove them manually (they have the label org.assayd.container)" in row.remedy

        await engine.remove(container.ref)

        clock.at += STUCK_REMOVAL_RETRY_S
        async with asyncio.timeout(5):
            while (await examined(house, "containers")).status is not HealthStatus.OK:
                await asyncio.sleep(0.01)


async def test_isolation_that_was_corrected_is_well_at_the_next_examination() -> None:
    leaks = ["/proc/kcore can be read"]

    async def leaking(_: Sandbox) -> list[str]:
        return leaks

    engine = FakeEngine(polite_guest, images=[built("python")])
    async with running(engine) as pool:
        house = supervisor(engine, pool, "python", isolation_check=leaking)
        row = await examined(house, "isolation")
        assert (row.status, row.detail) == (HealthStatus.FAIL, leaks[0])
        assert "until this is corrected" in row.remedy

        leaks.clear()

        assert (await examined(house, "isolation")).status is HealthStatus.OK
