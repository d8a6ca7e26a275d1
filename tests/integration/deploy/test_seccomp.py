"""The container's system call filter: which calls it refuses, and which must work."""

import json
import platform
from pathlib import Path

import pytest

from assayd.package_data import get_shared_data_path
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
    return get_shared_data_path("seccomp", "container.json").read_text()


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


@pytest.mark.parametrize(
    ("names", "end"),
    [(REFUSED, "EPERM"), (ABSENT, "ENOSYS"), (FOREIGN, "signal 31"), (NEIGHBOURS, "ok")],
    ids=["refused", "absent as libraries do without them", "of another table", "harmless neighbours"],
)
def test_calls_end_as_their_table_says(filtered: dict[str, str], names: set[str], end: str) -> None:
    assert {name: filtered[name] for name in names} == dict.fromkeys(names, end)


def test_refused_calls_reach_the_kernel_without_the_filter(
    filtered: dict[str, str], unfiltered: dict[str, str]
) -> None:
    assert [name for name in REFUSED | ABSENT | FOREIGN if unfiltered[name] == filtered[name]] == []


def test_standard_library_works(toured: dict[str, str]) -> None:
    assert {stop: toured[stop] for stop in STOPS} == dict.fromkeys(STOPS, "ok")
