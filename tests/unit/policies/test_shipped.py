"""The shipped profiles match the contract's table."""

from __future__ import annotations

import json

import pytest

from assayd.model.policy import ExecutionPolicy, ImportMode, NetworkMode
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, describe_policy, load_policies, require_enforceable

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def shipped() -> PolicySet:
    return load_policies([get_shared_data_path("policies")])


@pytest.mark.parametrize(
    ("name", "timeout_s", "unit_timeout_s", "memory_mb", "max_processes"),
    [
        ("default", 30, 30, 256, 4),
        ("extractor", 60, 5, 100, 1),
        ("module_validation", 60, 30, 256, 4),
        ("integration_test", 60, 30, 256, 4),
        ("extended", 60, 60, 512, 4),
        ("pipeline", 60, 10, 256, 16),
        ("code", 60, 30, 256, 4),
        ("fifth", 20, 10, 128, 1),
        ("script", 60, 60, 512, 8),
        ("shell", 60, 60, 512, 16),
        ("data", 60, 30, 512, 4),
        ("javascript", 60, 60, 512, 32),
    ],
)
def test_shipped_profile_has_the_limits_of_the_contract(
    shipped: PolicySet, name: str, timeout_s: float, unit_timeout_s: float, memory_mb: int, max_processes: int
) -> None:
    resources = shipped.get(name).resources
    assert (resources.timeout_s, resources.unit_timeout_s) == (timeout_s, unit_timeout_s)
    assert (resources.memory_bytes, resources.max_processes) == (memory_mb * MEGABYTE, max_processes)
    assert shipped.get(name).clamped == ()


@pytest.mark.parametrize("name", ["code", "script"])
def test_profiles_for_free_code_observe_imports(shipped: PolicySet, name: str) -> None:
    assert shipped.get(name).imports.mode is ImportMode.OBSERVE


def test_default_allows_the_standard_library_category_only(shipped: PolicySet) -> None:
    imports = shipped.get("default").imports
    assert imports.mode is ImportMode.ENFORCE
    assert imports.allows("os.path")
    assert not imports.allows("httpx")
    assert not imports.allows("subprocess")


def test_module_validation_allows_all_four_categories(shipped: PolicySet) -> None:
    imports = shipped.get("module_validation").imports
    assert all(imports.allows(name) for name in ("json", "httpx", "pytest", "unittest.mock", "pydantic"))
    assert imports.enforce_forbidden
    assert {"subprocess", "os.system", "eval"} <= imports.denied


def test_integration_test_denies_all_hosts_and_so_is_enforceable(shipped: PolicySet) -> None:
    policy = shipped.get("integration_test")
    assert policy.network.mode is NetworkMode.ALLOWLIST
    require_enforceable(policy)
    assert describe_policy(policy)["enforceable"] is True


def test_every_shipped_profile_is_described_in_plain_json(shipped: PolicySet) -> None:
    for name in shipped.names:
        policy: ExecutionPolicy = shipped.get(name)
        described = describe_policy(policy)
        assert json.loads(json.dumps(described)) == described
        assert described["digest"] == policy.digest
        assert policy.description


def test_module_validation_states_the_contract_of_adapters(shipped: PolicySet) -> None:
    adapter = shipped.get("module_validation").adapter
    assert adapter.decorators == ("register_adapter",)
    assert adapter.methods == ("fetch_raw", "transform", "get_schema")
    assert {"os._exit", "os.write", "sys.modules", "importlib"} <= adapter.forbidden
    assert shipped.get("extended").adapter == shipped.get("integration_test").adapter == adapter


@pytest.mark.parametrize("module", ["urllib.request", "httpx", "requests", "aiohttp"])
def test_integration_test_allows_every_client_that_its_page_names(shipped: PolicySet, module: str) -> None:
    imports = shipped.get("integration_test").imports
    assert imports.allows(module)
    assert "socket" not in imports.names["socket"]
    assert "gaierror" in imports.names["socket"]


@pytest.mark.parametrize(
    "module", ["subprocess", "http.client", "ctypes", "multiprocessing", "shutil.rmtree"]
)
def test_adapters_may_not_import_what_starts_or_digs(shipped: PolicySet, module: str) -> None:
    assert not shipped.get("module_validation").imports.allows(module)
