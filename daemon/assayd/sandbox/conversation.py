"""One attempt's conversation with a runner: the begin frame, the units in order, and the final frame.

This module determines the order of messages; `channel` decides which units are sent in advance.
`sandbox.outcome` classifies the end. `UnitTranscript` collects the frames about one unit: it counts and
truncates the guest's data, which `outcome` and the validator interpret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import structlog

from assayd.aio import Deadline
from assayd.errors import EngineError
from assayd.findings.network_rules import TEXT_BY_RULE, select_hook_rule
from assayd.model.policy import ImportMode
from assayd.model.run import (
    CapturedOutput,
    Limits,
    NetworkEvent,
    OutputFile,
    PolicyEvent,
    ResourceUsage,
    RunEndReason,
    RunSpec,
    Unit,
    UnitEndReason,
    UnitResult,
    to_policy_event,
)
from assayd.ports.egress import EgressSession
from assayd.sandbox.channel import (
    GuestProtocolError,
    Header,
    RunnerChannel,
    SendAheadWindow,
    StreamEndedError,
    build_begin_frame,
    get_boolean,
    get_integer,
    get_number,
    get_text,
    iter_content_frames,
    iter_file_frames,
    iter_unit_frames,
)
from assayd.sandbox.outcome import determine_unit_outcome
from assayd.sandbox.streams import StreamSet, open_streams

log = structlog.get_logger()

MAX_DROPPED_OUTPUTS = 100
CHECK = "check"
"""The event that a unit sends before work that the judgement doesn't need."""


MIN_KEPT_BYTES = 2048
"""Bytes of each stream to keep per unit after earlier units have used up the attempt's share."""


class RunObserver:
    """A receiver of events during a run. The default implementation ignores all events."""

    def on_unit_started(self, index: int) -> None:
        """Process the start of a unit, whose child has received its request."""

    def output(self, index: int, stream: str, data: bytes) -> None:
        """Process output that a unit wrote."""

    def on_unit_ended(self, index: int, result: UnitResult) -> None:
        """Process the end of a unit, including its remaining processes."""


class AttemptBudget:
    """The shares of result bytes and kept output that are left to an attempt's later units."""

    def __init__(self, limits: Limits) -> None:
        self._result_bytes = limits.attempt_result_bytes
        self._room = dict.fromkeys(("stdout", "stderr"), limits.output_kept_bytes)

    def limit_results(self, unit: UnitResult) -> UnitResult:
        """Return the unit, without its results if they exceed the attempt's remaining result bytes."""
        self._result_bytes -= sum(map(len, unit.results))
        if self._result_bytes >= 0:
            return unit
        # The unit is at fault, not the conversation: drop its results and continue.
        return replace(unit, end=UnitEndReason.RESULT_LIMIT, results=())

    def limit_output(self, unit: UnitResult) -> UnitResult:
        """Return the unit, with its output truncated to the attempt's remaining output bytes.

        At least 2 KiB of each stream are kept.
        """
        stdout = unit.stdout.truncate_to(max(self._room["stdout"], MIN_KEPT_BYTES))
        stderr = unit.stderr.truncate_to(max(self._room["stderr"], MIN_KEPT_BYTES))
        self._room["stdout"] -= len(stdout.head) + len(stdout.tail)
        self._room["stderr"] -= len(stderr.head) + len(stderr.tail)
        if stdout is unit.stdout and stderr is unit.stderr:
            return unit
        return replace(unit, stdout=stdout, stderr=stderr)


