"""Tests the isolation of containers on the live engine, at startup and for ``assay doctor``.

The check relies only on observed behavior: a probe that succeeds, or a limit that can be exceeded, is
reported as a leak regardless of the engine's claims.

The probes run like submissions, in `observe` mode and with all builtins, so that they test the container
and the child's own limits rather than the Python rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from assayd.aio import Deadline, run_concurrently
from assayd.errors import EngineError
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import Cause, Limits, Program, RunSpec, Unit, UnitResult
from assayd.model.submission import JsonValue
from assayd.sandbox.sandbox import Sandbox, get_constant_variables, get_runner_interpreter

Facts = Mapping[str, JsonValue]
"""The result of the isolation probe, in plain JSON."""

UID = 10001
WRITABLE_PATHS = frozenset({"/sandbox", "/dev/shm"})  # noqa: S108 - named to be checked

_SETUP_SOURCE = """
import ctypes, errno, mmap, os, socket

libc = ctypes.CDLL(None, use_errno=True)


def refused(action):
    try:
        action()
    except OSError:
        return True
    return False


def syscall_refused(number):
    ctypes.set_errno(0)
    return libc.syscall(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)


def writable(folder):
    try:
        os.close(os.open(os.path.join(folder, ".probe"), os.O_CREAT | os.O_WRONLY))
        os.unlink(os.path.join(folder, ".probe"))
    except OSError:
        return False
    return True


def executable(folder):
    path = os.path.join(folder, ".code")
    with open(path, "wb") as file:
        file.write(bytes(mmap.PAGESIZE))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        mmap.mmap(descriptor, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
    except PermissionError:
        return False
    finally:
        os.close(descriptor)
        os.unlink(path)
    return True
"""

ISOLATION_SOURCE = (
    _SETUP_SOURCE
    + """

def status_of(process):
    return dict(line.rstrip().split(":", 1) for line in open(f"/proc/{process}/status") if ":" in line)


def probe():
    status = status_of("self")
    mounts = [line.split()[1] for line in open("/proc/self/mounts")]
    column = ("x86_64", "aarch64").index(os.uname().machine)
    os.kill(1, 9)
    return {
        "uids": sorted(set(map(int, status["Uid"].split() + status["Gid"].split()))),
        "groups": sorted(set(status["Groups"].split()) - {str(os.getgid())}),
        "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privileges": status["NoNewPrivs"].strip(),
        # The container's filter, the runner's, and in this process the child's.
        "filters": [min(int(status_of(p)["Seccomp_filters"]), least) for p, least in (("1", 2), ("self", 3))],
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "writable": [mount for mount in mounts if writable(mount)],
        "executable": [mount for mount in mounts if writable(mount) and executable(mount)],
        "root_writable": writable("/") or writable("/etc") or writable("/usr"),
        "runner_hidden": refused(lambda: open("/proc/1/environ").read())
        and refused(lambda: open("/proc/1/mem")),
        "sockets_refused": all(
            refused(lambda: socket.socket(family, kind))
            for family, kind in ((2, 1), (10, 1), (16, 3), (17, 3), (38, 5), (40, 1))
        ),
        "environment": len(os.environ.keys() - CONSTANTS),
        "syscalls_refused": {name: syscall_refused(n[column]) for name, n in SYSCALLS.items()},
    }
"""
)

SYSCALLS = {
    "ptrace": (101, 117),
    "unshare": (272, 97),
    "mount": (165, 40),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
}
"""System calls that must be rejected, with their numbers on x86_64 and on aarch64."""

EGRESS_SOURCE = (
    _SETUP_SOURCE
    + """

def connects(host, port):
    return not refused(lambda: socket.create_connection((host, port), timeout=1).close())


def probe():
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    return {
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "routes": len(open("/proc/net/route").readlines()) - 1,
        "sockets_refused": all(
            refused(lambda: socket.socket(family, kind))
            for family, kind in ((2, 2), (2, 3), (10, 1), (16, 3), (17, 3), (38, 5), (40, 1))
        ),
        "connects_directly": connects("192.0.2.1", 443),
        "connects_to_the_proxy": connects(host, int(port)),
    }
"""
)
"""For a container whose profile has an allowlist: only the proxy is reachable.

The probe sends no request to the proxy, so no access is counted. 192.0.2.1 is a documentation address.
"""

MEMORY = """
def probe():
    held = []
    while True:
        held.append(bytearray(4 * 2**20))
"""

PROCESSES = """
import os, signal


def probe():
    children = []
    try:
        while len(children) < 200:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)
"""

RUNNER_MEMORY_SOURCE = """
import os, socket

for least in range(0, 1001, 50):
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write(str(least))
        break
    except PermissionError:  # lower than the score that the service manager set
        continue
for _ in range(4):
    if os.fork() == 0:
        break
held = []
while True:
    try:
        held.append(socket.socketpair())
    except OSError:
        continue
    for end in held[-1]:
        end.setblocking(False)
        try:
            while end.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
"""
"""Fills memory so that the runner is the largest process: the run must end and be reported."""

CLOCK_SOURCE = """
def probe():
    while True:
        pass
