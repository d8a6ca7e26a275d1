"""Warns about an extractor whose results say little, or that doesn't read the path.

Checks the quality of an extractor's results. Source: docs/kinds/extractor.md.

every result is {}                quality.all_empty
one of several is {}              quality.some_empty  (a warning)
{"Q1": 1, "start date": 2}        quality.key         (a warning on 'start date')
{"when": datetime(...)}           quality.not_json    (a warning)

Finds extractors that pass validation without reading the path. Source: docs/quality.md.

every value is None or empty                       quality.all_none
{"path": path}                                     quality.echo
{"status": "ok"}                                   quality.constant
{"client": "CLIENT-ABC", "year": int(parts[3])}    quality.hard_coded
{"id": hash(path)}                                 quality.not_from_path
{"year": 2024} and {"year": "2023"}                quality.types_differ
{"at": time.time_ns()}                             quality.varying
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from assayd.findings.runs import describe_case_group
from assayd.findings.source_text import get_snippet
from assayd.findings.units import JudgedUnit
from assayd.kinds.extractor import generalization
from assayd.kinds.extractor.generalization import (
    Result,
    ResultInconsistency,
    SimilarPath,
    SimilarResult,
    UnchangedField,
    build_similar_paths,
)
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import ExecutionPolicy, NetworkMode
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(id="quality.all_empty", title="All results are empty"),
    Rule(id="quality.some_empty", title="Some results are empty", severity=Severity.WARNING),
    Rule(id="quality.key", title="A field name isn't an identifier", severity=Severity.WARNING),
    Rule(id="quality.not_json", title="A value isn't plain JSON", severity=Severity.WARNING),
)
_MAX_EACH = 20
_MATCHES_FROM_START = re.compile(r"\.match\(")


def judge_quality(tries: Sequence[JudgedUnit], text: str = "") -> Iterator[Finding]:
    """Yield findings about empty results, invalid field names, and values without a JSON form.

    Args:
        tries: the calls that returned a dict.
        text: the extractor's code.
    """
    empty = [one.case.name for one in tries if one.case.result == {}]
    if len(empty) == len(tries):
        message = f"extract() returned an empty dict for all {len(tries)} paths."
        hint = "Check the pattern against the sample paths: it matches none of them."
        if _MATCHES_FROM_START.search(text) and any(one.case.name.startswith("/") for one in tries):
            hint += (
                " match() starts at the first character, a slash: start the pattern with it, or use search()."
            )
        yield _make_quality_finding(
            "all_empty", Severity.ERROR, message, hint, context=describe_case_group(empty)
        )
        return
    if empty:
        message = f"{len(empty)} of {len(tries)} paths returned an empty dict."
        yield _make_quality_finding(
            "some_empty",
            Severity.WARNING,
            message,
            "Check that these paths have no fields.",
            context=describe_case_group(empty),
        )
    for key, paths in list(_find_invalid_keys(tries).items())[:_MAX_EACH]:
        message = f"The field name {shorten_text(key, 60)!r} isn't an identifier."
        yield _make_quality_finding(
            "key", Severity.WARNING, message, "Use letters, digits and _ only.", describe_case_group(paths)
        )
    notes: dict[tuple[str, str], list[str]] = {}
    for one in tries:
        for note in one.value.notes if one.value else ():
            notes.setdefault((note.path, note.problem), []).append(one.case.name)
    for (place, problem), paths in list(notes.items())[:_MAX_EACH]:
        message = f"The value at {shorten_text(place, 60)} isn't plain JSON: {shorten_text(problem, 200)}."
        hint = "Return strings, numbers, lists and dicts."
        yield _make_quality_finding(
            "not_json", _choose_severity(problem), message, hint, describe_case_group(paths)
        )


def _find_invalid_keys(tries: Sequence[JudgedUnit]) -> dict[str, list[str]]:
    """Return the invalid field names, each with the paths whose results contain it."""
    found: dict[str, list[str]] = {}
    for one in tries:
        for key in one.case.result if isinstance(one.case.result, dict) else ():
            if not key.isidentifier():
                found.setdefault(key, []).append(one.case.name)
    return found


def _choose_severity(problem: str) -> Severity:
    """Return the severity of a problem: INFO for a tuple, which becomes an array, otherwise WARNING."""
    return Severity.INFO if problem.startswith("a tuple") else Severity.WARNING


def _make_quality_finding(
    name: str, severity: Severity, message: str, hint: str, context: str | None = None
) -> Finding:
    return Finding(
        rule=f"quality.{name}",
        category="quality",
        message=message,
        severity=severity,
        layer=Layer.RUNTIME,
        suggestion=hint,
        context=context,
    )


_WARNING = Severity.WARNING
WORTH_RULES = (
    Rule(
        id="quality.all_none",
        title="All values are None or empty",
        severity=_WARNING,
        help='Bad: {"client": None} for every path.',
    ),
    Rule(
        id="quality.echo",
        title="The result is the path itself",
        severity=_WARNING,
        help='Bad: {"path": path}. Good: {"client": parts[1], "year": int(parts[2])}.',
    ),
    Rule(
        id="quality.constant",
        title="The result doesn't depend on the path",
        severity=_WARNING,
        help='Bad: {"status": "ok"} for every path.',
    ),
    Rule(
        id="quality.hard_coded",
        title="A field is hard-coded for the samples",
        severity=_WARNING,
        help='Bad: {"client": "CLIENT-ABC"}. Good: {"client": path.split("/")[2]}.',
    ),
    Rule(
        id="quality.not_from_path",
        title="No field is a part of the path",
        severity=_WARNING,
        help='Bad: {"id": sum(map(ord, path))}. Good: {"name": PurePath(path).name}.',
    ),
    Rule(
        id="quality.types_differ",
        title="Similar paths return different names or types",
        severity=_WARNING,
        help='Bad: {"year": 2024} for one path, {"year": "2023"} for another.',
    ),
    Rule(
        id="quality.varying",
        title="Two runs return different results",
        severity=_WARNING,
        help="Bad: random.random(), time.time(). Good: values that depend only on the input.",
    ),
)
_MOST_EACH = 10
_READ_HINT = "Read each value from the path: split it, or use a pattern with groups."
_VALUE_CHARS = 60
_CHANCE_PATTERN = re.compile(r"\b(?:random|secrets|uuid)\b")
_MAY_VARY_PATTERN = re.compile(
    r"\b(?:random|secrets|uuid|time|datetime|hash|id|object|next|global|nonlocal|count|cache"
    r"|append|add|update|setdefault|pop|insert|extend)\b"
)
"""Words without which code returns the same result in each call."""
_REPEATED_CALLS = 5
"""Calls for the last path if the code mentions randomness: two results may be equal by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraCalls:
    """The additional calls of an attempt: for similar paths, and again for the last sample path."""

    last: str
    similar: tuple[SimilarPath, ...]
    repeats: int = 1

    @property
    def calls(self) -> list[list[str]]:
        """Return the arguments of each call. The first call and the last call use the last sample path."""
        return [*[[self.last]] * self.repeats, *([one.path] for one in self.similar), [self.last]]


