"""Renders any value of guest code as JSON, with a note for each location of lost information.

Values that JSON can't express are sent as an object with a tag and their form. No module needs to be loaded:
as long as a module isn't loaded, its classes have no instances.

    datetime.date(2024, 3, 1)      {"$py": "date", "value": "2024-03-01"}
    numpy.int64(3)                 3
    numpy.array([[1, 2]])          {"$py": "ndarray", "value": [[1, 2]], "type": "int64"}
    pandas.Series([5], name="n")   {"$py": "series", "value": {"name": "n", "index": [0], …}, …}
    pandas.DataFrame({"a": [5]})   {"$py": "dataframe", "value": {"columns": ["a"], …}, …}
    pandas.Timestamp, NaT, NA      a datetime; null

No code of the value's own class is run: no ``__repr__``, ``__iter__`` or ``__len__``. Instances of
subclasses of the built-in containers are read with the built-in's own methods. Modules named numpy or
pandas in `sys.modules` may be guest code; their errors are handled like other errors of the guest.
"""

from __future__ import annotations

import sys

from . import builtin_names
from .substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict, defaultdict
    from collections.abc import Callable, Iterable
    from datetime import date, datetime, time, timedelta
    from typing import Any, TypeGuard, TypeVar, cast

    Pairs = list[tuple[object, object]]
    _T = TypeVar("_T")
else:
    from _collections import OrderedDict, defaultdict
    from _datetime import date, datetime, time, timedelta

    def cast(_, value):  # noqa: D103 - a stand-in
        return value


builtin_names.isolate_builtins(globals())

_DTYPE_BY_KIND = {"M": "datetime64[us]", "m": "timedelta64[us]"}
"""Types for numpy times: finer values would otherwise be returned as plain integers."""
_get_type_mro = type.__dict__["__mro__"].__get__


def build_array_form(value: Any) -> tuple[str, object, str] | None:
    """Return the tag (can be empty), content and type of a numpy or pandas value, or None for other values.

    Raises: any exception that guest code raises.
    """
    kind = type(value)
    if _is_subclass_of(kind, "pandas", "DataFrame"):
        return "dataframe", _build_table_form(value), f"{len(value)} x {len(value.columns)}"
    if _is_subclass_of(kind, "pandas", "Series"):
        return "series", _build_series_form(value), str(value.dtype)
    if _is_subclass_of(kind, "numpy", "ndarray"):
        return "ndarray", _strip_time_unit(value).tolist(), str(value.dtype)
    if _is_subclass_of(kind, "pandas", "Index"):
        return "", _to_list(value), ""
    nothing = any(value is _get_loaded_attribute("pandas", name) for name in ("NaT", "NA"))
    return ("", None, "") if nothing else _build_scalar_form(value, kind)


def is_like_base(kind: type) -> bool:
    """Return whether values of a type (numpy scalars, Timestamp) are shown like those of its base type."""
    times = (_get_loaded_attribute("pandas", name) for name in ("Timestamp", "Timedelta"))
    return _is_subclass_of(kind, "numpy", "generic") or any(kind is one for one in times)


def _build_scalar_form(value: Any, kind: type) -> tuple[str, object, str] | None:
    if not _is_subclass_of(kind, "numpy", "generic") or issubclass(kind, (float, str, bytes)):
        return None
    held = _strip_time_unit(value).item()
    return None if _is_subclass_of(type(held), "numpy", "generic") else ("", held, "")


def _get_loaded_attribute(module: str, name: str) -> object:
    """Return an attribute of a loaded module without running its code, or None if it doesn't exist."""
    loaded = sys.modules.get(module)
    return vars(loaded).get(name) if type(loaded) is type(sys) else None


def _is_subclass_of(kind: type, module: str, name: str) -> bool:
    known = _get_loaded_attribute(module, name)
    return known is not None and any(one is known for one in _get_type_mro(kind))


def _strip_time_unit(value: Any) -> Any:
    times = _DTYPE_BY_KIND.get(value.dtype.kind)
    return value if times is None else value.astype(times)


def _to_list(value: Any) -> list[object]:
    return [list(one) if type(one) is tuple else one for one in value.tolist()]


def _build_series_form(value: Any) -> dict[str, object]:
    return {"name": value.name, "index": _to_list(value.index), "values": value.tolist()}


def _build_table_form(value: Any) -> dict[str, object]:
    rows = [list(row) for row in value.itertuples(index=False, name=None)]
    return {
        "columns": _to_list(value.columns),
        "dtypes": [str(one) for one in value.dtypes],
        "index": _to_list(value.index),
        "rows": rows,
    }


TAG = "$py"
VALUE = "value"
TYPE = "type"
"""Key for the name of the enum member or of the dataclass, in addition to the value."""


