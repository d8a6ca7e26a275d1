"""Reads settings from defaults, then the file, then the environment, and records their origins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from assayd import did_you_mean, tomlfile
from assayd.errors import ConfigError
from assayd.settings.model import RootSettings, Settings

CODE = "settings.invalid"
PREFIX = "ASSAYD_"
DEFAULT_FILE = Path("/etc/assayd/assayd.toml")
_FILE_VARIABLE = "CONFIG"

S = TypeVar("S", bound=RootSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """An effective setting and its origin: the default, a line of a file, or an environment variable."""

    name: str
    value: str
    source: str
    description: str


def load_settings() -> Settings:
    """Read the daemon's settings from the file and environment.

    Raises: ConfigError ``settings.invalid``, if a setting is unknown or has an invalid value.
    """
    return load_program_settings(Settings, DEFAULT_FILE)


def load_program_settings(model: type[S], default_file: Path, prefix: str = PREFIX) -> S:
    """Read a program's settings from the file, if it exists, and from environment variables with a prefix.

    Raises:
        ConfigError: ``settings.invalid``, with the line of the file or the variable at fault.
    """
    file = _read_file(default_file, prefix)
    if file is not None:
        tomlfile.validate_file(file, model, CODE)
    _reject_unknown_variables(model, prefix)
    settings, variables = _read_settings(model, file.values if file is not None else {}, prefix)
    origins = (
        {name: f"{file.path}:{file.line(name.split('.'))}" for name in _iter_leaf_names(file.values)}
        if file
        else {}
    )
    origins |= {
        name: f"environment {get_environment_variable_name(name, prefix)}"
        for name in _iter_leaf_names(variables)
    }
    return settings.with_origins(origins)


def list_effective_settings(settings: RootSettings) -> list[SettingRow]:
    """Return every setting with its value and origin."""
    return list(_iter_setting_rows(settings, (), settings.origins))


def get_environment_variable_name(name: str, prefix: str = PREFIX) -> str:
    """Return the name of the environment variable for a setting such as ``pool.enabled``."""
    return prefix + name.upper().replace(".", "__")


def _read_file(default: Path, prefix: str) -> tomlfile.TomlFile | None:
    named = os.environ.get(prefix + _FILE_VARIABLE)
    path = Path(named) if named else default
    if not named and not path.exists():
        return None
    return tomlfile.read_file(path, CODE)


def _read_settings(model: type[S], file: Mapping[str, object], prefix: str) -> tuple[S, dict[str, object]]:
    """Return the settings, and separately the values that were read from the environment.

    Raises: ConfigError, if a variable has an invalid value.
    """

    # Values of the file come from `tomlfile`, because the library's TOML source loses line numbers.
    def sources(cls: type[BaseSettings], **_: object) -> tuple[PydanticBaseSettingsSource, ...]:
        return EnvSettingsSource(cls), InitSettingsSource(cls, dict(file))

    config = SettingsConfigDict(env_prefix=prefix, env_nested_delimiter="__", extra="forbid")
    members = {"model_config": config, "settings_customise_sources": staticmethod(sources)}
    reader = type(model.__name__, (model, BaseSettings), members)
    try:
        return reader(), EnvSettingsSource(reader)()
    except SettingsError as problem:
        # pydantic-settings says: 'error parsing value for field "policy_folders" from source "…"'
        field = re.search(r'field "([^"]+)"', str(problem))
        section = get_environment_variable_name(field[1], prefix) if field else prefix
        names = " or ".join(name for name in sorted(os.environ) if name.startswith(section))
        raise ConfigError(CODE, f'{names}: must be JSON, e.g. ["a", "b"] for a list') from problem
    except ValidationError as problem:
        # The file alone is valid, so a variable is at fault.
        lines = [
            f"{get_environment_variable_name('.'.join(map(str, e['loc'])), prefix)}: "
            f"{tomlfile.rephrase_message(e['msg'])}"
            for e in problem.errors()
        ]
        raise ConfigError(CODE, "\n".join(lines)) from problem


def _reject_unknown_variables(model: type[RootSettings], prefix: str) -> None:
    known = [get_environment_variable_name(name, prefix) for name in _iter_setting_names(model, ())]
    sections = {name.rpartition("__")[0] for name in known}
    for name in os.environ:
        if name.startswith(prefix) and name not in {*known, *sections, prefix + _FILE_VARIABLE}:
            message = f"{name}: unknown setting{did_you_mean.format_did_you_mean_hint(name, known)}"
            raise ConfigError(CODE, message, field=name)


def _iter_setting_names(section: type[BaseModel], within: tuple[str, ...]) -> Iterator[str]:
    """Yield the dotted names of all settings."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _iter_setting_names(kind, (*within, name))
        else:
            yield ".".join((*within, name))


def _iter_leaf_names(values: Mapping[str, object], within: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _iter_leaf_names(value, f"{within}{name}.")
        else:
            yield f"{within}{name}"


def _iter_setting_rows(
    section: BaseModel, within: Sequence[str], origins: Mapping[str, str]
) -> Iterator[SettingRow]:
    shown = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _iter_setting_rows(value, (*within, name), origins)
            continue
        dotted = ".".join((*within, name))
        # The origin of a table is the origin of its first value.
        below = (place for known, place in origins.items() if known.startswith(f"{dotted}."))
        source = origins.get(dotted) or next(below, "default")
        yield SettingRow(
            name=dotted, value=_format_value(shown[name]), source=source, description=field.description or ""
        )


def _format_value(value: object) -> str:
    if value is None:
        return "(unset)"
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
