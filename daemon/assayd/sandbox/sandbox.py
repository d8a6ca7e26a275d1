"""Runs a `RunSpec` in a single-use container: lease, record, conversation, end, classification.

The result is always returned as a value, regardless of the guest's behavior. Only a failed lease raises an
exception.

A run of many independent units is split between two containers that work at the same time. The joined result
is the one that a single container would have produced: if a container fails, the results of later units are
dropped.

`ImageCache` finds the images for runs, and rejects images whose guest code differs from the daemon's copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assayd.aio import Deadline, open_task_group, run_cleanup
from assayd.clock import Clock
from assayd.errors import EngineError
from assayd.imaging.tree import LABEL_BASELINE, compute_guest_digest
from assayd.model.policy import NetworkMode
from assayd.model.run import ContainerFacts, RunEndReason, RunResult, RunSpec, UnitEndReason, UnitResult
from assayd.ports.egress import Egress
from assayd.ports.engine import Engine, EngineInfo, ImageFacts
from assayd.sandbox.container import REMOVE_TIMEOUT_S, Container
from assayd.sandbox.conversation import AttemptBudget, Conversation, RunObserver
from assayd.sandbox.outcome import classify_run, determine_unit_outcome
from assayd.sandbox.pool import ContainerPool
from assayd.sandbox.pool_decisions import PoolKey, intern_key

PREFIX = "assayd/"
LABEL_GUEST = "org.assayd.guest"
LABEL_PYTHON = "org.assayd.python"
LABEL_OFFER = "org.assayd.offer"
LABEL_CONSTANTS = "org.assayd.constants"
LABEL_MODULES = "org.assayd.modules"
LABEL_PRELOAD = "org.assayd.preload"
LABEL_INTERPRETER = "org.assayd.interpreter"
LABEL_RUNNER = "org.assayd.runner"
_INTERPRETER = "/usr/bin/python3.11 -I -S"
DEFAULT_BASELINE_BYTES = 32 * 2**20
"""Default memory for the runner and the image's own libraries, in addition to the policy's."""


class ImageCache:
    """A cache of image look-ups. `forget` must be called when images could have changed."""

    def __init__(self, engine: Engine, guest: Path) -> None:
        self._engine = engine
        self._expected = compute_guest_digest(guest)
        self._known: dict[str, ImageFacts] = {}

    async def get(self, name: str) -> ImageFacts:
        """Return the image of this short name, e.g. ``python``.

        Raises: EngineError ``image.missing``, ``image.mismatch`` or ``image.damaged``, with the required
        action.
        """
        if name not in self._known:
            self._known[name] = await self.look_up(name)
        return self._known[name]

    async def look_up(self, name: str) -> ImageFacts:
        """Look up the image in the engine, bypassing the cache. Raises: the same errors as `get`."""
        facts = await self._engine.image(PREFIX + name)
        if facts.labels.get(LABEL_GUEST) != self._expected:
            raise EngineError(
                "image.mismatch",
                f"image {PREFIX}{name} has a guest version that differs from the daemon's; "
                f"run: assay images build {name}",
            )
        return facts

    def forget(self) -> None:
        """Clear the cache of look-ups."""
        self._known.clear()


def read_baseline_bytes(facts: ImageFacts) -> int:
    """Return the memory, in bytes, that a container of this image needs before any guest code runs."""
    text = facts.labels.get(LABEL_BASELINE, "")
    return int(text) if text.isdigit() else DEFAULT_BASELINE_BYTES


def list_preloaded_modules(facts: ImageFacts) -> tuple[str, ...]:
    """Return the modules that containers of this image preload."""
    return tuple(facts.labels.get(LABEL_PRELOAD, "").split())


def list_modules(facts: ImageFacts) -> dict[str, str]:
    """Return the modules of an image in addition to Python's standard library, with their versions."""
    return dict(named.split("=", 1) for named in facts.labels.get(LABEL_MODULES, "").split() if "=" in named)


def get_runner_interpreter(facts: ImageFacts) -> tuple[str, ...]:
    """Return the command that starts the Python of an image's runner (default: Debian's Python 3.11)."""
    return tuple(facts.labels.get(LABEL_INTERPRETER, _INTERPRETER).split())


