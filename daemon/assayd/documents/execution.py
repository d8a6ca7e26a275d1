"""Write what one container did: the execution of an attempt, summed over its units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assayd.documents.attempts import Document, limits_document, milliseconds
from assayd.documents.import_violations import MAX_LISTED, runtime_violations
from assayd.model.policy import NetworkPolicy
from assayd.model.run import Captured, Limits, PolicyEvent, RunResult, UnitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One output stream of all units, one after the other. `total_bytes` is exact."""

    text: str
    total_bytes: int
    truncated: bool


def joined_output(streams: Sequence[Captured], *, kept_bytes: int) -> Joined:
    """Join the streams of units, and keep head and tail when they exceed `kept_bytes` together."""
    whole = "".join(stream.text() for stream in streams).encode()
    cut = Captured(
        head=whole[: kept_bytes // 2] if len(whole) > kept_bytes else whole,
        tail=whole[-(kept_bytes // 2) :] if len(whole) > kept_bytes else b"",
        total_bytes=len(whole),
    )
    return Joined(
        text=cut.text(),
        total_bytes=sum(stream.total_bytes for stream in streams),
        truncated=cut.truncated or any(stream.truncated for stream in streams),
    )


def execution_document(result: RunResult, *, limits: Limits, network: NetworkPolicy) -> Document:
    """Write the execution of an attempt."""
    stdout = joined_output([unit.stdout for unit in result.units], kept_bytes=limits.output_kept_bytes)
    stderr = joined_output([unit.stderr for unit in result.units], kept_bytes=limits.output_kept_bytes)
    exit_code, signal_name = result.exit
    facts = result.container
    return {
        "cause": result.outcome.cause,
        "cause_evidence": dict(result.outcome.evidence),
        "success": result.outcome.completed,
        "exit_code": exit_code,
        "signal": signal_name,
        "stdout": stdout.text,
        "stderr": stderr.text,
        "stdout_bytes": stdout.total_bytes,
        "stderr_bytes": stderr.total_bytes,
        "stdout_truncated": stdout.truncated,
        "stderr_truncated": stderr.truncated,
        "execution_time_ms": milliseconds(result.wall_s),
        "cpu_ms": milliseconds(sum(unit.usage.cpu_s for unit in result.units)),
        "peak_memory_bytes": result.peak_memory_bytes,
        "resource_usage": {**limits_document(limits, network), **_usage(result.units)},
        "imports": _imports(result.units),
        "import_violations": list(runtime_violations(_distinct(result.units, kind="import")))[:MAX_LISTED],
        "network_violations": _network_violations(result.units),
        "network_attempts": _network_attempts(result.units),
        "container": {
            "id": facts.id,
            "image": facts.image,
            "image_digest": facts.image_digest,
            "engine": facts.engine,
            "runtime": facts.runtime,
            "python": facts.python,
            "warm": facts.warm,
        },
    }


def _usage(units: Sequence[UnitResult]) -> Document:
    usages = [unit.usage for unit in units]
    return {
        "oom_kills": sum(usage.oom_kills for usage in usages),
        "pids_refused": sum(usage.pids_refused for usage in usages),
        "work_bytes_used": max((usage.work_bytes for usage in usages), default=0),
        "work_files_used": max((usage.work_files for usage in usages), default=0),
        "starved_ms": milliseconds(sum(usage.starved_s for usage in usages)),
        "events_dropped": sum(unit.events_dropped for unit in units),
    }


def _imports(units: Sequence[UnitResult]) -> list[Document]:
    listed: list[Document] = [
        {"module": event.detail, "file": event.file, "line": event.line, "allowed": event.allowed}
        for event in _distinct(units, kind="import")
    ]
    return listed[:MAX_LISTED]


def _network_violations(units: Sequence[UnitResult]) -> list[Document]:
    return [
        {
            **_address(event.detail),
            "blocked": True,  # the container has no network device, whatever the hook did
            "reason": event.reason or "the profile blocks the network",
            "rule": event.rule or "network.blocked",
        }
        for event in _distinct(units, kind="network")
        if not event.allowed
    ][:MAX_LISTED]


def _network_attempts(units: Sequence[UnitResult]) -> list[Document]:
    """List all that the relay was asked for, in order, the unit's index with each."""
    asked = [(index, event) for index, unit in enumerate(units) for event in unit.network]
    return [
        {
            "unit": index,
            "host": event.host,
            "port": event.port,
            "via": event.via.value,
            "method": event.method,
            "allowed": event.allowed,
            "rule": event.rule,
            "trouble": event.trouble,
            "address": event.address,
            "bytes_up": event.bytes_up,
            "bytes_down": event.bytes_down,
            "duration_ms": milliseconds(event.duration_s),
        }
        for index, event in asked[:MAX_LISTED]
    ]


def _address(detail: str) -> Document:
    host, colon, port = detail.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) <= 5):
        return {"host": detail, "port": None}
    return {"host": host.removeprefix("[").removesuffix("]"), "port": int(port)}


def _distinct(units: Iterable[UnitResult], *, kind: str) -> Iterator[PolicyEvent]:
    """Return the events of a kind, each once: the same code runs for every path."""
    return iter(dict.fromkeys(event for unit in units for event in unit.events if event.kind == kind))
