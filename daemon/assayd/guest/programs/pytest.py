"""`pytest`: collect the tests of one file, and run them with the test framework of the image.

Arguments: modules (files, provided, decorators, base_classes), test, libraries; `covered`: the file whose
executed lines are reported; `first_failure`: stop at the first test that fails. The result is one JSON
object per line, written as the tests run; the last object is the record. See docs/guest-protocol.md.

For coverage, each block of a function reports its start. Except for a call that is added at the start of
each block, the adapter's text is compiled unchanged. The guest controls the result, which affects only
warnings.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

from .. import builtin_names
from . import get_argument
from ._modules import compile_unchanged, read_modules
from ._tests import PytestReporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType
    from typing import Any

    from ..reporter import Record
    from . import Context
    from ._modules import SubmittedFile, SubmittedModules

    Block = tuple[int, list[Any]]

builtin_names.isolate_builtins(globals())

_RECORDER_NAME = "@seen"
"""Name of the function that records a block's start. It isn't an identifier, so no text can use it."""
_MAX_BLOCKS_COVERED = 2000
_MAX_COVERAGE_CHARS = 20_000


class Coverage:
    """The code blocks of one file, with a record of those that were executed."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._seen: set[int] = set()

    def compile(self, one: SubmittedFile) -> tuple[CodeType, Mapping[str, object]]:
        """Return the code of a file, and the names that its blocks call.

        Raises: the compiler's exceptions.
        """
        ast = import_module("ast")
        tree = ast.parse(one.text, one.path)
        for number, (owner, body) in enumerate(_iter_blocks(ast, tree)):
            if number >= _MAX_BLOCKS_COVERED:
                break
            first = int(bool(owner) and _is_docstring(ast, body[0]))
            lines = [str(statement.lineno) for statement in body[first:]]
            self._blocks.append(" ".join((str(owner), *lines)))
            call = ast.Call(ast.Name(_RECORDER_NAME, ast.Load()), [ast.Constant(number)], [])
            body.insert(first, ast.fix_missing_locations(ast.copy_location(ast.Expr(call), body[0])))
        return compile(tree, one.path, "exec", dont_inherit=True), {_RECORDER_NAME: self._seen.add}

    def told(self) -> Mapping[str, str]:
        """Return all blocks and the executed blocks as strings, or an empty dict if they are too long."""
        blocks, seen = ";".join(self._blocks), " ".join(map(str, sorted(self._seen)))
        return {"blocks": blocks, "seen": seen} if len(blocks) + len(seen) < _MAX_COVERAGE_CHARS else {}


def _is_docstring(ast: Any, statement: Any) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _iter_blocks(ast: Any, tree: Any) -> Iterator[Block]:
    """Yield each block in a function, with the line of ``def`` for a function's body, otherwise with 0."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    pending = [(node, False) for node in tree.body]
    while pending:
        node, inside = pending.pop()
        is_function = isinstance(node, functions)
        inside = is_function or (inside and not isinstance(node, ast.ClassDef))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            pending += [(each, inside) for each in block]
            if inside and name not in {"handlers", "cases"}:
                yield node.lineno if is_function else 0, block


IN_PYTHON = True
_OPTIONS = (
    # No file in the work directory configures the test run.
    "-c", os.devnull, "--noconftest", "--strict-config",
    "-p", "no:cacheprovider", "-p", "no:doctest", "-p", "no:faulthandler", "-p", "no:junitxml", "-p",
    "no:legacypath", "-p", "no:nose", "-p", "no:pastebin", "-p", "no:setuponly", "-p", "no:setupplan", "-p",
    "no:stepwise",
    "--capture=tee-sys", "--tb=native", "-q", "--no-header",
)  # fmt: skip
_ASYNC = "pytest_asyncio.plugin"
_SCRATCH = ".pytest"
"""Directory of the tests' temporary folders, below the work directory."""


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Collect and run the tests, and return the final record. If the framework fails, record that."""
    framework = import_module("pytest")
    modules, test = read_modules(arguments), get_argument(arguments, "test", str)
    (one,) = (each for each in modules.files.values() if each.file == test)
    sys.modules["__main__"] = ModuleType("__main__")
    telling = PytestReporter(context.reporter.report_progress, modules.texts, one)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    coverage = Coverage() if "covered" in arguments else None
    offered = RewritingCompiler(modules, one, arguments.get("covered"), coverage)
    context.policy.block_os_exit()
    modules.offer(context.policy, offered.compile)
    try:
        options = [
            *_build_pytest_options(os.getcwd()),
            *(["--exitfirst"] if "first_failure" in arguments else []),
        ]
        code = int(framework.main([*options, one.path], plugins=[telling.build_plugin()]))
    except BaseException as problem:  # noqa: BLE001 - guest code ran, and may have taken the framework apart
        return telling.record_failure(problem)
    return {**telling.record(code), **(coverage.told() if coverage is not None else {})}


class RewritingCompiler:
    """A compiler of files that rewrites the tests' assertions, so that they report the compared values.

    In the `covered` file, each block reports its start.
    """

    def __init__(
        self, modules: SubmittedModules, test: SubmittedFile, covered: object, coverage: Coverage | None
    ) -> None:
        self._modules = modules
        self._covered = covered
        self._coverage = coverage
        self._test = test
        self._rewriting = import_module("_pytest.assertion.rewrite")

    def compile(self, one: SubmittedFile) -> tuple[CodeType, Mapping[str, object]]:
        """Return the code of a file, and the names that the rewritten assertions call."""
        if one is not self._test:
            watched = self._coverage if one.file == self._covered else None
            return compile_unchanged(one) if watched is None else watched.compile(one)
        ast = import_module("ast")
        tree = ast.parse(one.text, one.path)
        self._rewriting.rewrite_asserts(tree, one.text.encode(), one.path, None)
        helpers: dict[str, object] = {}
        for node in [node for node in tree.body if isinstance(node, ast.Import)]:
            for alias in node.names:
                if alias.asname and alias.asname.startswith("@"):
                    # The guarded importer would treat these as the submission's own modules.
                    helpers[alias.asname] = import_module(alias.name)
                    tree.body.remove(node)
        return compile(tree, one.path, "exec", dont_inherit=True), helpers


def _build_pytest_options(work: str) -> list[str]:
    options = [*_OPTIONS, f"--rootdir={work}", f"--basetemp={work}/{_SCRATCH}"]
    try:
        import_module(_ASYNC)
    except ImportError:
        return options
    return [*options, "-p", _ASYNC, "--asyncio-mode=auto"]
