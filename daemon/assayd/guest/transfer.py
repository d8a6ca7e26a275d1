"""Encodes the values that a solution and its tests exchange, as JSON: copies of built-in types, handles.

A value is a JSON scalar, or an array that begins with its tag. Mutable values, such as lists and dicts, are
numbered nodes in a separate table. This preserves cycles and shared parts, and allows a call's changes to
its arguments to be sent back. A value that can't be copied stays in its process, and a handle refers to it.
Neither process runs methods of a value's own class.
"""

from __future__ import annotations

import sys

from . import builtin_names
from .tagged import restore_tagged
from .values import TAG, VALUE, build_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict, defaultdict, deque
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date, datetime, time, timedelta
    from typing import Any

    Form = Any
    Refer = Callable[[object], Form]
    Classes = Mapping[str, type]
else:
    from _collections import OrderedDict, defaultdict, deque
    from _datetime import date, datetime, time, timedelta

builtin_names.isolate_builtins(globals())

_MOST_DEPTH = 60
_MAX_VALUES = 1_000_000
_PLAIN_BITS = 1000
_SHARED_NAMES = frozenset(
    {
        "abs", "all", "any", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod",
        "enumerate", "filter", "float", "frozenset", "hash", "int", "isinstance", "len", "list", "map",
        "max", "min", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice",
        "sorted", "str", "sum", "tuple", "type", "zip",
    }
)  # fmt: skip
"""Built-in functions and types that are transferred by name."""
_SHARED_MODULES = ("math", "operator", "_operator")
_FACTORY_BY_NAME: Mapping[str, type] = {
    kind.__name__: kind for kind in (int, float, str, list, dict, set, tuple, bool)
}
_EXACT_TYPES: tuple[type, ...] = (date, datetime, time, timedelta)
_LAZY_TYPES = (
    ("decimal", "Decimal"),
    ("uuid", "UUID"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
)
_BUILTIN_BASES: tuple[type, ...] = (str, int, float, tuple, list, dict, set, frozenset, bytes)


_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class TransferError(ValueError):
    """An exception raised for a value that can't be transferred, or for bytes that don't encode a value."""


class MessageEncoder:
    """An encoder of one message. `known` lists the values that earlier messages numbered."""

    def __init__(self, refer: Refer, classes: Classes, known: Iterable[object] = ()) -> None:
        self.objects: list[object] = list(known)
        self._at = {id(value): number for number, value in enumerate(self.objects)}
        self._refer = refer
        self._names = {kind: name for name, kind in classes.items()}
        self._left = _MAX_VALUES

    def form(self, value: Any, depth: int = 0) -> Form:
        """Return the encoded form of a value. Raises: TransferError, if it can't be transferred."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if value.bit_length() <= _PLAIN_BITS else ["i", hex(value)]
        if kind is float:
            return value if value - value == 0.0 else ["f", repr(value)]
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEPTH:
            raise TransferError("the value is too large, or nested too deeply")
        if kind in _TAG_BY_TYPE or kind in self._names:
            return ["r", self._assign_number(value)]
        if kind is tuple or kind is frozenset:
            items = [self.form(item, depth + 1) for item in value]
            return ["t" if kind is tuple else "z", items]
        return self._encode_other(value, kind, depth)

    def nodes(self, start: int) -> list[Form]:
        """Return the encoded nodes from number `start` on, including nodes that their encoding adds.

        Raises: TransferError, if a part of them can't be transferred.
        """
        found: list[Form] = []
        while start + len(found) < len(self.objects):
            found.append(self.node(self.objects[start + len(found)]))
        return found

    def node(self, value: Any) -> Form:
        """Return the encoded content of a numbered value.

        Raises: TransferError, if a part of it can't be transferred.
        """
        kind = type(value)
        if (name := self._names.get(kind)) is not None:
            fields = dict(object.__getattribute__(value, "__dict__"))
            return ["o", name, [[key, self.form(item)] for key, item in fields.items()]]
        base, tag = _TAG_BY_TYPE[kind]
        if tag == "y":
            from binascii import b2a_base64

            return ["y", b2a_base64(bytes(value), newline=False).decode()]
        if base is dict:
            pairs = [
                [self.form(key), self.form(item)]
                for key, item in (OrderedDict if tag == "od" else dict).items(value)
            ]
            factory = getattr(value, "default_factory", None) if tag == "dd" else None
            return [tag, pairs, None if factory is None else self._encode_factory(factory)]
        items: Iterable[object] = base.__dict__["__iter__"](value)
        return [tag, [self.form(item) for item in items]]

    def _encode_factory(self, factory: object) -> Form:
        """Return the name of a built-in factory, or a handle for a function that stays in its process.

        Raises: TransferError, for any other factory.
        """
        name = next((name for name, kind in _FACTORY_BY_NAME.items() if kind is factory), None)
        found = name if name is not None else self._refer(factory)
        if found is None:
            raise TransferError("a defaultdict with such a factory can't be transferred")
        return found

    def _assign_number(self, value: object) -> int:
        number = self._at.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def _encode_other(self, value: Any, kind: type, depth: int) -> Form:
        if kind is bytes or kind in _EXACT_TYPES or kind in _get_loaded_kinds():
            found = build_form(value)
            assert found is not None  # noqa: S101 - each of these has a form
            return ["p", found.tag, found.value]
        if kind in _ENCODER_BY_TYPE:
            return _ENCODER_BY_TYPE[kind](value, self.form)
        if (shared := _encode_shared_name(value, kind)) is not None:
            return shared
        if (fraction := _get_fraction_type()) is not None and kind is fraction:
            return ["q", f"{fraction.__dict__['__str__'](value)}"]
        referred = self._refer(value)
        return referred if referred is not None else self._encode_subclass(value, kind, depth)

    def _encode_subclass(self, value: Any, kind: type, depth: int) -> Form:
        """Encode an instance of a subclass of a built-in type by its built-in content.

        Raises: TransferError, if the value has another type.
        """
        base = next((base for base in _BUILTIN_BASES if issubclass(kind, base)), None)
        if base is None:
            raise TransferError(f"a value of type {_name(kind)} can't be transferred")
        if base in {list, dict, set}:
            return [
                "r",
                self._assign_number(
                    base(base.__iter__(value)) if base is not dict else dict(dict.items(value))
                ),
            ]
        plain = {int: int.__int__, float: float.__float__, str: str.__str__}.get(base)
        return self.form(plain(value) if plain else base(base.__dict__["__iter__"](value)), depth + 1)


class MessageDecoder:
    """A decoder of one message. `known` lists the values that earlier messages numbered."""

    def __init__(
        self, resolve: Callable[[list[Form]], object], classes: Classes, known: Iterable[object] = ()
    ) -> None:
        self.objects: list[object] = list(known)
        self._resolve = resolve
        self._classes = classes

    def add(self, nodes: list[Form]) -> None:
        """Create the nodes of a message, and then fill them. Raises: TransferError, if a node is invalid."""
        start = len(self.objects)
        try:
            self.objects += [self._create_empty(node) for node in nodes]
            # Hashed containers come last, when all their parts are complete.
            for number in sorted(range(len(nodes)), key=lambda number: nodes[number][0] in _HASHING):
                self.fill_container(self.objects[start + number], nodes[number])
        except _UNREADABLE as problem:
            raise _to_transfer_error(problem) from None

    def fill_container(self, value: Any, node: Form) -> None:
        """Set the content of a list, set, dict, bytearray or object from its encoded form."""
        tag, content = node[0], node[-1] if node[0] not in _DICT_TAGS else node[1]
        if tag == "y":
            value[:] = _decode_bytes(content)
        elif tag == "o":
            fields = {key: self._decode_form(item) for key, item in content if type(key) is str}
            _reject_shadowed_methods(type(value), fields)
            space = object.__getattribute__(value, "__dict__")
            space.clear()
            space.update(fields)
        elif tag in _DICT_TAGS:
            pairs = [(self._decode_form(key), self._decode_form(item)) for key, item in content]
            base = OrderedDict if tag == "od" else dict
            base.clear(value)
            for key, item in pairs:
                base.__setitem__(value, key, item)
        else:
            items = [self._decode_form(item) for item in content]
            value.clear()
            (value.update if tag == "s" else value.extend)(items)

    def value(self, form: Form) -> object:
        """Return the value of an encoded form. Raises: TransferError, if the form is invalid."""
        try:
            return self._decode_form(form)
        except _UNREADABLE as problem:
            raise _to_transfer_error(problem) from None

    def update(self, changes: Any) -> None:
        """Apply changes to the containers with the given numbers.

        Raises: TransferError, if a change is invalid.
        """
        try:
            for number, node in changes:
                self.fill_container(self._get_changed_container(number, node[0]), node)
        except _UNREADABLE as problem:
            raise _to_transfer_error(problem) from None

    def _get_changed_container(self, number: object, tag: object) -> object:
        """Return the container with the number in a change, after checking its type.

        Raises: ValueError, if this container doesn't exist or has another type.
        """
        if type(number) is not int or number < 0 or _find_tag(self.objects[number], self._classes) != tag:
            raise ValueError("a change of an unknown container")
        return self.objects[number]

    def _create_empty(self, node: Form) -> object:
        tag = node[0]
        if tag == "o":
            return object.__new__(self._classes[node[1]])
        if tag == "dd":
            factory = node[2]
            if type(factory) is list:
                return defaultdict(self._resolve(factory))  # type: ignore[call-overload]  # checks it itself
            return defaultdict(None if factory is None else _FACTORY_BY_NAME[factory])
        if tag == "dc":
            from collections import Counter

            return Counter()
        return _FACTORY_BY_TAG[tag]()

    def _decode_form(self, form: Form) -> object:
        if type(form) is not list:
            if type(form) is dict:
                raise ValueError("an object")
            return form
        tag = form[0]
        if tag == "r":
            number = form[1]
            if type(number) is not int or number < 0:
                raise ValueError("no number")
            return self.objects[number]
        if tag in {"h", "m"}:
            return self._resolve(form)
        return _DECODER_BY_TAG[tag](form, self._decode_form)


def _reject_shadowed_methods(kind: type, fields: Mapping[str, object]) -> None:
    """Reject an instance that has a callable field with the name of a method of its class.

    Raises: TransferError.
    """
    methods = {**object.__dict__, **type.__dict__["__dict__"].__get__(kind)}
    for name, field in fields.items():
        if callable(field) and callable(methods.get(name)):
            raise TransferError(f"a function in the place of {_name(kind)}.{name}")


def _find_tag(value: object, classes: Classes) -> str:
    kind = type(value)
    if kind in classes.values():
        return "o"
    return _TAG_BY_TYPE[kind][1]


def _encode_shared_name(value: Any, kind: type) -> Form | None:
    """Return the encoded name of a built-in function, type or exception that both sides have, or None."""
    name = getattr(value, "__name__", None) if kind is type or kind is type(len) else None
    if type(name) is not str:
        return None
    if builtin_names.NAMES.get(name) is value and (name in _SHARED_NAMES or _is_exception(value)):
        return ["B", name]
    for module in _SHARED_MODULES:
        if kind is not type and module in sys.modules and vars(sys.modules[module]).get(name) is value:
            return ["M", module, name]
    return None


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _decode_builtin(form: list[Form], _: object) -> object:
    name = form[1]
    found = builtin_names.NAMES[name] if type(name) is str else None
    if name in _SHARED_NAMES or _is_exception(found):
        return found
    raise ValueError("no such name")


def _decode_module_attribute(form: list[Form], _: object) -> object:
    module, name = form[1], form[2]
    if module not in _SHARED_MODULES or type(name) is not str:
        raise ValueError("no such function")
    found = vars(__import__(module))[name]
    if type(found) is not type(len):
        raise ValueError("no such function")
    return found


def _get_fraction_type() -> type | None:
    return getattr(sys.modules.get("fractions"), "Fraction", None)


def _get_loaded_kinds() -> tuple[type, ...]:
    found = ((sys.modules[module], name) for module, name in _LAZY_TYPES if module in sys.modules)
    return tuple(kind for module, name in found if isinstance(kind := vars(module).get(name), type))


def _decode_bytes(text: Any) -> bytes:
    from binascii import a2b_base64

    return a2b_base64(text.encode("ascii"), strict_mode=True)


def _decode_complex(real: Any, imaginary: Any) -> complex:
    return complex(real, imaginary)


def _decode_fraction(form: list[Form], _: object) -> object:
    from fractions import Fraction

    return Fraction(form[1])


def _name(kind: type) -> str:
    name = type.__dict__["__qualname__"].__get__(kind)
    return name[:100] if type(name) is str else "object"


def _to_transfer_error(problem: Exception) -> TransferError:
    return problem if isinstance(problem, TransferError) else TransferError("bytes that stand for no value")


def _get_counter_type() -> type:
    found = getattr(sys.modules.get("collections"), "Counter", None)
    return found if isinstance(found, type) else dict


class _NodeTypes(dict[type, tuple[type, str]]):
    """The types of numbered values, with base and tag. `Counter` is included once its module is loaded."""

    def __contains__(self, kind: object) -> bool:
        return dict.__contains__(self, kind) or (kind is _get_counter_type() and kind is not dict)

    def __missing__(self, kind: type) -> tuple[type, str]:
        if kind is _get_counter_type():
            return dict, "dc"
        raise KeyError(kind)


_TAG_BY_TYPE: Mapping[type, tuple[type, str]] = _NodeTypes(
    {
        list: (list, "l"), dict: (dict, "d"), set: (set, "s"), bytearray: (bytearray, "y"),
        deque: (deque, "k"), OrderedDict: (dict, "od"), defaultdict: (dict, "dd"),
    }
)  # fmt: skip
_FACTORY_BY_TAG: Mapping[object, Callable[[], object]] = {
    "l": list, "d": dict, "s": set, "y": bytearray, "k": deque, "od": OrderedDict,
}  # fmt: skip
_DICT_TAGS = frozenset({"d", "od", "dd", "dc"})
_HASHING = _DICT_TAGS | {"s"}
_ENCODER_BY_TYPE: Mapping[type, Callable[[Any, Callable[[object], Form]], Form]] = {
    complex: lambda value, form: ["c", form(value.real), form(value.imag)],
    range: lambda value, _: ["g", value.start, value.stop, value.step],
    type(Ellipsis): lambda _value, _decode_form: ["e"],
}
_DECODER_BY_TAG: Mapping[object, Callable[[list[Form], Callable[[Form], object]], object]] = {
    "t": lambda form, read: tuple(map(read, form[1])),
    "z": lambda form, read: frozenset(map(read, form[1])),
    "i": lambda form, _: int(form[1], 16),
    "f": lambda form, _: {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}[form[1]],
    "c": lambda form, read: _decode_complex(read(form[1]), read(form[2])),
    "g": lambda form, _: range(form[1], form[2], form[3]),
    "p": lambda form, _: restore_tagged({TAG: form[1], VALUE: form[2]}),
    "q": _decode_fraction,
    "e": lambda _decode_form, _: Ellipsis,
    "B": _decode_builtin,
    "M": _decode_module_attribute,
}
