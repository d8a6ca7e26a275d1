"""Defines the rules as data: their messages, severities, and advice for another try."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from assayd.model.finding import Rule, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class FifthRule:
    """One rule; the header of the data file describes the fields."""

    id: str
    detect: str
    type: str
    title: str
    message: str
    example: str
    suggestion: str | None = None
    severity: Severity = Severity.ERROR
    emphasis: str | None = None
    section: str | None = None
    lens: str | None = None
    fix: str | None = None
    words: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    through: frozenset[str] = frozenset()
    sinks: frozenset[str] = frozenset()
    parameters: re.Pattern[str] | None = None
    replace: str | None = None
    once: bool = False
    matches: tuple[re.Pattern[str], ...] = ()

    @property
    def stage(self) -> str:
        """Return the stage that reports the rule."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The typical mistakes of a family of models.

    The profile applies to a `model_source` that contains a string in `match`. `rules` contains rule ids;
    `lens` contains warnings as text.
    """

    match: tuple[str, ...]
    rules: tuple[str, ...]
    lens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProfile:
    """The texts that a model must see in full for a type of task.

    The profile applies to a `task_type` that contains a string in `match`. `rules` contains rule ids;
    `sections` contains parts of the manual.
    """

    match: tuple[str, ...]
    rules: tuple[str, ...]
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules by id, in the order in which they should be fixed; `run` contains the rules for runs."""

    by_id: Mapping[str, FifthRule]
    by_word: Mapping[str, FifthRule]
    flows: tuple[FifthRule, ...]
    companions: tuple[FifthRule, ...]
    run: Mapping[str, FifthRule]
    profiles: tuple[ModelProfile, ...]
    tasks: tuple[TaskProfile, ...]

    def listed(self) -> tuple[Rule, ...]:
        """Return the rules in the format of the API's list of kinds."""
        return tuple(
            Rule(id=rule.id, title=rule.title, severity=rule.severity, help=f"Bad: {rule.example}")
            for rule in (*self.by_id.values(), *self.run.values())
        )

    def find(self, rule: str) -> FifthRule | None:
        """Return the rule with this id; None if this kind has no such rule."""
        return self.by_id.get(rule) or self.run.get(rule)


def parse_rules(document: Mapping[str, Any]) -> Rules:
    """Parse the rules file."""
    rules = [_parse_rule(entry) for entry in document["rule"]]
    return Rules(
        by_id=MappingProxyType({rule.id: rule for rule in rules}),
        by_word={word: rule for rule in rules if rule.detect == "words" for word in rule.words},
        flows=tuple(rule for rule in rules if rule.detect == "flow"),
        companions=tuple(rule for rule in rules if rule.detect == "companion"),
        run=MappingProxyType(
            {entry["id"]: _parse_rule({"detect": "run", **entry}) for entry in document["run"]}
        ),
        profiles=tuple(
            ModelProfile(
                match=_get_texts(e, "match"), rules=_get_texts(e, "rules"), lens=_get_texts(e, "lens")
            )
            for e in document["profile"]
        ),
        tasks=tuple(
            TaskProfile(
                match=_get_texts(e, "match"), rules=_get_texts(e, "rules"), sections=_get_texts(e, "sections")
            )
            for e in document["task"]
        ),
    )


_LISTS = ("words", "needs", "sources", "through", "sinks")


def _parse_rule(entry: Mapping[str, Any]) -> FifthRule:
    fields = {key: value for key, value in entry.items() if key not in _LISTS}
    fields |= {key: frozenset(_get_texts(entry, key)) for key in _LISTS}
    fields["severity"] = Severity(entry.get("severity", Severity.ERROR))
    fields["matches"] = tuple(re.compile(pattern) for pattern in _get_texts(entry, "matches"))
    if "parameters" in entry:
        fields["parameters"] = re.compile(entry["parameters"])
    return FifthRule(**fields)


def _get_texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values: Sequence[str] = entry.get(key, ())
    return tuple(values)
