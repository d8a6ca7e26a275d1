"""The isolation check passes while all protections hold, and reports each missing one."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

import pytest

from assayd.engines.oci import OciEngine
from assayd.engines.oci.host import RUNTIME_CANDIDATES
from assayd.errors import EngineError
from assayd.model.run import Cause
from assayd.sandbox import isolation_check as canary
from assayd.sandbox.isolation_check import EGRESS_PROBES, RUNNER_MEMORY_SOURCE, build_probes
from assayd.sandbox.readiness import IsolationCheck
from assayd.sandbox.sandbox import Sandbox
from assayd.wiring.engine import create_isolation_check
from support.engines.oci import IMAGES, RUN, made_engine, needs_oci, oci_engine
from support.engines.sandboxes import sandbox_on

ONE_ENGINE = pytest.param("oci-templates", marks=needs_oci) if os.geteuid() == 0 else "docker"
on_one_engine = pytest.mark.parametrize("sandbox", [ONE_ENGINE], indirect=True)
"""For what the check sees wherever it runs."""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.engine),
        pytest.param("oci", marks=needs_oci),
        pytest.param("oci-templates", marks=needs_oci),
    ]
)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    engine = made_engine(request, request.param)
    try:
        async with sandbox_on(engine) as ready:
            yield ready
    finally:
        await engine.close()


async def test_the_canary_is_silent_on_this_engine(sandbox: Sandbox):
    assert await canary.check_isolation(sandbox) == []
    assert sandbox.counts_container_kills


@needs_oci
@pytest.mark.parametrize("templates", [False, True], ids=["plain", "templates"])
async def test_the_canary_is_silent_whatever_mask_a_unit_gives_the_daemon(templates: bool):
    before = os.umask(0o077)
    try:
        async with sandbox_on(engine := oci_engine(templates=templates)) as sandbox:
            assert await canary.check_isolation(sandbox) == []
    finally:
        os.umask(before)
    await engine.close()


@needs_oci
@pytest.mark.parametrize("templates", [False, True], ids=["plain", "templates"])
async def test_the_canary_is_silent_where_runc_stands_in_for_crun(templates: bool):
    runc = [each for each in RUNTIME_CANDIDATES if each[0] == "runc"]
    engine = OciEngine(images=IMAGES, run=RUN, runtimes=runc, templates=templates)
    async with sandbox_on(engine) as sandbox:
        assert await canary.check_isolation(sandbox) == []
        assert (await engine.info()).runtime.endswith("/runc")
    assert engine.templates == ("on" if templates else "off")
    await engine.close()


async def repeated(check: IsolationCheck, sandbox: Sandbox) -> Sequence[str]:
    """Run the check like the daemon: again if its template ends while it is cloned."""
    for _ in range(4):
        with suppress(EngineError):
            return await check(sandbox)
    return await check(sandbox)


@needs_oci
async def test_templates_are_given_up_where_a_wall_of_theirs_is_missing_and_the_check_is_made_without():
    engine = OciEngine(images=IMAGES, run=RUN, templates=True)
    whole = engine._templates.source
    engine._templates.source = whole.replace(b"    _drop_capabilities()\n", b"")
    assert engine._templates.source != whole
    async with sandbox_on(engine) as sandbox:
        check = create_isolation_check(engine)
        assert await repeated(check, sandbox) == []
    assert engine.templates.startswith("off: isolation check failed: the container differs from the request")
    await engine.close()


@needs_oci
async def test_templates_stay_where_the_check_could_not_be_made_and_no_leak_was_seen(
    monkeypatch: pytest.MonkeyPatch,
):
    engine = OciEngine(images=IMAGES, run=RUN, templates=True)

    async def fail(*_: object) -> NoReturn:
        raise EngineError("engine.start_failed", "the runtime couldn't start the container", retryable=True)

    async with sandbox_on(engine) as sandbox:
        monkeypatch.setattr(engine._templates, "clone", fail)
        with pytest.raises(EngineError, match="couldn't start"):
            await create_isolation_check(engine)(sandbox)
    assert engine.templates == "on"
    await engine.close()


@needs_oci
async def test_templates_stay_where_every_wall_of_theirs_holds():
    engine = OciEngine(images=IMAGES, run=RUN, templates=True)
    async with sandbox_on(engine) as sandbox:
        assert await create_isolation_check(engine)(sandbox) == []
    assert engine.templates == "on"
    await engine.close()


@pytest.mark.parametrize("sandbox", ["docker"], indirect=True)
@pytest.mark.engine
async def test_the_canary_sees_a_container_without_seccomp_behind_the_childs_own_filter(sandbox: Sandbox):
    sandbox.seccomp = "unconfined"
    complaints = await canary.check_isolation(sandbox)
    said = "filters: [1, 2] instead of [2, 3]"
    assert complaints == [f"isolation: {said}", f"isolation, exec: {said}"]


@pytest.mark.parametrize("sandbox", [pytest.param("oci", marks=needs_oci)], indirect=True)
async def test_a_container_without_seccomp_is_refused_where_we_write_its_configuration(sandbox: Sandbox):
    sandbox.seccomp = "unconfined"
    with pytest.raises(EngineError) as caught:
        await canary.check_isolation(sandbox)
    assert caught.value.code == "engine.seccomp"


@on_one_engine
async def test_the_canary_sees_limits_that_are_wider_than_asked(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    wide = replace(canary.LIMITS, max_processes=20, work_bytes=24 * 2**20)
    monkeypatch.setattr(canary, "LIMITS", wide)
    narrow = build_probes(max_processes=8, work_bytes=8 * 2**20)
    monkeypatch.setattr(canary, "build_probes", lambda **_: narrow)
    complaints = await canary.check_isolation(sandbox)
    assert any(c.startswith("processes:") for c in complaints)
    assert any(c.startswith("disk:") for c in complaints)


@on_one_engine
async def test_the_canary_sees_a_container_without_the_proxy_that_an_allowlist_means(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    spec = canary.build_canary_spec
    monkeypatch.setattr(
        canary,
        "build_canary_spec",
        lambda tried, image, network=None, limits=None: spec(tried, image, limits=limits),
    )
    [complaint] = await canary.check_isolation(sandbox)
    assert complaint.startswith("egress: ended as")


@on_one_engine
async def test_the_canary_sees_a_work_directory_that_is_not_the_one_that_was_asked_for(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    spec = canary.build_canary_spec

    def other(tried, image, network=canary._NO_NETWORK_POLICY, limits=None):
        found = spec(tried, image, network, limits)
        swapped = replace(found.limits, work_exec=not found.limits.work_exec)
        return replace(found, limits=swapped)

    monkeypatch.setattr(canary, "build_canary_spec", other)
    complaints = await canary.check_isolation(sandbox)
    assert complaints == [
        "isolation: executable: ['/sandbox'] instead of []",
        "isolation, exec: executable: [] instead of ['/sandbox']",
    ]


@pytest.mark.parametrize(
    "fact", ["interfaces", "routes", "sockets_refused", "connects_directly", "connects_to_the_proxy"]
)
def test_each_fact_of_the_way_out_is_judged(fact: str):
    good = {
        "interfaces": ["lo"],
        "routes": 0,
        "sockets_refused": True,
        "connects_directly": False,
        "connects_to_the_proxy": True,
    }
    [probe] = EGRESS_PROBES
    assert list(probe.complaints(good)) == []
    [complaint] = probe.complaints({**good, fact: ["eth0"]})
    assert complaint.startswith(fact.replace("_", " "))


def test_runner_is_the_largest_also_where_a_service_manager_has_raised_every_score():
    """A child's score can't be lower than one that was set with more privileges."""
    accepted = []

    class Score(io.StringIO):
        def write(self, text: str) -> int:
            if int(text) < 200:
                raise PermissionError
            accepted.append(text)
            return len(text)

    exec(RUNNER_MEMORY_SOURCE.partition("for _ in")[0], {"open": lambda path, mode: Score()})
    assert accepted == ["200"]


def test_there_is_a_probe_for_each_limit_that_ends_a_unit():
    causes = {probe.cause for probe in build_probes(max_processes=8, work_bytes=2**20)}
    assert causes >= {Cause.TIMEOUT, Cause.OUT_OF_MEMORY, Cause.OUTPUT_LIMIT, Cause.COMPLETED}
