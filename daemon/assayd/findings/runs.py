"""Describes a run's failures (causes, policy events, exceptions) for every kind that runs code.

This module makes no decisions; the sandbox determines the cause. The guest controls an exception's type and
message, which are therefore shown truncated, but never trusted.

A timeout's message reports how the unit spent its time: computing, waiting, or in run-queue delay.

    while True: pass        … ran out of time (limit 5 s): it used 5 s of processor time.
    time.sleep(60)          … (limit 5 s): it waited 5 s without computing.
    (a very busy machine)   … (limit 5 s): it computed for 0.9 s and waited 14 s for a processor.

On a busy host, an endless loop looks like a program that only waits. Therefore, the suggestion always names
the loops of the source. The explanation affects no decision. Figures have two digits, so that repeated runs
produce the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assayd.findings.exception_hints import find_misspelling_edit, suggest_exception_fix
from assayd.findings.network_rules import TEXT_BY_RULE, NetworkRule, suggest_network_fix
from assayd.findings.source_text import get_snippet
from assayd.guest_results import CompileFailure, RaisedException
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.run import Cause, PolicyEvent, RunResult, UnitEndReason, UnitResult
from assayd.model.text_limits import shorten_text

_MAX_LAST_LINES = 5
_LINE_CHARS = 200


def truncate_to_last_lines(text: str) -> str | None:
    """Return the last non-empty lines of an output, truncated, or None if there are none."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_MAX_LAST_LINES:]
    return "\n".join(shorten_text(line, _LINE_CHARS) for line in lines) or None


def quote_stderr_end(text: str) -> str | None:
    """Return a sentence that quotes the last lines of standard error, or None if standard error is empty."""
    lines = truncate_to_last_lines(text)
    return None if lines is None else f"standard error ended with:\n{lines}"


_TEXTS_BY_CAUSE: Mapping[Cause, tuple[str, str]] = {
    Cause.EXITED_NONZERO: ("ended with a nonzero exit code", "Let the code end with exit code 0."),
    Cause.TIMEOUT: ("ran out of time", "Look for a loop that never ends, or a pattern that backtracks."),
    Cause.OUT_OF_MEMORY: (
        "ran out of memory",
        "Keep less data in memory: process rows one by one. Written files count too.",
    ),
    Cause.PROCESS_LIMIT: (
        "started too many processes or threads",
        "Do the work in one thread, or start fewer at once.",
    ),
    Cause.OUTPUT_LIMIT: ("wrote more output than is read", "Print or return less."),
    Cause.DISK_LIMIT: ("filled its work directory", "Write fewer or smaller files."),
    Cause.SIGNALLED: ("was ended by a signal", "Look for unbounded recursion or a crash in native code."),
    Cause.POLICY_VIOLATION: (
        "did something that the policy refuses",
        "Remove this operation: the policy doesn't allow it.",
    ),
    Cause.LEFT_PROCESSES: (
        "left processes running",
        "Wait for every process that the code starts, or end it.",
    ),
    Cause.PROTOCOL_VIOLATION: (
        "returned no valid result",
        "Let the code end normally: don't call os._exit or write to foreign descriptors.",
    ),
    Cause.CANCELLED: ("was cancelled", "Submit it again."),
    Cause.INFRASTRUCTURE: ("was lost through an internal error", "Submit it again."),
}

CAUSE_RULES = tuple(
    Rule(id=f"sandbox.{cause}", title=f"The code {words}", help=hint)
    for cause, (words, hint) in _TEXTS_BY_CAUSE.items()
)
POLICY_RULES = (
    Rule(id="policy.import", title="An import refused at run time", profile_key="imports.allowed"),
    Rule(id="policy.network", title="A network access refused at run time", profile_key="network.hosts"),
    Rule(id="policy.operation", title="An operation refused at run time", profile_key="enforcement"),
)
LIMIT_RULE = Rule(
    id="sandbox.limit_met", title="A limit was reached after the result", severity=Severity.WARNING
)
RAISED_RULE = Rule(id="sandbox.raised", title="The code raised an exception")
NOT_COMPILED_RULE = Rule(
    id="syntax.guest_disagrees", title="The container's Python refuses code that was accepted"
)

NO_FUNCTION_RULE = Rule(id="sandbox.no_function", title="The file doesn't define the function")

