"""The limits that all units of an attempt share: result bytes, and kept output."""

from __future__ import annotations

from dataclasses import replace

from assayd.model.run import Limits, UnitEnd, UnitResult

LEAST_KEPT_BYTES = 2048
"""Bytes of each stream to keep per unit after earlier units have used up the attempt's share."""


class AttemptBudget:
    """The remaining shares of an attempt. Without them, totals would grow with the number of units."""

    def __init__(self, limits: Limits) -> None:
        self._result_bytes = limits.attempt_result_bytes
        self._room = dict.fromkeys(("stdout", "stderr"), limits.output_kept_bytes)

    def limit_results(self, unit: UnitResult) -> UnitResult:
        """Return a unit without its results if the attempt's results are too large with them."""
        self._result_bytes -= sum(map(len, unit.results))
        if self._result_bytes >= 0:
            return unit
        # The unit is at fault, not the conversation: drop its results and continue.
        return replace(unit, end=UnitEnd.RESULT_LIMIT, results=())

    def limit_output(self, unit: UnitResult) -> UnitResult:
        """Return a unit with the part of its output that is kept."""
        stdout = unit.stdout.truncate_to(max(self._room["stdout"], LEAST_KEPT_BYTES))
        stderr = unit.stderr.truncate_to(max(self._room["stderr"], LEAST_KEPT_BYTES))
        self._room["stdout"] -= len(stdout.head) + len(stdout.tail)
        self._room["stderr"] -= len(stderr.head) + len(stderr.tail)
        if stdout is unit.stdout and stderr is unit.stderr:
            return unit
        return replace(unit, stdout=stdout, stderr=stderr)
