"""The input of a container, and its result.

RunSpec and Unit are what a validator plans; UnitResult and RunResult are the raw record that it judges.
Everything in a result that the guest wrote is hostile bytes; everything else was measured by the
runner, the daemon, the engine or the kernel.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assayd.model.policy import ImportPolicy, NetworkPolicy


class Program(StrEnum):
    """The closed set of unit programs that the guest runner knows."""

    CALL = "call"
    """Compile a source text, call one of its functions with given arguments, return its value."""
    PYTHON = "python"
    """Run a source text in a namespace, return the named values."""
    EXEC = "exec"
    """Run an argv or a script file."""
    SQL = "sql"
    """Run statements against a database that the runner holds."""
    PYTEST = "pytest"
    """Collect and run test files, one result per test."""
    TESTS = "tests"
    """Run one hidden test against a solution in another process."""


class Cause(StrEnum):
    """How a run ended; exactly one, decided from evidence in `sandbox.outcome`."""

    COMPLETED = "completed"
    """Every unit ended by itself with exit code 0 and a complete result."""
    EXITED_NONZERO = "exited_nonzero"
    """A unit ended by itself with another exit code; an exception in Python is 1."""
    TIMEOUT = "timeout"
    """A unit or the attempt met its deadline."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed for memory."""
    PROCESS_LIMIT = "process_limit"
    """A fork or thread was refused at the process limit, and the unit failed."""
    OUTPUT_LIMIT = "output_limit"
    """More output or result bytes than the cap."""
    DISK_LIMIT = "disk_limit"
    """The work directory was full, in bytes or in files, and the unit failed."""
    SIGNALLED = "signalled"
    """A signal that the daemon didn't send ended a unit."""
    POLICY_VIOLATION = "policy_violation"
    """The runtime policy refused something in enforce mode."""
    LEFT_PROCESSES = "left_processes"
    """A unit ended and left processes behind."""
    PROTOCOL_VIOLATION = "protocol_violation"
    """No result, more than one, or bytes that are not one."""
    CANCELLED = "cancelled"
    """A user cancelled the attempt."""
    INFRASTRUCTURE = "infrastructure"
    """An internal error: of the engine, the image, the daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The cause of one end, with the evidence that decided it."""

    cause: Cause
    evidence: Mapping[str, object] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Return whether this is the one good end."""
        return self.cause is Cause.COMPLETED


TEMPORARY = ("tmp",)
"""The folder that /tmp leads to, in the work directory of kinds whose code may write files."""
DATABASE_OUTPUT = "database.sqlite"
"""What the database of `sql` units is called among the declared outputs."""

UNCLASSIFIED = Outcome(cause=Cause.INFRASTRUCTURE, evidence={"unclassified": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a container and its units get. Bytes and seconds.

    `memory_bytes` and `max_processes` are the policy's; the sandbox adds what image and runner need. `work_*`
    bound the only writable tmpfs; `work_exec`: its files can be executed. The `*_kept_bytes` are per stream:
    half from the head, half from the tail; `output_read_bytes` is where a unit is stopped. `findings` and
    `retry_context_bytes` bound the report.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One child process: a unit program with its arguments.

    `arguments` is JSON; its shape belongs to the program and is written down in `guest/programs`.
    `deadline_s` is counted by the runner from when the child is told what to run: in processor time, and in
    time that passes less what its tasks waited for a processor (docs/result-contract.md).
    Where `status_decides`, the wait status is the unit's result, and a record of it only tells more: so it
    is for every `exec`, and for scripts.
    `without_check`, for the last unit of a spec: arguments for a second try that decides, when the first did
    not complete; the first does more than is judged.
    `files` are staged just before it starts, whatever earlier units have put there. What it writes is
    staged as files ``<log>.out`` and ``<log>.err`` for the units after it, when `log` names a path.
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
class Paired:
    """What the two processes of each `tests` unit get: the one the solution, the other all that tests share.

    The runner forks what becomes solutions before it has read anything of the tests.
    """

    solution: Mapping[str, object]
    tests: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything that one container is asked to do, decided before it is leased.

    `folders` and `files` are laid into the work directory before the first unit. `preload` names modules
    that the runner imports before it waits, so that children find them loaded; `needed` are those that these
    units use, for a runner that has not waited. `collect` lists the declared outputs, as relative paths or
    glob patterns; ``!`` before one takes back. With `changed_only`, files that are as staged stay behind.
    `database` is what `sql` units work on; changed, it comes back as the declared output `DATABASE_OUTPUT`.
    With `stop_on_failure`, no unit is started after one that did not complete.
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
    paired: Paired | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One output stream: its head, its tail, and how many bytes there were in all."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def truncated(self) -> bool:
        """Return whether bytes between head and tail were dropped."""
        return self.total_bytes > len(self.head) + len(self.tail)

    def cut_to(self, most_bytes: int) -> Captured:
        """Keep no more than so many bytes, half of them from each end."""
        kept, half = self.head + self.tail, most_bytes // 2
        if len(kept) <= most_bytes:
            return self
        return replace(self, head=kept[:half], tail=kept[len(kept) - half :])

    def text(self) -> str:
        """Return head and tail as text, with a mark where bytes were dropped."""
        dropped = self.total_bytes - len(self.head) - len(self.tail)
        if not dropped:
            return (self.head + self.tail).decode("utf-8", "replace")
        mark = f"\n[… {dropped} bytes dropped …]\n"
        return self.head.decode("utf-8", "replace") + mark + self.tail.decode("utf-8", "replace")


class UnitEnd(StrEnum):
    """Why the runner stopped waiting for a unit."""

    EXITED = "exited"
    """The child ended by itself (by exit or by a signal)."""
    DEADLINE = "deadline"
    """The runner killed it at its deadline."""
    OUTPUT_LIMIT = "output_limit"
    """The runner killed it because it wrote more than may be read."""
    RESULT_LIMIT = "result_limit"
    """The runner killed it because its result grew over the cap."""
    INTERRUPTED = "interrupted"
    """The container was ended while it ran; nothing more is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvent:
    """Something that the runtime policy saw: an import, or an act that the audit hook judges.

    `kind` is ``import``, ``network`` or the audit event's name; `detail` is the module, ``host:port``
    or a short description. `allowed` is the policy's word; `file` and `line` are in guest code, when known.
    `rule` and `reason` are there when the relay decided.
    """

    kind: str
    detail: str
    allowed: bool
    enforced: bool
    file: str | None = None
    line: int | None = None
    rule: str | None = None
    reason: str = ""