def runs_python(facts: ImageFacts) -> bool:
    """Return whether the image's own Python runs the runner. If not, the image only runs programs."""
    return facts.labels.get(LABEL_RUNNER) != "own"


def get_constant_variables(facts: ImageFacts) -> tuple[str, ...]:
    """Return the names of variables that an image sets for all code, including submitted code."""
    return tuple(facts.labels.get(LABEL_CONSTANTS, "").split())


VMSTAT_PATH = Path("/proc/vmstat")


def read_oom_kill_count(counters: Path = VMSTAT_PATH) -> int | None:
    """Return the number of out-of-memory kills on this host since it booted, or None if it is unknown."""
    try:
        text = counters.read_bytes()
    except OSError:
        return None
    _, found, rest = (b"\n" + text).partition(b"\noom_kill ")
    count = rest.partition(b"\n")[0]
    return int(count) if found and count.isdigit() else None


RUNNER_PROCESS_COUNT = 1
"""Processes to add to a run's process limit for the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A container leased for one run of a spec, and its conversation, in which only the rules were sent.

    `further` is the lease of a second container that runs the spec's last units.
    """

    spec: RunSpec
    container: Container
    conversation: Conversation
    warm: bool
    facts: ContainerFacts
    further: Lease | None = None


class Sandbox:
    """The runner of run specs: it leases a container, runs the units, and returns the `RunResult`."""

    def __init__(
        self,
        *,
        pool: ContainerPool,
        images: ImageCache,
        clock: Clock,
        seccomp: str,
        egress: Egress,
        oom_kills: Callable[[], int | None] = read_oom_kill_count,
    ) -> None:
        self.pool = pool
        self.images = images
        self._clock = clock
        self._egress = egress
        self.oom_kills = oom_kills
        self.counts_container_kills = False
        """Whether `oom_kills` has counted a kill in a container, which means that the engine runs on this
        kernel.
        """
        self.info: EngineInfo | None = None
        self.seccomp = seccomp
        self.usable = asyncio.Event()
        """Set while the engine answers and its isolation is verified."""

    async def key(self, spec: RunSpec) -> PoolKey:
        """Return the pool key of a spec: its properties that are fixed when its container is created.

        Raises: EngineError, if the image can't be used.
        """
        image = await self.images.get(spec.image)
        limits = spec.limits
        memory = limits.memory_bytes + read_baseline_bytes(image)
        key = PoolKey(
            image=image.name,
            image_digest=image.digest,
            memory_bytes=memory,
            pids=limits.max_processes + RUNNER_PROCESS_COUNT,
            cpus=limits.cpus,
            work_bytes=min(limits.work_bytes, memory // 2),
            work_files=limits.work_files,
            work_exec=limits.work_exec,
            open_files=limits.open_files,
            network=spec.network.mode.value,
            seccomp=self.seccomp,
            preload=tuple(dict.fromkeys((*spec.preload, *list_preloaded_modules(image)))),
        )
        return intern_key(key)

    @asynccontextmanager
    async def lease(self, spec: RunSpec, user: int = 0, flow: str = "") -> AsyncIterator[Lease]:
        """Lease a container for the `with` block. Afterwards, remove it without delaying the caller.

        If containers are scarce, they are assigned to users and their flows in turn. A run that can be
        split gets a second container if one is idle and not needed otherwise.

        Raises: EngineError, if no container is available.
        """
        image, key, parts = await self.images.get(spec.image), await self.key(spec), split_run(spec)
        with ExitStack() as held:
            container, warm = await self.pool.acquire(key, user, flow)
            held.callback(self.pool.release, container)
            further = await self.pool.acquire_spare(key, user, flow) if parts is not None else None
            if parts is None or further is None:
                yield await self._begin(spec, container, image, warm, user)
                return
            held.callback(self.pool.release, further)
            first = await self._begin(parts[0], container, image, warm, user)
            second = await self._begin(parts[1], further, image, True, user)
            yield replace(first, spec=spec, further=second)

    async def _begin(
        self, spec: RunSpec, container: Container, image: ImageFacts, warm: bool, user: int
    ) -> Lease:
        """Send the rules to a leased container, and return the lease.

        Raises: EngineError, if the stream fails.
        """
        listed = spec.network.mode is NetworkMode.ALLOWLIST
        egress = self._egress.session(spec.network, user) if listed else None
        conversation = Conversation(container.channel, spec, egress)
        await conversation.begin()
        return Lease(
            spec=spec,
            container=container,
            conversation=conversation,
            warm=warm,
            facts=ContainerFacts(
                id=container.ref.ulid,
                image=image.name,
                image_digest=image.digest,
                engine=f"{self.info.name} {self.info.version}" if self.info else "",
                runtime=self.info.runtime if self.info else "",
                warm=warm,
                python=image.labels.get(LABEL_PYTHON),
                offer=image.labels.get(LABEL_OFFER, ""),
            ),
        )

    async def run(self, lease: Lease, deadline: Deadline, observer: RunObserver | None = None) -> RunResult:
        """Run the units in the leased containers, and return the classified result."""
        if lease.further is None:
            return classify_run(await self._run_container(lease, deadline, observer), lease.spec)
        first_units = len(lease.spec.units) - len(lease.further.spec.units)
        later = SecondContainerObserver(observer or RunObserver(), first_units)
        async with open_task_group() as tasks:
            second = tasks.create_task(
                self._run_container(lease.further, deadline, later), name="run-second-half"
            )
            result = await self._run_container(lease, deadline, observer)
            if result.end is not RunEndReason.FINISHED:
                second.cancel()
        return classify_run(
            join_results(lease.spec, result, result if second.cancelled() else second.result()), lease.spec
        )

    async def _run_container(
        self, lease: Lease, deadline: Deadline, observer: RunObserver | None
    ) -> RunResult:
        """Run the units of one container, and return the result without its outcome."""
        began, killed_before = (
            self._clock.monotonic(),
            self.oom_kills() if self.counts_container_kills else None,
        )
        conversation = lease.conversation
        making_way = asyncio.create_task(lease.container.lower_priority_later())
        try:
            end, detail = await conversation.run(deadline, observer)
        finally:
            making_way.cancel()
        wall_s = self._clock.monotonic() - began
        facts = lease.facts
        lease.container.orderly = end is RunEndReason.FINISHED
        if not lease.container.orderly:
            facts = await _get_failure_facts(lease, end)
            facts = replace(facts, kernel_oom_kills=self._count_kills_since(killed_before))
        return RunResult(
            units=tuple(conversation.units),
            end=end,
            detail=detail,
            outputs=conversation.collected(),
            outputs_dropped=conversation.outputs_dropped,
            container=facts,
            wall_s=wall_s,
            peak_memory_bytes=conversation.peak_memory_bytes,
        )

    def _count_kills_since(self, before: int | None) -> int | None:
        now = self.oom_kills()
        return now - before if now is not None and before is not None else None


async def _get_failure_facts(lease: Lease, end: RunEndReason) -> ContainerFacts:
    """Return the engine's facts about the container's end, or the facts of the lease if the engine fails."""
    try:
        asking = lease.container.end_and_get_facts(ends_by_itself=end is RunEndReason.LOST)
        ended, killed = await run_cleanup(asking, timeout_s=REMOVE_TIMEOUT_S)
    except (EngineError, TimeoutError):
        return lease.facts
    flag = bool(ended.oom_killed)
    return replace(lease.facts, exit_code=ended.exit_code, oom_killed=flag, killed=killed)


MIN_UNITS = 16
"""Minimum units of a run that is split: with fewer, starting a second container doesn't save time."""


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


def split_run(spec: RunSpec) -> tuple[RunSpec, RunSpec] | None:
    """Return the specs of two containers, or None if one container must run all units."""
    blocked = spec.network.mode is NetworkMode.BLOCKED
    if not spec.independent_units or not blocked or len(spec.units) < MIN_UNITS:
        return None
    half = (len(spec.units) + 1) // 2
    return replace(spec, units=spec.units[:half]), replace(spec, units=spec.units[half:])


def join_results(spec: RunSpec, first: RunResult, second: RunResult) -> RunResult:
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
