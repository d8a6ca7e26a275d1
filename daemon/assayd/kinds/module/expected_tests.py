"""Finds the tests in a file's source that pytest must collect, and the tests that it could collect.

    two functions test_a              tests.duplicate      (the first never runs)
    class TestA with __init__         tests.not_collectable
    async def test_a in a TestCase    tests.never_runs     (unittest calls it and doesn't await it)
    def test_a(): yield               tests.never_runs     (the framework skips generators)
    pytest_plugins = ["x"]            tests.hook
    def pytest_runtest_call(…)        tests.hook
    no test in any file               tests.none_found

This module also defines the payload of a module, with the facts read from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, Field

from assayd.kinds.module.imports import resolve_absolute
from assayd.kinds.module.mutants import Mutant
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.imports import finding_at

RULES = (
    Rule(
        id="tests.none_found",
        title="The module has no tests",
        help="Good: test_adapter.py with a function test_transform().",
    ),
    Rule(
        id="tests.duplicate",
        title="Two tests have the same name",
        severity=Severity.WARNING,
        help="Bad: test_a twice in one class. Good: unique names.",
    ),
    Rule(
        id="tests.not_collectable",
        title="The framework ignores a test class",
        severity=Severity.WARNING,
        help="Bad: class TestA with __init__. Good: def setup_method(self): ….",
    ),
    Rule(
        id="tests.never_runs",
        title="A collected test never runs its lines",
        help="Bad: async def test_a(self) in a unittest.TestCase. Good: in an IsolatedAsyncioTestCase.",
    ),
    Rule(
        id="tests.hook",
        title="A hook or plugin of the test framework",
        help="Bad: pytest_plugins = [...]. Good: fixtures in the test file.",
    ),
)
_CATEGORY = "test_failure"
_ASYNC_TEST_CASE = "IsolatedAsyncioTestCase"
_TEST_CASE_BASES = frozenset({"TestCase", _ASYNC_TEST_CASE})

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Trees = Mapping[str, ast.Module]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTests:
    """The tests of one file by name (``test_a``, ``TestA::test_a``).

    `certain` tests are always collected; `possible` tests depend on the file's behavior at run time.
    """

    certain: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _FoundTest:
    name: str
    certain: bool


def find_expected_tests(file: str, trees: Trees) -> ExpectedTests:
    """Return the tests of a file, including names imported from the module's other files."""
    found = list(_find_tests_in_block(trees[file].body, _FileContext(file=file, trees=trees), certain=True))
    certain = dict.fromkeys(one.name for one in found if one.certain)
    possible = dict.fromkeys(one.name for one in found if not one.certain and one.name not in certain)
    return ExpectedTests(certain=tuple(certain), possible=tuple(possible))


def check_tests(file: str, text: str, trees: Trees) -> Iterator[Finding]:
    """Yield the findings about the tests in one file and in the classes that it imports."""
    tree, where = trees[file], _FileContext(file=file, trees=trees)
    for finding in (
        *_check_hooks(text, tree),
        *_check_duplicates(text, tree.body),
        *_check_constructors(text, tree),
        *_check_unawaited_tests(text, tree.body, where),
    ):
        yield replace(finding, file=file, category=_CATEGORY)


