"""Runs test functions like pytest, with parameter sets and simple fixtures, but without its session.

`pytest.raises`, `approx` and marks are used from pytest. Collection and reports are implemented here,
because pytest reads tests from files, but the tests of a solution aren't in a file.
"""

from __future__ import annotations

import sys

from ._remote import RemoteObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_MOST_NESTED = 50


class Skipped(Exception):
    """An exception raised when a test skips itself."""


def is_skip_exception(problem: BaseException) -> bool:
    """Return whether an exception skips the test. Exceptions of the solution never do."""
    known = (("unittest", "SkipTest"), ("_pytest.outcomes", "Skipped"))
    classes = (getattr(sys.modules.get(module), name, Skipped) for module, name in known)
    return isinstance(problem, (Skipped, *classes))


class _FixtureSet:
    """The fixtures of a module. Each is created when a test requests it, and ended after the test."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._functions = {
            name: found for name, value in names.items() if (found := _unwrap_fixture(value)) is not None
        }
        self._made: dict[str, object] = {}
        self._open: list[Generator[object, None, None]] = []

    def get(self, name: str, deep: int = 0) -> object:
        if name in self._made:
            return self._made[name]
        if name not in self._functions or deep > _MOST_NESTED:
            raise LookupError(f"fixture {name!r} not found; fixtures must be functions of the tests")
        function = self._functions[name]
        made = function(**{each: self.get(each, deep + 1) for each in _get_parameter_names(function)})
        if type(made).__name__ == "generator":
            self._open.append(made)  # type: ignore[arg-type]
            made = next(made)  # type: ignore[call-overload]
        self._made[name] = made
        return made

    def set_up_autouse(self, names: Mapping[str, object]) -> None:
        for name in self._functions:
            if _is_autouse(names[name]):
                self.get(name)

    def end(self) -> None:
        for generator in reversed(self._open):
            next(generator, None)


def run_function(
    names: Mapping[str, object], name: str, parameter_set: object, kind: str, asked: Callable[[], int]
) -> None:
    """Run a test function, or a method of a plain class, with one or all of its parameter sets.

    If there are several sets, a set that skips itself isn't counted, unless it had already sent a request
    to the solution.
    """
    holder = names[kind]() if kind else None  # type: ignore[operator]
    function: Callable[..., object] = getattr(holder, name) if kind else names[name]  # type: ignore[assignment]
    _skip_by_mark(function)
    sets = _combine_parameter_sets(function)
    chosen = sets if parameter_set is None else [sets[int(str(parameter_set))]]
    skipped: list[BaseException] = []
    for given in chosen:
        before = asked()
        try:
            _run_once(names, holder, function, given)
        except BaseException as problem:
            if not is_skip_exception(problem) or asked() != before:
                raise
            skipped.append(problem)
    if skipped and len(skipped) == len(chosen):
        raise skipped[0]


def _run_once(
    names: Mapping[str, object],
    holder: object | None,
    function: Callable[..., object],
    given: Mapping[str, object],
) -> None:
    fixtures = _FixtureSet(names)
    fixtures.set_up_autouse(names)
    wanted = [each for each in _get_parameter_names(function) if each not in given]
    if holder is not None and hasattr(holder, "setup_method"):
        holder.setup_method()
    made = function(**given, **{each: fixtures.get(each) for each in wanted})
    if type(made).__name__ == "coroutine":
        import asyncio

        asyncio.run(made)  # type: ignore[arg-type]
    if holder is not None and hasattr(holder, "teardown_method"):
        holder.teardown_method()
    fixtures.end()


def _get_marks(function: object) -> list[object]:
    marks = getattr(function, "pytestmark", [])
    return marks if isinstance(marks, list) else [marks]


def _skip_by_mark(function: object) -> None:
    for mark in _get_marks(function):
        if mark.name == "skip" or (mark.name == "skipif" and mark.args and mark.args[0]):  # type: ignore[attr-defined]
            raise Skipped(str(mark.kwargs.get("reason", "")))  # type: ignore[attr-defined]


def _combine_parameter_sets(function: object) -> list[dict[str, object]]:
    """Return the arguments of each run. Combine the parameter sets of several marks."""
    sets: list[dict[str, object]] = [{}]
    for mark in _get_marks(function):
        if mark.name != "parametrize":  # type: ignore[attr-defined]
            continue
        asked, values = mark.args[:2] if len(mark.args) > 1 else (mark.args[0], mark.kwargs["argvalues"])  # type: ignore[attr-defined]
        keys = [key.strip() for key in asked.split(",")] if isinstance(asked, str) else list(asked)
        rows = [
            getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
            for value in values
        ]
        single = len(keys) == 1 and (not isinstance(asked, str) or "," not in asked)
        pairs = [
            dict(
                zip(
                    keys, row if not single or type(value).__name__ == "ParameterSet" else (row,), strict=True
                )
            )
            for row, value in zip(rows, values, strict=True)
        ]
        sets = [{**one, **other} for other in pairs for one in sets]
    return sets


def _get_parameter_names(function: Callable[..., object]) -> list[str]:
    plain = getattr(function, "__func__", function)
    code = plain.__code__
    names = list(code.co_varnames[: code.co_argcount])
    optional = len(plain.__defaults__ or ())
    wanted = names[: len(names) - optional] if optional else names
    return wanted[1:] if plain is not function else wanted


def _unwrap_fixture(value: object) -> Callable[..., object] | None:
    """Return the function of a fixture, in any supported version of pytest, otherwise None."""
    if "pytest" not in sys.modules or issubclass(type(value), (RemoteObject, type)):
        return None  # a fixture never comes from the solution, and the solution isn't asked for one
    function = getattr(value, "_fixture_function", None) or getattr(
        getattr(value, "__pytest_wrapped__", None), "obj", None
    )
    return function if callable(function) else None


def _is_autouse(value: object) -> bool:
    marker = getattr(value, "_fixture_function_marker", None) or getattr(
        value, "_pytestfixturefunction", None
    )
    return bool(getattr(marker, "autouse", False))