class ValueForm:
    """The form of a value. If `nested` is True, it contains guest code's value, which is rendered later.

    An empty `tag` means that the value is replaced by the contained value.
    """

    __slots__ = ("kind", "nested", "of", "tag", "value")

    def __init__(
        self, tag: str, value: object, kind: type, *, of: str | None = None, nested: bool = False
    ) -> None:
        self.tag, self.value, self.kind, self.of, self.nested = tag, value, kind, of, nested


def build_form(value: object) -> ValueForm | None:
    """Return the form of a value, or None if the value has no form.

    Raises: any exception that code of the value's class raises; for example, a time zone may be guest code.
    """
    kind = type(value)
    if (found := build_array_form(value)) is not None:
        tag, inner, of = found
        return ValueForm(tag, inner, kind, of=of, nested=True)
    for base, tag, write in _TYPE_ENCODERS:
        if issubclass(kind, base):
            return ValueForm(tag, write(value), base)
    for module, name, tag, read in _LAZY_WRITERS:
        known = _get_loaded_class(module, name)
        if known is not None and issubclass(kind, known):
            return ValueForm(tag, read(value), kind)
    known = _get_loaded_class("enum", "Enum")
    if known is not None and issubclass(kind, known):
        member = object.__getattribute__(value, "_name_")
        of = f"{_name(kind)}.{str.__str__(member)}" if type(member) is str else _name(kind)
        return ValueForm("enum", object.__getattribute__(value, "_value_"), kind, of=of, nested=True)
    namespaces = (_namespace(one) for one in type.__dict__["__mro__"].__get__(kind))
    fields = next((names[_FIELDS_ATTRIBUTE] for names in namespaces if _FIELDS_ATTRIBUTE in names), None)
    if type(fields) is dict and "dataclasses" in sys.modules:
        names = [name for name, one in fields.items() if type(name) is str and _is_plain_field(one)]
        given = {name: object.__getattribute__(value, name) for name in names}
        return ValueForm("dataclass", given, kind, of=_name(kind), nested=True)
    return None


_FIELDS_ATTRIBUTE = "__dataclass_fields__"
_namespace = type.__dict__["__dict__"].__get__


def _is_plain_field(field: object) -> bool:
    known = _get_loaded_class("dataclasses", "Field")
    if known is None or type(field) is not known:
        return False
    return repr(object.__getattribute__(field, "_field_type")) == "_FIELD"


def _get_loaded_class(module: str, name: str) -> type | None:
    loaded = sys.modules.get(module)
    found = None if loaded is None else vars(loaded).get(name)
    return found if isinstance(found, type) else None


def _name(kind: type) -> str:
    name = type.__dict__["__qualname__"].__get__(kind)
    return name[-128:] if type(name) is str else "object"


def _base64(value: bytes | bytearray) -> str:
    from binascii import b2a_base64  # imported only for bytes

    return b2a_base64(value, newline=False).decode()


def _timedelta_parts(value: timedelta) -> list[int]:
    parts = (timedelta.__dict__[name] for name in ("days", "seconds", "microseconds"))
    return [part.__get__(value) for part in parts]


def _decimal_text(value: object) -> str:
    return f"{sys.modules['decimal'].Decimal.__str__(value)}"


def _uuid_text(value: object) -> str:
    return f"{sys.modules['uuid'].UUID.__str__(value)}"


def _path_text(value: object) -> str:
    return f"{sys.modules['pathlib'].PurePath.__str__(value)}"


# A datetime is a date, so it comes first.
_TYPE_ENCODERS: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (bytes, "bytes", _base64),
    (bytearray, "bytes", _base64),
    (datetime, "datetime", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (timedelta, "timedelta", _timedelta_parts),
)
_LAZY_WRITERS: tuple[tuple[str, str, str, Callable[[object], str]], ...] = (
    ("decimal", "Decimal", "decimal", _decimal_text),
    ("uuid", "UUID", "uuid", _uuid_text),
    ("pathlib", "PurePath", "path", _path_text),
)

MAX_DEPTH = 64
MAX_ITEMS = 1_000_000
MAX_CONTAINERS = 400_000
MAX_STRING_CHARS = 8 * 2**20
MAX_KEY_CHARS = 1024
MAX_INT_BITS = 3072
MAX_NOTES = 100
_MAX_PATH_CHARS = 256
_MAX_TYPE_CHARS = 128
_TOO_MANY_MESSAGE = f"cut: there are more than {MAX_ITEMS} values in all"

_CONTAINERS: tuple[type[dict[object, object]] | type[Iterable[object]], ...] = (
    dict,
    list,
    tuple,
    set,
    frozenset,
)
_DICT_TYPES = frozenset({OrderedDict, defaultdict})
"""Types that are rendered like a dict, without a note; so is `Counter`."""


