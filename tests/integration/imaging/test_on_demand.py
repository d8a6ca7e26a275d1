"""The images that are built on demand: their purpose, and their isolation."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

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
from support.engines.oci import IMAGES, ROOT, needs_oci, oci_engine
from support.engines.sandboxes import run, sandbox_on
from support.guests.hostile_elsewhere import elsewhere, wrongly_ended
from support.guests.hostile_program import read_programs
from support.texts.checked_functions import CHECKED_FUNCTIONS

pytestmark = [needs_oci, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

ON_DEMAND = ["node", "science"]
OF_THE_IMAGE = frozenset({"ASSAYD_CONSTANTS", "OPENBLAS_NUM_THREADS", "ASSAYD_PYTHON_PATH"})
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)
TABLE = """
import numpy, pandas
frame = pandas.DataFrame({"region": ["north", "south", "north"], "n": [1, 2, 4]})
result: dict = {"sums": frame.groupby("region").n.sum(), "mean": frame.n.mean(), "at": pandas.Timestamp("2024-03-01")}
print(numpy.dot(numpy.ones((50, 50)), numpy.ones((50, 50))).sum())
"""  # noqa: E501 - one value


@pytest.fixture(scope="module")
def built() -> Path:
    """Build the images that don't exist."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAYD_ENGINE__KIND", "oci")
    patch.setenv("ASSAYD_ENGINE__IMAGES_DIR", str(IMAGES))
    cli_images.build_images(ON_DEMAND, ROOT / ".run/cache/images")
    patch.undo()
    return IMAGES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(built: Path) -> AsyncIterator[Sandbox]:
    engine = oci_engine(built, templates=True)
    try:
        async with sandbox_on(engine, ready=1) as made:
            yield made
    finally:
        await engine.close()


async def submit(sandbox: Sandbox, kind: str, policy: str, payload: dict[str, object]) -> RunResult:
    validator, profile = (
        registry.find_validator(kind),
        load_policies([get_shared_data_path("policies")]).get(policy),
    )
    read = validator.prepare(validator.payload.model_validate_json(canonical(payload)))
    spec = validator.plan(read, profile, derive_attempt_limits(profile, replace(CAPS, work_bytes=2**24)))
    assert spec is not None
    return await run(sandbox, spec)


async def test_benchmark_of_images_runs(built: Path) -> None:
    command = [sys.executable, "-m", "bench.images", "--count", "1"]
    environment = {**os.environ, "ASSAYD_ENGINE__IMAGES_DIR": str(built)}

    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("image", ON_DEMAND)
async def test_isolation_holds(sandbox: Sandbox, image: str) -> None:
    assert await check_isolation(sandbox, image) == []


async def test_node_with_pandas_gives_its_values(sandbox: Sandbox) -> None:
    result = await submit(sandbox, "code", "data", {"code": TABLE, "inputs": {}})

    [unit] = result.units
    assert unit.outcome.cause is Cause.COMPLETED, unit.stderr.text()
    assert unit.stdout.text() == "125000.0\n"
    value = json.loads(unit.results[0])["values"]["result"]
    series = {"name": "n", "index": ["north", "south"], "values": [5, 2]}
    assert value["notes"] == []
    assert value["value"] == {
        "at": {"$py": "datetime", "value": "2024-03-01T00:00:00"},
        "mean": 7 / 3,
        "sums": {"$py": "series", "value": series, "type": "int64"},
    }


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("console.log(process.version.length > 2)", Cause.COMPLETED),
        ("throw new Error('no')", Cause.EXITED_NONZERO),
        ("const a = []; while (true) a.push(new Array(100000).fill(1))", Cause.OUT_OF_MEMORY),
        ("require('fs').writeFileSync('x', Buffer.alloc(2 ** 26))", Cause.DISK_LIMIT),
    ],
)
async def test_javascript_ends_with_its_exact_cause(sandbox: Sandbox, text: str, cause: Cause) -> None:
    payload = {"files": {"main.js": text}, "argv": ["node", "main.js"]}

    result = await submit(sandbox, "script", "javascript", payload)

    assert result.outcome.cause is cause, (result.units[0].stderr.text(), result.outcome)


async def test_functions_with_their_checks_are_decided_in_science(sandbox: Sandbox) -> None:
    for one in CHECKED_FUNCTIONS:
        right = await submit(sandbox, "script", "data", {"code": one.text})
        wrong = await submit(sandbox, "script", "data", {"code": one.wrong})

        ends = (right.outcome.cause, wrong.outcome.cause)
        assert ends == (Cause.COMPLETED, Cause.EXITED_NONZERO), (one.name, ends)


async def test_hostile_programs_end_in_science_as_they_do_elsewhere(sandbox: Sandbox) -> None:
    tried = elsewhere(read_programs(ROOT / "tests/escape/programs"))
    # What pipes can hold is less than the limit, and the larger baseline leaves room for it.
    tried = [one for one in tried if one.name != "resources/memory_in_pipes"]

    assert await wrongly_ended(sandbox, "science", tried, harmless=OF_THE_IMAGE.__contains__) == []
