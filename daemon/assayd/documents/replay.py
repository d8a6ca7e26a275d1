"""Compares two runs of a submission without volatile fields, and compares two submissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from pydantic import Field

from assayd.documents.base import BaseDocument, serialize_compact, to_plain
from assayd.model.attempt import Attempt
from assayd.model.report import Verdict

# As marked in docs/result-contract.md; a test compares them.
VOLATILE: Mapping[str, frozenset[str]] = {
    "report": frozenset({"attempt_id", "validated_at"}),
    "report.stages": frozenset({"duration_ms"}),
    "report.runtime_results.cases": frozenset({"stdout", "stderr", "duration_ms", "result_text"}),
    "execution": frozenset(
        {
            "cause_evidence",
            "stdout",
            "stderr",
            "stdout_bytes",
            "stderr_bytes",
            "stdout_truncated",
            "stderr_truncated",
            "execution_time_ms",
            "cpu_ms",
            "peak_memory_bytes",
            "network_attempts",
        }
    ),
    "execution.resource_usage": frozenset(
        {"oom_kills", "pids_refused", "work_bytes_used", "work_files_used", "events_dropped", "starved_ms"}
    ),
    "execution.container": frozenset({"id", "warm"}),
}
"""The fields that may differ, by the path of their object (without indexes)."""

# Repetitions: every finding is also in `report.findings`.
_REPEATED: Mapping[str, frozenset[str]] = {"report.stages": frozenset({"findings"})}

MOST_LISTED = 100
MOST_BYTES = 2048
"""Bytes up to which a differing value is shown; a longer one is replaced by a note."""

# The daemon's own documents, parsed without a schema.
Json = Any


class ChangeDocument(BaseDocument):
    """One field that differs between an attempt and its replay."""

    field: str = Field(description="Dotted path, e.g. `report.findings.0.line`.")
    before: Any = Field(description="The value of the attempt; null when it has none.")
    after: Any = Field(description="The value of the replay.")


class VerdictChangeDocument(BaseDocument):
    """The verdict of an attempt, and the verdict of its replay."""

    before: Verdict | None = Field(description="Verdict of the attempt.")
    after: Verdict | None = Field(description="Verdict of the replay.")


class ReplayDiffDocument(BaseDocument):
    """The differences between a replay and its original, without volatile fields."""

    of: str = Field(description="The attempt that was repeated.")
    same: bool = Field(description="Whether nothing differs.")
    verdict: VerdictChangeDocument = Field(description="Both verdicts.")
    differences: list[ChangeDocument] = Field(description="Differences; at most 100.")
    more: int = Field(description="How many more differences there are.")


def replay_diff(first: Attempt, again: Attempt, before: Json, after: Json) -> ReplayDiffDocument:
    """Return the differences between a replay and its original.

    Args:
        first: the original attempt.
        again: its finished replay.
        before: report and execution record of the original, as an object with a key for each.
        after: the same for the replay.
    """
    whole_before = {**_attempt_summary(first), **before}
    whole_after = {**_attempt_summary(again), **after}
    differences = [
        ChangeDocument.model_construct(field=field, before=_abbreviate(one), after=_abbreviate(other))
        for field, one, other in _differences("", "", whole_before, whole_after)
    ]
    return ReplayDiffDocument.model_construct(
        of=first.id,
        same=not differences,
        verdict=VerdictChangeDocument.model_construct(before=first.verdict, after=again.verdict),
        differences=differences[:MOST_LISTED],
        more=max(0, len(differences) - MOST_LISTED),
    )


def _attempt_summary(attempt: Attempt) -> dict[str, Json]:
    return {
        "verdict": attempt.verdict,
        "cause": attempt.cause,
        "error": to_plain(attempt.error),
    }


def _differences(path: str, place: str, one: Json, other: Json) -> Iterator[tuple[str, Json, Json]]:
    """Yield the differences between two values; `path` includes list indexes, `place` omits them."""
    if isinstance(one, dict) and isinstance(other, dict):
        passed_over = VOLATILE.get(place, frozenset()) | _REPEATED.get(place, frozenset())
        for key in sorted(one.keys() | other.keys()):
            if key not in passed_over:
                dot = "." if path else ""
                inside = f"{path}{dot}{key}", f"{place}{dot}{key}"
                yield from _differences(inside[0], inside[1], one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            pair = [each[index] if index < len(each) else None for each in (one, other)]
            yield from _differences(f"{path}.{index}", place, pair[0], pair[1])
    elif type(one) is not type(other) or one != other:
        yield path, one, other


def _abbreviate(value: Json) -> Json:
    size = len(serialize_compact(value))
    return value if size <= MOST_BYTES else f"({size} bytes)"


COMPARED_LINES = 200
"""Changed lines up to which unchanged lines between them are searched for."""
CONTEXT = 3
MAX_CHARS = 64 * 2**10

Texts = Mapping[str, str]


def submission_diff(before: object, after: object) -> str:
    """Return a truncated diff of two payloads; empty if all strings are equal."""
    old, new = dict(_iter_strings("payload", before)), dict(_iter_strings("payload", after))
    lines = [
        line for name in sorted({*old, *new}) for line in _diff_string(name, old.get(name), new.get(name))
    ]
    whole = "".join(f"{line}\n" for line in lines)
    return whole if len(whole) <= MAX_CHARS else f"{whole[:MAX_CHARS]}\n… and more\n"


def _iter_strings(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield name, value
        case dict():
            for key, part in value.items():
                yield from _iter_strings(f"{name}.{key}", part)
        case list():
            for number, part in enumerate(value):
                yield from _iter_strings(f"{name}.{number}", part)
        case _:
            return


def _diff_string(name: str, old: str | None, new: str | None) -> Iterator[str]:
    """Yield the changes of a string as a single hunk."""
    if old == new:
        return
    before, after = (old or "").splitlines(), (new or "").splitlines()
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    start, end = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    gone, come = before[head : len(before) - tail], after[head : len(after) - tail]
    yield f"--- {name}"
    yield f"+++ {name}"
    yield f"@@ -{_hunk_range(start, len(before) - end)} +{_hunk_range(start, len(after) - end)} @@"
    yield from (f" {line}" for line in before[start:head])
    yield from _changed_lines(gone, come)
    yield from (f" {line}" for line in before[len(before) - tail : len(before) - end])


def _hunk_range(start: int, end: int) -> str:
    return f"{start + (end > start)},{end - start}"


def _changed_lines(gone: Sequence[str], come: Sequence[str]) -> Iterator[str]:
    if max(len(gone), len(come)) > COMPARED_LINES:
        yield from (f"-{line}" for line in gone)
        yield from (f"+{line}" for line in come)
        return
    for tag, a, b, c, d in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f" {line}" for line in gone[a:b])
        else:
            yield from (f"-{line}" for line in gone[a:b])
            yield from (f"+{line}" for line in come[c:d])
