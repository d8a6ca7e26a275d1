"""The module that adapter modules import, with a base class and a decorator that registers classes.

It can be imported under the names that the profile lists, so that a code base needn't change its import
statements. Its register applies only to one process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType
    from typing import TypeVar

    _T = TypeVar("_T", bound=type)
else:
    import sys

    ModuleType = type(sys)


class Adapter:
    """A base class that stores settings, but defines no methods of an adapter."""

    def __init__(self, config: Mapping[str, object] | None = None, **settings: object) -> None:
        self.config = {**(config or {}), **settings}

    def __class_getitem__(cls, item: object) -> type:
        """Accept type parameters, which have no effect here."""
        return cls


def build_adapter_modules(
    names: Iterable[str], decorators: Iterable[str], base_classes: Iterable[str]
) -> dict[str, ModuleType]:
    """Return a mapping of each name to one adapter module, whose register is empty."""
    listed: list[type] = []

    def register_adapter(*marks: object, **settings: object) -> object:
        """Register an adapter class. This can be a bare decorator, or a decorator with any arguments."""
        if len(marks) == 1 and isinstance(marks[0], type) and not settings:
            return _add_to_list(marks[0])
        return _add_to_list

    def _add_to_list(kind: _T) -> _T:
        listed.append(kind)
        return kind

    def list_registered_adapters() -> tuple[type, ...]:
        """Return the registered classes in the order of their registration."""
        return tuple(listed)

    own: dict[str, object] = {"registered": list_registered_adapters, "Adapter": Adapter}
    own |= dict.fromkeys(decorators, register_adapter) | dict.fromkeys(base_classes, Adapter)
    given = [*names]
    module = ModuleType(given[0] if given else "adapter", __doc__)
    module.__dict__.update(own)
    return dict.fromkeys(given, module)
