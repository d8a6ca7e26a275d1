"""A plugin for the test framework that reports its events line by line, and detects replaced code.

The framework gives every caller access to its plugins. The plugin therefore consists only of functions
without attributes, and its hooks accept reports only in the order of a test's steps. If a test reports
additional events, or replaces code by which it is judged, this is noted in the record.

The code that decides the outcome of tests, i.e. the framework's, is checked between all steps of a test. If a
test replaces and restores code within one step, this can therefore affect only this test. Changes are
reported, but not prevented.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Mapping
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace

from .. import builtin_names
from ..builtin_names import hide_closure
from ..failures import clean_text, told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..failures import Texts
    from ..reporter import Record
    from ._modules import SubmittedFile

    Tell = Callable[[Record], None]

builtin_names.isolate_builtins(globals())


_REPLACEABLE_BUILTINS = frozenset({"__import__", "breakpoint", "input", "open", "print", "_"})
"""Built-in names that fixtures can replace for longer than one step."""
_CODE_TYPES = (
    FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property, partial, cached_property,
)  # fmt: skip

_EXTERNAL_CODE = (("sys", "exc_info"), ("asyncio", "BaseEventLoop"), ("asyncio", "SelectorEventLoop"))
"""Objects outside the framework's packages that decide outcomes or run tests."""

_Names = Mapping[str, object]
_get_bases = type.__dict__["__bases__"].__get__

MAX_TESTS = 1000
_CHECKED_PACKAGES = ("pytest", "_pytest", "pluggy", "pytest_asyncio", "unittest")
_MAX_NODEID_CHARS = 500
_MAX_CAPTURED_CHARS = 4000
_MAX_NOTES = 5
_STEP_PREFIX = "pytest_runtest_"
"""Prefix of the hooks for the steps of a test."""
_NEXT_BY_STEP = {None: "setup", "setup": "call", "call": "teardown"}
_GOOD_OUTCOMES = frozenset({"passed", "skipped", "xfailed", "xpassed"})
_SUCCESS_CODES = frozenset({0, 5})
"""Exit codes of the framework: success; no tests collected."""
_INTERNAL_ERROR = 3


class CodeSnapshot:
    """A snapshot of the code in packages: their modules, classes and base classes."""

    def __init__(self, packages: Iterable[str]) -> None:
        tops = frozenset(packages)
        self._modules = {name: module for name, module in _iter_modules() if name.partition(".")[0] in tops}
        classes: dict[type, None] = {}
        self._held: list[tuple[_Names, str, object, str]] = []
        for name, module in self._modules.items():
            for key, value in _iter_code_items(vars(module)):
                self._held.append((vars(module), key, value, f"{name}.{key}"))
                if isinstance(value, type) and value.__module__.partition(".")[0] in tops:
                    classes |= dict.fromkeys(value.__mro__)
        for name, key in _EXTERNAL_CODE:
            if (elsewhere := sys.modules.get(name)) is not None:
                value = vars(elsewhere)[key]
                self._held.append((vars(elsewhere), key, value, f"{name}.{key}"))
                if isinstance(value, type):
                    classes |= dict.fromkeys(value.__mro__)
        for kind in classes:
            self._held += [
                (vars(kind), key, value, f"{_name(kind)}.{key}")
                for key, value in _iter_code_items(vars(kind))
            ]
        self._keys = [(vars(kind), frozenset(vars(kind)), _name(kind)) for kind in classes]
        self._bases = [(kind, _get_bases(kind), _name(kind)) for kind in classes]
        self._held += [
            (vars(builtins), key, value, f"builtins.{key}")
            for key, value in vars(builtins).items()
            if key not in _REPLACEABLE_BUILTINS
        ]

    def broken(self) -> str | None:
        """Return the name of the first part that has changed, or None if no part has changed."""
        for names, key, value, name in self._held:
            if names.get(key) is not value:
                return name
        for names, keys, name in self._keys:
            if names.keys() != keys and (added := _find_new_code_names(names, keys)):
                return f"{name}.{added[0]}"
        for kind, bases, name in self._bases:
            if _get_bases(kind) is not bases:
                return f"{name}.__bases__"
        loaded = dict(_iter_modules())
        return next((name for name, module in self._modules.items() if loaded.get(name) is not module), None)