class Rendered(Value):
    """A value rendered as JSON, with notes about losses.

    `complete` is true if no part was omitted because of its size.
    """

    value: object
    value_type: str
    notes: list[dict[str, str]]
    complete: bool


def render(value: object) -> Rendered:
    """Return the safe JSON form of a value. `notes` is empty if no information is lost."""
    return Renderer().render_whole(value)


def type_name(value: object) -> str:
    """Return the name of the value's exact type, bypassing its metaclass."""
    name = type.__dict__["__qualname__"].__get__(type(value))
    return (
        name[:_MAX_TYPE_CHARS].encode("utf-8", "backslashreplace").decode() if type(name) is str else "object"
    )


def is_real_subclass(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Return whether the value's real type is a subclass of `kind`. Ignore its `__class__` attribute."""
    return issubclass(type(value), kind)


class Renderer:
    """A renderer of a single value. It isn't reusable, because it counts the rendered items."""

    __slots__ = ("_above", "_containers_left", "_items_left", "complete", "notes")

    def __init__(self, *, most_items: int = MAX_ITEMS, most_containers: int = MAX_CONTAINERS) -> None:
        self.notes: list[dict[str, str]] = []
        self.complete = True
        self._above: set[int] = set()
        self._items_left = most_items
        self._containers_left = most_containers

    def render_whole(self, value: object) -> Rendered:
        """Return the rendered form of a value, with its type and notes about losses."""
        plain = self.render(value, "$", 0)
        name = "dict" if _is_dict_like_type(type(value)) else type_name(value)
        return Rendered(value=plain, value_type=name, notes=self.notes, complete=self.complete)

    def render(self, value: object, path: str, depth: int) -> object:
        """Return the rendered form of a value at a given path inside the whole value."""
        self._items_left -= 1
        if value is None or value is True or value is False:
            return value
        if is_real_subclass(value, str):
            return self._render_string(value, path)
        if is_real_subclass(value, int):
            return self._render_integer(value, path)
        if is_real_subclass(value, float):
            return self._render_float(value, path)
        return self._render_container(value, path, depth)

    def _render_integer(self, value: int, path: str) -> object:
        plain = int.__add__(value, 0)
        self._note_subclass(value, int, path)
        if plain.bit_length() > MAX_INT_BITS:
            self.complete = False
            return self._replace(value, path, f"has {plain.bit_length()} bits")
        return plain

    def _render_float(self, value: float, path: str) -> object:
        plain = float.__float__(value)
        self._note_subclass(value, float, path)
        # Infinity minus infinity is NaN, and NaN equals nothing.
        return plain if plain - plain == 0.0 else self._render_odd_float(plain, path)

    def _render_odd_float(self, value: float, path: str) -> object:
        name = float.__repr__(value).replace("inf", "Infinity").replace("nan", "NaN")
        self._add_note(path, f"{name} is not a JSON number")
        return name

    def _render_string(self, value: str, path: str) -> str:
        plain = str.__str__(value)
        self._note_subclass(value, str, path)
        if len(plain) > MAX_STRING_CHARS:
            self._note_truncation(path, f"a string of {len(plain)} characters, cut")
            plain = plain[:MAX_STRING_CHARS]
        if not plain.isascii() and not _is_text(plain):
            self._add_note(path, "a string with lone surrogates")
            plain = plain.encode("utf-8", "backslashreplace").decode()
        return plain

    def _render_container(self, value: object, path: str, depth: int) -> object:
        base = next((base for base in _CONTAINERS if is_real_subclass(value, base)), None)
        if base is None:
            return self._render_other(value, path, depth)
        if id(value) in self._above:
            return self._replace(value, path, "contains itself")
        self._containers_left -= 1
        if depth >= MAX_DEPTH or self._containers_left < 0:
            self.complete = False
            return self._replace(value, path, f"is nested more than {MAX_DEPTH} deep, or one too many")
        self._note_container(value, base, path)
        self._above.add(id(value))
        if is_real_subclass(value, dict):
            rendered = self._render_mapping(self._limit_elements(list(dict.items(value)), path), path, depth)
        else:
            elements = list(base.__iter__(cast("list[object]", value)))
            rendered = self._render_sequence(base, self._limit_elements(elements, path), path, depth)
        self._above.discard(id(value))
        return rendered

    def _render_other(self, value: object, path: str, depth: int) -> object:
        try:
            form = build_form(value)
        except BaseException:  # noqa: BLE001 - code of guest classes may have a part in it
            return self._replace(value, path, "cannot be read")
        if form is None:
            return self._replace(value, path, self._NO_FORM)
        if form.nested:
            return self._render_nested(value, form, path, depth)
        if form.kind is bytearray:
            self._add_note(path, "a bytearray, shown as bytes")
        else:
            self._note_subclass(value, form.kind, path)
        text = form.value
        if is_real_subclass(text, str) and len(text) > MAX_STRING_CHARS:
            self._note_truncation(path, f"a {form.tag} of {len(text)} characters, omitted")
            text = ""
        return self._render_tagged_form(form.tag, text)

    def _render_nested(self, value: object, form: ValueForm, path: str, depth: int) -> object:
        """Render a value that contains other values, e.g. an enum member, with the name of its type.

        If it is nested too deeply or contains itself, render only its type's name.
        """
        self._containers_left -= 1
        if depth >= MAX_DEPTH or self._containers_left < 0 or id(value) in self._above:
            self.complete = False
            return self._replace(value, path, f"is nested more than {MAX_DEPTH} deep, or contains itself")
        self._above.add(id(value))
        inner = self.render(form.value, path, depth + 1)
        self._above.discard(id(value))
        if not form.tag:
            return inner
        of = (form.of or "").encode("utf-8", "backslashreplace").decode()
        return {TAG: form.tag, VALUE: inner, TYPE: of}

    def _render_tagged_form(self, tag: str, form: object) -> object:
        self._items_left -= 2
        self._containers_left -= 1
        return {TAG: tag, VALUE: form}

    _NO_FORM = "is not a JSON value"

    def _render_mapping(self, pairs: Pairs, path: str, depth: int) -> object:
        return self._render_object(pairs, path, depth)

    def _render_sequence(self, base: type, elements: list[object], path: str, depth: int) -> object:
        return self._render_array(elements, path, depth)

    def _render_array(self, elements: list[object], path: str, depth: int) -> list[object]:
        rendered: list[object] = []
        for at, element in enumerate(elements):
            if self._items_left <= 0:
                self._note_truncation(path, _TOO_MANY_MESSAGE)
                break
            rendered.append(self.render(element, f"{path}[{at}]", depth + 1))
        return rendered

    def _render_object(self, pairs: Pairs, path: str, depth: int) -> dict[str, object]:
        rendered: dict[str, object] = {}
        for key, element in pairs:
            if self._items_left <= 0:
                self._note_truncation(path, _TOO_MANY_MESSAGE)
                break
            name = self._render_key(key, path)
            if name in rendered:
                self._note_truncation(path, f"two keys with the text {name[:40]!r}, one omitted")
            # A path is only shown in a note, so a path that is already long isn't extended.
            below = f"{path}.{name[:40]}" if len(path) < _MAX_PATH_CHARS else path
            rendered[name] = self.render(element, below, depth + 1)
        return rendered

    def _render_key(self, key: object, path: str) -> str:
        if is_real_subclass(key, str):
            if str.__len__(key) > MAX_KEY_CHARS:
                self._note_truncation(path, "a key that is too long, cut")
            return self._render_string(key, path)[:MAX_KEY_CHARS]
        self._add_note(path, f"a key of type {type_name(key)}")
        plain = self.render(key, path, MAX_DEPTH)
        if plain is None or plain is True or plain is False:
            return {None: "null", True: "true", False: "false"}[plain]
        return plain if is_real_subclass(plain, str) else f"{plain!r}"

    def _limit_elements(self, elements: list[_T], path: str) -> list[_T]:
        if len(elements) > self._items_left:
            self._note_truncation(path, _TOO_MANY_MESSAGE)
        return elements[: max(self._items_left, 0)]

    def _note_truncation(self, path: str, problem: str) -> None:
        self.complete = False
        self._add_note(path, problem)

    def _replace(self, value: object, path: str, problem: str) -> object:
        name = type_name(value)
        self._add_note(path, f"{name} {problem}")
        return f"<{name}>"

    def _note_container(self, value: object, base: type, path: str) -> None:
        if base in {dict, list}:
            self._note_subclass(value, base, path)
        else:
            self._add_note(path, f"a {type_name(value)}, shown as an array")

    def _note_subclass(self, value: object, base: type, path: str) -> None:
        kind = type(value)
        if kind is not base and not _is_dict_like_type(kind) and not is_like_base(kind):
            self._add_note(path, f"a {type_name(value)}, shown as its base type {base.__name__}")

    def _add_note(self, path: str, problem: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append({"path": path[:_MAX_PATH_CHARS], "problem": problem})


def _is_dict_like_type(kind: type) -> bool:
    if kind in _DICT_TYPES:
        return True
    collections = sys.modules.get("collections")
    return collections is not None and kind is vars(collections).get("Counter")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
