"""Decides whether to offer rules instead of code, and formulates the offer. Performs no I/O.

    the policy refused every attempt ────────────────> security: rules run no code
    the last attempt timed out ──────────────────────> timeout: rules need no run time
    fixes used up, and a field is computed ──────────> computed_fields: rules extract the other fields

Source: docs/repair.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from assayd.kinds.extractor.rules import (
    MAX_PATTERN_CHARS,
    FieldRule,
    RuleSet,
    Type,
    apply_rules,
    extract_field,
    parse_rules,
    render_rules,
    split_path,
)
from assayd.model.prompting import ExtractedField, ExtractedFields
from assayd.model.run import Cause
from assayd_chains.model import Outcome

Known = Mapping[str, Mapping[str, object]]
"""The results of attempts, by path and field."""

MAX_PATH_SEGMENTS = 12
MOST_CHARS = 200
"""Maximum length of a segment to infer a pattern from."""
_FIELD_BY_LETTER = {
    "q": "quarter", "w": "week", "m": "month", "d": "day", "y": "year", "v": "version", "h": "hour",
}  # fmt: skip
_NUMBERED_PATTERN = re.compile(r"([A-Za-z]+[-_.=]?)([0-9]+)")
_NAMED_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9]*[-_=])(.+)")
_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RANGE_BY_UNIT = {"month": range(1, 13), "day": range(1, 32)}

COMPUTED = "NOTE: rules only copy parts of a path; this field was computed."
NOT_FOUND = "NOTE: no part of the sample paths matches this field."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A rule that matches all paths, with the possible names of its field."""

    names: tuple[str, ...]
    rule: FieldRule


def infer_extraction_rules(paths: Sequence[str], fields: Sequence[ExtractedField], known: Known) -> RuleSet:
    """Return rules for as many fields as possible, and a note for each remaining field.

    If no fields are given, each meaningful segment gets a rule whose name is derived from the segment.
    """
    candidates = list(_iter_candidates(paths))
    if not fields:
        return RuleSet(extract={one.names[0]: one.rule for one in reversed(candidates) if one.names})
    extract: dict[str, FieldRule] = {}
    for field in fields:
        rule = _find_rule_by_values(field.name, paths, candidates, known)
        if rule is not None:
            extract[field.name] = rule
    for exact in (True, False):
        for field in fields:
            if field.name not in extract and (exact or not field.computed):
                match = next(
                    (one for one in candidates if _matches_field_name(field.name, one, exact=exact)), None
                )
                if match is not None:
                    candidates.remove(match)
                    extract[field.name] = match.rule
    notes = {
        field.name: COMPUTED if field.computed else NOT_FOUND for field in fields if field.name not in extract
    }
    return RuleSet(extract={f.name: extract[f.name] for f in fields if f.name in extract}, notes=notes)


def _matches_field_name(name: str, candidate: _Candidate, *, exact: bool) -> bool:
    if exact:
        return name.lower() in candidate.names
    return not {word for word in re.split(r"[^a-z0-9]+", name.lower()) if word}.isdisjoint(candidate.names)


def _iter_candidates(paths: Sequence[str]) -> Iterator[_Candidate]:
    split = [split_path(path) for path in paths]
    depth = min((len(parts) for parts in split), default=0)
    left: str | None = None
    found: list[_Candidate] = []
    for place in range(-min(depth, MAX_PATH_SEGMENTS), 0):
        column = [parts[place] for parts in split]
        readable = all(len(one) <= MOST_CHARS for one in column)
        here = list(_iter_column_candidates(column, place, left)) if readable else []
        left = here[0].names[0] if here and here[0].names else None
        found += here
    yield from reversed(found)