_CATEGORY_BY_EVENT = {"import": "import_violation", "network": "network_violation"}
EXIT_EVENT = "os._exit"
"""The audit event of a call that would end the process at once."""


def build_cause_finding(cause: Cause, what: str, details: str = "") -> Finding:
    """Return the finding for a cause other than `completed`. `what` is the subject of the sentence."""
    words, hint = _TEXTS_BY_CAUSE[cause]
    return Finding(
        rule=f"sandbox.{cause}",
        category="runtime",
        message=shorten_text(f"{what} {words}{f' ({details})' if details else ''}."),
        layer=Layer.RUNTIME,
        suggestion=hint,
    )


def build_unfinished_findings(result: RunResult, what: str) -> tuple[Finding, ...]:
    """Return the finding for a completed run in which a unit returned no result.

    Return an empty tuple if the run didn't complete, because its cause has a separate finding.
    """
    if not result.outcome.completed:
        return ()  # This end has its own wording.
    return (build_cause_finding(Cause.PROTOCOL_VIOLATION, what, "a part of it was never run"),)


def describe_limit(unit: UnitResult) -> str:
    """Return the memory, disk or process limit that a unit reached, or the signal that ended it.

    Return an empty string if there is neither. For time limits, see `build_timeout_finding`.
    """
    evidence = unit.outcome.evidence
    limit = evidence.get("limit_bytes")
    if isinstance(limit, int):
        return f"the limit is {limit / 2**20:.0f} MiB"
    if isinstance(processes := evidence.get("limit_processes"), int):
        return f"the limit is {processes} at once"
    return str(evidence.get("signal", ""))


def build_exception_finding(record: RaisedException, text: str) -> Finding:
    """Return the finding for an exception, with the submitted line that raised it."""
    message = f"{record.error_type}: {record.message}".removesuffix(": ")
    return Finding(
        rule=RAISED_RULE.id,
        category="runtime",
        message=shorten_text(
            message + (" (while the file was imported)" if record.phase == "import" else "")
        ),
        layer=Layer.RUNTIME,
        line=record.line if get_snippet(text, record.line) is not None else None,
        snippet=get_snippet(text, record.line),
        suggestion=suggest_network_fix(record.error_type, record.message, text)
        or suggest_exception_fix(record, text),
        edit=find_misspelling_edit(record, text),
    )


def build_compile_error_finding(record: CompileFailure, text: str) -> Finding:
    """Return the finding for source that is rejected only by the container's Python."""
    return Finding(
        rule=NOT_COMPILED_RULE.id,
        category="syntax",
        message=shorten_text(f"{record.error_type} in the container: {record.message}"),
        layer=Layer.RUNTIME,
        line=record.line if get_snippet(text, record.line) is not None else None,
        column=record.column,
        snippet=get_snippet(text, record.line),
        suggestion="Use syntax that the Python of the image knows.",
    )


def build_missing_function_finding(function: str) -> Finding:
    """Return the finding for source that ran without defining the function."""
    return Finding(
        rule=NO_FUNCTION_RULE.id,
        category="runtime",
        message=f"The file ran, but didn't define {function}().",
        layer=Layer.RUNTIME,
        suggestion=f"Define {function} at the top level, on every code path.",
    )


