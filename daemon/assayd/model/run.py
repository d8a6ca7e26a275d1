"""The input and the result of a container.

A validator plans a `RunSpec` with its `Unit`s, and judges the raw record in `UnitResult` and `RunResult`.
In a result, all data that the guest wrote is treated as hostile bytes. The runner, the daemon, the engine
or the kernel measured all other data.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assayd.model.policy import ExecutionPolicy, ImportPolicy, NetworkPolicy


class Program(StrEnum):
    """The unit programs of the guest runner. The list is complete."""

    CALL = "call"
    """Compile a source text, call one of its functions with the given arguments, return its value."""
    PYTHON = "python"
    """Run a source text in a namespace, return the named values."""
    EXEC = "exec"
    """Run a command line (argv) or a script file."""
    SQL = "sql"
    """Run SQL statements on a database that the runner holds."""
    PYTEST = "pytest"
    """Collect and run test files with pytest; one result per test."""
    TESTS = "tests"
    """Run one hidden test against a solution in a separate process."""


class Cause(StrEnum):
    """The cause of the end of a run. `sandbox.outcome` derives exactly one cause from the evidence."""

    COMPLETED = "completed"
    """Every unit exited with code 0 and a complete result."""
    EXITED_NONZERO = "exited_nonzero"
    """A unit exited with another code; an uncaught Python exception is 1."""
    TIMEOUT = "timeout"
    """A unit or the attempt reached its deadline."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed a process to free memory."""
    PROCESS_LIMIT = "process_limit"
    """The kernel rejected a new process or thread at the process limit, and the unit failed."""
    OUTPUT_LIMIT = "output_limit"
    """The output or result bytes exceeded the limit."""
    DISK_LIMIT = "disk_limit"
    """The work directory reached its limit of bytes or files, and the unit failed."""
    SIGNALLED = "signalled"
    """A signal that the daemon didn't send ended a unit."""
    POLICY_VIOLATION = "policy_violation"
    """The run-time policy blocked an operation in enforce mode."""
    LEFT_PROCESSES = "left_processes"
    """A unit ended but left processes behind."""
    PROTOCOL_VIOLATION = "protocol_violation"
    """The result was missing, repeated, or malformed."""
    CANCELLED = "cancelled"
    """A user cancelled the attempt."""
    INFRASTRUCTURE = "infrastructure"
    """An internal error of the engine, the image or the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The cause of the end of a unit or run, with the evidence for that cause."""

    cause: Cause
    evidence: Mapping[str, object] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Return whether the cause is COMPLETED, which is the only successful cause."""
        return self.cause is Cause.COMPLETED


TEMPORARY = ("tmp",)
"""The folder behind /tmp in the work directory, for kinds whose code may write files."""
DATABASE_OUTPUT = "database.sqlite"
"""The name of the database of `sql` units among the declared outputs."""

UNCLASSIFIED_OUTCOME = RunOutcome(cause=Cause.INFRASTRUCTURE, evidence={"unclassified": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a container and its units, in bytes and seconds.

    `memory_bytes` and `max_processes` are the policy's values; the sandbox adds the needs of image and
    runner. `work_*` limit the only writable tmpfs; with `work_exec`, its files can be executed. The
    `*_kept_bytes` apply to each stream: one half is kept from its beginning and one half from its end. A
    unit is stopped once it has written `output_read_bytes`. `findings` and `retry_context_bytes` limit the
    report.
    """

    timeout_s: float
    unit_timeout_s: float
    memory_bytes: int
    max_processes: int
    cpus: float = 1.0
    work_bytes: int = 32 * 2**20
    work_files: int = 4096
    work_exec: bool = False
    open_files: int = 256
    output_kept_bytes: int = 256 * 2**10
    output_read_bytes: int = 16 * 2**20
    unit_result_bytes: int = 8 * 2**20
    attempt_result_bytes: int = 16 * 2**20
    outputs_files: int = 100
    outputs_bytes: int = 16 * 2**20
    findings: int = 500
    retry_context_bytes: int = 32 * 2**10


