"""`tests`: run one hidden test against a solution in another process.

Arguments: `common` is the same for all tests of an attempt and has the fields `text`, `texts` (a list of
asserts), `context`, `entry_point`, `names` (the names that the text uses but doesn't define), `modules` and
`trusted`; `own` selects the test (`do` and its details). The solution's process exchanges messages with
this process over two pipes. The result record is described in docs/guest-protocol.md.
"""

from __future__ import annotations

import sys

from .. import builtin_names
from ..failures import ShownText, clean_text, told
from ..peer import InvalidPeerMessage
from ..requests import get_strings as strings
from ..tagged import render_tagged, restore_tagged
from ..values import is_real_subclass
from ._functions import Skipped, is_skip_exception, run_function
from ._remote import SolutionClient
from ._text import get_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from ..failures import Texts
    from ..reporter import Record
    from . import Context

    Names = dict[str, object]

builtin_names.isolate_builtins(globals())

IN_PYTHON = True
PAIRED = True
"""Whether a solution's process stands on the other end of two more pipes."""
READING, WRITING = 5, 6
MODULE = "tests"
TEXT, CONTEXT = "tests.py", "context.py"
_ONLY_TREE = 0x400
_MAX_PRINTED = 64 * 1024


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Run the test in this process, and return its result record."""
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
    return lambda: clean_text(kept.getvalue()[:_MAX_PRINTED]) if not kept.closed else ""


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
        """Create the tests' module: the context's names, others of the solution, and its entry point."""
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
        tree = compile(text, TEXT, "exec", _ONLY_TREE, dont_inherit=True)
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
    """Run one method of a `TestCase`, and the set-up of its class and module. Raises: any exception."""
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
    if is_real_subclass(problem, InvalidPeerMessage):
        solution.refuse("The conversation with the solution broke")
    record: Record = {"status": "failed", "test": told(problem, texts)}
    if solution.raised is not None and solution.raised[0] is problem:
        record = {**record, "solution": solution.raised[1]}
    return record