def iter_event_findings(events: Iterable[PolicyEvent], texts: str | Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for every violation. Those that were only observed are informational.

    All observed imports share one finding.

    Args:
        events: the events of the run-time policy.
        texts: the submitted text, or the texts of several files by name.
    """
    observed: list[str] = []
    for event in events:
        if event.allowed:
            continue
        if event.kind == "import" and not event.enforced:
            observed.append(event.detail)
            continue
        file = None if isinstance(texts, str) else event.file
        text = texts if isinstance(texts, str) else texts.get(event.file or "", "")
        known = event.kind in {"import", "network"}
        place = get_snippet(text, event.line)
        yield Finding(
            rule=f"policy.{event.kind}" if known else "policy.operation",
            category="policy",
            message=shorten_text(_describe_event(event), 400),
            severity=Severity.ERROR if event.enforced else Severity.INFO,
            layer=Layer.RUNTIME,
            file=file if place is not None else None,
            line=event.line if place is not None else None,
            snippet=place,
            suggestion=_get_event_hint(event),
            subject=event.detail if known else None,
        )
    if observed:
        modules = ", ".join(dict.fromkeys(observed))
        yield Finding(
            rule="policy.import",
            category="policy",
            message=shorten_text(f"Recorded only: import of {modules}; the policy doesn't list that.", 400),
            severity=Severity.INFO,
            layer=Layer.RUNTIME,
        )


def iter_file_events(
    file: str, events: Iterable[PolicyEvent], texts: Mapping[str, str]
) -> Iterator[tuple[PolicyEvent, Finding]]:
    """Yield every violation with its finding, for kinds with several files.

    Args:
        file: the executed file, which is reported if an event has no location.
        events: the events of the run-time policy.
        texts: the submitted texts by file name.
    """
    for event in events:
        for finding in iter_event_findings([event], texts):
            category = _CATEGORY_BY_EVENT.get(event.kind, finding.category)
            yield event, replace(finding, category=category, file=finding.file or file)


def merge_similar_findings(found: Iterable[tuple[str, Finding]]) -> tuple[Finding, ...]:
    """Merge findings of the same kind on the same line into the first, which counts the other cases.

    Text after a colon, such as an exception's message, is ignored, because it often differs between cases.
    """
    first: dict[tuple[object, ...], Finding] = {}
    names: dict[tuple[object, ...], list[str]] = {}
    for name, finding in found:
        key = (finding.rule, finding.file, finding.line, finding.message.partition(":")[0])
        first.setdefault(key, finding)
        names.setdefault(key, []).append(name)
    return tuple(replace(finding, context=describe_case_group(names[key])) for key, finding in first.items())


def describe_case_group(cases: Sequence[str]) -> str:
    """Return the name of the first case, with the number of further cases if there are any."""
    distinct = list(dict.fromkeys(cases))
    more = len(distinct) - 1
    return shorten_text(distinct[0], 400) + (f" and {more} more" if more else "")


def _describe_event(event: PolicyEvent) -> str:
    if event.kind == "network":
        # Even if the policy only records the access, the container blocks it.
        why = f" ({event.rule}: {event.reason})" if event.rule else ""
        return f"The policy refused access to the network: {shorten_text(event.detail, 300)}{why}."
    what = (
        f"import of {event.detail}"
        if event.kind == "import"
        else f"{shorten_text(event.kind, 60)}: {event.detail}"
    )
    if event.enforced:
        return f"The policy refused {what}."
    return f"Recorded only: {what}; the policy doesn't list it."


def _get_event_hint(event: PolicyEvent) -> str | None:
    """Return the fix for a policy event, or None if the event was only observed."""
    if event.rule is not None:
        return TEXT_BY_RULE[NetworkRule(event.rule)].hint
    return "Remove this operation: the policy doesn't allow it." if event.enforced else None


COMPUTING_HINT = "Look for a loop that never ends, or a pattern that backtracks."
WAITING = "Look for a sleep, a lock or a read that never ends."
STARVED = "The machine was busy. Submit it again, or start fewer processes."
SLOWED_HINT = "Check that each loop ends. If each does, submit it again: the machine was busy."
_HINT_AFTER_LOOPS = {
    WAITING: "look for a sleep, a lock or a read that never ends",
    STARVED: "submit it again: the machine was busy",
    SLOWED_HINT: "submit it again: the machine was busy",
}
"""What to do if the loops end, by the suggestion for a source without loops."""
_SHARE = 0.2
_MIN_MAIN_SHARE = 0.5
_MIN_CPU_SHARE = 0.02
"""The share of computing from which a unit that waited for a processor may be in an endless loop."""
_LOOP_PATTERN = re.compile(r"\s*while\b")
_MAX_SHOWN_LOOPS = 3
_MAX_LINES = 5000
"""Loops are shown only for shorter sources: each unit that timed out scans all lines."""
_THREADS_HINT = (
    "A running thread keeps the program from ending. Stop it (put None into its queue), "
    "or start it with daemon=True. Otherwise look for a sleep, a lock or a read that never ends."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShare:
    """A share of the unit's time, with the wording and the fix for it."""

    seconds: float
    words: str
    hint: str


def build_timeout_finding(unit: UnitResult, what: str) -> Finding:
    """Return the finding for a unit that reached its time limit. `what` is the subject of the sentence."""
    return replace(
        build_cause_finding(Cause.TIMEOUT, what),
        message=shorten_text(f"{what} ran out of time ({_format_limit(unit)}){describe_time_use(unit)}."),
        suggestion=suggest_timeout_fix(unit),
    )


def describe_time_use(unit: UnitResult) -> str:
    """Return a clause that describes the largest shares of the time, or an empty string if unknown."""
    said = [spent.words.format(f"{spent.seconds:.2g} s") for spent in _iter_time_shares(unit)]
    return f": it {' and '.join(said)}" if said else ""


def suggest_timeout_fix(unit: UnitResult) -> str:
    """Return the fix for what took most of the time, or for an endless loop if that is unknown."""
    return next((spent.hint for spent in _iter_time_shares(unit)), COMPUTING_HINT)


def _format_limit(unit: UnitResult) -> str:
    whole = unit.end is UnitEndReason.INTERRUPTED
    limit_s = unit.outcome.evidence.get("timeout_s" if whole else "limit_s")
    said = f" {limit_s:.3g} s" if isinstance(limit_s, float | int) else " of the unit" * (not whole)
    return f"limit of the whole attempt{',' * bool(said)}{said}" if whole else f"limit{said}"


def _iter_time_shares(unit: UnitResult) -> Iterator[TimeShare]:
    """Yield the largest shares of the time in descending order. Computing precedes run-queue delay."""
    usage = unit.usage
    parts: tuple[TimeShare, ...] = (
        TimeShare(seconds=usage.cpu_s, words="used {} of processor time", hint=COMPUTING_HINT),
        TimeShare(seconds=usage.waited_s, words="waited {} without computing", hint=WAITING),
        TimeShare(seconds=usage.starved_s, words="waited {} for a processor", hint=STARVED),
    )
    whole_s = sum(part.seconds for part in parts)
    limit_s = unit.outcome.evidence.get("limit_s")
    own_s = usage.cpu_s + usage.waited_s
    if isinstance(limit_s, float | int) and own_s > limit_s * _MIN_MAIN_SHARE:
        parts, whole_s = parts[:2], own_s  # It would also have reached its limit on an idle machine.
    # Waiting for a processor doesn't count against the limit; it is the reason only if it took most of it.
    if parts[-1].hint is STARVED and parts[-1].seconds > whole_s * _MIN_MAIN_SHARE:
        if usage.cpu_s > whole_s * _MIN_CPU_SHARE:
            yield TimeShare(seconds=usage.cpu_s, words="computed for {}", hint=SLOWED_HINT)
        yield parts[-1]
        parts = parts[1:2]
    for part in sorted(parts, key=lambda part: -part.seconds):
        if part.hint is not STARVED and part.seconds > whole_s * _SHARE:
            yield part


def point_to_endless_loops(finding: Finding, text: str) -> Finding:
    """Return the finding with the `while` loops or threads of a Python source in its fix.

    These can run endlessly. A long source isn't searched for loops.
    """
    if finding.suggestion == WAITING and "threading.Thread(" in text:
        return replace(finding, suggestion=_THREADS_HINT)
    if text.count("\n") >= _MAX_LINES:
        return finding
    return point_to_loops(
        finding, text, [n for n, line in enumerate(text.split("\n"), 1) if _LOOP_PATTERN.match(line)]
    )


def point_to_loops(finding: Finding, text: str, lines: Sequence[int]) -> Finding:
    """Return the finding with the loops on `lines` of `text` in its fix.

    A single loop also becomes the finding's place. With no loop or more than three, no loop is named.
    """
    if not lines and finding.suggestion == SLOWED_HINT:
        return replace(finding, suggestion=STARVED)
    if not 0 < len(lines) <= _MAX_SHOWN_LOOPS:
        return finding
    one = len(lines) == 1
    line = lines[0] if one else None
    shown = f"{'loop on line' if one else 'loops on lines'} {', '.join(map(str, lines))}"
    after = _HINT_AFTER_LOOPS.get(finding.suggestion or "")
    words = f"Check the {shown}: every iteration must move closer to its exit condition."
    if after is not None:
        ends, does = ("ends", "it does") if one else ("end", "they do")
        words = f"Check that the {shown} {ends}. If {does}, {after}."
    return replace(finding, suggestion=words, line=line, snippet=get_snippet(text, line))
