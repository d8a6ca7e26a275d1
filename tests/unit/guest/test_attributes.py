"""The guard for computed attribute names: which ones it permits and refuses."""

from __future__ import annotations

import io
import json
import math
import posixpath
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import Any

import pytest

from assayd.guest.policy import AttributeGuard

LISTED = {"math": frozenset({"sqrt"}), "posixpath": frozenset({"join"})}


@pytest.fixture
def functions() -> dict[str, Callable[..., Any]]:
    guard = AttributeGuard()
    guard.set_allowed_names(LISTED)
    return guard.guarded_functions()


class Own:
    """An ordinary class."""

    def __init__(self) -> None:
        self.year = 2024
        self.buffer = "mine"

    def bump_part(self) -> str:
        """Return a text."""
        return "bumped"


def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Own(), "year"),
        (Own(), "bump_part"),
        (Own(), "buffer"),
        ("x", "upper"),
        ("x", "__len__"),
        ([], "__iter__"),
        (Own(), "__class__"),
        (Own, "__name__"),
        (math, "sqrt"),
        (posixpath, "join"),
        (PurePosixPath("/a"), "name"),
        (Path("/a"), "suffix"),
        (Path, "cwd"),
        (io.StringIO("x"), "getvalue"),
        (generator(), "send"),
    ],
)
def test_ordinary_attributes_are_given(
    functions: dict[str, Callable[..., Any]], value: object, name: str
) -> None:
    assert functions["getattr"](value, name) == getattr(value, name)
    assert functions["hasattr"](value, name) is True


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (generator, "__globals__"),
        (generator, "__code__"),
        (generator, "__closure__"),
        (generator, "__builtins__"),
        (Own, "__subclasses__"),
        (Own, "__mro__"),
        (Own, "__dict__"),
        (Own(), "__dict__"),
        (Own(), "__reduce_ex__"),
        (Own(), "__getattribute__"),
        (Own(), "__init_subclass__"),
        (print, "__self__"),
        (Own().bump_part, "__func__"),
        (ValueError("x"), "__traceback__"),
        (int, "mro"),
        (generator(), "gi_frame"),
        (generator.__code__, "co_consts"),
        (math, "__loader__"),
        (math, "cos"),
        (json, "loads"),
        (posixpath, "os"),
        (Path("/a"), "read_text"),
        (Path("/a"), "exists"),
        (Path("/a"), "replace"),
        (io.TextIOWrapper(io.BytesIO()), "buffer"),
        (io.TextIOWrapper(io.BytesIO()), "detach"),
    ],
)
def test_what_leads_on_is_refused(functions: dict[str, Callable[..., Any]], value: object, name: str) -> None:
    for function in ("getattr", "hasattr"):
        with pytest.raises(PermissionError):
            functions[function](value, name)


def test_a_default_takes_the_place_of_what_is_missing_only(functions: dict[str, Callable[..., Any]]) -> None:
    assert functions["getattr"](Own(), "month", 1) == 1
    with pytest.raises(AttributeError):
        functions["getattr"](Own(), "month")
    with pytest.raises(PermissionError):
        functions["getattr"](generator, "__globals__", None)


def test_a_name_that_is_a_subclass_of_text_is_read_as_it_is(functions: dict[str, Callable[..., Any]]) -> None:
    class Sly(str):
        def __str__(self) -> str:
            return "upper"

        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    with pytest.raises(PermissionError):
        functions["getattr"](generator, Sly("__globals__"))
    with pytest.raises(TypeError):
        functions["getattr"](generator, 1)


def test_fields_are_set_and_taken_away_by_name(functions: dict[str, Callable[..., Any]]) -> None:
    own = Own()
    functions["setattr"](own, "month", 3)
    functions["delattr"](own, "year")
    assert functions["vars"](own) == {"buffer": "mine", "month": 3}


@pytest.mark.parametrize(
    ("value", "name"), [(math, "sqrt"), (Own(), "__class__"), (Own, "__match_args__"), (Own, "__dict__")]
)
def test_what_is_not_the_codes_own_is_not_changed(
    functions: dict[str, Callable[..., Any]], value: object, name: str
) -> None:
    with pytest.raises(PermissionError):
        functions["setattr"](value, name, 1)
    with pytest.raises(PermissionError):
        functions["delattr"](value, name)


@pytest.mark.parametrize("value", [math, Own, type(generator)])
def test_namespaces_of_modules_and_classes_are_not_given(
    functions: dict[str, Callable[..., Any]], value: object
) -> None:
    with pytest.raises(PermissionError):
        functions["vars"](value)


def test_a_formatter_follows_plain_attributes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Formatter, "get_field", Formatter.get_field)
    AttributeGuard().guard_formatter()
    assert Formatter().format("{0.year}-{a[0]:>3}", Own(), a=[1]) == "2024-  1"
    with pytest.raises(PermissionError):
        Formatter().get_field("0.__globals__", (generator,), {})
