r"""Extraction rules as YAML, and their results for a path. Pure.

    extract:
      client_id:
        from: segment(-4)         # /data/CLIENT-ABC/2024/Q1/report.csv: CLIENT-ABC
        pattern: CLIENT-(.*)      # the whole segment must match; the group is taken
      year:
        from: segment(-3)
        type: integer
    notes:
      start_month: 'NOTE: …'

Rules compute nothing and can run nothing. Source: docs/repair.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

INTEGER_DIGITS = 18
PATTERN_CHARS = 512


class Type(StrEnum):
    """What a field's text is read as."""

    STRING = "string"
    """Unchanged text."""
    INTEGER = "integer"
    """Decimal digits."""


def _one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as problem:
        raise ValueError(f"not a valid regular expression: {problem}") from problem
    if groups != 1:
        raise ValueError(f"it has {groups} groups; exactly one must mark the extracted part")
    return pattern


class FallbackRule(BaseModel):
    """Where a field comes from: a segment of the path, counted from its end."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    source: str = Field(alias="from", pattern=r"^segment\(-[1-9][0-9]?\)$")
    pattern: Annotated[str, Field(max_length=PATTERN_CHARS), AfterValidator(_one_group)] | None = None
    type: Type = Type.STRING

    @property
    def place(self) -> int:
        """Return the segment's index."""
        return int(self.source.removeprefix("segment(").removesuffix(")"))


class RuleSet(BaseModel):
    """Rules by field, and notes about the fields without a rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    extract: dict[str, FallbackRule]
    notes: dict[str, str] = {}


def segments(path: str) -> list[str]:
    """Split a path: ``/data/2024/a.csv`` -> ``["data", "2024", "a.csv"]``."""
    return [part for part in path.split("/") if part]


def take(rule: FallbackRule, path: str) -> str | int | None:
    """Return a field's value; None where the rule does not fit the path."""
    parts = segments(path)
    if -rule.place > len(parts):
        return None
    text = parts[rule.place]
    if rule.pattern is not None:
        found = re.fullmatch(rule.pattern, text)
        if found is None or found[1] is None:
            return None
        text = found[1]
    if rule.type is Type.STRING:
        return text
    return int(text) if text.isascii() and text.isdigit() and len(text) <= INTEGER_DIGITS else None


def apply(rules: RuleSet, path: str) -> tuple[Mapping[str, str | int], tuple[str, ...]]:
    """Return the fields of a path, and the names of those whose rule does not fit it."""
    taken = {name: take(rule, path) for name, rule in rules.extract.items()}
    fields = {name: value for name, value in taken.items() if value is not None}
    return fields, tuple(name for name, value in taken.items() if value is None)


def write(rules: RuleSet) -> str:
    """Return rules as YAML, in ASCII: it can be shown on any terminal."""
    document = rules.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump({"extract": {}, **document}, sort_keys=False, width=100)


def read(text: str) -> RuleSet:
    """Read rules. Raises: ValueError."""
    try:
        return RuleSet.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as problem:
        raise ValueError(f"invalid extraction rules: {problem}") from problem