def iter_shadowed_attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the names and values of an object's attributes that shadow code of its class."""
    kinds = type(thing).__mro__
    for key, value in list(getattr(thing, "__dict__", {}).items()):
        found = next((vars(kind)[key] for kind in kinds if key in vars(kind)), None)
        if isinstance(found, _CODE_TYPES) and not isinstance(found, cached_property):
            yield key, value


def _find_new_code_names(names: _Names, keys: frozenset[str]) -> list[str]:
    """Return the new names that refer to code, or that the interpreter looks up implicitly."""
    code = dict(_iter_code_items(names))
    new = (key for key in names if key not in keys)
    return [key for key in new if key in code or key.startswith("__")]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _iter_modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType:
            yield name, module


def _iter_code_items(names: _Names) -> Iterator[tuple[str, object]]:
    for key, value in list(names.items()):
        if isinstance(value, _CODE_TYPES):
            yield key, value


class PytestReporter:
    """A reporter of the events in one session of the test framework."""

    def __init__(self, tell: Tell, texts: Texts, test: SubmittedFile) -> None:
        self._write = tell
        self._texts = texts
        self._test = test
        self._lines = 0
        self._notes: list[str] = []
        self._seen: set[str] = set()
        self._watched: _SessionSnapshot | None = None
        self._names: dict[str, str] = {}
        self._collected: list[str] = []
        self._ended: dict[str, str] = {}
        self._current: _RunningTest | None = None
        self._problem: BaseException | None = None
        self._whole = True

    def build_plugin(self) -> ModuleType:
        """Return the plugin that the framework registers."""
        hooks = (
            self.pytest_sessionstart, self.pytest_collection, self.pytest_exception_interact,
            self.pytest_runtest_logstart, self.pytest_runtest_makereport, self.pytest_runtest_logreport,
            self.pytest_keyboard_interrupt, self.pytest_internalerror,
        )  # fmt: skip
        plugin = ModuleType("assayd")
        plugin.__dict__.update({hook.__name__: _wrap_hook(hook) for hook in hooks})
        return plugin

    def record_failure(self, problem: BaseException) -> Record:
        """Report that the framework failed, and return the final record."""
        self._whole = False
        self._report_event("stopped", **told(problem, self._texts))
        return self.record(_INTERNAL_ERROR)

    def record(self, exit_code: int) -> Record:
        """Return the final record, which is sent after the lines.

        Its status is ``returned`` only if all collected tests ended in order without a failure or a note.
        """
        self._check_unchanged("after the last test")
        good = self._whole and not self._notes and exit_code in _SUCCESS_CODES
        good = (
            good and list(self._ended) == self._collected and _GOOD_OUTCOMES.issuperset(self._ended.values())
        )
        return {
            "status": "returned" if good else "failed",
            "framework": exit_code,
            "lines": self._lines,
            "collected": len(self._collected),
            "ended": len(self._ended),
            "notes": self._notes,
        }

    def pytest_sessionstart(self, session: Any) -> None:
        """Discard the framework's report, whose content this module reports instead."""
        session.config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collection(self, session: Any) -> bool:
        """Import the file and collect its tests, replacing the framework's search for files.

        If the import fails or there are too many tests, report this and collect none. Always return True.
        """
        self._watched = _SessionSnapshot(session)
        session.items = []
        try:
            module = import_module(self._test.name)
        except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
            self._report_not_imported(problem)
            return True
        self._check_unchanged("while the file was imported")
        items = list(_iter_tests(session, self._test.path, module))
        if len(items) > MAX_TESTS:
            self._whole = False
            self._report_event("too_many", count=len(items))
            return True
        session.items = items
        config = session.config
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=items)
        config.hook.pytest_collection_finish(session=session)
        session.testscollected = len(items)
        self._names = {
            item.nodeid: _make_unique_name(item.nodeid, number) for number, item in enumerate(items)
        }
        self._watched.store_tests({self._test_name(item.nodeid): item for item in items})
        self._collected = [self._test_name(item.nodeid) for item in items]
        self._report_event("collected", tests=self._collected)
        self._check_unchanged("while the tests were collected")
        return True

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Report a test that couldn't be collected. Ignore exceptions of other steps."""
        if getattr(report, "when", None) == "collect":
            self._whole = False
            self._report_event(
                "not_collected", id=_clean_node_id(node.nodeid), **told(call.excinfo.value, self._texts)
            )

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        """Report that a test has begun. If it isn't this test's turn, add a note to the record."""
        name = self._test_name(nodeid)
        if self._current is not None or len(self._ended) >= len(self._collected):
            self._add_note(f"{name} was begun when it was not its turn")
            return
        if name != self._collected[len(self._ended)]:
            self._add_note(f"{name} was begun in the place of {self._collected[len(self._ended)]}")
        self._check_unchanged(f"before {name}", name)
        self._current = _RunningTest(name)
        self._report_event("started", id=name)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Keep the exception of a step, since the framework's report contains only its text."""
        self._problem = call.excinfo.value if call.excinfo else None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Process the report of one step of a test.

        If the step isn't due, add a note to the record instead.
        """
        name, running = self._test_name(report.nodeid), self._current
        if running is None or running.name != name or running.due != report.when:
            self._add_note(f"{name} was reported when none of its steps had ended")
            return
        # The framework itself wraps coroutines when it calls them.
        self._check_unchanged(f"in {name} ({running.due})", name if running.due == "setup" else None)
        problem, self._problem = self._problem, None
        running.process_report(report, problem, self._texts)
        if running.due is None:
            self._current = None
            self._ended[name] = running.outcome
            self._report_event("ended", **running.line)

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Report that a test interrupted the session."""
        self._whole = False
        self._report_event("stopped", **told(excinfo.value, self._texts))

    def pytest_internalerror(self, excrepr: Any, excinfo: Any) -> None:
        """Report an internal error of the framework."""
        self._whole = False
        self._report_event("stopped", **told(excinfo.value, self._texts))

    def _test_name(self, nodeid: str) -> str:
        return self._names.get(nodeid) or _clean_node_id(nodeid)

    def _report_not_imported(self, problem: BaseException) -> None:
        skipped = isinstance(problem, import_module("pytest").skip.Exception)
        self._whole = skipped
        self._report_event("import_skipped" if skipped else "not_imported", **told(problem, self._texts))

    def _check_unchanged(self, when: str, test: str | None = None) -> None:
        broken = self._watched and self._watched.broken(test)
        if broken and broken not in self._seen:
            self._seen.add(broken)
            self._add_note(f"{broken} was exchanged {when}")

    def _add_note(self, text: str) -> None:
        if len(self._notes) < _MAX_NOTES:
            self._notes.append(clean_text(text))

    def _report_event(self, event: str, **fields: object) -> None:
        self._lines += 1
        self._write({"event": event, **fields})


