"""The engine that the settings select."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import assayd.guest
from assayd.clock import SystemClock, UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.engines.oci import OciEngine
from assayd.engines.oci.host import find_host
from assayd.errors import EngineError
from assayd.imaging.tree import compute_guest_digest
from assayd.metrics import Metrics, wrap_engine_with_metrics
from assayd.model.run import Limits, RunSpec
from assayd.ports.engine import ContainerRef, ContainerSpec, Engine, EngineInfo, ImageFacts
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.sandbox import LABEL_GUEST, ImageCache, Sandbox
from assayd.settings import Settings
from assayd.settings.model import EngineSettings
from assayd.wiring.engine import (
    ComparedEngine,
    EngineComparison,
    choose_engine,
    read_comparison,
)
from support.engines.sandboxes import no_way_out
from support.engines.warm_pool import owned, polite_guest, running
from support.fakes.engine import FakeEngine


def settings(tmp_path: Path, **engine: object) -> Settings:
    return Settings(state_dir=tmp_path, engine=EngineSettings(run_dir=tmp_path / "run", **engine))


@pytest.mark.parametrize(("kind", "made"), [("docker", DockerEngine), ("oci", OciEngine)])
async def test_engine_that_is_named_is_taken_whether_or_not_it_answers(
    tmp_path: Path, kind: str, made: type
) -> None:
    chosen = await choose_engine(settings(tmp_path, kind=kind, url=f"unix://{tmp_path}/absent"))
    assert isinstance(chosen.engine, made)
    assert (chosen.kind, chosen.reason) == (kind, "set by engine.kind")
    await chosen.engine.close()


@pytest.mark.parametrize("by_setting", [True, False])
async def test_docker_whose_address_is_given_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_setting: bool
) -> None:
    address = f"unix://{tmp_path}/absent"
    monkeypatch.setenv("DOCKER_HOST", "" if by_setting else address)
    chosen = await choose_engine(settings(tmp_path, url=address if by_setting else None))
    assert (chosen.kind, chosen.reason) == ("docker", "its address is set")
    assert bool(chosen.note) == _does_without_docker()
    await chosen.engine.close()


def _does_without_docker() -> bool:
    try:
        find_host()
    except EngineError:
        return False
    return True


GUEST = Path(assayd.guest.__file__).parent
IMAGE = ImageFacts(
    name="assayd/python", digest="sha256:1", size_bytes=1, labels={LABEL_GUEST: compute_guest_digest(GUEST)}
)
SPEC = RunSpec(
    image="python",
    limits=Limits(timeout_s=10, unit_timeout_s=2, memory_bytes=64 * 2**20, max_processes=2),
    units=(),
)


class Clock(SystemClock):
    """A clock that only engines move."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class TimedEngine(FakeEngine):
    """An engine whose containers take so long to make."""

    def __init__(self, name: str, runtime: str, clock: Clock, took_s: float, *images: ImageFacts) -> None:
        super().__init__(polite_guest, images=images)
        self._info = EngineInfo(name=name, version="1", runtime=runtime, kernel="k", cgroup_version=1)
        self._clock = clock
        self._took_s = took_s
        self.made = 0

    async def info(self) -> EngineInfo:
        return self._info

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        self._clock.now_s += self._took_s
        self.made += 1
        return await super().create(spec)


@asynccontextmanager
async def comparison(
    tmp_path: Path, other: TimedEngine, chosen: TimedEngine, clock: Clock, leaks: Sequence[str] = ()
) -> AsyncIterator[EngineComparison]:
    def contender(engine: TimedEngine, pool) -> ComparedEngine:
        images = ImageCache(engine, GUEST)
        sandbox = Sandbox(pool=pool, images=images, clock=clock, seccomp="{}", egress=no_way_out())
        return ComparedEngine(engine=engine, sandbox=sandbox)

    async def challenge(stack: AsyncExitStack) -> ComparedEngine:
        return contender(other, await stack.enter_async_context(running(other)))

    async def check(_: ComparedEngine) -> Sequence[str]:
        return leaks

    async with running(chosen) as pool:
        yield EngineComparison(
            chosen=contender(chosen, pool),
            challenge=challenge,
            check_isolation=check,
            spec=SPEC,
            origin=ContainerOrigin(daemon_id="d", generation="g"),
            clock=clock,
            ids=UlidGenerator(),
            file=tmp_path / "comparison.json",
            build="ASSAYD_ENGINE__KIND=oci assay images build",
        )


