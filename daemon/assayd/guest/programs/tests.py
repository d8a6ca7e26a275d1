"""`tests`: run one hidden test against a solution in another process.

Arguments: `common` is the same for all tests of an attempt and has the fields `text`, `texts` (a list of
asserts), `context`, `entry_point`, `names` (the names that the text uses but doesn't define), `modules` and
`trusted`; `own` selects the test (`do` and its details). The solution's process exchanges messages with
this process over two pipes. The result record is described in docs/guest-protocol.md.

Test functions are run like pytest does, with parameter sets and simple fixtures, but without its session.
`pytest.raises`, `approx` and marks are used from pytest. Collection and reports are implemented here,
because pytest reads tests from files, but the tests of a solution aren't in a file.
"""

from __future__ import annotations

import sys

from .. import builtin_names
from ..failures import ShownText, clean_text, told
from ..peer import InvalidPeerMessageError
from ..requests import get_strings as strings
from ..tagged import render_tagged, restore_tagged
from ..values import is_real_subclass
from . import get_argument
from ._remote import RemoteObject, SolutionClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import CodeType

    from ..failures import Texts
    from ..reporter import Record
    from . import Context

    Names = dict[str, object]

builtin_names.isolate_builtins(globals())


_MAX_FIXTURE_DEPTH = 50

IN_PYTHON = True
PAIRED = True
"""Whether two further pipes connect this process with a solution's process."""
READING, WRITING = 5, 6
MODULE = "tests"
TEXT, CONTEXT = "tests.py", "context.py"
_AST_ONLY_FLAG = 0x400
_MAX_PRINTED_CHARS = 64 * 1024


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
        if name not in self._functions or deep > _MAX_FIXTURE_DEPTH:
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
    """Return the arguments of each run, combining the parameter sets of several marks.

    Without marks, return one run without arguments.
    """
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


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Run the test in this process, and return its result record.

    If the solution can't be imported, return the reason without running the test.
    """
    common, own = get_argument(arguments, "common", dict), get_argument(arguments, "own", dict)
    printed = _redirect_output()
    solution = SolutionClient(READING, WRITING, trusted=common.get("trusted") is True)
    broken = solution.open()
    if broken is not None:
        return {"status": "broken", "solution": broken, "fault": solution.fault}
    texts = {name: ShownText(name, str(common[key])) for name, key in ((TEXT, "text"), (CONTEXT, "context"))}
    runner = _TestRun(common, own, context, solution)
    try:
        runner.run()
    except BaseException as problem:  # noqa: BLE001 - tests raise to fail, and may raise anything
        record = _build_failure_record(problem, solution, texts)
    else:
        record = {"status": "returned" if solution.fault is None else "failed", "value": runner.value}
    last_call = "" if record["status"] == "returned" else clean_text(solution.describe_last_call())
    return {**record, "fault": solution.fault, "last_call": last_call, "printed": printed()}


def _redirect_output() -> Callable[[], str]:
    """Redirect the output of the tests to a limited buffer, and return a function that reads the buffer."""
    from _io import StringIO

    kept = sys.stdout = sys.stderr = StringIO()
    return lambda: clean_text(kept.getvalue()[:_MAX_PRINTED_CHARS]) if not kept.closed else ""


class _TestRun:
    """The run of one test, from the creation of its module to its end."""

    def __init__(
        self,
        common: Mapping[str, object],
        own: Mapping[str, object],
        context: Context,
        solution: SolutionClient,
    ) -> None:
        self._common, self._own = common, own
        self._policy = context.policy
        self._solution = solution
        self._entry = str(common["entry_point"])
        self.value: object = None

    def run(self) -> None:
        """Run the test, and raise any exception that it raises."""
        do = self._own["do"]
        names = self._create_module()
        if do == "case":
            return self._run_case(names)
        text = str(self._common["text"])
        if do == "item":
            text, filename = strings(self._common, "texts")[int(str(self._own["index"]))], TEXT
            self._execute(compile(str(self._common["text"]), TEXT, "exec", dont_inherit=True), names)
            return self._execute(compile(text, filename, "exec", dont_inherit=True), names)
        if do == "assert":
            return self._run_assertion(text, names)
        self._execute(compile(text, TEXT, "exec", dont_inherit=True), names)
        if do == "check":
            names["check"](names[self._entry])  # type: ignore[operator]
        elif do == "unittest":
            _run_method(names, str(self._own["class"]), str(self._own["method"]))
        elif do == "function":
            kind, chosen = str(self._own.get("class") or ""), self._own.get("set")
            run_function(names, str(self._own["name"]), chosen, kind, lambda: self._solution.asked)
        return None

    def _create_module(self) -> Names:
        """Create the tests' module: the context's names, others of the solution, and its entry point.

        Raises: NameError, if the solution doesn't define the entry point.
        """
        module = type(sys)(MODULE)
        names: Names = module.__dict__
        names["__builtins__"] = self._policy.builtins("full", TEXT)
        self._policy.builtins("full", CONTEXT)
        names["__file__"] = TEXT
        sys.modules[MODULE] = sys.modules["__main__"] = module
        sys.argv = [TEXT]
        self._execute(compile(str(self._common["context"]), CONTEXT, "exec", dont_inherit=True), names)
        self._solution.share(names)
        for name in strings(self._common, "names"):
            if name not in names and (found := self._solution.find_proxy(name)) is not None:
                names[name] = found
        entry = self._solution.find_proxy(self._entry)
        if entry is None:
            raise NameError(f"the solution defines no function or class {self._entry!r}")
        names[self._entry] = entry
        self._add_modules(entry, names)
        return names

    def _add_modules(self, entry: object, names: Names) -> None:
        """Add modules to `sys.modules` from which tests can import the solution's names."""
        for name in strings(self._common, "modules"):
            module = sys.modules[name] = type(sys)(name)
            module.__dict__["__getattr__"] = self._get_solution_name

    def _get_solution_name(self, name: str) -> object:
        found = self._solution.find_proxy(name)
        if found is None:
            raise AttributeError(f"the solution defines no function or class {name!r}")
        return found

    def _execute(self, code: CodeType, names: Names) -> None:
        exec(code, names)  # noqa: S102 - this is what the container is for

    def _run_assertion(self, text: str, names: Names) -> None:
        """Run the chosen assertion, after all preceding statements that aren't assertions."""
        tree = compile(text, TEXT, "exec", _AST_ONLY_FLAG, dont_inherit=True)
        left = int(str(self._own["index"]))
        body = []
        for statement in tree.body:
            if type(statement).__name__ == "Assert":
                left -= 1
                if left < 0:
                    body.append(statement)
                    break
            else:
                body.append(statement)
        tree.body = body
        self._execute(compile(tree, TEXT, "exec", dont_inherit=True), names)

    def _run_case(self, names: Names) -> None:
        args = [restore_tagged(value) for value in self._own["args"]]  # type: ignore[attr-defined]
        kwargs = {name: restore_tagged(value) for name, value in self._own["kwargs"].items()}  # type: ignore[attr-defined]
        found = render_tagged(names[self._entry](*args, **kwargs))  # type: ignore[operator]
        self.value = {"value": found.value, "notes": found.notes, "complete": found.complete}