class _RunningTest:
    """A test in progress, with its outcome so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due: str | None = "setup"
        self.outcome = "passed"
        self.line: dict[str, object] = {"id": name, "duration_s": 0.0}

    def process_report(self, report: Any, problem: BaseException | None, texts: Texts) -> None:
        """Record the report of the test's next step (setup, call or teardown)."""
        step = self.due
        self.due = _NEXT_BY_STEP.get(step)
        if step == "setup" and not report.passed:
            self.due = "teardown"
        outcome = _determine_outcome(report, step)
        if outcome != "passed" and self.outcome in {"passed", "xpassed"}:
            self.outcome = outcome
            self.line |= {"step": step, **_describe_outcome(report, problem, texts)}
        self.line["duration_s"] = float(self.line["duration_s"]) + float(report.duration)  # type: ignore[arg-type]
        if self.due is None:
            self.line |= {"outcome": self.outcome, **_get_captured_output(report)}


class _SessionSnapshot:
    """A snapshot of the parts of the framework that must not change while tests run."""

    def __init__(self, session: Any) -> None:
        self._seal = CodeSnapshot(_CHECKED_PACKAGES)
        self._session = session
        self._registered = dict(_iter_registered(session))
        self._items: dict[str, tuple[Any, dict[str, object]]] = {}

    def store_tests(self, items: Mapping[str, Any]) -> None:
        """Store the collected tests and their parts for later comparisons."""
        self._items = {name: (item, dict(_iter_item_parts(item, name))) for name, item in items.items()}

    def broken(self, test: str | None) -> str | None:
        """Return the name of the first changed part of the framework or this test, or None if unchanged."""
        item, held = self._items.get(test or "", (None, {}))
        for before, now in (
            (self._registered, dict(_iter_registered(self._session))),
            (held, dict(_iter_item_parts(item, test)) if item is not None else {}),
        ):
            for name in {**before, **now}:
                if now.get(name) is not before.get(name):
                    return name
        return self._seal.broken()


