"""Tests the isolation of containers on the live engine, at startup and for ``assay doctor``.

The check relies only on observed behavior: a probe that succeeds, or a limit that can be exceeded, is
reported as a leak regardless of the engine's claims.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from assayd.aio import Deadline, together
from assayd.errors import EngineError
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import Cause, Limits, Program, RunSpec, Unit, UnitResult
from assayd.model.submission import JsonValue
from assayd.sandbox.images import constant_variables, runner_interpreter
from assayd.sandbox.probes import RELAYED, RUNNER_MEMORY, Probe, exec_probes, probes
from assayd.sandbox.sandbox import Sandbox

LIMITS = Limits(
    timeout_s=20.0,
    unit_timeout_s=2.0,
    memory_bytes=64 * 2**20,
    max_processes=8,
    work_bytes=8 * 2**20,
    output_read_bytes=2**20,
)
_BLOCKED = NetworkPolicy()


CHECKED_IMAGE = "python"
"""The image in which isolation is checked at the daemon's start."""


def _lost_runner_spec(image: str, interpreter: Sequence[str]) -> RunSpec:
    argv = [*interpreter, "-c", RUNNER_MEMORY]
    unit = Unit(
        name="runner memory", program=Program.EXEC, arguments={"argv": argv, "env": {}}, deadline_s=10.0
    )
    imports = ImportPolicy(mode=ImportMode.OBSERVE)
    return RunSpec(image=image, limits=LIMITS, imports=imports, units=(unit,), allow_exec=True)


async def check_isolation(sandbox: Sandbox, image: str = CHECKED_IMAGE) -> Sequence[str]:
    """Return one sentence for each isolation failure, or no sentences if all checks pass.

    Raises: EngineError, if no container is available.
    """
    facts = await sandbox.images.get(image)
    tried = probes(
        max_processes=LIMITS.max_processes,
        work_bytes=LIMITS.work_bytes,
        constants=constant_variables(facts),
    )
    listed = NetworkPolicy(mode=NetworkMode.ALLOWLIST)
    blocked: list[str] = []
    relayed: list[str] = []
    lost: list[str] = []
    executing: list[str] = []
    runs_written = exec_probes(constant_variables(facts))
    executes = canary_spec(runs_written, image, limits=replace(LIMITS, work_exec=True))
    await together(
        _run_probes(sandbox, tried, canary_spec(tried, image), blocked),
        _run_probes(sandbox, RELAYED, canary_spec(RELAYED, image, listed), relayed),
        _run_probes(sandbox, runs_written, executes, executing),
        _check_lost_runner(sandbox, _lost_runner_spec(image, runner_interpreter(facts)), lost),
    )
    return [*blocked, *relayed, *executing, *lost]


async def _check_lost_runner(sandbox: Sandbox, spec: RunSpec, found: list[str]) -> None:
    """Check that a run whose runner the kernel killed is classified as out of memory.

    The check also records which other source of evidence reports such a kill.
    """
    before = sandbox.oom_kills()
    async with sandbox.lease(spec) as lease:
        result = await sandbox.run(lease, Deadline(LIMITS.timeout_s))
    after = sandbox.oom_kills()
    sandbox.counts_kills = before is not None and after is not None and after > before
    if result.outcome.cause is not Cause.OUT_OF_MEMORY:
        found.append(f"runner out of memory: ended as {result.outcome.cause} {dict(result.outcome.evidence)}")


async def _run_probes(sandbox: Sandbox, tried: Sequence[Probe], spec: RunSpec, found: list[str]) -> None:
    """Run probes in a separate container, and append failures to `found`.

    Raises: EngineError, if the run is lost, which doesn't imply an isolation failure.
    """
    async with sandbox.lease(spec) as lease:
        result = await sandbox.run(lease, Deadline(LIMITS.timeout_s))
    if result.outcome.cause is Cause.INFRASTRUCTURE:
        evidence = dict(result.outcome.evidence)
        raise EngineError("canary.lost", f"the isolation check was lost: {evidence}", retryable=True)
    if len(result.units) != len(tried):
        found.append(
            f"the isolation check ended early: {result.outcome.cause} {dict(result.outcome.evidence)}"
        )
        return
    for probe, unit in zip(tried, result.units, strict=True):
        found.extend(_find_complaints(probe, unit))


def canary_spec(
    tried: Sequence[Probe], image: str, network: NetworkPolicy = _BLOCKED, limits: Limits | None = None
) -> RunSpec:
    """Return the spec of one container that runs all probes in order."""
    return RunSpec(
        image=image,
        limits=limits or LIMITS,
        network=network,
        imports=ImportPolicy(mode=ImportMode.OBSERVE),
        units=tuple(
            Unit(
                name=probe.name,
                program=Program.CALL,
                arguments={
                    "source": probe.source,
                    "filename": "canary.py",
                    "function": "probe",
                    "args": [],
                    "kwargs": {},
                    "builtins": "full",
                },
                deadline_s=probe.deadline_s,
            )
            for probe in tried
        ),
    )


def _find_complaints(probe: Probe, unit: UnitResult) -> list[str]:
    cause = unit.outcome.cause
    if cause is not probe.cause:
        said = unit.stderr.text()[-200:]
        return [
            f"{probe.name}: ended as {cause} instead of {probe.cause} {dict(unit.outcome.evidence)} {said}"
        ]
    return [f"{probe.name}: {complaint}" for complaint in probe.complaints(_read_value(unit))]


def _read_value(unit: UnitResult) -> JsonValue:
    """Return the value that the probe reported, or None if the record has no value."""
    try:
        record = json.loads(unit.results[0]) if unit.results else None
    except ValueError:
        return None
    return record.get("value") if isinstance(record, dict) else None
