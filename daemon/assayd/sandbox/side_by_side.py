"""Splits a run between two containers that work at the same time, and joins their results. Pure.

Only independent units are split. The result is the one that a single container would have produced: if a
container fails, the results of later units are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assayd.model.policy import NetworkMode
from assayd.model.run import RunEndReason, RunResult, RunSpec, UnitEndReason, UnitResult
from assayd.sandbox.outcome import determine_unit_outcome
from assayd.sandbox.session.conversation import AttemptBudget, RunObserver

MIN_UNITS = 16
"""Fewer units end sooner than a second container pays off."""


class SecondContainerObserver(RunObserver):
    """A receiver of events of the second container, whose units follow those of the first."""

    def __init__(self, observer: RunObserver, first: int) -> None:
        self._observer = observer
        self._first = first

    def on_unit_started(self, index: int) -> None:
        """Report the start of a unit under its index in the whole run."""
        self._observer.on_unit_started(self._first + index)

    def output(self, index: int, stream: str, data: bytes) -> None:
        """Report a unit's output under the unit's index in the whole run."""
        self._observer.output(self._first + index, stream, data)

    def on_unit_ended(self, index: int, result: UnitResult) -> None:
        """Report a unit's end under its index in the whole run."""
        self._observer.on_unit_ended(self._first + index, result)


def split(spec: RunSpec) -> tuple[RunSpec, RunSpec] | None:
    """Return the specs of two containers, or None if one container must run all units."""
    blocked = spec.network.mode is NetworkMode.BLOCKED
    if not spec.independent_units or not blocked or len(spec.units) < MIN_UNITS:
        return None
    half = (len(spec.units) + 1) // 2
    return replace(spec, units=spec.units[:half]), replace(spec, units=spec.units[half:])


def join(spec: RunSpec, first: RunResult, second: RunResult) -> RunResult:
    """Return the joined result of a split run.

    If the first container failed, only its result is returned. Otherwise, a failure of the second container
    determines the end of the run.
    """
    if first.end is not RunEndReason.FINISHED:
        return first
    decisive = first if second.end is RunEndReason.FINISHED else second
    peaks = [peak for peak in (first.peak_memory_bytes, second.peak_memory_bytes) if peak is not None]
    return replace(
        decisive,
        units=tuple(_apply_common_limits(spec, (*first.units, *second.units))),
        wall_s=max(first.wall_s, second.wall_s),
        peak_memory_bytes=max(peaks, default=None),
    )


def _apply_common_limits(spec: RunSpec, units: tuple[UnitResult, ...]) -> Iterator[UnitResult]:
    """Yield the units within the limits that apply to all units of the attempt together."""
    budget = AttemptBudget(spec.limits)
    for unit, planned in zip(units, spec.units, strict=False):
        kept = unit if unit.end is UnitEndReason.INTERRUPTED else budget.limit_results(unit)
        if kept is not unit:
            kept = replace(kept, outcome=determine_unit_outcome(kept, planned))
        yield budget.limit_output(kept)