def _run_method(names: Names, kind: str, method: str) -> None:
    """Run one method of a `TestCase`, and the set-up of its class and module.

    Raises: the exception of the test; Skipped; AssertionError, if the test didn't run or pass.
    """
    from unittest import TestResult, TestSuite

    result = TestResult()
    result.failfast = True
    held: list[BaseException] = []
    note = result._exc_info_to_string  # type: ignore[attr-defined]

    def keep(error: tuple[type, BaseException, object], test: object) -> str:
        held.append(error[1])
        return "" if test is None else str(note(error, test))

    result._exc_info_to_string = keep  # type: ignore[attr-defined]
    TestSuite([names[kind](method)]).run(result)  # type: ignore[operator]
    if held and not result.expectedFailures:
        raise held[0]
    if result.skipped:
        raise Skipped(result.skipped[0][1])
    if not result.wasSuccessful() or result.testsRun != 1:
        raise AssertionError("the test did not pass" if result.testsRun else "the test did not run")


def _build_failure_record(problem: BaseException, solution: SolutionClient, texts: Texts) -> Record:
    if is_skip_exception(problem) and not solution.asked:
        return {"status": "skipped", "message": clean_text(str(problem))}
    if is_real_subclass(problem, InvalidPeerMessageError):
        solution.refuse("The conversation with the solution broke")
    record: Record = {"status": "failed", "test": told(problem, texts)}
    if solution.raised is not None and solution.raised[0] is problem:
        record = {**record, "solution": solution.raised[1]}
    return record
