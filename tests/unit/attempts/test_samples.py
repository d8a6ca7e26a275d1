"""Images that policies name: checked once, by isolation check and samples, before anything runs in them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import cast

import pytest

from assayd.attempts.samples import AGAIN_S, ImageTester, SelfTest
from assayd.clock import SystemClock
from assayd.errors import EngineError
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.model.policy import ExecutionPolicy
from assayd.model.run import Limits, Program, RunSpec, Unit
from assayd.model.submission import Sample
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.ports.engine import ImageFacts
from assayd.sandbox.sandbox import Sandbox

POLICIES = load_policies([get_shared_data_path("policies")])
SCIENCE = replace(POLICIES.get("code"), name="data", image="science")
CAPS = Limits(timeout_s=1, unit_timeout_s=1, memory_bytes=1, max_processes=1)
PYTHON = Unit(name="one", program=Program.PYTHON, arguments={}, deadline_s=1)
SPEC = RunSpec(image="science", limits=CAPS, units=(PYTHON,))


class Images:
    """A list of one image, whose digest a test may change."""

    digest = "sha256:1"
    labels: Mapping[str, str] = MappingProxyType({})

    async def get(self, name: str) -> ImageFacts:
        return ImageFacts(name=f"assayd/{name}", digest=self.digest, size_bytes=1, labels=self.labels)


class SteppedClock(SystemClock):
    """A clock that a test advances."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Machine:
    """Replaces sandbox, isolation check and self-test, and counts calls."""

    def __init__(self, leaks: Sequence[str] = (), wrong: Sequence[str] = ()) -> None:
        self.images = Images()
        self.clock = SteppedClock()
        self.leaks, self.wrong = leaks, wrong
        self.checked: list[str] = []
        self.tried: list[tuple[str, str | None]] = []
        self.samples: list[str] = []

    async def check(self, sandbox: Sandbox, image: str) -> Sequence[str]:
        self.checked.append(image)
        await asyncio.sleep(0)
        return self.leaks

    async def run_sample(
        self, validator: Kind, sample: Sample, *, policy: ExecutionPolicy, limits: Limits
    ) -> Sequence[str]:
        self.tried.append((validator.name, policy.image))
        self.samples.append(sample.name)
        return self.wrong

    def trials(self) -> ImageTester:
        sandbox, selftest = cast("Sandbox", self), cast("SelfTest", self)
        return ImageTester(sandbox, selftest, self.check, policies=POLICIES, caps=CAPS, clock=self.clock)


async def test_image_is_tried_once_for_all_who_come_at_the_same_time() -> None:
    machine = Machine()
    trials, code = machine.trials(), registry.find_validator("code")

    await asyncio.gather(*(trials.require_usable(code, SCIENCE, SPEC) for _ in range(5)))
    first = len(machine.tried)
    await trials.require_usable(code, SCIENCE, SPEC)

    assert machine.checked == ["science"]
    assert set(machine.tried) == {("code", "science")}
    assert len(machine.tried) == first > 0


async def test_second_kind_tries_its_samples_and_not_the_isolation_again() -> None:
    machine = Machine()
    trials = machine.trials()

    await trials.require_usable(registry.find_validator("code"), SCIENCE, SPEC)
    await trials.require_usable(registry.find_validator("script"), SCIENCE, SPEC)

    assert machine.checked == ["science"]
    assert {kind for kind, _ in machine.tried} == {"code", "script"}


async def test_image_that_was_built_anew_is_tried_anew() -> None:
    machine = Machine()
    trials, code = machine.trials(), registry.find_validator("code")
    await trials.require_usable(code, SCIENCE, SPEC)

    machine.images.digest = "sha256:2"
    await trials.require_usable(code, SCIENCE, SPEC)

    assert machine.checked == ["science", "science"]


async def test_image_that_failed_is_tried_again_after_a_minute() -> None:
    machine = Machine(leaks=["memory: ended as timeout"])
    trials, code = machine.trials(), registry.find_validator("code")
    with pytest.raises(EngineError):
        await trials.require_usable(code, SCIENCE, SPEC)
    machine.leaks = ()
    with pytest.raises(EngineError):
        await trials.require_usable(code, SCIENCE, SPEC)

    machine.clock.seconds += AGAIN_S
    await trials.require_usable(code, SCIENCE, SPEC)

    assert machine.checked == ["science", "science"]


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (Machine(leaks=["setuid: got through"]), "kind code: setuid: got through"),
        (Machine(wrong=["failed instead of validated"]), "failed instead of validated"),
    ],
)
async def test_image_that_does_not_hold_is_refused_each_time_and_says_why(
    machine: Machine, said: str
) -> None:
    trials, code = machine.trials(), registry.find_validator("code")

    for _ in range(2):
        with pytest.raises(EngineError) as raised:
            await trials.require_usable(code, SCIENCE, SPEC)
        assert raised.value.code == "image.unfit"
        assert said in raised.value.message
        assert not raised.value.retryable
    assert machine.checked == ["science"]


async def test_image_of_the_kind_is_not_tried_here() -> None:
    machine = Machine()

    await machine.trials().require_usable(registry.find_validator("code"), POLICIES.get("code"), SPEC)

    assert machine.checked == []


async def test_image_whose_runner_brings_its_python_runs_programs_alone() -> None:
    machine = Machine()
    machine.images.labels = {"org.assayd.runner": "own", "org.assayd.offer": "python3.9, bash"}
    trials, script = machine.trials(), registry.find_validator("script")
    programs = replace(SPEC, units=(replace(PYTHON, program=Program.EXEC),))

    await trials.require_usable(script, SCIENCE, programs)
    with pytest.raises(EngineError) as raised:
        await trials.require_usable(script, SCIENCE, SPEC)

    assert machine.samples == ["no_program"]
    assert raised.value.code == "image.no_python"
    assert "python3.9, bash" in raised.value.message


async def test_samples_that_need_the_kinds_own_image_are_not_tried_in_others() -> None:
    machine = Machine()

    await machine.trials().require_usable(registry.find_validator("script"), SCIENCE, SPEC)

    assert machine.samples == ["good", "exits", "raised", "undefined"]