def build_no_tests_finding(files: Sequence[str], methods: Sequence[str]) -> Finding:
    """Return the finding for a module without tests."""
    message = f"No test was found in {', '.join(files)}." if files else "The module has no file test_*.py."
    example = methods[0] if methods else "transform"
    return Finding(
        rule="tests.none_found",
        category=_CATEGORY,
        message=message,
        file=files[0] if files else None,
        suggestion=f"Write test_adapter.py with functions such as test_{example}().",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileContext:
    """A file of the module. `seen` lists the chain of files that import it."""

    file: str
    trees: Trees
    seen: tuple[str, ...] = ()

    def enter_file(self, file: str) -> _FileContext:
        return _FileContext(file=file, trees=self.trees, seen=(*self.seen, self.file))


def _find_tests_in_block(
    body: Sequence[ast.stmt], where: _FileContext, *, certain: bool
) -> Iterator[_FoundTest]:
    """Yield the tests that top-level statements of a file define."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _find_in_function(node, "", certain)
            case ast.ClassDef():
                yield from _find_in_class(node, "", where, certain)
            case ast.ImportFrom():
                yield from _find_imported(node, where)
            case ast.Assign(targets=targets):
                names = (target.id for target in targets if isinstance(target, ast.Name))
                yield from (_FoundTest(name, certain=False) for name in names if _is_test_name(name))
            case _:
                for block in _iter_conditional_blocks(node):
                    yield from _find_tests_in_block(block, where, certain=False)


def _find_in_function(node: Definition, prefix: str, certain: bool) -> Iterator[_FoundTest]:
    if node.name.startswith("test"):
        words = [_get_last_name(one) for one in node.decorator_list]
        if "fixture" not in words:
            yield _FoundTest(
                prefix + node.name,
                certain and all(_is_harmless_decorator(one) for one in node.decorator_list),
            )


def _find_in_class(
    node: ast.ClassDef, prefix: str, where: _FileContext, certain: bool
) -> Iterator[_FoundTest]:
    """Yield the tests of a class that pytest collects because of its name or as a unittest class."""
    unittests = _is_unittest(node, where)
    if not (node.name.startswith("Test") or unittests) or _disables_collection(node):
        return
    if not unittests and _find_constructor(node) is not None:
        return
    name = f"{prefix}{node.name}::"
    for one, kept in _iter_class_members(node, where, set()):
        if isinstance(one, ast.ClassDef):
            yield from _find_in_class(one, name, where, certain and kept)
        else:
            yield from _find_in_function(one, name, certain and kept)


def _iter_class_members(
    node: ast.ClassDef, where: _FileContext, seen: set[ast.ClassDef]
) -> Iterator[tuple[ast.ClassDef | Definition, bool]]:
    """Yield the members of a class, including members inherited from classes in the module's files."""
    seen.add(node)
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield one, True
        else:
            for block in _iter_conditional_blocks(one):
                for inner in block:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield inner, False
    for base in node.bases:
        found = _find_class(_get_last_name(base), where)
        if found is not None and found[0] not in seen:
            yield from _iter_class_members(*found, seen)


def _find_imported(node: ast.ImportFrom, where: _FileContext) -> Iterator[_FoundTest]:
    """Yield the tests that a file imports from another file of the module."""
    file = _find_imported_file(node, where)
    if file is None:
        return
    found = _find_tests_in_block(where.trees[file].body, where.enter_file(file), certain=False)
    wanted = {alias.name: alias.asname or alias.name for alias in node.names}
    for one in found:
        first, colons, rest = one.name.partition("::")
        if "*" in wanted or first in wanted:
            yield _FoundTest(f"{wanted.get(first, first)}{colons}{rest}", certain=False)


def _find_class(name: str, where: _FileContext) -> tuple[ast.ClassDef, _FileContext] | None:
    """Return the class with a given name, which the file defines or imports from another file.

    Return None if the module's files don't contain such a class.
    """
    for node in where.trees[where.file].body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node, where
        if isinstance(node, ast.ImportFrom) and (file := _find_imported_file(node, where)) is not None:
            for alias in node.names:
                if name == (alias.asname or alias.name) or alias.name == "*":
                    found = _find_class(name if alias.name == "*" else alias.name, where.enter_file(file))
                    if found is not None:
                        return found
    return None


def _find_imported_file(node: ast.ImportFrom, where: _FileContext) -> str | None:
    module = resolve_absolute(where.file, node)
    if module is None:
        return None
    path = module.replace(".", "/")
    candidates = (f"{path}.py", f"{path}/__init__.py")
    file = next((name for name in candidates if name in where.trees), None)
    return None if file in (*where.seen, where.file) else file


def _is_unittest(node: ast.ClassDef, where: _FileContext) -> bool:
    """Return whether a class is derived, directly or indirectly, from a unittest class."""
    return not _TEST_CASE_BASES.isdisjoint(_iter_base_names(node, where))


def _iter_base_names(node: ast.ClassDef, where: _FileContext) -> Iterator[str]:
    """Yield the names of a class's direct and indirect base classes. Resolve them in the module's files."""
    seen, pending = {node}, [(node, where)]
    while pending:
        node, where = pending.pop()
        for base in node.bases:
            word = _get_last_name(base)
            yield word
            found = _find_class(word, where)
            if found is not None and found[0] not in seen:
                seen.add(found[0])
                pending.append(found)


def _disables_collection(node: ast.ClassDef) -> bool:
    """Return whether a class sets ``__test__ = False``."""
    return any(
        isinstance(one, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__test__" for target in one.targets)
        and isinstance(one.value, ast.Constant)
        and one.value.value is False
        for one in node.body
    )


def _find_constructor(node: ast.ClassDef) -> ast.stmt | None:
    names = {"__init__", "__new__"}
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in names), None)