async def test_engine_that_holds_is_told_with_the_factor_and_the_next_start_knows_it(tmp_path: Path) -> None:
    clock = Clock()
    other = TimedEngine("oci", "/usr/bin/crun", clock, 0.02, IMAGE)
    docker = TimedEngine("docker", "runc 1", clock, 0.5, IMAGE)
    async with comparison(tmp_path, other, docker, clock) as comparing:
        sentence = await comparing.run()
        assert "25 times" in sentence
        assert "oci 1 (crun)" in sentence
        assert "in 20 ms" in sentence
        assert "in 500 ms" in sentence
        assert read_comparison(comparing.file) == sentence
        made = other.made
        assert await comparing.run() == sentence
        assert other.made == made  # not measured again
        assert await owned(other) == await owned(docker) == 0
    newer = TimedEngine("docker", "runc 2", clock, 0.2, IMAGE)
    async with comparison(tmp_path, other, newer, clock) as comparing:
        assert "10 times" in await comparing.run()


async def test_engine_whose_isolation_does_not_hold_is_not_recommended(tmp_path: Path) -> None:
    clock = Clock()
    other = TimedEngine("oci", "/usr/bin/crun", clock, 0.02, IMAGE)
    docker = TimedEngine("docker", "runc 1", clock, 0.5, IMAGE)
    async with comparison(tmp_path, other, docker, clock, ["it reads /etc"]) as comparing:
        sentence = await comparing.run()
        assert "isolation check failed: it reads /etc" in sentence
        assert "times" not in sentence
        assert not comparing.file.exists()


async def test_engine_without_images_is_told_with_what_to_do(tmp_path: Path) -> None:
    clock = Clock()
    other = TimedEngine("oci", "/usr/bin/crun", clock, 0.02)
    docker = TimedEngine("docker", "runc 1", clock, 0.5, IMAGE)
    async with comparison(tmp_path, other, docker, clock) as comparing:
        assert "run `ASSAYD_ENGINE__KIND=oci assay images build` and restart" in await comparing.run()


@pytest.mark.parametrize("content", ["", "[]", '{"between": 1}', '{"sentence": "s", "between": ["x"]}'])
def test_kept_comparison_that_is_damaged_or_of_others_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "f").write_text(content)
    assert read_comparison(tmp_path / "f", ["a", "b"]) == ""


class Answering:
    """An engine that has every call and accepts all arguments."""

    def __getattr__(self, name: str) -> object:
        async def call(*_: object) -> None:
            """Do nothing."""

        return call


async def nobody(_: object) -> None:
    """Do nothing, as a guest that is never started."""


async def test_call_is_counted_and_its_failure_by_code() -> None:
    metrics = Metrics()
    engine = wrap_engine_with_metrics(FakeEngine(nobody, images=[]), metrics, SystemClock())

    await engine.info()
    with pytest.raises(EngineError):
        await engine.image("absent")

    text = metrics.render_metrics().decode()
    assert 'assayd_engine_call_duration_seconds_count{call="info"} 1.0' in text
    assert 'assayd_engine_call_duration_seconds_count{call="image"} 1.0' in text
    assert 'assayd_engine_errors_total{call="image",code="image.missing"} 1.0' in text


async def test_call_reaches_the_engine_and_its_answer_comes_back() -> None:
    inner = FakeEngine(nobody, images=[])
    engine = wrap_engine_with_metrics(inner, Metrics(), SystemClock())

    await engine.remove(ContainerRef(engine_id="none", ulid=""))

    assert inner.calls == ["remove"]
    assert await engine.list_owned("none") == []


async def test_every_awaited_call_of_the_port_is_measured() -> None:
    metrics = Metrics()
    calls = [
        name for name, call in inspect.getmembers(Engine, inspect.iscoroutinefunction) if name != "close"
    ]
    engine = wrap_engine_with_metrics(Answering(), metrics, SystemClock())

    for name in calls:
        await getattr(engine, name)(name)

    counted = metrics.render_metrics().decode()
    assert all(f'assayd_engine_call_duration_seconds_count{{call="{name}"}} 1.0' in counted for name in calls)
    assert len(calls) > 5
