"""An analysis worker: reads jobs from standard input, runs static stages, and writes their reports.

`python -m assayd.analysis.worker` starts the parent of the workers, which imports all kinds and forks
workers on request (see `forking`). A worker confines itself before its first job. If a job exceeds the
limits, the worker dies, and only that job fails.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import _lru_cache_wrapper, cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ValidationError

from assayd.analysis.forking import fork_on_request
from assayd.analysis.messages import (
    ANSWER,
    BRIEFING_ADAPTER,
    DESCRIPTION_ADAPTER,
    EXHAUSTED,
    FAILED,
    PATCH_ADAPTER,
    PATCHED_ADAPTER,
    POLICY,
    TAKEN,
    FailedSubmission,
    GenerationBriefing,
    PatchRequest,
    PatchResult,
    RepairDescription,
    WorkerAnswer,
    remember_policy,
)
from assayd.documents.base import message_of
from assayd.errors import ConfigError
from assayd.guest import frames
from assayd.kind import FailureAction, Kind
from assayd.kinds import registry as validators
from assayd.model.finding import has_errors, limit_findings
from assayd.model.merge import apply_quality_levels, apply_reporting_mode, determine_status
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import ExtractedFields, Proposal
from assayd.model.report import StageReport, StageStatus

_READ_BYTES = 1 << 16
_MAX_PROBLEM_CHARS = 500
_TRIAL_CPU_S = 5.0
"""Additional CPU time in seconds to prepare a trial, which doesn't reduce that of the static stages."""


def examine(
    validator: Kind,
    payload: BaseModel,
    policy: ExecutionPolicy,
    *,
    before_trial: Callable[[], None] = lambda: None,
) -> WorkerAnswer:
    """Run the static stages, and prepare the payload and its trial if none of them failed.

    `before_trial` is called before the trial is prepared.
    """
    stages = run_stages(validator, payload, policy)
    if any(stage.status is StageStatus.FAILED for stage in stages):
        return WorkerAnswer(stages=stages, prepared=None)
    prepared = validator.prepare(payload)
    before_trial()
    return WorkerAnswer(
        stages=stages, prepared=_diff_fields(payload, _prepare_trial(validator, prepared, policy))
    )


def _prepare_trial(validator: Kind, ready: BaseModel, policy: ExecutionPolicy) -> BaseModel:
    """Return the payload with the data for `plan_trial`, or unchanged if preparing them fails."""
    try:
        prepared: BaseModel = validator.prepare_trial(ready, policy)
    except Exception:  # noqa: BLE001 - printed to the daemon's standard error
        traceback.print_exc()
        return ready
    return prepared


def _diff_fields(payload: BaseModel, prepared: BaseModel) -> dict[str, object] | None:
    """Return the fields that preparation changed, or None if no field changed."""
    if prepared is payload:
        return None
    before = dict(payload)
    changed = {name for name, value in prepared if name not in before or _values_differ(before[name], value)}
    return prepared.model_dump(mode="json", include=changed) if changed else None


def _values_differ(before: object, after: object) -> bool:
    return before is not after and before != after


def run_stages(validator: Kind, payload: BaseModel, policy: ExecutionPolicy) -> tuple[StageReport, ...]:
    """Run the static stages in order. After a failure that stops validation, skip the following stages."""
    reports: list[StageReport] = []
    stopped = False
    for stage in validator.stages:
        if stopped:
            reports.append(StageReport(name=stage.name, status=StageStatus.SKIPPED))
            continue
        began = time.perf_counter()
        leveled = apply_quality_levels(stage.check(payload, policy), policy.quality)
        findings = limit_findings(apply_reporting_mode(leveled, validator.rules, policy))
        took = time.perf_counter() - began
        reports.append(
            StageReport(
                name=stage.name, status=determine_status(findings), duration_s=took, findings=findings
            )
        )
        stopped = has_errors(findings) and stage.on_fail is FailureAction.STOP
    return tuple(reports)


def describe(validator: Kind, request: FailedSubmission, policy: ExecutionPolicy) -> RepairDescription:
    """Return the request that asks a model to fix a failed submission."""
    payload = validator.payload.model_validate_json(json.dumps(request.payload))
    context = validator.context(payload, request.report, policy)
    return RepairDescription(context=context, digest=_digest(validator, payload))


