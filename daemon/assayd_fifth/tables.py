"""Reads additions to Fifth (rules, words, advice for models) from `*.toml` in the operators' folders.

A file can contain the same tables as the package's files: `[[rule]]` as in `data/rules.toml` (detected by
words, flow or companions), `[[profile]]` for models and `[[task]]` as in the same file, `[words.LIBRARY]`
as in `data/vocabulary.toml`, `[libraries]` as in `data/language.toml`, and `[section]` as in
`data/guide.toml`. Files can't replace existing entries: an entry that the package already defines is
refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assayd.errors import ConfigError

_CODE = "fifth.tables"
_SECTIONS = frozenset({"rule", "words", "libraries", "profile", "task", "section"})
_WATCHED = {"profile": ("match", "rules", "lens"), "task": ("match", "rules", "sections")}
"""Keys that influence the feedback; each is a list of strings."""
_FOUND_BY = frozenset({"words", "flow", "companion"})
_STAGES = frozenset({"forbidden", "required", "structure", "vocabulary"})
_NEEDED = ("id", "detect", "type", "title", "message", "example")
_NAMES = {"word": "", "source": "", "line": ""}
"""Placeholders that a message can contain."""


def read_tables(folders: Iterable[Path]) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the documents of all folders in the given order, sorted by file name in each folder.

    Raises: ConfigError ``fifth.tables``, if a folder or file can't be read.
    """
    read: list[tuple[Path, Mapping[str, Any]]] = []
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(_CODE, f"{folder}: named in `tables`, but not a folder", field=str(folder))
        for path in sorted(folder.glob("*.toml")):
            try:
                document = tomllib.loads(path.read_text("utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
                raise _table_error(path, str(problem)) from problem
            if unknown := document.keys() - _SECTIONS:
                raise _table_error(
                    path, f"unknown section {min(unknown)!r}; use one of {', '.join(sorted(_SECTIONS))}"
                )
            read.append((path, document))
    return read


def extend(
    about: dict[str, Any], vocabulary: dict[str, Any], rules: dict[str, Any], folders: Iterable[Path]
) -> None:
    """Add the operators' documents to the package's own.

    Raises: ConfigError ``fifth.tables``, with the name of the file.
    """
    for path, document in read_tables(folders):
        for library, brings in document.get("libraries", {}).items():
            _require(path, library not in about["libraries"], f"the library {library!r} already exists")
            about["libraries"][library] = list(brings)
        for library, words in document.get("words", {}).items():
            about["libraries"].setdefault(library, [])
            known = {name.lower() for name in vocabulary["words"].setdefault(library, {})}
            for name in words:
                _require(path, name.lower() not in known, f"the word {name!r} already exists in {library}")
            vocabulary["words"][library] |= words
        for rule in document.get("rule", ()):
            _check_rule(path, rule, {each["id"] for each in rules["rule"]})
            rules["rule"].append(rule)
        for name, text in document.get("section", {}).items():
            _require(path, name not in about["guide"], f"the section {name!r} of the guide already exists")
            _require(path, isinstance(text, str), f"the section {name!r} of the guide isn't a string")
            about["guide"][name] = text
        for kind, keys in _WATCHED.items():
            for entry in document.get(kind, ()):
                _check_watched(path, kind, entry, keys, {each["id"] for each in rules["rule"]})
                rules[kind].append(entry)


def _check_rule(path: Path, rule: Mapping[str, Any], known: set[str]) -> None:
    """Refuse a rule that can never be reported."""
    for key in _NEEDED:
        _require(path, isinstance(rule.get(key), str), f"a rule needs {key!r}, a string")
    name = rule["id"]
    _require(
        path, name.partition(".")[0] in _STAGES, f"rule {name}: the id must begin with a stage and a dot"
    )
    _require(path, name not in known, f"rule {name}: the id already exists")
    _require(path, rule["detect"] in _FOUND_BY, f"rule {name}: detect must be words, flow or companion")
    for key in ("message", "suggestion"):
        try:
            str(rule.get(key, "")).format_map(_NAMES)
        except (KeyError, ValueError, IndexError) as problem:
            raise _table_error(
                path, f"rule {name}: {key} can contain only {{word}}, {{source}} and {{line}}"
            ) from problem


def _check_watched(
    path: Path, kind: str, entry: Mapping[str, Any], keys: tuple[str, ...], known: set[str]
) -> None:
    """Refuse a profile or task with unknown names, or with a value that isn't a list of strings."""
    _require(
        path,
        set(entry) <= set(keys) and entry.get("match"),
        f"a {kind} must have match, and {', '.join(keys[1:])}",
    )
    for key, value in entry.items():
        texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        _require(path, texts, f"{key} of a {kind} must be a list of strings")
    for rule in entry.get("rules", ()):
        _require(path, rule in known, f"a {kind} names the unknown rule {rule!r}")


def _require(path: Path, right: object, problem: str) -> None:
    if not right:
        raise _table_error(path, problem)


def _table_error(path: Path, problem: str) -> ConfigError:
    return ConfigError(_CODE, f"{path}: {problem}", field=str(path))
