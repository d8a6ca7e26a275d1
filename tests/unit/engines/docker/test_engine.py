import pytest

from assayd.engines.docker import engine
from assayd.errors import EngineError

GOOD: dict[str, object] = {
    "ServerVersion": "20.10.24",
    "DefaultRuntime": "runc",
    "KernelVersion": "6.1.0",
    "CgroupVersion": "1",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


def test_engine_and_runtime_are_named_with_their_versions() -> None:
    info = engine.parse_engine_info(GOOD, {"Components": [{"Name": "runc", "Version": "1.4.1"}]})
    assert (info.name, info.version, info.runtime) == ("docker", "20.10.24", "runc 1.4.1")
    assert (info.kernel, info.cgroup_version, info.warnings) == ("6.1.0", 1, ())


@pytest.mark.parametrize("key", ["MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota", "SecurityOptions"])
@pytest.mark.parametrize("value", [None, False])
def test_limit_that_the_host_lacks_is_a_warning(key: str, value: object) -> None:
    assert len(engine.find_missing_limits({**GOOD, key: value})) == 1


@pytest.mark.parametrize(("version", "swappiness"), [("1", True), ("2", False)])
def test_swappiness_exists_in_the_first_cgroup_version_only(version: str, swappiness: bool) -> None:
    assert engine.parse_engine_host({**GOOD, "CgroupVersion": version}).swappiness is swappiness


def test_podman_is_refused_by_its_name() -> None:
    with pytest.raises(EngineError, match=r"this is Podman 4\.3\.1") as caught:
        engine.reject_unsupported_engine({"Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]})
    assert (caught.value.code, caught.value.retryable) == ("engine.unsupported", False)


def test_docker_is_not_refused() -> None:
    version = {"Components": [{"Name": "Engine", "Version": "20.10.24"}, {"Name": "runc"}]}
    refused = None
    try:
        engine.reject_unsupported_engine(version)
    except EngineError as problem:
        refused = problem.code
    assert refused is None