"""

OUTPUT = """
import os


def probe():
    while True:
        os.write(1, b"x" * 65536)
"""

DISK = """
import os


def probe():
    written = 0
    try:
        for number in range(100000):
            descriptor = os.open(f"file{number}", os.O_CREAT | os.O_WRONLY)
            written += os.write(descriptor, b"x" * 2**20)
            os.close(descriptor)
    except OSError:
        pass
    return written
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Trusted guest code with the required cause of its end and the required value.

    `complaints` yields a sentence for each wrong part of the value. A probe usually ends within
    milliseconds; `deadline_s` allows seconds for an overloaded machine.
    """

    name: str
    source: str
    cause: Cause
    complaints: Callable[[JsonValue], Iterator[str]]
    deadline_s: float = 15.0


_EXPECTED_FACTS: Facts = {
    "uids": [UID],
    "groups": [],
    "capabilities": ["0" * 16] * 5,
    "no_new_privileges": "1",
    "filters": [2, 3],
    "interfaces": ["lo"],
    "root_writable": False,
    "runner_hidden": True,
    "sockets_refused": True,
    "environment": 0,
    "syscalls_refused": dict.fromkeys(SYSCALLS, True),
}
_EXPECTED_EGRESS: Facts = {
    "interfaces": ["lo"],
    "routes": 0,
    "sockets_refused": True,
    "connects_directly": False,
    "connects_to_the_proxy": True,
}


def _accept_any_value(value: JsonValue) -> Iterator[str]:
    yield from ()


def _check_isolation(value: JsonValue, executable: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence for each unexpected observation of the isolation probe."""
    facts = value if isinstance(value, dict) else {}
    yield from _find_differences(facts, {**_EXPECTED_FACTS, "executable": [*executable]})
    places = facts.get("writable")
    if not isinstance(places, list) or not WRITABLE_PATHS.issuperset(map(str, places)):
        yield f"writable places: {places!r}"


def _find_differences(facts: Facts, expected: Facts) -> Iterator[str]:
    for name, want in expected.items():
        if facts.get(name) != want:
            yield f"{name.replace('_', ' ')}: {facts.get(name)!r} instead of {want!r}"


def _check_egress(value: JsonValue) -> Iterator[str]:
    """Yield a sentence for each unexpected observation under a profile with an empty allowlist."""
    yield from _find_differences(value if isinstance(value, dict) else {}, _EXPECTED_EGRESS)


def _build_limit_check(limit: int, what: str) -> Callable[[JsonValue], Iterator[str]]:
    def judge(value: JsonValue) -> Iterator[str]:
        if type(value) is not int or value > limit:
            yield f"{what}: {value!r}, above the limit {limit}"

    return judge


def build_probes(*, max_processes: int, work_bytes: int, constants: Sequence[str] = ()) -> tuple[Probe, ...]:
    """Return the probes for a container with these limits, beginning with the least harmful.

    `constants` are the variables that the image sets for all code; no other variables are permitted.
    """
    return (
        Probe(
            name="isolation",
            source=_build_isolation_source(constants),
            cause=Cause.COMPLETED,
            complaints=_check_isolation,
        ),
        Probe(
            name="processes",
            source=PROCESSES,
            cause=Cause.COMPLETED,
            complaints=_build_limit_check(max_processes - 1, "processes started"),
        ),
        Probe(
            name="disk",
            source=DISK,
            cause=Cause.COMPLETED,
            complaints=_build_limit_check(work_bytes, "bytes written"),
        ),
        Probe(
            name="clock",
            source=CLOCK_SOURCE,
            cause=Cause.TIMEOUT,
            complaints=_accept_any_value,
            deadline_s=0.2,
        ),
        Probe(name="output", source=OUTPUT, cause=Cause.OUTPUT_LIMIT, complaints=_accept_any_value),
        Probe(name="memory", source=MEMORY, cause=Cause.OUT_OF_MEMORY, complaints=_accept_any_value),
    )


def build_exec_probes(constants: Sequence[str] = ()) -> tuple[Probe, ...]:
    """Return the probe for a container whose work directory permits the execution of files."""
    return (
        Probe(
            name="isolation, exec",
            source=_build_isolation_source(constants),
            cause=Cause.COMPLETED,
            complaints=partial(_check_isolation, executable=["/sandbox"]),
        ),
    )


def _build_isolation_source(constants: Sequence[str]) -> str:
    return f"{ISOLATION_SOURCE}\n\nSYSCALLS = {SYSCALLS!r}\nCONSTANTS = {list(constants)!r}\n"


EGRESS_PROBES = (Probe(name="egress", source=EGRESS_SOURCE, cause=Cause.COMPLETED, complaints=_check_egress),)
"""The probe for a container whose profile has an allowlist."""


LIMITS = Limits(
    timeout_s=20.0,
    unit_timeout_s=2.0,
    memory_bytes=64 * 2**20,
    max_processes=8,
    work_bytes=8 * 2**20,
    output_read_bytes=2**20,
)
_NO_NETWORK_POLICY = NetworkPolicy()


