"""Collects the runner's frames about one unit, within limits.

This module counts and truncates the guest's data; `outcome` and the validator interpret it.
"""

from __future__ import annotations

import os

from assayd.model.run import CapturedOutput, Limits, PolicyEvent, ResourceUsage, UnitEndReason, UnitResult
from assayd.sandbox.session.channel import (
    GuestProtocolError,
    Header,
    get_boolean,
    get_integer,
    get_number,
    get_text,
)

MAX_EVENTS = 200
MAX_RECORDS = 8


class UnitTranscript:
    """A collector of one unit's frames, which converts them to a `UnitResult` at the unit's end."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._parts: dict[tuple[str, str], bytearray] = {}
        self._records: list[bytearray] = []
        self._open = False
        self._events: list[PolicyEvent] = []
        self._result_bytes = 0
        self.spent = ResourceUsage()
        """The resource usage so far, as last reported by the runner."""

    def output(self, header: Header, body: bytes) -> tuple[str, bytes]:
        """Add a piece of output, and return its stream and bytes. Raises: GuestProtocolError."""
        stream, part = get_text(header, "stream"), get_text(header, "part")
        if stream not in ("stdout", "stderr") or part not in ("head", "tail"):
            raise GuestProtocolError("output of an unknown stream")
        kept = self._parts.setdefault((stream, part), bytearray())
        kept += body
        if len(kept) > self._limits.output_kept_bytes // 2:
            raise GuestProtocolError("more output than the runner may pass on")
        return stream, body

    def event(self, header: Header) -> PolicyEvent:
        """Record and return a policy event.

        Raises: GuestProtocolError, if the event is malformed or the run has too many events.
        """
        if len(self._events) >= MAX_EVENTS:
            raise GuestProtocolError("more policy events than the runner may pass on")
        file, line = header.get("file"), header.get("line")
        event = PolicyEvent(
            kind=get_text(header, "kind", most=64),
            detail=get_text(header, "detail", most=1024),
            allowed=get_boolean(header, "allowed"),
            enforced=get_boolean(header, "enforced"),
            file=None if file is None else get_text(header, "file", most=256),
            line=None if line is None else get_integer(header, "line", most=10**7),
        )
        self._events.append(event)
        return event

    def result(self, header: Header, body: bytes) -> None:
        """Add a part of a result record. Raises: GuestProtocolError."""
        index, last = get_integer(header, "index", most=MAX_RECORDS), get_boolean(header, "last")
        if index != len(self._records) - self._open:
            raise GuestProtocolError("result records out of order")
        if not self._open:
            self._records.append(bytearray())
        self._records[-1] += body
        self._open = not last
        self._result_bytes += len(body)
        if self._result_bytes > self._limits.unit_result_bytes:
            raise GuestProtocolError("a result larger than its cap")

    def clock(self, header: Header) -> None:
        """Record the unit's resource usage so far. Raises: GuestProtocolError."""
        self.spent = ResourceUsage(
            wall_s=get_number(header, "wall_s"),
            cpu_s=get_number(header, "cpu_s"),
            starved_s=get_number(header, "starved_s"),
        )

    def end(self, header: Header) -> UnitResult:
        """Return the unit's result, given the runner's final frame for the unit.

        Raises: GuestProtocolError.
        """
        if self._open:
            raise GuestProtocolError("a result record without its end")
        self.clock(header)
        malformed = header.get("malformed")
        return UnitResult(
            name=self._name,
            wait_status=_read_wait_status(header),
            end=_read_unit_end(header),
            results=tuple(bytes(r) for r in self._records),
            malformed=None if malformed is None else get_text(header, "malformed"),
            stdout=self._build_captured_output("stdout", get_integer(header, "stdout_bytes")),
            stderr=self._build_captured_output("stderr", get_integer(header, "stderr_bytes")),
            usage=_read_usage(header),
            left_processes=get_integer(header, "left_processes", most=10**6),
            events=tuple(self._events),
            events_dropped=get_integer(header, "events_dropped"),
        )

    def build_interrupted_result(self) -> UnitResult:
        """Return the known results of a unit whose run ended before the unit did."""
        return UnitResult(
            name=self._name,
            wait_status=None,
            end=UnitEndReason.INTERRUPTED,
            results=tuple(bytes(r) for r in self._records),
            stdout=self._build_captured_output("stdout", None),
            stderr=self._build_captured_output("stderr", None),
            usage=self.spent,
            events=tuple(self._events),
        )

    def _build_captured_output(self, stream: str, total: int | None) -> CapturedOutput:
        head, tail = (bytes(self._parts.get((stream, part), b"")) for part in ("head", "tail"))
        held = len(head) + len(tail)
        if total is not None and total < held:
            raise GuestProtocolError(f"{stream} holds more bytes than were counted")
        return CapturedOutput(head=head, tail=tail, total_bytes=held if total is None else total)


def _read_wait_status(header: Header) -> int:
    """Parse the wait status of an ended process (exit or signal). Raises: GuestProtocolError."""
    status = get_integer(header, "wait_status", most=0xFFFF)
    if not (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        raise GuestProtocolError("unit_end.wait_status is not that of an end")
    return status


def _read_unit_end(header: Header) -> UnitEndReason:
    try:
        end = UnitEndReason(get_text(header, "end"))
    except ValueError:
        raise GuestProtocolError("unit_end.end is unknown") from None
    if end is UnitEndReason.INTERRUPTED:
        raise GuestProtocolError("only the daemon interrupts")
    return end


def _read_usage(header: Header) -> ResourceUsage:
    return ResourceUsage(
        wall_s=get_number(header, "wall_s"),
        cpu_s=get_number(header, "cpu_s"),
        starved_s=get_number(header, "starved_s"),
        peak_memory_bytes=get_integer(header, "peak_memory_bytes"),
        oom_kills=get_integer(header, "oom_kills"),
        pids_refused=get_integer(header, "pids_refused"),
        work_bytes=get_integer(header, "work_bytes"),
        work_files=get_integer(header, "work_files"),
        work_full=get_boolean(header, "work_full"),
    )