def _is_harmless_decorator(decorator: ast.expr) -> bool:
    """Return whether pytest is known to collect a test function that has this decorator."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    words = []
    while isinstance(target, ast.Attribute):
        words.append(target.attr)
        target = target.value
    words.append(target.id if isinstance(target, ast.Name) else "")
    return bool({"mark", "patch", "unittest", "skip", "skipIf", "skipUnless", "staticmethod"} & set(words))


def _get_last_name(node: ast.expr) -> str:
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _is_test_name(name: str) -> bool:
    return name.startswith(("test", "Test"))


def _iter_conditional_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement that run conditionally."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield inner.body


def _check_hooks(text: str, tree: ast.Module) -> Iterator[Finding]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("pytest_"):
                message = f"{name} is a hook of the test framework."
                yield finding_at(
                    node, text, "tests.hook", message, suggestion="Use a fixture in the test file."
                )
            case ast.Assign(targets=[ast.Name(id="pytest_plugins")]):
                message = "pytest_plugins loads plugins, which modules can't do."
                end = node.end_lineno or node.lineno
                edit = Edit(start_line=node.lineno, end_line=end, replacement="")
                found = finding_at(node, text, "tests.hook", message, suggestion="Remove it.")
                yield replace(found, edit=edit)
            case _:
                continue


def _check_duplicates(text: str, body: Sequence[ast.stmt]) -> Iterator[Finding]:
    seen: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            if node.name in seen:
                message = f"An earlier test named {node.name} never runs."
                yield finding_at(
                    node,
                    text,
                    "tests.duplicate",
                    message,
                    suggestion="Rename one: each test needs a unique name.",
                    severity=Severity.WARNING,
                )
            seen.add(node.name)
        elif isinstance(node, ast.ClassDef):
            yield from _check_duplicates(text, node.body)


def _check_unawaited_tests(text: str, body: Sequence[ast.stmt], where: _FileContext) -> Iterator[Finding]:
    """Yield the findings about tests whose bodies never run because they are coroutines or generators."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _check_yields(text, node)
        elif isinstance(node, ast.ClassDef):
            yield from _check_unawaited_methods(text, node, set(_iter_base_names(node, where)))


def _check_unawaited_methods(text: str, node: ast.ClassDef, bases: set[str]) -> Iterator[Finding]:
    if not (node.name.startswith("Test") or bases & _TEST_CASE_BASES):
        return
    calls_only = "TestCase" in bases and _ASYNC_TEST_CASE not in bases
    for one in node.body:
        if calls_only and isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("test"):
            message = f"{node.name} is a TestCase: it calls {one.name} without awaiting it."
            suggestion = f"Inherit from unittest.{_ASYNC_TEST_CASE}."
            yield finding_at(one, text, "tests.never_runs", message, suggestion=suggestion)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _check_yields(text, one)


def _check_yields(text: str, node: Definition) -> Iterator[Finding]:
    fixture = "fixture" in map(_get_last_name, node.decorator_list)
    if node.name.startswith("test") and not fixture and any(_find_own_yields(node)):
        message = f"{node.name} yields, so the framework ignores it."
        suggestion = "Remove yield from the test; move setup and teardown into a fixture."
        yield finding_at(node, text, "tests.never_runs", message, suggestion=suggestion)


def _find_own_yields(node: Definition) -> Iterator[ast.AST]:
    """Yield the yield expressions of a function, except those in nested functions."""
    pending: list[ast.AST] = [*node.body]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            yield one
        elif not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(one))


def _check_constructors(text: str, tree: ast.Module) -> Iterator[Finding]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            init = _find_constructor(node)
            if init is not None and not any(_get_last_name(base) in _TEST_CASE_BASES for base in node.bases):
                yield finding_at(
                    init,
                    text,
                    "tests.not_collectable",
                    f"{node.name} has {getattr(init, 'name', '')}, so the framework ignores its tests.",
                    suggestion="Write setup_method(self), or a fixture.",
                    severity=Severity.WARNING,
                )


class ModulePayload(BaseModel):
    """An adapter with its manifest and tests."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    manifest: dict[str, object] = Field(description="The manifest of the adapter.")
    files: dict[str, str] = Field(min_length=1, description="The adapter and its tests, by file name.")


class PreparedModule(ModulePayload):
    """A parsed module. `expected` contains the tests of each file.

    `methods` lists the methods of the adapter's classes with their first and last lines. `mutants` lists
    the changes that the tests should detect.
    """

    expected: dict[str, ExpectedTests]
    methods: dict[str, list[list[int]]] = Field(default_factory=dict)
    mutants: list[Mutant] = Field(default_factory=list)
