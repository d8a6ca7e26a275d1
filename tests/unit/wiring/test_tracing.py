"""The wing of traces is found if it is needed, and neither it nor the SDK is imported if it is not."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack

import pytest

from assayd.errors import ConfigError
from assayd.metrics import Metrics
from assayd.ports.tracing import NO_TRACING
from assayd.settings.model import TracingSettings
from assayd.wiring.tracing import open_tracing

IMPORTED = """
import sys
import assayd.daemon, assayd_chains.wiring, assayd_cluster.gateway.wiring, assayd_cluster.node.worker
import assayd_client
wing = ("assayd_tracing", "opentelemetry.sdk", "opentelemetry.exporter")  # FastAPI imports the API
print([name for name in sys.modules if name.startswith(wing)])
"""


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
