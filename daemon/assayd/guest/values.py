"""Renders any value of guest code as JSON, with a note for each location of lost information.

Some values that JSON can't express have a common representation and are rendered with their kind (`forms`).
No code of the value's own class is run: no ``__repr__``, ``__iter__`` or ``__len__``. Instances of
subclasses of the built-in containers are read with the built-in's own methods.
"""

from __future__ import annotations

import sys

from . import private
from .arrays import is_like_base
from .forms import TAG, TYPE, VALUE, build_form
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict, defaultdict
    from collections.abc import Iterable
    from typing import TypeGuard, TypeVar, cast

    from .forms import ValueForm

    Pairs = list[tuple[object, object]]
    _T = TypeVar("_T")
else:
    from _collections import OrderedDict, defaultdict

    def cast(_, value):  # noqa: D103 - a stand-in
        return value


private.isolate_builtins(globals())

MAX_DEPTH = 64
MAX_ITEMS = 1_000_000
MAX_CONTAINERS = 400_000
MAX_STRING = 8 * 2**20
MAX_KEY = 1024
MAX_INT_BITS = 3072
MAX_NOTES = 100
_MAX_PATH = 256
_MAX_NAME = 128
_TOO_MANY = f"cut: there are more than {MAX_ITEMS} values in all"

_CONTAINERS: tuple[type[dict[object, object]] | type[Iterable[object]], ...] = (
    dict,
    list,
    tuple,
    set,
    frozenset,
)
_DICTS = frozenset({OrderedDict, defaultdict})
"""Types that are dicts in all that JSON can hold; `Counter` is one, too."""


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
    return name[:_MAX_NAME].encode("utf-8", "backslashreplace").decode() if type(name) is str else "object"


def is_real_subclass(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Return whether the value's real type is a subclass of `kind`; ignore its `__class__` attribute."""
    return issubclass(type(value), kind)


class Renderer:
    """A renderer of a single value; not reusable, because it counts the rendered items."""

    __slots__ = ("_above", "_containers_left", "_items_left", "complete", "notes")

    def __init__(self, *, most_items: int = MAX_ITEMS, most_containers: int = MAX_CONTAINERS) -> None:
        self.notes: list[dict[str, str]] = []
        self.complete = True
        self._above: set[int] = set()
        self._items_left = most_items
        self._containers_left = most_containers

    def render_whole(self, value: object) -> Rendered:
        """Return the rendered form of a whole value."""
        plain = self.render(value, "$", 0)
        name = "dict" if _is_dict_in_all(type(value)) else type_name(value)
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
        if len(plain) > MAX_STRING:
            self._note_truncation(path, f"a string of {len(plain)} characters, cut")
            plain = plain[:MAX_STRING]
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
        if is_real_subclass(text, str) and len(text) > MAX_STRING:
            self._note_truncation(path, f"a {form.tag} of {len(text)} characters, omitted")
            text = ""
        return self._render_tagged_form(form.tag, text)

    def _render_nested(self, value: object, form: ValueForm, path: str, depth: int) -> object:
        """Render an enum member or a dataclass instance with the name of its class."""
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
                self._note_truncation(path, _TOO_MANY)
                break
            rendered.append(self.render(element, f"{path}[{at}]", depth + 1))
        return rendered

    def _render_object(self, pairs: Pairs, path: str, depth: int) -> dict[str, object]:
        rendered: dict[str, object] = {}
        for key, element in pairs:
            if self._items_left <= 0:
                self._note_truncation(path, _TOO_MANY)
                break
            name = self._render_key(key, path)
            if name in rendered:
                self._note_truncation(path, f"two keys with the text {name[:40]!r}, one omitted")
            # A path is only shown in a note, so a path that is already long isn't extended.
            below = f"{path}.{name[:40]}" if len(path) < _MAX_PATH else path
            rendered[name] = self.render(element, below, depth + 1)
        return rendered

    def _render_key(self, key: object, path: str) -> str:
        if is_real_subclass(key, str):
            if str.__len__(key) > MAX_KEY:
                self._note_truncation(path, "a key that is too long, cut")
            return self._render_string(key, path)[:MAX_KEY]
        self._add_note(path, f"a key of type {type_name(key)}")
        plain = self.render(key, path, MAX_DEPTH)
        if plain is None or plain is True or plain is False:
            return {None: "null", True: "true", False: "false"}[plain]
        return plain if is_real_subclass(plain, str) else f"{plain!r}"

    def _limit_elements(self, elements: list[_T], path: str) -> list[_T]:
        if len(elements) > self._items_left:
            self._note_truncation(path, _TOO_MANY)
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
        if kind is not base and not _is_dict_in_all(kind) and not is_like_base(kind):
            self._add_note(path, f"a {type_name(value)}, shown as its base type {base.__name__}")

    def _add_note(self, path: str, problem: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append({"path": path[:_MAX_PATH], "problem": problem})


def _is_dict_in_all(kind: type) -> bool:
    if kind in _DICTS:
        return True
    collections = sys.modules.get("collections")
    return collections is not None and kind is vars(collections).get("Counter")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
