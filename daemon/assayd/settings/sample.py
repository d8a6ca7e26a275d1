"""Generates the sample settings file: all settings, commented out, with defaults and descriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import NoneType
from typing import TypeGuard, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from assayd.settings.load import PREFIX, get_environment_variable_name
from assayd.settings.model import Settings

HEAD = """\
# Settings of assayd. A commented line shows the default, or an example if it says so.
#
# Environment variables override this file: [pool] enabled is
# ASSAYD_POOL__ENABLED. `assayd --check-config` checks this file, and `assayd --print-config` shows the
# effective values and their origins. After a change: systemctl restart assayd.
"""


def render_sample_settings() -> str:
    """Return a settings file that documents every setting but sets none."""
    return "\n".join([HEAD, *_render_section(Settings, ())])


def iter_documented_settings(
    model: type[BaseModel] = Settings, prefix: str = PREFIX
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, variable, default and description of each setting of a program."""
    for name, field, owner in _walk_fields(model, ()):
        yield (
            name,
            get_environment_variable_name(name, prefix),
            _format_default(field, owner),
            field.description or "",
        )


def _walk_fields(
    model: type[BaseModel], within: tuple[str, ...]
) -> Iterator[tuple[str, FieldInfo, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        below = _get_section_model(field)
        if below is not None:
            yield from _walk_fields(below, (*within, name))
        else:
            yield ".".join((*within, name)), field, model


def _render_section(model: type[BaseModel], within: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its settings, then its subtables, as TOML requires."""
    for name, field in model.model_fields.items():
        if _get_section_model(field) is None:
            yield f"# {field.description}"
            yield from _describe_tables(field, (*within, name))
            yield f"#{name} = {_format_toml(field, model)}{'' if _has_default(field) else '  # an example'}\n"
    for name, field in model.model_fields.items():
        below = _get_section_model(field)
        if below is not None:
            yield f"[{'.'.join((*within, name))}]"
            yield f"# {(below.__doc__ or '').splitlines()[0]}\n"
            yield from _render_section(below, (*within, name))


def _describe_tables(field: FieldInfo, within: tuple[str, ...]) -> Iterator[str]:
    """Describe the named tables of a setting, if the setting has any."""
    kind = next((kind for kind in get_args(field.annotation) if _is_model(kind)), None)
    if kind is not None:
        yield f"# Each is a table [{'.'.join(within)}.NAME] with"
        yield from (f"#   {name}: {each.description}" for name, each in kind.model_fields.items())


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _get_section_model(field: FieldInfo) -> type[BaseModel] | None:
    return field.annotation if _is_model(field.annotation) else None


def _has_default(field: FieldInfo) -> bool:
    """Return whether a setting has the same default value on every machine."""
    return field.default is not PydanticUndefined and field.default is not None


def _format_default(field: FieldInfo, owner: type[BaseModel]) -> str:
    if _has_default(field):
        return _format_toml(field, owner)
    return "unset" if NoneType in get_args(field.annotation) else "by machine"


def _format_toml(field: FieldInfo, owner: type[BaseModel]) -> str:
    """Return the default value, or otherwise the example value, as TOML."""
    if not _has_default(field):
        return json.dumps((field.examples or [""])[0])
    name = next(name for name, each in owner.model_fields.items() if each is field)
    # In its written form, e.g. a mode in octal.
    written = owner.model_construct().model_dump(mode="json", include={name})[name]
    return json.dumps(written, ensure_ascii=False)
