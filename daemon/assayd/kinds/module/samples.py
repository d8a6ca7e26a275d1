"""The self-test samples of the kind `module`, with the required verdicts and rules."""

from __future__ import annotations

from assayd.model.submission import Sample

MANIFEST: dict[str, object] = {
    "module_id": "weather/open_meteo",
    "version": "1.0.0",
    "category": "weather",
    "platform": "open_meteo",
    "entrypoint": "OpenMeteo",
    "capabilities": ["current"],
}

ADAPTER = '''\
"""Gives the current weather of a place."""

import httpx
from assayd_adapter import Adapter, register_adapter


@register_adapter
class OpenMeteo(Adapter):
    async def fetch_raw(self, latitude: float, longitude: float) -> dict:
        async with httpx.AsyncClient(transport=self.config.get("transport")) as client:
            params = {"latitude": latitude, "longitude": longitude, "current_weather": True}
            response = await client.get("https://api.open-meteo.com/v1/forecast", params=params)
            response.raise_for_status()
            return response.json()

    def transform(self, raw: dict) -> dict:
        current = raw["current_weather"]
        return {"celsius": current["temperature"], "wind_kmh": current["windspeed"]}

    def get_schema(self) -> dict:
        return {"type": "object", "required": ["celsius", "wind_kmh"]}
'''

TESTS = """\
import httpx
import pytest
from adapter import OpenMeteo

RAW = {"current_weather": {"temperature": 21.5, "windspeed": 8.0}}


@pytest.fixture
def adapter():
    return OpenMeteo(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=RAW)))


async def test_fetch_raw(adapter):
    assert await adapter.fetch_raw(52.5, 13.4) == RAW


def test_transform(adapter):
    assert adapter.transform(RAW) == {"celsius": 21.5, "wind_kmh": 8.0}


@pytest.mark.parametrize("name", ["celsius", "wind_kmh"])
def test_schema(adapter, name):
    assert name in adapter.get_schema()["required"]
"""

_TEST = "from adapter import OpenMeteo\n\n\ndef test_transform():\n"


def build_sample(  # noqa: PLR0913  (what a module has)
    name: str,
    *rules: str,
    adapter: str = ADAPTER,
    tests: str = TESTS,
    manifest: dict[str, object] | None = None,
    files: dict[str, str] | None = None,
    runs: bool = False,
    unit_s: float | None = None,
    verdict: str = "failed",
) -> Sample:
    """Return the correct sample module with the given changes."""
    texts = {"adapter.py": adapter, "test_adapter.py": tests, **(files or {})}
    return Sample(
        name=name,
        payload={"manifest": {**MANIFEST, **(manifest or {})}, "files": texts},
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        unit_timeout_s=unit_s,
    )


SAMPLES = (
    build_sample("good", runs=True, verdict="validated"),
    build_sample("syntax", "syntax.missing_colon", adapter=ADAPTER.replace("(Adapter):", "(Adapter)")),
    build_sample("undecorated", "contract.no_decorator", adapter=ADAPTER.replace("@register_adapter\n", "")),
    build_sample("method", "contract.missing_method", adapter=ADAPTER.replace("get_schema", "schema")),
    build_sample("import", "import.not_allowed", adapter=f"import subprocess\n{ADAPTER}"),
    build_sample("alias", "forbidden.name", adapter=f"import os as system\n{ADAPTER}\nsystem.system('id')\n"),
    build_sample("manifest", "manifest.value", manifest={"version": "1.0"}),
    build_sample("paths", "paths.not_inside", files={"../other.py": "x = 1\n"}),
    build_sample("planted", "paths.planted", files={"conftest.py": "import pytest\n"}),
    build_sample("shadow", "paths.shadows", files={"json.py": "x = 1\n"}),
    build_sample("untested", "tests.none_found", tests="from adapter import OpenMeteo\n"),
    build_sample(
        "failing", "tests.failed", tests=TESTS.replace('{"celsius": 21.5', '{"celsius": 22.5'), runs=True
    ),
    build_sample(
        "skipped", "tests.all_skipped", tests=f"import pytest\n{_TEST}    pytest.skip('later')\n", runs=True
    ),
    build_sample("leaving", "tests.exited", tests=f"import sys\n{_TEST}    sys.exit(0)\n", runs=True),
    build_sample(
        "unimportable",
        "contract.import_failed",
        adapter=f"{ADAPTER}\nraise RuntimeError('not now')\n",
        runs=True,
    ),
    build_sample("endless", "tests.hung", tests=f"{_TEST}    while True: pass\n", runs=True, unit_s=3.0),
    build_sample(
        "network",
        "policy.network",
        tests="import httpx\n\n\ndef test_fetch():\n    httpx.get('https://api.open-meteo.com/v1')\n",
        runs=True,
    ),
    build_sample(
        "tampering",
        "tests.tampered",
        tests=f"import pytest\n{_TEST}    pytest.Function.runtest = lambda self: None\n",
        runs=True,
    ),
)
