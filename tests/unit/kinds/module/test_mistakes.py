"""Mistakes that only several files of a module together show."""

from __future__ import annotations

import pytest

from assayd.kinds.module.expected_tests import ModulePayload
from assayd.kinds.module.validator import validator
from assayd.model.finding import Finding
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

POLICY = load_policies([get_shared_data_path("policies")]).get("module_validation")
MANIFEST = {
    "module_id": "weather/city",
    "version": "1.0.0",
    "category": "weather",
    "platform": "city",
    "entrypoint": "City",
    "capabilities": ["current"],
}
ADAPTER = """from assayd_adapter import Adapter, register_adapter
from rates import convert


@register_adapter(category="weather", platform="city")
class City(Adapter):
    async def fetch_raw(self, city: str) -> dict:
        return {"city": city}

    def transform(self, raw: dict) -> dict:
        return {"rate": convert(raw["city"])}

    def get_schema(self) -> dict:
        return {"type": "object"}
"""
FILES = {
    "adapter.py": ADAPTER,
    "rates.py": "def convert(city: str) -> float:\n    return float(len(city))\n",
    "test_adapter.py": "from adapter import City\n\n\ndef test_schema():\n    assert City().get_schema()\n",
    "answer.json": '{"city": "Oslo"}',
}


def found(old: str, new: str, file: str = "adapter.py") -> list[Finding]:
    """Return the findings of the static stages in the module with one replacement."""
    assert old in FILES[file]
    files = {**FILES, file: FILES[file].replace(old, new, 1)}
    payload = validator.prepare(ModulePayload(manifest=MANIFEST, files=files))
    return [one for stage in validator.stages for one in stage.check(payload, POLICY)]


def test_right_module_has_no_findings() -> None:
    assert found("Oslo", "Oslo", "answer.json") == []


@pytest.mark.parametrize(
    ("file", "old", "new", "rule", "corrected"),
    [
        ("adapter.py", "import convert", "import converted", "import.no_name", "from rates import convert"),
        ("adapter.py", "from rates", "from rate", "import.not_allowed", "from rates import convert"),
        ("adapter.py", "from rates", "from city.rates", "import.not_allowed", "from rates import convert"),
        ("test_adapter.py", "import City", "import Citty", "import.no_name", "from adapter import City"),
        (
            "adapter.py",
            'platform="city"',
            'platform="town"',
            "contract.manifest",
            '@register_adapter(category="weather", platform="city")',
        ),
        (
            "adapter.py",
            ', platform="city"',
            "",
            "contract.manifest",
            '@register_adapter(category="weather", platform="city")',
        ),
        (
            "adapter.py",
            "def transform(self, raw: dict)",
            "def transform(raw: dict)",
            "contract.method_form",
            "    def transform(self, raw: dict) -> dict:",
        ),
        (
            "adapter.py",
            "get_schema",
            "get_shema",
            "contract.missing_method",
            "    def get_schema(self) -> dict:",
        ),
        ("adapter.py", "class City(Adapter)", "class City", "contract.no_base", "class City(Adapter):"),
        (
            "adapter.py",
            'return {"city": city}',
            "return city.upper",
            "call.missing",
            "        return city.upper()",
        ),
        ("rates.py", "return float", "float", "function.no_value", "    return float(len(city))"),
        ("answer.json", '{"city": "Oslo"}', "{'city': 'Oslo'}", "files.json", '{"city": "Oslo"}'),
    ],
)
def test_mistake_is_found_in_its_file_with_the_edit(
    file: str, old: str, new: str, rule: str, corrected: str
) -> None:
    [finding] = [one for one in found(old, new, file) if one.rule == rule]
    assert finding.file == file
    assert finding.edit is not None
    assert finding.edit.replacement.rstrip("\n") == corrected


@pytest.mark.parametrize(
    "line",
    [
        'API_KEY = "q8Zr41LmX0pT"',
        'HEADERS = {"Authorization": "Bearer eyJhbGciOiJIUzI1.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl"}',
    ],
)
def test_secret_in_the_source_is_a_warning_without_the_value(line: str) -> None:
    [finding] = found("from rates", f"{line}\nfrom rates")
    assert (finding.rule, finding.line, finding.is_error, finding.snippet) == (
        "source.secret",
        2,
        False,
        None,
    )
    assert "q8Zr" not in finding.message


@pytest.mark.parametrize(
    "line",
    [
        'API_KEY = "your-api-key-1234"',
        'TOKEN_URL = "https://a.example/token1"',
        'API_KEY_NAME = "api_key"',
        "upper = str.upper",
        'NAMES = sorted(["b"], key=str.lower)',
    ],
)
def test_placeholder_and_passed_function_are_not_reported(line: str) -> None:
    assert found("from rates", f"{line}\nfrom rates") == []


def test_request_at_import_time_is_a_warning() -> None:
    rules = [
        one.rule
        for one in found("from rates", 'import httpx\nX = httpx.get("https://a.example")\nfrom rates')
    ]
    assert "call.at_import" in rules
