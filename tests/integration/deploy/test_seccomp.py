"""The container's system call filter: which calls it refuses, and which must work."""

import json
import platform
from pathlib import Path

import pytest

from assayd.package_data import shared_path
from support.engines import engine_image
from support.guests import seccomp_probe, stdlib_tour

pytestmark = pytest.mark.engine

CONFINED = {"user": "10001:10001", "cap_drop": ["ALL"]}
# Root with capabilities, so that nothing but the filter could be what refuses a call.
FREE = {"user": "0:0", "cap_add": ["SYS_ADMIN", "SYSLOG"], "security_opt": ["seccomp=unconfined"]}

ABSENT = {"clone3", "io_uring_setup", "memfd_create", "pidfd_open"}
NEIGHBOURS = {
    "socket of AF_UNIX",
    "socket of AF_INET, stream",
    "socket of AF_INET for UDP",
    "socket of AF_INET6 for TCP",
    "socketpair of AF_UNIX",
    "prlimit64 of the caller",
    "setpriority of the caller",
    "personality asked for",
    "fcntl F_GETFL",
    "fcntl F_SETLK of nothing",
    "prctl PR_GET_DUMPABLE",
    "mknodat of a pipe",
}
FOREIGN = {"call of the x32 table", "call of the 32-bit table"} if platform.machine() == "x86_64" else set()
NATIVE = {
    name
    for name, (_, on_arm, _) in seccomp_probe.CALLS.items()
    if platform.machine() == "x86_64" or on_arm is not None
}
REFUSED = (NATIVE | {"MSG_OOB"}) - ABSENT - NEIGHBOURS - FOREIGN
STOPS = [name for name in dir(stdlib_tour) if name.startswith("visit_")]


def source(module: object) -> str:
    return Path(str(getattr(module, "__file__", ""))).read_text()


@pytest.fixture(scope="module")
def profile() -> str:
    return shared_path("seccomp", "container.json").read_text()


@pytest.fixture(scope="module")
def filtered(profile: str) -> dict[str, str]:
    options = ["no-new-privileges:true", f"seccomp={profile}"]
    output = engine_image.run(source(seccomp_probe), security_opt=options, **CONFINED)
    return dict(json.loads(output))


@pytest.fixture(scope="module")
def unfiltered() -> dict[str, str]:
    return dict(json.loads(engine_image.run(source(seccomp_probe), **FREE)))


@pytest.fixture(scope="module")
def toured(profile: str) -> dict[str, str]:
    options = ["no-new-privileges:true", f"seccomp={profile}"]
    output = engine_image.run(source(stdlib_tour), security_opt=options, **CONFINED)
    return dict(json.loads(output))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_call_is_refused(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "EPERM"


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_call_that_libraries_do_without_seems_absent(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "ENOSYS"


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_call_of_another_table_ends_the_process(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "signal 31"


@pytest.mark.parametrize("name", sorted(REFUSED | ABSENT | FOREIGN))
def test_call_reaches_the_kernel_without_the_filter(
    filtered: dict[str, str], unfiltered: dict[str, str], name: str
) -> None:
    assert unfiltered[name] != filtered[name]


@pytest.mark.parametrize("name", sorted(NEIGHBOURS))
def test_harmless_neighbour_passes(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "ok"


@pytest.mark.parametrize("stop", STOPS)
def test_standard_library_works(toured: dict[str, str], stop: str) -> None:
    assert toured[stop] == "ok"