def plan_extra_calls(
    paths: Sequence[str], last: str, code: str, policy: ExecutionPolicy
) -> ExtraCalls | None:
    """Return the additional calls, or None if the policy doesn't allow them or they can't find anything.

    Under an allowlist, return None, because the external effects of a call can't be undone.
    """
    if policy.quality.is_off or policy.network.mode is not NetworkMode.BLOCKED:
        return None
    similar = build_similar_paths(paths, code) if policy.quality.generalization else ()
    if not similar and _MAY_VARY_PATTERN.search(code) is None:
        return None
    return ExtraCalls(
        last=last, similar=similar, repeats=_REPEATED_CALLS if _CHANCE_PATTERN.search(code) else 1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorResults:
    """The results of an extractor for the samples, for similar paths, and for the last sample repeated."""

    samples: Mapping[str, Result]
    tried: tuple[SimilarResult, ...] = ()
    repeated: tuple[Result, ...] = ()
    """The results for the last path, beginning with the judged call."""


def collect_results(
    samples: Mapping[str, Result], last: Result, again: ExtraCalls | None, returned: Sequence[JsonValue]
) -> ExtractorResults:
    """Return the collected results. The results of the additional calls can be missing."""
    if again is None or not returned:
        return ExtractorResults(samples=samples)
    tried = (
        SimilarResult(similar=similar, result=result if isinstance(result, dict) else None)
        for similar, result in zip(again.similar, returned[again.repeats :], strict=False)
    )
    repeated = (*returned[: again.repeats], *returned[again.repeats + len(again.similar) :])
    return ExtractorResults(
        samples=samples,
        tried=tuple(tried),
        repeated=(last, *(one for one in repeated if isinstance(one, dict))),
    )


def judge_results(results: ExtractorResults, text: str) -> Iterator[Finding]:
    """Yield findings about the results, which must all be dicts and must not all be empty."""
    samples, tried = results.samples, results.tried
    if not any(
        generalization.drop_empty_fields(generalization.list_result_fields(one)) for one in samples.values()
    ):
        message = f"extract() returned only None or empty values for all {len(samples)} paths."
        hint = "Check the pattern against the sample paths: it finds nothing in them."
        yield _build_result_finding("all_none", message, hint)
        return
    if (whole := _find_path_independence(results)) is not None:
        yield whole
    else:
        unmoved = generalization.find_unchanged_fields(samples, tried)
        yield from (_build_hardcoded_piece_finding(one, text) for one in unmoved[:_MOST_EACH])
        others = generalization.find_hardcoded_fields(samples, [one.name for one in unmoved])
        yield from (_build_hardcoded_value_finding(*one, text) for one in others[:_MOST_EACH])
    if names := generalization.find_varying_fields(results.repeated):
        message = f"{_format_fields(names)} between two calls with the same path."
        hint = "Remove the clock, random numbers and new ids: let every field depend only on the path."
        yield _build_result_finding(
            "varying", message, hint, context=results.tried[0].similar.sample if tried else None
        )
    yield from (
        _build_inconsistency_finding(one)
        for one in islice(generalization.iter_inconsistencies(samples, tried), 1)
    )


def _find_path_independence(results: ExtractorResults) -> Finding | None:
    """Return the finding about results that don't depend on the path, or None if they depend on it."""
    samples, tried = results.samples, results.tried
    if generalization.only_rewrites_path(samples, tried):
        message = "extract() returns the path itself and none of its parts."
        return _build_result_finding("echo", message, "Return the parts of the path as separate fields.")
    if generalization.is_independent_of_path(samples, tried):
        among = f"{len(samples)} sample paths and {len(tried)} paths like them" if tried else "all paths"
        return _build_result_finding(
            "constant", f"extract() returns the same fields for {among}.", _READ_HINT
        )
    if generalization.is_fixed_outside_samples(samples, tried):
        message = f"extract() handles only the sample paths: {len(tried)} paths like them give one result."
        return _build_result_finding(
            "hard_coded", message, _READ_HINT, context=f"tried {_format_path(tried[0].similar)}"
        )
    if generalization.depends_only_on_shape(samples, tried):
        message = (
            "No field holds a part of the path, or changes with one: each is a count, or always the same."
        )
        return _build_result_finding("not_from_path", message, _READ_HINT)
    if generalization.depends_on_whole_path(samples, tried):
        message = (
            "No field is a part of the path: each field changes with every piece of it, like a checksum."
        )
        return _build_result_finding("not_from_path", message, _READ_HINT)
    return None


def _build_hardcoded_piece_finding(one: UnchangedField, text: str) -> Finding:
    old, new = _quote(one.similar.old), _quote(one.similar.new)
    message = f"The field {_quote(one.name)} stays {_quote(one.value)} when {old} in the path becomes {new}."
    moved = ", ".join(one.moved[:_MOST_EACH])
    context = f"tried {_format_path(one.similar)}; fields that change with the path: {moved or 'none'}"
    return _build_field_finding(one.name, one.value, message, text, context)


def _build_hardcoded_value_finding(name: str, value: JsonValue, path: str, text: str) -> Finding:
    message = (
        f"The field {_quote(name)} is {_quote(value)} for all paths, even for a path that doesn't contain it."
    )
    return _build_field_finding(name, value, message, text, f"{shorten_text(path, 300)} doesn't contain it")


def _build_field_finding(name: str, value: JsonValue, message: str, text: str, context: str) -> Finding:
    written = generalization.to_path_text(value)
    line = next((n for n, each in enumerate(text.split("\n"), 1) if written in each), None)
    return Finding(
        rule="quality.hard_coded",
        category="quality",
        message=message,
        severity=_WARNING,
        layer=Layer.RUNTIME,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=f"The value looks hard-coded. Read {_quote(name)} from the path.",
        context=context,
    )


def _build_inconsistency_finding(one: ResultInconsistency) -> Finding:
    if one.name:
        message = f"The field {_quote(one.name)} is a {one.one} for one path and a {one.other} for another."
    else:
        message = f"Similar paths return different fields: {_quote(one.one)} and {_quote(one.other)}."
    hint = "Return the same fields with the same types for similar paths; use None if a value is missing."
    return _build_result_finding(
        "types_differ",
        message,
        hint,
        context=f"{shorten_text(one.first, 300)}; {shorten_text(one.second, 300)}",
    )


def _format_fields(names: Sequence[str]) -> str:
    told = ", ".join(map(_quote, names[:_MOST_EACH]))
    return f"The field {told} differs" if len(names) == 1 else f"The fields {told} differ"


def _format_path(similar: SimilarPath) -> str:
    return shorten_text(similar.path, 300)


def _quote(value: JsonValue) -> str:
    return shorten_text(repr(value), _VALUE_CHARS)


def _build_result_finding(name: str, message: str, hint: str, context: str | None = None) -> Finding:
    return Finding(
        rule=f"quality.{name}",
        category="quality",
        message=message,
        severity=_WARNING,
        layer=Layer.RUNTIME,
        suggestion=hint,
        context=context,
    )