class Conversation:
    """One attempt on one channel. The received results are kept even if the conversation fails."""

    def __init__(self, channel: RunnerChannel, spec: RunSpec, egress: EgressSession | None = None) -> None:
        self._channel = channel
        self._spec = spec
        self._observer = RunObserver()
        self._egress = egress
        self._streams: StreamSet | None = None
        self._current: UnitTranscript | None = None
        self._deadline: Deadline | None = None
        self._between_s = 0.0
        self._units_starved_s = 0.0
        self._budget = AttemptBudget(spec.limits)
        self.units: list[UnitResult] = []
        self.outputs: dict[str, bytearray] = {}
        self.truncated: set[str] = set()
        self.outputs_dropped: tuple[str, ...] = ()
        self.peak_memory_bytes: int | None = None

    async def begin(self) -> None:
        """Send the rules, so that the runner can prepare for the first unit. Raises: EngineError."""
        await self._channel.send(build_begin_frame(self._spec, self._egress.limits if self._egress else None))

    async def run(self, deadline: Deadline, observer: RunObserver | None = None) -> tuple[RunEndReason, str]:
        """Run the conversation. Return its end, and a detail as evidence. Call `begin` first."""
        self._observer, self._deadline = observer or RunObserver(), deadline
        try:
            egress = self._egress
            opened = nullcontext() if egress is None else open_streams(self._channel, egress)
            async with deadline.scope(), opened as self._streams:
                await self._run_units()
            return RunEndReason.FINISHED, ""
        except TimeoutError:
            return (RunEndReason.CANCELLED, "") if deadline.cancelled else (RunEndReason.DEADLINE, "")
        except GuestProtocolError as fault:
            return RunEndReason.PROTOCOL, str(fault)
        except StreamEndedError:
            return RunEndReason.LOST, "the runner's stream ended early"
        except EngineError as problem:
            return RunEndReason.ENGINE, problem.code
        finally:
            if self._current is not None:
                asked = self._egress.events(len(self.units)) if self._egress is not None else ()
                self._keep_result(self._add_network_events(self._current.build_interrupted_result(), asked))

    async def _run_units(self) -> None:
        opening, ahead = list(iter_content_frames(self._spec)), SendAheadWindow(self._spec)
        for index, unit in enumerate(self._spec.units):
            await self._channel.send(*opening, ahead.pop_due_frames())
            opening = []
            self._current = UnitTranscript(unit.name, self._spec.limits)
            await self._follow_unit(index, self._current)
            ahead.ended()
            if self._spec.stop_on_failure and not self.units[index].outcome.completed:
                break
            opening = list(_iter_log_frames(unit, self.units[index]))
            await self._repeat_without_check(index, unit)
        await self._channel.send(*opening, ahead.finish())
        await self._receive_final_frames()

    async def _repeat_without_check(self, index: int, unit: Unit) -> None:
        """Repeat a unit without its check if it failed during the check, which doesn't decide the outcome."""
        failed = self.units[index]
        if unit.without_check is None or failed.outcome.completed or not _has_started_check(failed):
            return
        self.units.pop()
        again = replace(unit, arguments=unit.without_check, without_check=None)
        await self._channel.send(*iter_unit_frames(index, again, more=False))
        self._current = UnitTranscript(unit.name, self._spec.limits)
        await self._follow_unit(index, self._current)

    async def _follow_unit(self, index: int, transcript: UnitTranscript) -> None:
        """Read the frames of one unit up to its end. Raises: GuestProtocolError, if a frame is unexpected."""
        while True:
            header, body = await self._receive_unit_frame(index)
            kind = header["type"]
            if kind == "started":
                self._between_s += get_number(header, "starved_s")
                self._exclude_starved_time(0.0)
                self._observer.on_unit_started(index)
            elif kind == "output":
                self._observer.output(index, *transcript.output(header, body))
            elif kind == "event":
                transcript.event(header)
            elif kind == "result":
                transcript.result(header, body)
            elif kind == "clock":
                transcript.clock(header)
                self._exclude_starved_time(transcript.spent.starved_s)
            elif kind == "unit_end":
                asked = await self._streams.end_unit(index) if self._streams is not None else ()
                result = self._add_network_events(transcript.end(header), asked)
                return self._finish_unit(index, result)
            elif self._streams is not None:
                self._streams.process_frame(index, header, body)
            else:
                raise GuestProtocolError(f"unexpected frame {str(kind)[:40]!r}")

    async def _receive_unit_frame(self, index: int) -> tuple[Header, bytes]:
        """Return the next frame of a unit.

        Raises: GuestProtocolError if the frame belongs to another unit.
        """
        header, body = await self._receive_frame()
        if get_integer(header, "unit", most=10**6) != index:
            raise GuestProtocolError("a frame of another unit")
        return header, body

    async def _receive_frame(self) -> tuple[Header, bytes]:
        """Return the next frame.

        Raises: GuestProtocolError, if the runner reports a fault; EngineError ``engine.unconfined``, if a
        child couldn't be confined.
        """
        header, body = await self._channel.receive()
        if header["type"] == "fault":
            raise GuestProtocolError(f"the runner gave up: {get_text(header, 'message')}")
        if header["type"] == "unconfined":
            log.error("child.unconfined", said=get_text(header, "message"))
            raise EngineError("engine.unconfined", "a child couldn't be confined", retryable=True)
        return header, body

    def _exclude_starved_time(self, current_s: float) -> None:
        """Exclude from the deadline the run-queue delay of units and the runner."""
        if self._deadline is not None:
            self._deadline.exclude_time(self._between_s + self._units_starved_s + current_s)

    def _add_network_events(self, unit: UnitResult, asked: tuple[NetworkEvent, ...]) -> UnitResult:
        """Return a unit with its accesses through the relay.

        Denied accesses also become policy violations.
        """
        if not asked and not any(event.kind == "network" for event in unit.events):
            return unit
        enforced = self._spec.imports.mode is ImportMode.ENFORCE
        refused = (to_policy_event(event, enforced=enforced) for event in asked if not event.allowed)
        seen = (self._add_rule(event) for event in unit.events)
        return replace(unit, network=asked, events=(*seen, *dict.fromkeys(refused)))

    def _add_rule(self, event: PolicyEvent) -> PolicyEvent:
        """Return an event with the rule by which the guest's hook denied it.

        An event that isn't a denied network access is returned unchanged.
        """
        if event.kind != "network" or event.allowed:
            return event
        rule = select_hook_rule(self._spec.network.mode)
        return replace(event, rule=rule.value, reason=TEXT_BY_RULE[rule].reason)

    def _finish_unit(self, index: int, result: UnitResult) -> None:
        self._current = None
        result = self._budget.limit_results(result)
        result = replace(result, outcome=determine_unit_outcome(result, self._spec.units[index]))
        self._keep_result(result)
        self._exclude_starved_time(0.0)
        self._observer.on_unit_ended(index, result)

    def _keep_result(self, unit: UnitResult) -> None:
        """Keep a unit's result, and its output within the limits."""
        self.units.append(self._budget.limit_output(unit))
        self._units_starved_s += unit.usage.starved_s

    async def _receive_final_frames(self) -> None:
        """Receive the declared outputs and the runner's final frame.

        Raises: GuestProtocolError, if a frame is unexpected or the outputs exceed their limits.
        """
        while True:
            header, body = await self._receive_frame()
            if header["type"] == "bye":
                # The runner reads 0 if the kernel doesn't count, as before Linux 5.19.
                self.peak_memory_bytes = get_integer(header, "peak_memory_bytes") or None
                self.outputs_dropped = _read_dropped_outputs(header)
                return
            if header["type"] != "collected":
                raise GuestProtocolError(f"unexpected frame {str(header['type'])[:40]!r}")
            self._append_output(header, body)

    def _append_output(self, header: Header, body: bytes) -> None:
        path = get_text(header, "path", most=1024)
        if get_boolean(header, "append") != (path in self.outputs):
            raise GuestProtocolError("declared outputs out of order")
        self.outputs.setdefault(path, bytearray()).extend(body)
        if get_boolean(header, "truncated"):
            self.truncated.add(path)
        limits = self._spec.limits
        if len(self.outputs) > limits.outputs_files:
            raise GuestProtocolError("more declared outputs than the runner may pass on")
        if sum(map(len, self.outputs.values())) > limits.outputs_bytes:
            raise GuestProtocolError("larger declared outputs than the runner may pass on")

    def collected(self) -> tuple[OutputFile, ...]:
        """Return the declared outputs that were received."""
        return tuple(
            OutputFile(name=name, content=bytes(content), truncated=name in self.truncated)
            for name, content in self.outputs.items()
        )


