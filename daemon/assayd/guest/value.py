"""Immutable values with named fields, like frozen dataclasses, without importing `dataclasses`.

Importing `dataclasses` and creating dataclasses would delay the runner's start more than all other guest
code.
"""

from __future__ import annotations

from . import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, NoReturn, dataclass_transform
else:

    def dataclass_transform(**_):  # noqa: D103 - a stand-in
        return lambda kind: kind


private.isolate_builtins(globals())


class _ValueMeta(type):
    """A metaclass that creates a slot for each annotated name, with its value in the class as default."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _ValueMeta:
        fields: tuple[str, ...] = tuple(namespace.get("__annotations__", ()))  # type: ignore[arg-type]
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        return super().__new__(mcs, name, bases, {**namespace, "__slots__": fields, "DEFAULTS": defaults})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value(metaclass=_ValueMeta):
    """The base class of values; all fields are passed by keyword. Raises: TypeError if one is missing."""

    if TYPE_CHECKING:
        __slots__: tuple[str, ...]
        DEFAULTS: ClassVar[dict[str, object]]

    def __init__(self, **given: object) -> None:
        values = {**self.DEFAULTS, **given} if self.DEFAULTS else given
        fields = self.__slots__
        if len(values) != len(fields):
            raise TypeError(f"{type(self).__name__} takes {fields}, and was given {tuple(given)}")
        for field in fields:
            _set(self, field, values[field])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, field) == getattr(other, field) for field in self.__slots__
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, field) for field in self.__slots__))

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} never changes")

    __delattr__ = __setattr__  # type: ignore[assignment]


_set = object.__setattr__
