"""The daemon without the wing of workflows."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import assayd
from assayd.errors import ConfigError
from assayd.kinds.registry import load_own_validators
from assayd.metrics import Metrics
from assayd.ports.tracing import NO_TRACING
from assayd.settings.model import TracingSettings
from assayd.wiring.wings import load_recorders, load_routers, open_tracing


@pytest.mark.slow
def test_daemon_without_the_wing_names_it_and_has_no_routes(tmp_path: Path) -> None:
    (tmp_path / "assayd").symlink_to(Path(assayd.__file__).parent)
    program = f"""
import asyncio, sys
from contextlib import AsyncExitStack
sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if p[-7:] != "/daemon")]
from assayd.wiring.wings import open_workflows

async def main():
    async with AsyncExitStack() as stack:
        wing = await open_workflows(None, stack, None)
    await wing.carried.recover_unfinished()
    print(len(wing.routers), wing.carried.end("01A"))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "0 False"
    assert "wing.missing" in done.stdout + done.stderr


IMPORTED = """
import sys
import assayd.daemon, assayd_chains.wiring, assayd_cluster.gateway.wiring, assayd_cluster.node.worker
import assayd_client
wing = ("assayd_tracing", "opentelemetry.sdk", "opentelemetry.exporter")  # FastAPI imports the API
print([name for name in sys.modules if name.startswith(wing)])
"""


@pytest.mark.slow
def test_programs_import_neither_the_wing_nor_the_sdk() -> None:
    found = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


async def test_nothing_is_traced_without_a_collector() -> None:
    async with AsyncExitStack() as stack:
        assert open_tracing(TracingSettings(), stack, Metrics(), daemon_id="01") is NO_TRACING


async def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)  # as if it weren't installed
    settings = TracingSettings(endpoint="http://127.0.0.1:4318/v1/traces")
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match=r"needs opentelemetry\.sdk: .*extra `otel`") as refused:
            open_tracing(settings, stack, Metrics(), daemon_id="01")
    assert refused.value.code == "tracing.missing"


def test_recorders_and_routes_are_those_that_kinds_refer_to() -> None:
    assert [recorder.kind for recorder in load_recorders(load_own_validators())] == ["pipeline"]
    paths = [route.path for router in load_routers(load_own_validators()) for route in router.routes]
    runs = "/v1/pipelines/runs"
    assert paths == ["/v1/pipelines", runs, runs, "/v1/pipelines/{id}"]


@pytest.mark.parametrize("routes", ["assayd.clock:Ulids", "assayd.no_such_module:router"])
def test_routes_that_are_none_are_refused_with_their_reference(routes: str) -> None:
    with pytest.raises(ConfigError, match=routes) as refused:
        load_routers({"odd": SimpleNamespace(routes=routes)})  # type: ignore[dict-item]
    assert refused.value.code == "validator.broken"


def test_kind_that_brings_nothing_is_left_alone() -> None:
    kinds = {"extractor": load_own_validators()["extractor"]}
    assert (load_recorders(kinds), load_routers(kinds)) == ((), ())
