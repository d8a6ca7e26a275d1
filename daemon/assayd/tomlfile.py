"""Reads a TOML file into a pydantic model and reports every problem with its file and line.

This module detects the problems in a file and formats the messages. The meaning of each key is defined by
the model.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from assayd import did_you_mean
from assayd.errors import ConfigError

_Model = TypeVar("_Model", bound=BaseModel)
Key = tuple[str, ...]

# The tokens in a valid TOML text that can contain brackets or newlines, and those two.
_TOKENS_PATTERN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)
_PART_PATTERN = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(\.?)""")
_AT_LINE_PATTERN = re.compile(r"^(?P<text>.*) \(at line (?P<line>\d+), column \d+\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem in a file. `key` is a dotted name, and `line` is None if the problem has no line."""

    path: Path
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line is not None else f"{self.path}"
        return f"{place}: {_format_key(self.key)}{self.message}"


class FileError(ConfigError):
    """An exception raised if files can't be used. Its attribute `problems` contains all problems."""

    def __init__(self, code: str, problems: Sequence[Problem]) -> None:
        super().__init__(code, "\n".join(str(p) for p in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlFile:
    """A parsed TOML file, with its values and the line of each key."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[Key, int]

    def line(self, key: Sequence[object]) -> int | None:
        """Return the line of a key or, for an unknown key, of the innermost table that contains the key.

        The result is None if no part of the key has a line.
        """
        names = tuple(str(part) for part in key)
        for end in range(len(names), 0, -1):
            if names[:end] in self.lines:
                return self.lines[names[:end]]
        return None

    def problem(self, key: Sequence[object], message: str) -> Problem:
        """Return a problem with the position of a key."""
        named = [part for part in key if isinstance(part, str)]
        return Problem(path=self.path, line=self.line(named), key=".".join(named), message=message)


def read_file(path: Path, code: str) -> TomlFile:
    """Read and parse a file.

    Args:
        path: the file's path.
        code: the error's code, e.g. ``policy.file``.

    Raises:
        FileError: if the file can't be read, isn't UTF-8, or isn't TOML.
    """
    try:
        content = path.read_bytes()
    except OSError as problem:
        message = f"can't be read: {problem.strerror or problem}"
        raise FileError(code, [Problem(path=path, line=None, key="", message=message)]) from problem
    return parse_content(path, content, code)


def parse_content(path: Path, content: bytes, code: str) -> TomlFile:
    """Parse the content of a file whose path is needed only for error messages.

    Raises:
        FileError: the content isn't UTF-8 or isn't TOML.
    """
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
        return TomlFile(path=path, values=tomllib.loads(text), lines=map_key_lines(text))
    except UnicodeDecodeError as problem:
        found = Problem(path=path, line=None, key="", message=f"isn't UTF-8 (byte {problem.start})")
        raise FileError(code, [found]) from problem
    except tomllib.TOMLDecodeError as problem:
        raise FileError(code, [_build_syntax_problem(path, str(problem))]) from problem
    except (ValueError, RecursionError) as problem:  # a very long number, or deeply nested brackets
        message = f"can't be read: {problem}"
        raise FileError(code, [Problem(path=path, line=None, key="", message=message)]) from problem


def validate_file(file: TomlFile, model: type[_Model], code: str) -> _Model:
    """Validate a file's values against a model.

    Raises:
        FileError: a key is unknown or has an invalid value; the error contains a problem for each such key.
    """
    try:
        return model.model_validate(file.values)
    except ValidationError as problem:
        found = sorted(_iter_validation_problems(file, model, problem), key=lambda p: p.line or 0)
        raise FileError(code, found) from problem


def map_key_lines(text: str) -> dict[Key, int]:
    """Return the 1-based line of every key and table of a valid TOML text.

    Keys inside inline tables aren't listed; `TomlFile.line` returns the line of the key that contains the
    table.
    """
    lines: dict[Key, int] = {}
    table: Key = ()
    for number, statement in _split_statements(text):
        if statement.startswith("["):
            table = _parse_key(statement.lstrip("["))
            lines.setdefault(table, number)
        elif statement and not statement.startswith("#"):
            lines.setdefault(table + _parse_key(statement), number)
    return lines


MESSAGE_REPLACEMENTS = (
    (r"^Input should be a valid integer.*", "must be an integer"),
    (r"^Input should be a valid number.*", "must be a number"),
    (r"^Input should be a valid boolean.*", "must be true or false"),
    (r"^Input should be a valid string.*", "must be a string"),
    (r"^Input should be a valid (?:tuple|list|set|frozenset).*", "must be a list"),
    (r"^Input should be a valid dictionary.*", "must be a table"),
    (r"^Input should be greater than or equal to", "must be at least"),
    (r"^Input should be less than or equal to", "must be at most"),
    (r"^Input should be (greater|less) than", r"must be \1 than"),
    (r"^Input should be", "must be"),
)
"""The beginnings of pydantic's messages, each with its replacement."""


def rephrase_message(message: str) -> str:
    """Rephrase a message of pydantic so that it can follow the name of a setting."""
    message = message.removeprefix("Value error, ")
    for found, words in MESSAGE_REPLACEMENTS:
        message, count = re.subn(found, words, message)
        if count:
            break
    return message[:1].lower() + message[1:]


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement of a TOML text with the number of its first line."""
    start, line, begun, depth = 0, 1, 1, 0
    for token in _TOKENS_PATTERN.finditer(text):
        found = token.group()
        if found in {"[", "{"}:
            depth += 1
        elif found in {"]", "}"}:
            depth -= 1
        elif found == "\n" and depth == 0:
            yield begun, text[start : token.start()].strip()
            start, begun = token.end(), line + 1
        line += found.count("\n")
    yield begun, text[start:].strip()


def _parse_key(statement: str) -> Key:
    parts: list[str] = []
    position = 0
    while (match := _PART_PATTERN.match(statement, position)) is not None:
        parts.append(next(group for group in match.groups()[:3] if group is not None))
        position = match.end()
        if not match.group(4):
            break
    return tuple(parts)


def _build_syntax_problem(path: Path, text: str) -> Problem:
    match = _AT_LINE_PATTERN.match(text)
    if match is None:
        return Problem(path=path, line=None, key="", message=f"isn't valid TOML: {text}")
    return Problem(path=path, line=int(match["line"]), key="", message=f"isn't valid TOML: {match['text']}")


def _iter_validation_problems(
    file: TomlFile, model: type[BaseModel], error: ValidationError
) -> Iterator[Problem]:
    for entry in error.errors():
        key = entry["loc"]
        if entry["type"] == "extra_forbidden":
            known = _list_fields(model, key[:-1])
            yield file.problem(
                key, f"unknown key{did_you_mean.format_did_you_mean_hint(str(key[-1]), known)}"
            )
        else:
            yield file.problem(key, rephrase_message(entry["msg"]))


def _list_fields(model: type[BaseModel], key: Sequence[object]) -> list[str]:
    """Return the names of the model's fields at a nested key.

    The result is empty if the key isn't a table.
    """
    for part in key:
        field = model.model_fields.get(str(part))
        inner = _get_submodel(field.annotation) if field is not None else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _get_submodel(annotation: object) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _format_key(key: str) -> str:
    """Return the message prefix ``[resources] timeout_s: `` for the key ``resources.timeout_s``.

    For an empty key, the prefix is empty.
    """
    if not key:
        return ""
    table, _, name = key.rpartition(".")
    return f"[{table}] {name}: " if table else f"{name}: "
