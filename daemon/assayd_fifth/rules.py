"""Defines the rules as data, and reads the operators' additions to Fifth from `*.toml` files.

An operator's file can contain the same tables as the package's files: `[[rule]]` (detected by words, flow or
companions), `[[profile]]` and `[[task]]` as in `data/rules.toml`, `[words.LIBRARY]` as in
`data/vocabulary.toml`, `[libraries]` as in `data/language.toml`, and `[section]` as in `data/guide.toml`. It
can't replace an existing entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from assayd.errors import ConfigError
from assayd.model.finding import Rule, Severity

_ERROR_CODE = "fifth.tables"
_TABLE_SECTIONS = frozenset({"rule", "words", "libraries", "profile", "task", "section"})
_FEEDBACK_KEYS = {"profile": ("match", "rules", "lens"), "task": ("match", "rules", "sections")}
"""Keys that influence the feedback; each is a list of strings."""
_DETECTION_METHODS = frozenset({"words", "flow", "companion"})
STAGE_NAMES = ("forbidden", "required", "structure", "vocabulary")
_REQUIRED_RULE_KEYS = ("id", "detect", "type", "title", "message", "example")
_PLACEHOLDERS = {"word": "", "source": "", "line": ""}
"""Placeholders that a message can contain."""


def read_tables(folders: Iterable[Path]) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the documents of all folders in the given order, sorted by file name in each folder.

    Raises: ConfigError ``fifth.tables``, if a folder or file can't be read, or a section is unknown.
    """
    read: list[tuple[Path, Mapping[str, Any]]] = []
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(
                _ERROR_CODE, f"{folder}: named in `tables`, but not a folder", field=str(folder)
            )
        for path in sorted(folder.glob("*.toml")):
            try:
                document = tomllib.loads(path.read_text("utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
                raise _build_table_error(path, str(problem)) from problem
            if unknown := document.keys() - _TABLE_SECTIONS:
                raise _build_table_error(
                    path, f"unknown section {min(unknown)!r}; use one of {', '.join(sorted(_TABLE_SECTIONS))}"
                )
            read.append((path, document))
    return read


def add_operator_documents(
    about: dict[str, Any], vocabulary: dict[str, Any], rules: dict[str, Any], folders: Iterable[Path]
) -> None:
    """Add the operators' documents to those of the package, which the call changes in place.

    Raises: ConfigError ``fifth.tables``, with the name of the file, if an entry is invalid or already exists.
    """
    for path, document in read_tables(folders):
        for library, brings in document.get("libraries", {}).items():
            _require_valid(path, library not in about["libraries"], f"the library {library!r} already exists")
            about["libraries"][library] = list(brings)
        for library, words in document.get("words", {}).items():
            about["libraries"].setdefault(library, [])
            known = {name.lower() for name in vocabulary["words"].setdefault(library, {})}
            for name in words:
                _require_valid(
                    path, name.lower() not in known, f"the word {name!r} already exists in {library}"
                )
            vocabulary["words"][library] |= words
        for rule in document.get("rule", ()):
            _check_rule(path, rule, {each["id"] for each in rules["rule"]})
            rules["rule"].append(rule)
        for name, text in document.get("section", {}).items():
            _require_valid(
                path, name not in about["guide"], f"the section {name!r} of the guide already exists"
            )
            _require_valid(path, isinstance(text, str), f"the section {name!r} of the guide isn't a string")
            about["guide"][name] = text
        for kind, keys in _FEEDBACK_KEYS.items():
            for entry in document.get(kind, ()):
                _check_profile(path, kind, entry, keys, {each["id"] for each in rules["rule"]})
                rules[kind].append(entry)


def _check_rule(path: Path, rule: Mapping[str, Any], known: set[str]) -> None:
    """Check that an operator's rule is complete, valid and new.

    Raises: ConfigError ``fifth.tables``, if it isn't.
    """
    for key in _REQUIRED_RULE_KEYS:
        _require_valid(path, isinstance(rule.get(key), str), f"a rule needs {key!r}, a string")
    name = rule["id"]
    _require_valid(
        path, name.partition(".")[0] in STAGE_NAMES, f"rule {name}: the id must begin with a stage and a dot"
    )
    _require_valid(path, name not in known, f"rule {name}: the id already exists")
    _require_valid(
        path, rule["detect"] in _DETECTION_METHODS, f"rule {name}: detect must be words, flow or companion"
    )
    for key in ("message", "suggestion"):
        try:
            str(rule.get(key, "")).format_map(_PLACEHOLDERS)
        except (KeyError, ValueError, IndexError) as problem:
            raise _build_table_error(
                path, f"rule {name}: {key} can contain only {{word}}, {{source}} and {{line}}"
            ) from problem


def _check_profile(
    path: Path, kind: str, entry: Mapping[str, Any], keys: tuple[str, ...], known: set[str]
) -> None:
    """Check that a profile or task has only known names and lists of strings.

    Raises: ConfigError ``fifth.tables``, if it hasn't.
    """
    _require_valid(
        path,
        set(entry) <= set(keys) and entry.get("match"),
        f"a {kind} must have match, and {', '.join(keys[1:])}",
    )
    for key, value in entry.items():
        texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        _require_valid(path, texts, f"{key} of a {kind} must be a list of strings")
    for rule in entry.get("rules", ()):
        _require_valid(path, rule in known, f"a {kind} names the unknown rule {rule!r}")


def _require_valid(path: Path, right: object, problem: str) -> None:
    if not right:
        raise _build_table_error(path, problem)


def _build_table_error(path: Path, problem: str) -> ConfigError:
    return ConfigError(_ERROR_CODE, f"{path}: {problem}", field=str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class FifthRule:
    """A rule. The header of the data file describes the fields."""

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
        """Return the name of the stage that reports the rule, which is the first part of the rule's id."""
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
class FifthRules:
    """All rules by id, in the order in which they should be fixed. `run` contains the rules for runs."""

    by_id: Mapping[str, FifthRule]
    by_word: Mapping[str, FifthRule]
    flows: tuple[FifthRule, ...]
    companions: tuple[FifthRule, ...]
    run: Mapping[str, FifthRule]
    profiles: tuple[ModelProfile, ...]
    tasks: tuple[TaskProfile, ...]

    def to_api_rules(self) -> tuple[Rule, ...]:
        """Return the rules in the format of the API's list of kinds."""
        return tuple(
            Rule(id=rule.id, title=rule.title, severity=rule.severity, help=f"Bad: {rule.example}")
            for rule in (*self.by_id.values(), *self.run.values())
        )

    def find(self, rule: str) -> FifthRule | None:
        """Return the rule with this id, or None if this kind has no such rule."""
        return self.by_id.get(rule) or self.run.get(rule)


def parse_rules(document: Mapping[str, Any]) -> FifthRules:
    """Parse the rules in a document of the rules file."""
    rules = [_parse_rule(entry) for entry in document["rule"]]
    return FifthRules(
        by_id=MappingProxyType({rule.id: rule for rule in rules}),
        by_word={word: rule for rule in rules if rule.detect == "words" for word in rule.words},
        flows=tuple(rule for rule in rules if rule.detect == "flow"),
        companions=tuple(rule for rule in rules if rule.detect == "companion"),
        run=MappingProxyType(
            {entry["id"]: _parse_rule({"detect": "run", **entry}) for entry in document["run"]}
        ),
        profiles=tuple(
            ModelProfile(
                match=_get_string_tuple(e, "match"),
                rules=_get_string_tuple(e, "rules"),
                lens=_get_string_tuple(e, "lens"),
            )
            for e in document["profile"]
        ),
        tasks=tuple(
            TaskProfile(
                match=_get_string_tuple(e, "match"),
                rules=_get_string_tuple(e, "rules"),
                sections=_get_string_tuple(e, "sections"),
            )
            for e in document["task"]
        ),
    )


_LIST_KEYS = ("words", "needs", "sources", "through", "sinks")


def _parse_rule(entry: Mapping[str, Any]) -> FifthRule:
    fields = {key: value for key, value in entry.items() if key not in _LIST_KEYS}
    fields |= {key: frozenset(_get_string_tuple(entry, key)) for key in _LIST_KEYS}
    fields["severity"] = Severity(entry.get("severity", Severity.ERROR))
    fields["matches"] = tuple(re.compile(pattern) for pattern in _get_string_tuple(entry, "matches"))
    if "parameters" in entry:
        fields["parameters"] = re.compile(entry["parameters"])
    return FifthRule(**fields)


def _get_string_tuple(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values: Sequence[str] = entry.get(key, ())
    return tuple(values)