class Via(StrEnum):
    """How guest code asked the proxy for a host."""

    TLS = "tls"
    """By CONNECT; what follows must be TLS to that host."""
    HTTP = "http"
    """By a request in plain HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkEvent:
    """One host that guest code requested from the relay, and the outcome.

    `host` is as it was asked for, empty when that could not be read; `rule` is what decided. `address` is the
    one connected to. `trouble` says what went wrong with what was allowed. Bytes are those relayed. It is not
    `finished` when it was still going on as its unit ended.
    """

    host: str
    port: int | None
    via: Via
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


def refusal_of(event: NetworkEvent, *, enforced: bool) -> PolicyEvent:
    """Return a refused access as the event that all kinds judge."""
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
class Usage:
    """What a unit used: runner's clock, wait4's rusage, cgroup counter differences.

    `cpu_s` is the processor time of all that it started. `starved_s` is the time in which it could have run,
    had there been a processor; it is not counted against its limit.
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
        """Return the time in which it neither computed nor waited for a processor (sleep, lock, read)."""
        return max(self.wall_s - self.cpu_s - self.starved_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """The result of one unit.

    `wait_status` is the raw status of wait4 (None when it was never seen). `results` are the result
    records that the child wrote, in order: exactly one in a good run. `left_processes` counts what
    lived on after the child.
    """

    name: str
    wait_status: int | None
    end: UnitEnd = UnitEnd.EXITED
    results: tuple[bytes, ...] = ()
    malformed: str | None = None
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    usage: Usage = Usage()
    left_processes: int = 0
    events: tuple[PolicyEvent, ...] = ()
    events_dropped: int = 0
    network: tuple[NetworkEvent, ...] = ()
    outcome: Outcome = UNCLASSIFIED


class RunEnd(StrEnum):
    """Why the run as a whole is over, as the daemon saw it."""

    FINISHED = "finished"
    """All units were run and the runner said goodbye."""
    DEADLINE = "deadline"
    """The attempt's deadline passed; the daemon killed the container."""
    CANCELLED = "cancelled"
    """The attempt was cancelled; the daemon killed the container."""
    PROTOCOL = "protocol"
    """The stream held bytes that are not frames, or frames out of order."""
    LOST = "lost"
    """The stream ended before the runner said goodbye."""
    ENGINE = "engine"
    """The engine failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """What engine and kernel say of a container after its run.

    `killed` tells that the daemon killed it. `kernel_oom_kills` counts whom the kernel killed for memory
    during the run, anywhere on the machine; None where that may be another's. `offer`: what the image has.
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
class Output:
    """A declared output, collected by the runner after its children were dead."""

    name: str
    content: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run. `units` that never started are missing; None means not measured."""

    units: tuple[UnitResult, ...]
    end: RunEnd
    detail: str = ""
    outputs: tuple[Output, ...] = ()
    outputs_dropped: tuple[str, ...] = ()
    container: ContainerFacts = ContainerFacts()
    wall_s: float = 0.0
    peak_memory_bytes: int | None = None
    outcome: Outcome = UNCLASSIFIED

    @property
    def exit(self) -> tuple[int | None, str | None]:
        """Return exit code and signal of the deciding unit: the first bad one, or the last."""
        bad = (unit for unit in self.units if not unit.outcome.completed)
        decided = next(bad, self.units[-1] if self.units else None)
        if decided is None or decided.wait_status is None:
            return None, None
        if os.WIFSIGNALED(decided.wait_status):
            return None, _signal_name(os.WTERMSIG(decided.wait_status))
        return os.waitstatus_to_exitcode(decided.wait_status), None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between the named ends
        return f"SIG{number}"