def _has_started_check(unit: UnitResult) -> bool:
    """Return whether a unit reported the start of its check."""
    return any(event.kind == CHECK for event in unit.events)


def _iter_log_frames(unit: Unit, result: UnitResult) -> Iterator[bytes]:
    """Yield the frames that stage a unit's output as files for later units. Without a log, yield nothing."""
    if unit.log is not None:
        out, err = result.stdout.text().encode(), result.stderr.text().encode()
        yield from iter_file_frames({f"{unit.log}.out": out, f"{unit.log}.err": err})


def _read_dropped_outputs(header: Header) -> tuple[str, ...]:
    reasons = header.get("outputs_dropped")
    if type(reasons) is not list or len(reasons) > MAX_DROPPED_OUTPUTS:
        raise GuestProtocolError("bye.outputs_dropped is not a short list")
    return tuple(get_text({"type": "bye", "reason": r}, "reason") for r in reasons)


MAX_EVENTS = 200
MAX_RESULT_RECORDS = 8


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
        """Add a piece of output, and return its stream and bytes.

        Raises: GuestProtocolError, if the frame is malformed or the output exceeds its limit.
        """
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
        """Add a part of a result record.

        Raises: GuestProtocolError, if the frame is malformed or out of order, or the results exceed their
        limit.
        """
        index, last = get_integer(header, "index", most=MAX_RESULT_RECORDS), get_boolean(header, "last")
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
        """Record the unit's resource usage so far. Raises: GuestProtocolError, if the frame is malformed."""
        self.spent = ResourceUsage(
            wall_s=get_number(header, "wall_s"),
            cpu_s=get_number(header, "cpu_s"),
            starved_s=get_number(header, "starved_s"),
        )

    def end(self, header: Header) -> UnitResult:
        """Return the unit's result, given the runner's final frame for the unit.

        Raises: GuestProtocolError, if the frame is malformed or a result record is incomplete.
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
    """Return the wait status of an ended process.

    Raises: GuestProtocolError, if the status is neither that of an exit nor that of a signal.
    """
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
