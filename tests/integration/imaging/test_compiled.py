"""C programs as scripts, as in examples/compiled: the recipe, the profile, and each program's end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from assayd.documents import canonical
from assayd.kinds import registry
from assayd.model.run import Cause, Limits, RunResult, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.sandbox import Sandbox
from assayd_client.cli import images as cli_images
from support.engines.oci import ROOT, needs_oci, oci_engine
from support.engines.sandboxes import run, sandbox_on

pytestmark = [needs_oci, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

EXAMPLES = ROOT / "examples/compiled"
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0, work_bytes=2**24)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    place = tmp_path_factory.mktemp("compiled")
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAYD_IMAGES__RECIPES_DIR", str(EXAMPLES / "images.d"))
    patch.setenv("ASSAYD_ENGINE__KIND", "oci")
    patch.setenv("ASSAYD_ENGINE__IMAGES_DIR", str(place / "store"))
    await asyncio.to_thread(cli_images.build_images, ["c"], ROOT / ".run/cache/images")
    patch.undo()
    engine = oci_engine(place / "store", templates=True)
    try:
        async with sandbox_on(engine) as made:
            yield made
    finally:
        await engine.close()


async def submit(sandbox: Sandbox, name: str, profile: str = "compiled", **more: object) -> RunResult:
    validator, policies = (
        registry.find_validator("script"),
        load_policies([get_shared_data_path("policies"), EXAMPLES / "policies"]),
    )
    policy = replace(policies.get(profile), image="c")
    files = {each: (EXAMPLES / each).read_text() for each in ("build.sh", name)}
    payload = {"files": files, "argv": ["bash", "build.sh", name], **more}
    read = validator.prepare(validator.payload.model_validate_json(canonical(payload)))
    limits = replace(derive_attempt_limits(policy, CAPS), unit_timeout_s=2.0)
    spec = validator.plan(read, policy, limits)
    assert spec is not None
    return await run(sandbox, spec)


async def test_program_that_was_compiled_runs_and_answers(sandbox: Sandbox) -> None:
    result = await submit(sandbox, "sums.c", stdin="1 2\n39\n")

    assert (result.outcome.cause, result.units[0].stdout.text()) == (Cause.COMPLETED, "42\n")
    assert await check_isolation(sandbox, "c") == []


@pytest.mark.parametrize(
    ("name", "cause", "evidence"),
    [
        ("fails_crashing.c", Cause.SIGNALLED, {"signal": "SIGSEGV"}),
        ("fails_endless.c", Cause.TIMEOUT, {}),
        ("fails_greedy.c", Cause.OUT_OF_MEMORY, {}),
        ("fails_status.c", Cause.EXITED_NONZERO, {"exit_code": 3}),
        ("fails_syntax.c", Cause.EXITED_NONZERO, {"exit_code": 1}),
    ],
)
async def test_compiled_program_ends_with_its_exact_cause(
    sandbox: Sandbox, name: str, cause: Cause, evidence: dict[str, object]
) -> None:
    result = await submit(sandbox, name)

    assert result.outcome.cause is cause, result.outcome
    assert evidence.items() <= result.outcome.evidence.items()


async def test_program_is_not_started_where_the_profile_does_not_say_exec(sandbox: Sandbox) -> None:
    result = await submit(sandbox, "sums.c", profile="shell")

    assert result.outcome.cause is Cause.EXITED_NONZERO
    assert "Permission denied" in result.units[0].stderr.text()