def _iter_column_candidates(column: Sequence[str], place: int, left: str | None) -> Iterator[_Candidate]:
    """Yield the candidates for one column of segments. `left` is the name of the preceding column."""
    source = f"segment({place})"
    if place == -1:
        yield from _iter_filename_candidates(column, source)
    elif all(re.fullmatch(r"(?:19|20)[0-9]{2}", one) for one in column):
        yield _Candidate(names=("year",), rule=FieldRule(source=source, type=Type.INTEGER))
    elif all(_DATE_PATTERN.fullmatch(one) for one in column):
        yield _Candidate(names=("date",), rule=FieldRule(source=source))
    elif all(one.isascii() and one.isdigit() for one in column):
        yield _build_number_candidate(column, source, left)
    elif (prefix := _find_common_prefix(_NUMBERED_PATTERN, column)) is not None:
        word = prefix.rstrip("-_.=").lower()
        rule = FieldRule(source=source, pattern=rf"{plain(prefix)}(\d+)", type=Type.INTEGER)
        yield _Candidate(names=(_FIELD_BY_LETTER.get(word, word), word), rule=rule)
    elif (prefix := _find_common_prefix(_NAMED_PATTERN, column)) is not None:
        rule = FieldRule(source=source, pattern=rf"{plain(prefix)}(.*)")
        yield _Candidate(names=(prefix[:-1].lower(),), rule=rule)
    elif len(set(column)) > 1:
        yield _Candidate(names=(f"segment_{-place}",), rule=FieldRule(source=source))


def _build_number_candidate(column: Sequence[str], source: str, left: str | None) -> _Candidate:
    """Return the rule for numbers such as ``2024/03/17``: year, month and day.

    Long numbers with leading zeros are treated as text.
    """
    name = {"year": "month", "month": "day"}.get(left or "")
    if name is not None and all(len(one) <= 2 and int(one) in _RANGE_BY_UNIT[name] for one in column):
        return _Candidate(names=(name,), rule=FieldRule(source=source, type=Type.INTEGER))
    kind = Type.STRING if any(one[0] == "0" and len(one) > 2 for one in column) else Type.INTEGER
    return _Candidate(names=("number", "id"), rule=FieldRule(source=source, type=kind))


def _iter_filename_candidates(column: Sequence[str], source: str) -> Iterator[_Candidate]:
    yield _Candidate(names=("filename", "file", "basename", "name"), rule=FieldRule(source=source))
    endings = {PurePosixPath(one).suffix for one in column}
    if len(endings) == 1 and (ending := endings.pop()):
        stem = FieldRule(source=source, pattern=rf"(.*){plain(ending)}")
        yield _Candidate(names=("stem", "title"), rule=stem)
    if all(PurePosixPath(one).suffix for one in column):
        ending_rule = FieldRule(source=source, pattern=r".*\.([^.]+)")
        yield _Candidate(names=("extension", "ext", "suffix", "format"), rule=ending_rule)


def _find_common_prefix(pattern: re.Pattern[str], column: Sequence[str]) -> str | None:
    """Return the prefix that all segments share, or None if a segment has another prefix or form."""
    found = [pattern.fullmatch(one) for one in column]
    prefixes = {one[1] for one in found if one is not None}
    return prefixes.pop() if all(found) and len(prefixes) == 1 else None


def _find_rule_by_values(
    name: str, paths: Sequence[str], candidates: Sequence[_Candidate], known: Known
) -> FieldRule | None:
    """Return the first rule that extracts exactly the known values of a field, or None."""
    values = {path: known[path][name] for path in paths if path in known and name in known[path]}
    values = {path: value for path, value in values.items() if value is not None}
    if not values:
        return None
    tried = (*(one.rule for one in candidates), *_iter_context_rules(values))
    return next(
        (rule for rule in tried if all(_is_same_value(extract_field(rule, p), v) for p, v in values.items())),
        None,
    )


def _is_same_value(taken: str | int | None, value: object) -> bool:
    return type(taken) is type(value) and taken == value


def _iter_context_rules(values: Mapping[str, object]) -> Iterator[FieldRule]:
    """Yield rules that match the text around a value in a segment of the first path.

    Yield nothing if the value is neither a string nor an integer.
    """
    path, value = next(iter(values.items()))
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value):
        return
    kind = Type.INTEGER if isinstance(value, int) else Type.STRING
    parts = split_path(path)
    for place in range(-1, -min(len(parts), MAX_PATH_SEGMENTS) - 1, -1):
        before, found, after = parts[place].partition(str(value))
        if found:
            pattern = f"{plain(before)}(.*){plain(after)}" if before or after else None
            if pattern is None or len(pattern) <= MAX_PATTERN_CHARS:
                yield FieldRule(source=f"segment({place})", pattern=pattern, type=kind)