def patch(validator: Kind, request: PatchRequest) -> PatchResult:
    """Return a submission with a fix applied, or the reason why the kind rejects the fix."""
    given = request.proposal
    try:
        if given.form != "code" or not request.passage:
            document = _apply_answer(validator, request.payload, given)
        else:
            payload = validator.payload.model_validate_json(json.dumps(request.payload))
            document = dict(validator.patch(payload, request.passage, given.code))
        patched = validator.payload.model_validate_json(json.dumps(document))
    except ValueError as problem:
        return PatchResult(payload={}, digest="", problem=_format_problem_message(problem))
    return PatchResult(payload=document, digest=_digest(validator, patched))


def _apply_answer(validator: Kind, base: Mapping[str, object], given: Proposal) -> dict[str, object]:
    """Return the payload with a fix applied. Raises: ValueError, if the kind rejects the fix's form."""
    if given.form not in validator.forms:
        raise ValueError(f"the kind {validator.name} doesn't accept answers in the form {given.form}")
    return dict(validator.answered(base, given))


def _format_problem_message(problem: ValueError) -> str:
    """Return the reason why a fix can't be applied, without quoting the fix."""
    if not isinstance(problem, ValidationError):
        return str(problem)[:_MAX_PROBLEM_CHARS]
    first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {message_of(first)}"[:_MAX_PROBLEM_CHARS]


def build_briefing(validator: Kind, context: bytes, policy: ExecutionPolicy) -> GenerationBriefing:
    """Return a kind's section of a generation prompt, and the payload without the generated parts.

    Raises: TypeError, if the kind doesn't support generation.
    """
    if validator.generation_context is None:
        raise TypeError(f"the kind {validator.name} doesn't support generation")
    read = validator.generation_context.model_validate_json(context)
    return GenerationBriefing(briefing=validator.brief(read, policy), base=dict(validator.base(read)))


def extract_fields(validator: Kind, body: bytes) -> ExtractedFields:
    """Return a submission's sample strings, and the fields that it extracts from them."""
    return validator.taken(validator.payload.model_validate_json(body))


def _digest(kind: Kind, payload: BaseModel) -> str:
    return hashlib.sha256(kind.normalize_text(payload)).hexdigest()


def confine_process(memory_bytes: int) -> None:
    """Limit this process's memory, files and core dumps, and lower its priority if possible."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with contextlib.suppress(OSError):
        os.nice(5)


def extend_cpu_limit(seconds: float) -> None:
    """Grant this process `seconds` more seconds of CPU time. The kernel kills it when they are used up."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def serve_jobs(source: BinaryIO, sink: BinaryIO, *, cpu_s: float, kinds: Mapping[str, Kind]) -> None:
    """Read jobs from `source` and write their results to `sink` until the input ends.

    Each job gets `cpu_s` seconds of CPU time. After each job, the caches of submitted texts are cleared.
    """
    policies: dict[str, ExecutionPolicy] = {}
    decoder = frames.FrameDecoder()
    body = bytearray()
    sink.write(frames.encode_frame({"type": "ready"}))
    sink.flush()
    while data := os.read(source.fileno(), _READ_BYTES):
        for header, part in decoder.feed(data):
            if header["type"] == "policy":
                remember_policy(policies, str(header["digest"]), POLICY.validate_json(part))
                continue
            body += part
            if header["type"] == "part":
                continue
            extend_cpu_limit(cpu_s)
            more_time = partial(extend_cpu_limit, _TRIAL_CPU_S)
            if header["type"] == "read":
                answer = validators.import_reader(str(header["kind"]))(bytes(body))
            else:
                answer = _handle_request(header, bytes(body), kinds[str(header["kind"])], policies, more_time)
            body.clear()
            _write_answer(sink, answer)
            extend_cpu_limit(cpu_s)
            clear_submission_caches()


