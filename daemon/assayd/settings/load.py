"""Read settings: defaults, then the settings file, then the environment; and record where each came from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from assayd import tomlfile
from assayd.errors import ConfigError
from assayd.settings.model import Settings

CODE = "settings.invalid"
PREFIX = "ASSAYD_"
DEFAULT_FILE = Path("/etc/assayd/assayd.toml")
_FILE_VARIABLE = "ASSAYD_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One effective setting and where its value came from: default, a file's line, or a variable."""

    name: str
    value: str
    source: str
    description: str


class _Environment(Settings, BaseSettings):
    """The same fields, for the reader of environment variables."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")


def load_settings() -> Settings:
    """Read file and environment.

    Raises:
        ConfigError: ``settings.invalid``, naming the file's line or the variable.
    """
    file = _read_file()
    if file is not None:
        tomlfile.parse(file, Settings, CODE)
    variables = _read_environment()
    settings = _combine(file.values if file is not None else {}, variables)
    origins = (
        {name: f"{file.path}:{file.line(name.split('.'))}" for name in _leaves(file.values)} if file else {}
    )
    origins |= {name: f"environment {variable(name)}" for name in _leaves(variables)}
    return settings.with_origins(origins)


def effective(settings: Settings) -> list[Row]:
    """List every setting with its value and where that came from."""
    return list(_rows(settings, (), settings.origins))


def variable(name: str) -> str:
    """Return the environment variable of a setting, e.g. of ``pool.enabled``."""
    return PREFIX + name.upper().replace(".", "__")


def _read_file() -> tomlfile.TomlFile | None:
    named = os.environ.get(_FILE_VARIABLE)
    path = Path(named) if named else DEFAULT_FILE
    if not named and not path.exists():
        return None
    return tomlfile.read(path, CODE)


def _read_environment() -> dict[str, object]:
    _refuse_unknown_variables()
    try:
        return dict(EnvSettingsSource(_Environment)())
    except SettingsError as problem:
        raise ConfigError(CODE, f"environment: {problem}; lists are written as JSON") from problem


def _refuse_unknown_variables() -> None:
    known = [variable(row.name) for row in _rows(Settings(), (), {})]
    sections = {name.rpartition("__")[0] for name in known}
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known and name not in {_FILE_VARIABLE, *sections}:
            message = f"{name}: there is no such setting{tomlfile.nearest(name, known)}"
            raise ConfigError(CODE, message, field=name)


def _combine(file: Mapping[str, object], variables: Mapping[str, object]) -> Settings:
    try:
        return Settings.model_validate(_over(file, variables))
    except ValidationError as problem:
        # The file by itself was found good, so a variable is at fault.
        lines = [
            f"{variable('.'.join(map(str, e['loc'])))}: {tomlfile.sentence(e['msg'])}"
            for e in problem.errors()
        ]
        raise ConfigError(CODE, "\n".join(lines)) from problem


def _over(base: Mapping[str, object], top: Mapping[str, object]) -> dict[str, object]:
    merged = dict(base)
    for name, value in top.items():
        below = merged.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[name] = _over(below, value)
        else:
            merged[name] = value
    return merged


def _leaves(values: Mapping[str, object], within: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{within}{name}.")
        else:
            yield f"{within}{name}"


def _rows(section: BaseModel, within: Sequence[str], origins: Mapping[str, str]) -> Iterator[Row]:
    shown = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _rows(value, (*within, name), origins)
            continue
        dotted = ".".join((*within, name))
        # Of tables by name, where the first of what they hold is from.
        below = (place for known, place in origins.items() if known.startswith(f"{dotted}."))
        source = origins.get(dotted) or next(below, "default")
        yield Row(name=dotted, value=_text(shown[name]), source=source, description=field.description or "")


def _text(value: object) -> str:
    if value is None:
        return "(unset)"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
