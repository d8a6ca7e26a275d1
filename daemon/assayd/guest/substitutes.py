"""Substitutes for parts of the standard library whose packages load slowly.

`Value` replaces `dataclasses`, `suppress` that of `contextlib`, `Selector` the package `selectors`, `loads`
and `serialize_json` replace `json`. Importing these packages would delay the runner's start more than all
other guest code.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner
from select import EPOLLIN, EPOLLOUT, EPOLLRDHUP, epoll

from . import builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar, NoReturn, dataclass_transform
else:

    def dataclass_transform(**_):  # noqa: D103 - a stand-in
        return lambda kind: kind


builtin_names.isolate_builtins(globals())


class _ValueMeta(type):
    """A metaclass that creates a slot for each annotated name, with its value in the class as default."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _ValueMeta:
        fields: tuple[str, ...] = tuple(namespace.get("__annotations__", ()))  # type: ignore[arg-type]
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        return super().__new__(mcs, name, bases, {**namespace, "__slots__": fields, "DEFAULTS": defaults})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value(metaclass=_ValueMeta):
    """The base class of values. All fields are passed by keyword. Raises: TypeError, if one is missing."""

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


class suppress:  # noqa: N801 - as it is called there
    """A context manager that suppresses exceptions of the given types that its block raises."""

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


READ, WRITE, HANG_UP = EPOLLIN, EPOLLOUT, EPOLLRDHUP
"""Events to wait for; a closed peer is always reported."""


class Selector:
    """A set of descriptors with callbacks, called when a descriptor is readable, writable or closed."""

    def __init__(self) -> None:
        self._poll = epoll()
        self._calls: dict[int, Callable[[], None]] = {}

    def register(self, descriptor: int, events: int, call: Callable[[], None]) -> None:
        """Watch a descriptor. Raises: OSError, if it is already watched or can't be watched."""
        self._poll.register(descriptor, events)
        self._calls[descriptor] = call

    def modify(self, descriptor: int, events: int) -> None:
        """Change the watched events of a descriptor."""
        self._poll.modify(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        """Stop watching a descriptor that is still open."""
        del self._calls[descriptor]
        self._poll.unregister(descriptor)

    def wait(self, most_s: float | None) -> bool:
        """Wait for a ready descriptor, and return whether there was one. Call the callbacks of ready ones.

        The timeout is in seconds; None means no timeout.
        """
        ready = self._poll.poll(most_s)
        for descriptor, _ in ready:
            # A call may have closed a pipe that became ready in the same round.
            call = self._calls.get(descriptor)
            if call is not None:
                call()
        return bool(ready)


class _ScannerRules:
    """The settings of a scanner, as in `json.loads`, but without NaN and infinities, which aren't JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(text: str) -> object:
        raise ValueError(f"not JSON: {text}")


def _refuse_type(value: object) -> object:
    raise TypeError(f"not JSON: {type(value)}")


_scan = make_scanner(_ScannerRules)  # type: ignore[arg-type]  # anything with these attributes
_encode = make_encoder(None, _refuse_type, encode_basestring_ascii, None, ":", ",", False, False, False)


def loads(text: bytes | bytearray) -> object:
    """Return the value of a JSON text.

    Raises: ValueError, if it isn't valid or has white space around it; RecursionError, if it is nested too
    deeply.
    """
    decoded = text.decode("utf-8", "surrogatepass")
    try:
        value, end = _scan(decoded, 0)
    except StopIteration:
        raise ValueError("not JSON: a value is missing") from None
    if end != len(decoded):
        raise ValueError("not JSON: there is more after the value")
    return value


def serialize_json(value: object) -> bytes:
    """Return a value as ASCII JSON. Raises: ValueError or TypeError, if JSON can't express the value."""
    return "".join(_encode(value, 0)).encode()