def _iter_registered(session: Any) -> Iterator[tuple[str, object]]:
    """Yield the plugins and hook functions that run tests, each with a name."""
    config = session.config
    manager = config.pluginmanager
    yield "the session's config", config
    yield "the config's hooks", config.hook
    yield "the plugin manager", manager
    yield "the plugin manager's hooks", manager.hook
    yield "how the plugin manager calls hooks", vars(manager).get("_inner_hookexec")
    for thing in (session, config, manager):
        for key, value in iter_shadowed_attributes(thing):
            yield f"{type(thing).__name__}.{key}", value
    for name, plugin in manager.list_name_plugin():
        yield f"the plugin {name}", plugin
    for name, caller in vars(manager.hook).items():
        # The config has a proxy that caches what it was asked for.
        proxied = vars(config.hook).get(name, caller) if name.startswith(_STEP_PREFIX) else caller
        yield f"the hook {name}", proxied
        yield f"how the hook {name} is called", getattr(caller, "_hookexec", None)
        for place, implementation in enumerate(getattr(caller, "get_hookimpls", tuple)()):
            yield f"function {place} of {name}", implementation.function


def _iter_item_parts(item: Any, name: str | None) -> Iterator[tuple[str, object]]:
    """Yield what pytest uses to run a test, with descriptions: its function, nodes and attributes."""
    own = getattr(item, "__dict__", {}).get("_obj")
    yield f"the function of {name}", own.__func__ if type(own) is MethodType else own
    for node in item.listchain():
        what = f"{type(node).__name__} of {name}"
        yield f"the session of {what}", node.session
        yield f"the config of {what}", node.config
        for key, value in iter_shadowed_attributes(node):
            yield f"{key} of {what}", value


def _iter_tests(session: Any, path: str, module: object) -> Iterator[Any]:
    """Yield the tests of a module that was already imported."""
    node = import_module("pytest").Module.from_parent(session, path=Path(path))
    # The original would import the file again. One of our functions would lead to our globals.
    node._getobj = partial(getattr, SimpleNamespace(module=module), "module")
    return iter(session.genitems(node))


def _wrap_hook(hook: Callable[..., object]) -> object:
    """Return a plain function for the framework. Through it, only the hook call is accessible."""
    names: dict[str, object] = {"__builtins__": {}, "told": hide_closure(hook)}
    parameters = ", ".join(inspect.signature(hook).parameters)
    text = f"def {hook.__name__}({parameters}): return told({parameters})"
    exec(compile(text, __file__, "exec"), names)  # noqa: S102 - made of the names above
    return names.pop(hook.__name__)


def _determine_outcome(report: Any, step: str | None) -> str:
    expected = hasattr(report, "wasxfail")
    if report.passed:
        return "xpassed" if expected and step == "call" else "passed"
    if report.skipped:
        return "xfailed" if expected else "skipped"
    return "failed" if step == "call" else "error"


def _describe_outcome(report: Any, problem: BaseException | None, texts: Texts) -> dict[str, object]:
    if report.skipped:
        found = report.longrepr
        reason = found[2] if isinstance(found, tuple) and len(found) == 3 else ""
        return {"reason": clean_text(str(getattr(report, "wasxfail", "") or reason))}
    if problem is None:
        return {"message": clean_text(str(report.longrepr or ""))}
    return dict(told(problem, texts))


def _get_captured_output(report: Any) -> dict[str, object]:
    return {name: _truncate_middle(str(getattr(report, f"cap{name}", ""))) for name in ("stdout", "stderr")}


def _truncate_middle(text: str) -> str:
    half = _MAX_CAPTURED_CHARS // 2
    if len(text) > _MAX_CAPTURED_CHARS:
        text = f"{text[:half]}\n[… {len(text) - _MAX_CAPTURED_CHARS} characters omitted …]\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _clean_node_id(nodeid: str) -> str:
    return clean_text(nodeid)[:_MAX_NODEID_CHARS]


def _make_unique_name(nodeid: str, number: int) -> str:
    """Return a name, truncated if it is long. In this case, a number makes it unique."""
    name = clean_text(nodeid)
    return name if len(name) <= _MAX_NODEID_CHARS else f"{name[: _MAX_NODEID_CHARS - 10]}…{number}"
