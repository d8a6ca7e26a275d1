"""Runs that two containers share: what is split, and that the joined result is that of one container."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.model.policy import NetworkMode, NetworkPolicy
from assayd.model.run import (
    CapturedOutput,
    Cause,
    ContainerFacts,
    Limits,
    Program,
    RunEndReason,
    RunOutcome,
    RunResult,
    RunSpec,
    Unit,
    UnitEndReason,
    UnitResult,
)
from assayd.sandbox.conversation import RunObserver
from assayd.sandbox.sandbox import MIN_UNITS, SecondContainerObserver, join_results, split_run

LIMITS = Limits(timeout_s=5, unit_timeout_s=5, memory_bytes=1, max_processes=1)
SPEC = RunSpec(
    image="python",
    limits=LIMITS,
    units=tuple(
        Unit(name=str(number), program=Program.CALL, arguments={}, deadline_s=1)
        for number in range(MIN_UNITS)
    ),
    independent_units=True,
)
NAMES = [unit.name for unit in SPEC.units]
HALF = MIN_UNITS // 2


def result(
    units: tuple[Unit, ...], end: RunEndReason = RunEndReason.FINISHED, **changes: object
) -> RunResult:
    """Return what a container says that ran these units well."""
    done = (
        UnitResult(name=unit.name, wait_status=0, results=(b"{}",), outcome=RunOutcome(cause=Cause.COMPLETED))
        for unit in units
    )
    return replace(RunResult(units=tuple(done), end=end), **changes)


def test_independent_units_are_split_in_order():
    first, second = split_run(SPEC)
    assert [unit.name for unit in (*first.units, *second.units)] == NAMES
    assert len(first.units) == HALF


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, units=SPEC.units[1:]),
        replace(SPEC, independent_units=False),
        replace(SPEC, network=NetworkPolicy(mode=NetworkMode.ALLOWLIST)),
    ],
)
def test_few_or_dependent_units_or_a_relay_stay_in_one_container(spec: RunSpec):
    assert split_run(spec) is None


def test_two_halves_become_one_run_with_the_larger_peak_and_time():
    first, second = split_run(SPEC)
    one = result(first.units, wall_s=1.0, peak_memory_bytes=5, container=ContainerFacts(id="one"))
    two = result(second.units, wall_s=2.0, peak_memory_bytes=7, container=ContainerFacts(id="two"))
    joined = join_results(SPEC, one, two)
    assert [unit.name for unit in joined.units] == NAMES
    assert (joined.end, joined.container.id) == (RunEndReason.FINISHED, "one")
    assert (joined.wall_s, joined.peak_memory_bytes) == (2.0, 7)


def test_a_failed_first_container_decides_and_no_later_unit_counts():
    first, second = split_run(SPEC)
    lost = result(first.units[:2], RunEndReason.LOST)
    assert join_results(SPEC, lost, result(second.units)) == lost


def test_a_failed_second_container_decides_after_the_first_ones_units():
    first, second = split_run(SPEC)
    lost = result(second.units[:1], RunEndReason.LOST, detail="gone", container=ContainerFacts(id="two"))
    joined = join_results(SPEC, result(first.units), lost)
    assert [unit.name for unit in joined.units] == NAMES[: HALF + 1]
    assert (joined.end, joined.detail, joined.container.id) == (RunEndReason.LOST, "gone", "two")


def test_results_of_both_containers_share_the_attempts_limit():
    spec = replace(SPEC, limits=replace(LIMITS, attempt_result_bytes=2 * (MIN_UNITS - 1)))
    first, second = split_run(spec)
    *kept, last = join_results(spec, result(first.units), result(second.units)).units
    assert all(unit.outcome.completed for unit in kept)
    assert (last.end, last.results, last.outcome.cause) == (
        UnitEndReason.RESULT_LIMIT,
        (),
        Cause.OUTPUT_LIMIT,
    )


def test_output_of_both_containers_shares_the_attempts_room():
    spec = replace(SPEC, limits=replace(LIMITS, output_kept_bytes=8192))
    printed = CapturedOutput(head=b"x" * 4096, tail=b"", total_bytes=4096)
    one, two = (
        replace(half, units=tuple(replace(unit, stdout=printed) for unit in half.units))
        for half in (result(part.units) for part in split_run(spec))
    )
    sizes = [len(unit.stdout.head + unit.stdout.tail) for unit in join_results(spec, one, two).units]
    assert sizes == [4096, 4096, *[2048] * (MIN_UNITS - 2)]


def test_events_of_the_second_container_bear_the_numbers_of_their_units():
    seen: list[tuple[object, ...]] = []

    class Seeing(RunObserver):
        def on_unit_started(self, index: int) -> None:
            seen.append(("started", index))

        def output(self, index: int, stream: str, data: bytes) -> None:
            seen.append((stream, index, data))

        def on_unit_ended(self, index: int, result: UnitResult) -> None:
            seen.append(("ended", index))

    later = SecondContainerObserver(Seeing(), 8)
    later.on_unit_started(0)
    later.output(0, "stdout", b"x")
    later.on_unit_ended(0, UnitResult(name="u", wait_status=0))
    assert seen == [("started", 8), ("stdout", 8, b"x"), ("ended", 8)]
