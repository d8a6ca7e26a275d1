"""Prepares the sandbox (engine, images, leftovers, isolation check), and keeps it ready.

All code that depends on the engine's answers is in this module, so that the daemon can serve its API and
report problems while the engine is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type

from assayd.aio import compute_tenacity_delay_s
from assayd.errors import EngineError
from assayd.metrics import Metrics
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.run import RunSpec
from assayd.ports.engine import LABEL_CONTAINER, Engine, EngineInfo
from assayd.sandbox.isolation_check import CHECKED_IMAGE
from assayd.sandbox.pool import Reaper
from assayd.sandbox.pool_decisions import PoolKey
from assayd.sandbox.sandbox import Sandbox

log = structlog.get_logger()

IsolationCheck = Callable[[Sandbox], Awaitable[Sequence[str]]]
"""Tests the isolation of a container; returns a sentence for each failure."""

LOOK_AGAIN_S = 5.0
"""Seconds between lookups of missing images."""
MISSING_IMAGE_CODES = {"image.missing", "image.mismatch", "image.damaged"}


class ReadinessSupervisor:
    """A supervisor of the sandbox that tracks whether it is ready."""

    def __init__(
        self,
        *,
        engine: Engine,
        reaper: Reaper,
        sandbox: Sandbox,
        usual: Sequence[RunSpec],
        isolation_check: IsolationCheck,
        refuse_vulnerable: bool = False,
    ) -> None:
        self._engine = engine
        self._images = sandbox.images
        self._pool = sandbox.pool
        self.reaper = reaper
        self.sandbox = sandbox
        self._usual = usual
        self._isolation_check = isolation_check
        self._refuse_vulnerable = refuse_vulnerable
        self.list_profile_images: Callable[[], Mapping[str, Sequence[str]]] = dict
        """Returns the images that profiles name, each with those profiles; they are checked too."""
        self.engine_kind = ""
        """The kind of the engine, as in the settings."""
        self.engine_note = ""
        """A note about the choice of the engine, for doctor."""
        self.info: EngineInfo | None = None
        self.build_command = "assay images build"
        """The command that builds an image, followed by its name, for doctor."""
        self.engine_remedy = "start the container engine"
        """The remedy if the engine doesn't answer and its message has none, for doctor."""
        self.look_again_s = LOOK_AGAIN_S
        self.unusable: dict[str, str] = {}
        """Missing or outdated images of kinds, each with the reason."""
        self.problem = "the engine hasn't answered yet"
        self.tried = asyncio.Event()
        """Set after the first preparation, successful or not."""

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can run, and the reason if they can't."""
        return not self.problem, self.problem

    async def prepare(self) -> None:
        """Prepare the sandbox, with unlimited retries. Do nothing if it is ready.

        `problem` is the reason for the last failure.
        """
        if self.problem:
            retrying = AsyncRetrying(
                retry=retry_if_exception_type(EngineError), wait=compute_tenacity_delay_s
            )
            await retrying(self._try_to_prepare)

    async def keep_ready(self) -> NoReturn:
        """Prepare the sandbox again after repeated engine failures, because the engine may have changed.

        Also look up missing images periodically. Run until cancellation.
        """
        while True:
            if self.unusable and not self._pool.circuit_open.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._pool.circuit_open.wait(), self.look_again_s)
                await self._recheck_images()
                continue
            await self._pool.circuit_open.wait()
            self.problem = "the engine fails to start containers; see the daemon's log"
            self.sandbox.usable.clear()
            await self.prepare()

    async def sweep_periodically(self) -> None:
        """Remove leftover containers periodically, until cancellation."""
        await self.reaper.sweep_periodically()

    def image_problem(self, name: str) -> str:
        """Return the reason why an image can't be used, or "" if no reason is known."""
        return self.unusable.get(name, "")

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image with this name. Raises: EngineError, if it can't be used."""
        return (await self._images.get(name)).digest

    async def _try_to_prepare(self) -> None:
        try:
            await self._prepare_once()
        except EngineError as trouble:
            self.problem = trouble.message
            log.error("sandbox.not_ready", code=trouble.code, problem=trouble.message)
            self.tried.set()
            raise

    async def _prepare_once(self) -> None:
        info = await self._engine.info()
        self.sandbox.info = info
        for warning in info.warnings:
            log.warning("engine.warned", warning=warning)
        if info.warnings and self._refuse_vulnerable:
            raise EngineError(
                "engine.holes", "the engine has known vulnerabilities: " + "; ".join(info.warnings)
            )
        self.problem = "the engine answers; leftovers and isolation are being checked"
        await self.reaper.sweep(patient=self.info is not None)
        self._images.forget()
        keys, leaks = await self._look_up_and_check()
        if leaks:
            raise EngineError("canary.leak", "isolation check failed: " + "; ".join(leaks))
        self._pool.demand.keep(keys)
        self._pool.schedule_update()
        self.info, self.problem = info, ""
        self.sandbox.usable.set()
        self.tried.set()
        log.info("sandbox.ready", engine=info.name, version=info.version, runtime=info.runtime)

    async def _look_up_and_check(self) -> tuple[frozenset[PoolKey], Sequence[str]]:
        """Look up the usual runs' images and check isolation, concurrently. Raises: EngineError."""
        looking = asyncio.ensure_future(self._list_usual_keys())
        try:
            leaks = await self._isolation_check(self.sandbox)
            return await looking, leaks
        except EngineError:
            await looking  # If images are missing, its message names all of them.
            raise
        finally:
            looking.cancel()

    async def _recheck_images(self) -> None:
        """Add images that were missing earlier to the pool once they exist. Ignore engine errors."""
        before = self.unusable
        with suppress(EngineError):
            keys = await self._list_usual_keys()
            if self.unusable != before:
                log.info("image.usable", images=sorted(before.keys() - self.unusable.keys()))
                self._pool.demand.keep(keys)
                self._pool.schedule_update()

    async def _list_usual_keys(self) -> frozenset[PoolKey]:
        """Return the keys of the usual runs whose images exist. Raises: EngineError."""
        return frozenset([await self.sandbox.key(spec) for spec in await self._list_runs_with_images()])

    async def _list_runs_with_images(self) -> Sequence[RunSpec]:
        """Return the usual runs whose images exist. A missing image affects only its kinds.

        Raises: EngineError, with all images to build, if no image exists or the image for the isolation
        check is missing.
        """
        troubles: dict[str, EngineError] = {}
        # The isolation check waits for its image.
        for name in sorted(
            {spec.image for spec in self._usual}, key=lambda name: (name != CHECKED_IMAGE, name)
        ):
            try:
                await self._images.get(name)
            except EngineError as trouble:
                if trouble.code not in MISSING_IMAGE_CODES:
                    raise
                troubles[name] = trouble
        usable = [spec for spec in self._usual if spec.image not in troubles]
        if not troubles or (usable and CHECKED_IMAGE not in troubles):
            for name in troubles.keys() - self.unusable.keys():
                log.error("image.unusable", image=name, problem=troubles[name].message)
            self.unusable = {name: trouble.message for name, trouble in troubles.items()}
            return usable
        first = next(iter(troubles.values()))
        if len(troubles) == 1:
            raise first
        names = " ".join(troubles)
        message = f"images of the kinds are missing or have another version; run: assay images build {names}"
        raise EngineError(first.code, message)

    def update_gauges(self, metrics: Metrics) -> None:
        """Update the metrics that show the pool's state."""
        if self.info is not None:
            metrics.engine_info.clear()
            metrics.engine_info.labels(self.info.name, self.info.version).set(1)
        metrics.templates.set(self._engine.capabilities().quick)
        state = self._pool.state()
        counts = {
            "idle": len(state.idle),
            "starting": sum(state.starting.values()),
            "leased": len(state.leased),
            "removing": state.removing,
            "stuck": state.stuck,
        }
        for name, count in counts.items():
            metrics.containers.labels(name).set(count)
        metrics.idle_containers.clear()
        for key in state.targets:
            idle = sum(one.key == key for one in state.idle)
            metrics.idle_containers.labels(key.digest, key.image).set(idle)
        metrics.refill_seconds.clear()
        for key, took_s in self._pool.demand.refill_s().items():
            metrics.refill_seconds.labels(key.digest, key.image).set(took_s)

    async def run_health_checks(self) -> Sequence[HealthRow]:
        """Check the engine, the images and leftover containers now, and return a health row for each."""
        return [await self._examine_engine(), *await self._examine_images(), self.examine_pool()]

    async def check_isolation(self) -> HealthRow:
        """Test the isolation of containers immediately, and return a health row."""
        try:
            leaks = await self._isolation_check(self.sandbox)
        except EngineError as trouble:
            return _build_health_row("isolation", HealthStatus.FAIL, trouble.message)
        if leaks:
            return _build_health_row(
                "isolation",
                HealthStatus.FAIL,
                "; ".join(leaks),
                "don't run submissions on this host until this is corrected; the next examination shows it",
            )
        return _build_health_row(
            "isolation", HealthStatus.OK, "all probes of the isolation check were contained"
        )

    async def _examine_engine(self) -> HealthRow:
        try:
            info = await self._engine.info()
        except EngineError as trouble:
            return _build_health_row("engine", HealthStatus.FAIL, trouble.message, self.engine_remedy)
        made_by = ", ".join(part for part in (info.runtime, info.mode) if part)
        detail = f"{info.name} {info.version}, {made_by}, cgroup v{info.cgroup_version}, {info.kernel}"
        if self.engine_note:
            detail = f"{detail}; {self.engine_note}"
        if info.warnings:
            weight = HealthStatus.FAIL if self._refuse_vulnerable else HealthStatus.WARN
            return _build_health_row(
                "engine", weight, f"{detail}: {'; '.join(info.warnings)}", "see docs/threat-model.md"
            )
        return _build_health_row("engine", HealthStatus.OK, detail)

    async def _examine_images(self) -> list[HealthRow]:
        if self.unusable:
            await (
                self._recheck_images()
            )  # Start to use an image that exists by now before its row reports it.
        needed = {spec.image for spec in self._usual}
        named = {name: by for name, by in self.list_profile_images().items() if name not in needed}
        rows = [await self._examine_image(name) for name in sorted(needed)]
        return [*rows, *[await self._examine_image(name, named[name]) for name in sorted(named)]]

    async def _examine_image(self, name: str, profiles: Sequence[str] = ()) -> HealthRow:
        """Check an image. If only `profiles` use the image, report a failure at most as a warning."""
        row = partial(_build_health_row, f"image {name}")
        try:
            facts = await self._images.look_up(name)
        except EngineError as trouble:
            repair = "--repair " if trouble.code == "image.damaged" else ""
            remedy = f"{self.build_command} {repair}{name}"
            if not profiles:
                return row(HealthStatus.FAIL, trouble.message, remedy)
            users = f"only the profile {', '.join(profiles)} needs it"
            if trouble.code == "image.missing":
                return row(HealthStatus.OK, f"not built; {users}", remedy)
            return row(HealthStatus.WARN, f"{trouble.message}; {users}", remedy)
        return row(HealthStatus.OK, f"{facts.digest[:19]}, {facts.size_bytes / 2**20:.1f} MiB")

    def examine_pool(self) -> HealthRow:
        """Return a health row about the containers."""
        state = self._pool.state()
        detail = (
            f"{len(state.idle)} idle, {sum(state.starting.values())} starting, "
            f"{len(state.leased)} leased, {state.removing} going"
        )
        if self._pool.stuck:
            names = ", ".join(sorted(self._pool.stuck))
            remedy = (
                f"remove them manually (they have the label {LABEL_CONTAINER}), or restart the engine; "
                "the daemon looks again every minute"
            )
            return _build_health_row("containers", HealthStatus.FAIL, f"left behind: {names}", remedy)
        ready, reason = self.ready()
        if not ready:
            return _build_health_row(
                "containers", HealthStatus.FAIL, reason, "the daemon retries automatically; see the log"
            )
        return _build_health_row("containers", HealthStatus.OK, detail)


def _build_health_row(check: str, status: HealthStatus, detail: str, remedy: str = "") -> HealthRow:
    return HealthRow(check=check, status=status, detail=detail, remedy=remedy)
