"""Converts a program to a submission, and the resulting attempt to a result. Pure: no input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals
from typing import Any

from assayd_compat.languages import Language

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that a client wants to run.

    Attributes:
        files: further files in the program's current directory: text, or ``{"base64": …}``.
        timeout_s, memory_mb: the requested limits; None means the profile's limit, which is also the
            maximum.
        collect: the paths of the files to return, if they exist at the end.
        client: the interface that received the program; it is stored as a label of the run.
        labels: further labels of the run.
        webhook: the URL to which the daemon reports the end of the run; the operator must list it.
    """

    language: Language
    source: str
    client: str
    files: Mapping[str, object] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    stdin: str = ""
    timeout_s: float | None = None
    compile_timeout_s: float | None = None
    memory_mb: int | None = None
    collect: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    webhook: str | None = None


class ProgramEndReason(StrEnum):
    """The reason why a program ended, in the categories of other judges."""

    EXITED = "exited"
    """The program ended by itself or by a signal from the kernel."""
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    OURS = "ours"
    """An internal error: the program didn't run, or its result was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of one process, with times in seconds and sizes in bytes. Unknown values are None.

    `artifacts` contains the names and sizes of the bundle's files.
    """

    end: ProgramEndReason
    attempt_id: str
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    signal: str | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    message: str = ""
    artifacts: Mapping[str, int] = field(default_factory=dict)
    created_at: str | None = None
    finished_at: str | None = None

    @property
    def has_succeeded(self) -> bool:
        """Return whether the process exited on its own with code 0."""
        return self.end is ProgramEndReason.EXITED and self.exit_code == 0

    @property
    def signal_number(self) -> int:
        """Return the number of the signal that ended the process, or 0 if no signal did."""
        known = Signals.__members__.get(self.signal or "")
        return 0 if known is None else known.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """The result of a program. `run` is None if compilation failed, `compiled` if it wasn't needed."""

    compiled: ProcessEnd | None
    run: ProcessEnd | None
    files: Mapping[str, bytes] = field(default_factory=dict)


def build_compilation(program: Program, policy: str, limits: Json) -> Json:
    """Return the submission of the kind `script` that compiles a program."""
    language = program.language
    payload = {
        "argv": list(language.compile),
        "files": {**program.files, language.file: program.source},
        "collect": [language.product],
    }
    return _build_submission(program, policy, payload, program.compile_timeout_s, limits)


def build_execution(program: Program, policy: str, limits: Json, product: object = None) -> Json:
    """Return the submission that runs a program. `product` is the file that the compiler wrote.

    A Python program without arguments is passed in the payload field `code`, because it then starts without a
    new interpreter.
    """
    language = program.language
    if not language.run and not program.arguments and program.source.strip():
        payload = _add_run_fields(program, {"code": program.source, "files": dict(program.files)})
        return _build_run_submission(program, policy, payload, limits)
    if language.compile:
        files = {**program.files, language.product: product}
        payload = _add_run_fields(program, {"argv": [*language.run, *program.arguments], "files": files})
        return _build_run_submission(program, policy, payload, limits)
    return build_interpretation(program, policy, limits)


def build_interpretation(program: Program, policy: str, limits: Json) -> Json:
    """Return the submission that runs an interpreter with the source as a file."""
    language = program.language
    start = language.run or ("python3.11", language.file)
    files = {**program.files, language.file: program.source}
    payload = _add_run_fields(program, {"argv": [*start, *program.arguments], "files": files})
    return _build_run_submission(program, policy, payload, limits)


def _add_run_fields(program: Program, payload: Json) -> Json:
    inside = [path for path in program.collect if not path.startswith("/") and ".." not in path.split("/")]
    return {**payload, "stdin": program.stdin, "collect": inside}


def _build_run_submission(program: Program, policy: str, payload: Json, limits: Json) -> Json:
    submission = _build_submission(program, policy, payload, program.timeout_s, limits)
    return submission if program.webhook is None else {**submission, "webhook": program.webhook}


def _build_submission(
    program: Program, policy: str, payload: Json, timeout_s: float | None, limits: Json
) -> Json:
    """Return a submission with the requested limits, which the profile's limits cap."""
    asked = {"timeout_s": timeout_s, "unit_timeout_s": timeout_s, "memory_mb": program.memory_mb}
    tighter = {name: value for name, value in asked.items() if value is not None and 0 < value < limits[name]}
    return {
        "kind": "script",
        "policy": policy,
        "payload": payload,
        "overrides": {"resources": tighter},
        "labels": {
            **program.labels,
            "client": program.client,
            "language": program.language.name,
        },
    }


def parse_process_end(attempt: Json) -> ProcessEnd:
    """Return the exit, output and resource usage of a finished attempt's program.

    If a rule rejected the program before it ran, the result is exit code 1, with the rule's message in
    stderr.
    """
    execution_of, identity = attempt["execution"], attempt["id"]
    times = {"created_at": attempt["created_at"], "finished_at": attempt["finished_at"]}
    if attempt["verdict"] == "cancelled":
        return ProcessEnd(
            end=ProgramEndReason.CANCELLED, attempt_id=identity, message="The run was cancelled.", **times
        )
    if attempt["verdict"] == "error" or (
        execution_of is None and _get_first_rule(attempt).startswith("path.")
    ):
        message = (attempt["error"] or {}).get("message") or _get_first_message(attempt)
        return ProcessEnd(
            end=ProgramEndReason.OURS, attempt_id=identity, message=message or "The run was lost.", **times
        )
    if execution_of is None:  # A rule of the profile rejected it before it ran.
        refusal = _get_first_message(attempt)
        return ProcessEnd(
            end=ProgramEndReason.EXITED, attempt_id=identity, exit_code=1, stderr=f"{refusal}\n", **times
        )
    cause = execution_of["cause"]
    ends = {
        "timeout": ProgramEndReason.TIMEOUT,
        "out_of_memory": ProgramEndReason.OUT_OF_MEMORY,
        "output_limit": ProgramEndReason.OUTPUT_LIMIT,
        "infrastructure": ProgramEndReason.OURS,
    }
    return ProcessEnd(
        end=ends.get(cause, ProgramEndReason.EXITED),
        attempt_id=identity,
        stdout=execution_of["stdout"],
        stderr=execution_of["stderr"],
        exit_code=execution_of["exit_code"],
        signal=execution_of["signal"],
        wall_s=_get_last_case_duration_s(attempt),
        cpu_s=_to_seconds(execution_of["cpu_ms"]),
        memory_bytes=execution_of["peak_memory_bytes"],
        message="" if cause == "completed" else _get_first_message(attempt),
        artifacts={artifact["name"]: artifact["bytes"] for artifact in attempt["artifacts"]},
        **times,
    )


def is_invalid_python(attempt: Json) -> bool:
    """Return whether an attempt didn't run because its source isn't valid Python."""
    return attempt["execution"] is None and _get_first_rule(attempt).startswith(("source.", "syntax."))


def _get_first_rule(attempt: Json) -> str:
    """Return the rule of the first finding, or an empty string without findings."""
    return next(iter(attempt["rules"]), "")


def _get_last_case_duration_s(attempt: Json) -> float | None:
    runtime = attempt["report"]["runtime_results"]
    cases = runtime["cases"] if runtime else []
    return _to_seconds(cases[-1]["duration_ms"]) if cases else None


def _to_seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _get_first_message(attempt: Json) -> str:
    findings = attempt["report"]["findings"] if attempt["report"] else []
    return str(findings[0]["message"]) if findings else ""