CHECKED_IMAGE = "python"
"""The image in which isolation is checked at the daemon's start."""


def _build_lost_runner_spec(image: str, interpreter: Sequence[str]) -> RunSpec:
    argv = [*interpreter, "-c", RUNNER_MEMORY_SOURCE]
    unit = Unit(
        name="runner memory", program=Program.EXEC, arguments={"argv": argv, "env": {}}, deadline_s=10.0
    )
    imports = ImportPolicy(mode=ImportMode.OBSERVE)
    return RunSpec(image=image, limits=LIMITS, imports=imports, units=(unit,), allow_exec=True)


async def check_isolation(sandbox: Sandbox, image: str = CHECKED_IMAGE) -> Sequence[str]:
    """Return one sentence for each isolation failure, or no sentences if all checks pass.

    Raises: EngineError, if no container is available.
    """
    facts = await sandbox.images.get(image)
    tried = build_probes(
        max_processes=LIMITS.max_processes,
        work_bytes=LIMITS.work_bytes,
        constants=get_constant_variables(facts),
    )
    listed = NetworkPolicy(mode=NetworkMode.ALLOWLIST)
    blocked: list[str] = []
    relayed: list[str] = []
    lost: list[str] = []
    executing: list[str] = []
    runs_written = build_exec_probes(get_constant_variables(facts))
    executes = build_canary_spec(runs_written, image, limits=replace(LIMITS, work_exec=True))
    await run_concurrently(
        _run_probes(sandbox, tried, build_canary_spec(tried, image), blocked),
        _run_probes(sandbox, EGRESS_PROBES, build_canary_spec(EGRESS_PROBES, image, listed), relayed),
        _run_probes(sandbox, runs_written, executes, executing),
        _check_lost_runner(sandbox, _build_lost_runner_spec(image, get_runner_interpreter(facts)), lost),
    )
    return [*blocked, *relayed, *executing, *lost]


async def _check_lost_runner(sandbox: Sandbox, spec: RunSpec, found: list[str]) -> None:
    """Append a failure to `found` if a run whose runner the kernel killed isn't classified as out of memory.

    Also record in `sandbox.counts_container_kills` whether the kernel's counter included this kill.
    """
    before = sandbox.oom_kills()
    async with sandbox.lease(spec) as lease:
        result = await sandbox.run(lease, Deadline(LIMITS.timeout_s))
    after = sandbox.oom_kills()
    sandbox.counts_container_kills = before is not None and after is not None and after > before
    if result.outcome.cause is not Cause.OUT_OF_MEMORY:
        found.append(f"runner out of memory: ended as {result.outcome.cause} {dict(result.outcome.evidence)}")


async def _run_probes(sandbox: Sandbox, tried: Sequence[Probe], spec: RunSpec, found: list[str]) -> None:
    """Run probes in a separate container, and append failures to `found`.

    Raises: EngineError, if the run is lost, which doesn't imply an isolation failure.
    """
    async with sandbox.lease(spec) as lease:
        result = await sandbox.run(lease, Deadline(LIMITS.timeout_s))
    if result.outcome.cause is Cause.INFRASTRUCTURE:
        evidence = dict(result.outcome.evidence)
        raise EngineError("canary.lost", f"the isolation check was lost: {evidence}", retryable=True)
    if len(result.units) != len(tried):
        found.append(
            f"the isolation check ended early: {result.outcome.cause} {dict(result.outcome.evidence)}"
        )
        return
    for probe, unit in zip(tried, result.units, strict=True):
        found.extend(_find_probe_failures(probe, unit))


def build_canary_spec(
    tried: Sequence[Probe],
    image: str,
    network: NetworkPolicy = _NO_NETWORK_POLICY,
    limits: Limits | None = None,
) -> RunSpec:
    """Return the spec of one container that runs all probes in order. The default limits are `LIMITS`."""
    return RunSpec(
        image=image,
        limits=limits or LIMITS,
        network=network,
        imports=ImportPolicy(mode=ImportMode.OBSERVE),
        units=tuple(
            Unit(
                name=probe.name,
                program=Program.CALL,
                arguments={
                    "source": probe.source,
                    "filename": "canary.py",
                    "function": "probe",
                    "args": [],
                    "kwargs": {},
                    "builtins": "full",
                },
                deadline_s=probe.deadline_s,
            )
            for probe in tried
        ),
    )


def _find_probe_failures(probe: Probe, unit: UnitResult) -> list[str]:
    cause = unit.outcome.cause
    if cause is not probe.cause:
        said = unit.stderr.text()[-200:]
        return [
            f"{probe.name}: ended as {cause} instead of {probe.cause} {dict(unit.outcome.evidence)} {said}"
        ]
    return [f"{probe.name}: {complaint}" for complaint in probe.complaints(_read_value(unit))]


def _read_value(unit: UnitResult) -> JsonValue:
    """Return the value that the probe reported, or None if the record has no value."""
    try:
        record = json.loads(unit.results[0]) if unit.results else None
    except ValueError:
        return None
    return record.get("value") if isinstance(record, dict) else None