def plain(text: str) -> str:
    """Escape a string for use in a regular expression, but leave hyphens unescaped."""
    return re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", text)


Report = Mapping[str, object]

MOST_SHOWN = 20
"""Maximum number of paths to show with the rules' results; the counts cover all paths."""
_GIVE_UP_OUTCOMES = frozenset({Outcome.EXHAUSTED, Outcome.STUCK})
_NO_OFFER_AFTER = frozenset({Outcome.VALIDATED, Outcome.CANCELLED})


class OfferTrigger(StrEnum):
    """The reason why fallback rules are offered."""

    SECURITY = "security"
    """The policy rejected every attempt."""
    TIMEOUT = "timeout"
    """The code exceeds its time limit."""
    COMPUTED_FIELDS = "computed_fields"
    """All fixes failed, and a field is computed, which is the most frequent cause of failures."""


_REASON_BY_TRIGGER = {
    OfferTrigger.SECURITY: "The policy refused every attempt. Rules need no code.",
    OfferTrigger.TIMEOUT: "The code exceeds its time limit. Rules need no code.",
    OfferTrigger.COMPUTED_FIELDS: "No fix worked. Rules can extract fields that aren't computed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempt:
    """An attempt of a repair, with its cause and its report."""

    cause: str | None
    report: Report


def determine_offer_trigger(
    outcome: Outcome, tries: Sequence[EarlierAttempt], taken: ExtractedFields
) -> OfferTrigger | None:
    """Return the reason to offer rules, or None if no rules should be offered."""
    if outcome in _NO_OFFER_AFTER or not tries:
        return None
    retried = len(tries) > 1 or outcome is Outcome.TERMINAL
    if retried and all(_violates_policy(one) for one in tries):
        return OfferTrigger.SECURITY
    if _has_timed_out(tries[-1]):
        return OfferTrigger.TIMEOUT
    if outcome in _GIVE_UP_OUTCOMES and any(field.computed for field in taken.fields):
        return OfferTrigger.COMPUTED_FIELDS
    return None


def build_fallback_offer(
    trigger: OfferTrigger, tries: Sequence[EarlierAttempt], taken: ExtractedFields
) -> Mapping[str, object] | None:
    """Return the document of the offered rules, or None if no rule was found for any field."""
    text = render_rules(infer_extraction_rules(taken.texts, taken.fields, _collect_known_values(tries)))
    rules = parse_rules(text)
    if not rules.extract:
        return None
    applied = [(path, *apply_rules(rules, path)) for path in taken.texts]
    return {
        "trigger": trigger.value,
        "reason": _REASON_BY_TRIGGER[trigger],
        "rules": text,
        "notes": dict(rules.notes),
        "applied": {
            "paths": len(applied),
            "complete": sum(not missing for _, _, missing in applied),
            "shown": [
                {"path": path, "fields": dict(fields), "missing": list(missing)}
                for path, fields, missing in applied[:MOST_SHOWN]
            ],
        },
        "accepted_at": None,
        "attempt_id": None,
    }


def _violates_policy(tried: EarlierAttempt) -> bool:
    return tried.cause == Cause.POLICY_VIOLATION.value or tried.report.get("stage_reached") == "security"


def _has_timed_out(tried: EarlierAttempt) -> bool:
    rules = (finding.get("rule") for finding in _filter_objects(tried.report.get("findings")))
    return tried.cause == Cause.TIMEOUT.value or any(str(rule).endswith(".timeout") for rule in rules)


def _collect_known_values(tries: Sequence[EarlierAttempt]) -> Mapping[str, Mapping[str, object]]:
    """Return the values that attempts extracted from each path. Later attempts take precedence."""
    known: dict[str, Mapping[str, object]] = {}
    for tried in tries:
        results = tried.report.get("runtime_results")
        for case in _filter_objects(results.get("cases") if isinstance(results, dict) else None):
            result = case.get("result")
            if case.get("status") == "passed" and isinstance(result, dict):
                known[str(case.get("name"))] = result
    return known


def _filter_objects(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