def clear_submission_caches() -> None:
    """Clear the caches of submitted texts and trees, so that other users' jobs can use the memory.

    Only caches with a maximum size are cleared. The unbounded caches contain constant tables.
    """
    for found in _find_bounded_caches(len(sys.modules)):
        found.cache_clear()


@cache
def _find_bounded_caches(modules: int) -> tuple[_lru_cache_wrapper[Any], ...]:
    """Return all caches of this package that have a maximum size.

    The search takes 2 ms. Its result is cached until `modules`, the number of imported modules, changes.
    """
    ours = [module for name, module in sys.modules.items() if name.startswith("assayd")]
    values = (value for module in ours for value in vars(module).values())
    caches = (value for value in values if isinstance(value, _lru_cache_wrapper))
    return tuple(found for found in caches if found.cache_parameters()["maxsize"] is not None)


def _tune_gc() -> None:
    """Tune garbage collection: freeze the existing objects and collect less often.

    For 1,600 lines of Python, garbage collection took 6 % of the static stages' time; with these settings,
    it takes 1 %. Memory use stays bounded: at most half a million objects await collection, and the process
    has a memory limit.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 5)


def _handle_request(
    header: frames.Header,
    body: bytes,
    kind: Kind,
    policies: Mapping[str, ExecutionPolicy],
    more_time: Callable[[], None],
) -> bytes:
    match header["type"]:
        case "describe":
            failed = FAILED.validate_json(body)
            return DESCRIPTION_ADAPTER.dump_json(describe(kind, failed, policies[str(header["policy"])]))
        case "patch":
            return PATCHED_ADAPTER.dump_json(patch(kind, PATCH_ADAPTER.validate_json(body)))
        case "taken":
            return TAKEN.dump_json(extract_fields(kind, body))
        case "prepare":
            payload = kind.payload.model_validate_json(body)
            changed = _diff_fields(payload, kind.prepare(payload))
            return ANSWER.dump_json(WorkerAnswer(stages=(), prepared=changed))
        case "brief":
            return BRIEFING_ADAPTER.dump_json(build_briefing(kind, body, policies[str(header["policy"])]))
        case what:
            payload = kind.payload.model_validate_json(body)
            policy = policies[str(header["policy"])]
            if what == "stages":
                answer = WorkerAnswer(stages=run_stages(kind, payload, policy), prepared=None)
            else:
                answer = examine(kind, payload, policy, before_trial=more_time)
            return ANSWER.dump_json(answer)


def _write_answer(sink: BinaryIO, answer: bytes) -> None:
    parts = list(frames.split_into_bodies(answer))
    sink.writelines(frames.encode_frame({"type": "stages", "last": p is parts[-1]}, p) for p in parts)
    sink.flush()


def run_worker(kinds: Mapping[str, Kind], *, memory_bytes: int, cpu_s: float) -> None:
    """Confine this process, then handle jobs from standard input until it ends.

    If a job exhausts the memory or the stack, exit with `EXHAUSTED`.
    """
    confine_process(memory_bytes)
    for kind in kinds.values():
        if kind.worker:
            validators.import_function(kind.worker)()
    try:
        serve_jobs(sys.stdin.buffer, sys.stdout.buffer, cpu_s=cpu_s, kinds=kinds)
    except (MemoryError, RecursionError):
        os._exit(EXHAUSTED)


def main() -> None:
    """Import all kinds once, and fork workers on requests that arrive over standard input.

    Exit with a message if the kinds can't be loaded.
    """
    memory_bytes, cpu_s, enabled = int(sys.argv[1]), float(sys.argv[2]), sys.argv[4:]
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # sent by a terminal; the daemon gets the signal too, and ends its workers
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    tables = {kind: [Path(folder) for folder in some] for kind, some in json.loads(sys.argv[3]).items()}
    gc.disable()
    try:
        kinds = validators.load_validators(enabled)
        validators.apply_operator_tables(kinds, tables)
    except ConfigError as problem:  # The daemon loads the same, and reports it too.
        sys.exit(f"analysis worker: {problem.message}")
    gc.enable()
    _tune_gc()
    fork_on_request(control, partial(run_worker, kinds, memory_bytes=memory_bytes, cpu_s=cpu_s))


if __name__ == "__main__":
    main()