def derive_attempt_limits(policy: ExecutionPolicy, caps: Limits) -> Limits:
    """Return an attempt's limits: the policy's resources, capped by the daemon's settings."""
    resources = policy.resources
    return replace(
        caps,
        timeout_s=resources.timeout_s,
        unit_timeout_s=min(resources.unit_timeout_s, resources.timeout_s),
        memory_bytes=resources.memory_bytes,
        max_processes=resources.max_processes,
        work_exec=policy.exec,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One child process: a unit program with its arguments.

    `arguments` is JSON whose shape depends on the program, see `guest/programs`. `deadline_s` counts from
    the moment at which the child receives its program. The runner applies the deadline to the processor
    time, and to the elapsed time minus the run-queue delay (docs/result-contract.md). If `status_decides`,
    the wait status is the unit's result, and a result record only adds details. This applies to every
    `exec` unit and to scripts. `without_check` is used for the last unit of a spec: it contains the
    arguments of a second, decisive try if the first one didn't complete, because the first try does more
    than the judgement needs. `files` are staged immediately before the start and replace files of earlier
    units. If `log` is a path, the unit's output is staged as ``<log>.out`` and ``<log>.err`` for later
    units.
    """

    name: str
    program: Program
    arguments: Mapping[str, object]
    deadline_s: float
    stdin: bytes = b""
    fresh_cwd: bool = True
    status_decides: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: str | None = None
    without_check: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedArguments:
    """The common arguments of each `tests` unit, for the solution's process and for the tests' process.

    The runner forks the solution processes before it reads any data of the tests.
    """

    solution: Mapping[str, object]
    tests: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The complete instructions for one container, decided before the lease.

    `folders` and `files` are staged in the work directory before the first unit. `preload` names modules
    that a waiting runner imports in advance, so that children inherit them; `needed` names the modules of
    these units, for a runner that didn't wait. `collect` lists the declared outputs as relative paths or
    glob patterns; a leading ``!`` excludes matching paths. With `changed_only`, files that are unchanged
    since staging aren't collected. `database` is the database of `sql` units; if it changed, it is returned
    as the declared output `DATABASE_OUTPUT`. With `stop_on_failure`, no unit is run after a unit that
    doesn't complete. If `independent_units` is true, a second container can run some of the units: each
    starts in an empty work directory, and none has outputs or affects later units.
    """

    image: str
    limits: Limits
    units: tuple[Unit, ...]
    network: NetworkPolicy = NetworkPolicy()
    imports: ImportPolicy = ImportPolicy()
    folders: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    database: bytes = b""
    preload: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    changed_only: bool = False
    stop_on_failure: bool = False
    allow_exec: bool = False
    independent_units: bool = False
    paired: PairedArguments | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedOutput:
    """A captured output stream: its beginning, its end, and its total number of bytes."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def truncated(self) -> bool:
        """Return whether bytes between the beginning and the end were dropped."""
        return self.total_bytes > len(self.head) + len(self.tail)

    def truncate_to(self, most_bytes: int) -> CapturedOutput:
        """Return a copy with at most `most_bytes` bytes, half from the beginning and half from the end."""
        kept, half = self.head + self.tail, most_bytes // 2
        if len(kept) <= most_bytes:
            return self
        return replace(self, head=kept[:half], tail=kept[len(kept) - half :])

    def text(self) -> str:
        """Return the beginning and the end as a string, with a marker between them if bytes were dropped."""
        dropped = self.total_bytes - len(self.head) - len(self.tail)
        if not dropped:
            return (self.head + self.tail).decode("utf-8", "replace")
        mark = f"\n[… {dropped} bytes dropped …]\n"
        return self.head.decode("utf-8", "replace") + mark + self.tail.decode("utf-8", "replace")


class UnitEndReason(StrEnum):
    """The reason why the runner stopped waiting for a unit."""

    EXITED = "exited"
    """The child ended by itself, by exit or signal."""
    DEADLINE = "deadline"
    """The runner killed the child at its deadline."""
    OUTPUT_LIMIT = "output_limit"
    """The runner killed the child because its output exceeded the limit."""
    RESULT_LIMIT = "result_limit"
    """The runner killed the child because its result exceeded the limit."""
    INTERRUPTED = "interrupted"
    """The container ended while the unit ran; nothing more is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvent:
    """An event of the run-time policy: an import, or an operation that the audit hook checks.

    `kind` is ``import``, ``network`` or the name of the audit event. `detail` is the module, ``host:port``
    or a short description. `allowed` is the policy's decision. `file` and `line` are the location in guest
    code, if it is known. `rule` and `reason` are set for decisions of the relay.
    """

    kind: str
    detail: str
    allowed: bool
    enforced: bool
    file: str | None = None
    line: int | None = None
    rule: str | None = None
    reason: str = ""


class AccessProtocol(StrEnum):
    """The protocol in which guest code requested a connection from the proxy."""

    TLS = "tls"
    """A CONNECT request; TLS to that host must follow."""
    HTTP = "http"
    """A plain HTTP request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkEvent:
    """A connection that guest code requested from the relay, with its outcome.

    `host` is the requested name, or "" if it couldn't be parsed. `rule` is the decisive rule. `address` is
    the address of the connection. `trouble` describes the failure of an allowed request. Byte counts
    include only relayed data. `finished` is false if the connection was still open when its unit ended.
    """

    host: str
    port: int | None
    via: AccessProtocol
    allowed: bool
    rule: str
    reason: str
    method: str = ""
    address: str | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    duration_s: float = 0.0
    trouble: str | None = None
    finished: bool = True


def to_policy_event(event: NetworkEvent, *, enforced: bool) -> PolicyEvent:
    """Return a denied access as a policy event, which all kinds judge."""
    place = event.host if event.port is None else f"{event.host}:{event.port}"
    return PolicyEvent(
        kind="network",
        detail=place,
        allowed=False,
        enforced=enforced,
        rule=event.rule,
        reason=event.reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The resource usage of a unit, from the runner's clock, wait4's rusage and the cgroup's counters.

    `cpu_s` is the processor time of all processes of the unit. `starved_s` is the run-queue delay of the
    unit, which the deadline excludes.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    starved_s: float = 0.0
    peak_memory_bytes: int = 0
    oom_kills: int = 0
    pids_refused: int = 0
    work_bytes: int = 0
    work_files: int = 0
    work_full: bool = False

    @property
    def waited_s(self) -> float:
        """Return the seconds in which the unit neither computed nor waited for a processor, e.g. slept."""
        return max(self.wall_s - self.cpu_s - self.starved_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of one unit.

    `wait_status` is the raw status of wait4, or None if unknown. `results` are the result records of the
    child, in order; a successful run has exactly one. `left_processes` counts processes that outlived the
    child.
    """

    name: str
    wait_status: int | None
    end: UnitEndReason = UnitEndReason.EXITED
    results: tuple[bytes, ...] = ()
    malformed: str | None = None
    stdout: CapturedOutput = CapturedOutput()
    stderr: CapturedOutput = CapturedOutput()
    usage: ResourceUsage = ResourceUsage()
    left_processes: int = 0
    events: tuple[PolicyEvent, ...] = ()
    events_dropped: int = 0
    network: tuple[NetworkEvent, ...] = ()
    outcome: RunOutcome = UNCLASSIFIED_OUTCOME


class RunEndReason(StrEnum):
    """The reason for the end of a run, as observed by the daemon."""

    FINISHED = "finished"
    """All units ran, and the runner sent its final frame."""
    DEADLINE = "deadline"
    """The attempt's deadline passed, and the daemon killed the container."""
    CANCELLED = "cancelled"
    """The attempt was cancelled, and the daemon killed the container."""
    PROTOCOL = "protocol"
    """The stream contained malformed or misordered frames."""
    LOST = "lost"
    """The stream ended before the runner's final frame."""
    ENGINE = "engine"
    """The engine failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """The engine's and the kernel's facts about a container after its run.

    `killed` means that the daemon killed it. `kernel_oom_kills` is the number of processes on the whole
    machine that the kernel killed for lack of memory during the run, or None if other programs could have
    caused these kills. `offer` lists the contents of the image.
    """

    id: str = ""
    image: str = ""
    image_digest: str = ""
    engine: str = ""
    runtime: str = ""
    warm: bool = False
    exit_code: int | None = None
    oom_killed: bool = False
    killed: bool = False
    kernel_oom_kills: int | None = None
    python: str | None = None
    offer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A declared output, collected by the runner after its children ended."""

    name: str
    content: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run. `units` contains only started units. A value is None if it wasn't measured."""

    units: tuple[UnitResult, ...]
    end: RunEndReason
    detail: str = ""
    outputs: tuple[OutputFile, ...] = ()
    outputs_dropped: tuple[str, ...] = ()
    container: ContainerFacts = ContainerFacts()
    wall_s: float = 0.0
    peak_memory_bytes: int | None = None
    outcome: RunOutcome = UNCLASSIFIED_OUTCOME

    @property
    def exit(self) -> tuple[int | None, str | None]:
        """Return the exit code and signal of the first failed unit, or of the last unit if none failed."""
        bad = (unit for unit in self.units if not unit.outcome.completed)
        decided = next(bad, self.units[-1] if self.units else None)
        if decided is None or decided.wait_status is None:
            return None, None
        if os.WIFSIGNALED(decided.wait_status):
            return None, _get_signal_name(os.WTERMSIG(decided.wait_status))
        return os.waitstatus_to_exitcode(decided.wait_status), None


def _get_signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # A real-time signal without a name.
        return f"SIG{number}"
