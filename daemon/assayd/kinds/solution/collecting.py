"""Collects the tests in a source, and the solution's names that they use. No code is run.

Tests are recognized by their form: methods of `unittest` classes, test functions as collected by pytest, a
function `check`, and module-level assertions. A source that contains none of these forms is a single test.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from assayd.kinds.solution.payload import MAX_HIDDEN_TESTS, HiddenTest, SolutionPayload
from assayd.static.python.source import find_mentioned_modules

CHECK = "check"
_CASE_CLASS = "TestCase"
_INSTALLED = frozenset({"pytest", "typing_extensions", "pydantic", "hypothesis", "numpy", "pandas"})
_NON_SOLUTION_NAMES = frozenset(
    {*dir(builtins), *sys.stdlib_module_names, *dir(math), *dir(operator), *_INSTALLED}
)
"""Names that tests never get from the solution, because tests use them to judge it."""
_MAX_NAMES = 200
_PRELOADABLE = (
    "abc", "asyncio", "bisect", "collections", "collections.abc", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math",
    "operator",
    "pytest", "random", "re", "statistics", "string", "textwrap", "time", "typing", "unittest",
    "unittest.mock",
)  # fmt: skip


def collect_tests(payload: SolutionPayload, tree: ast.Module | None) -> tuple[HiddenTest, ...]:
    """Return a payload's tests in order, at most one above the limit `MAX_HIDDEN_TESTS`.

    `tree` is the tests' syntax tree, or None for cases and lists.
    """
    if payload.cases:
        return tuple(
            HiddenTest(name=case.name, do="case", details={"args": case.args, "kwargs": case.kwargs})
            for case in payload.cases
        )
    if isinstance(payload.tests, tuple):
        numbers = range(len(payload.tests))
        return tuple(HiddenTest(name=f"assert_{n + 1}", do="item", details={"index": n}) for n in numbers)
    found = [] if tree is None else list(_find_tests(tree))
    return tuple(found[: MAX_HIDDEN_TESTS + 1])


def _find_tests(tree: ast.Module) -> Iterator[HiddenTest]:
    found = [*_find_test_methods(tree), *_iter_function_tests(tree)]
    if found:
        yield from found
    elif any(isinstance(node, ast.FunctionDef) and node.name == CHECK for node in tree.body):
        yield HiddenTest(name=CHECK, do="check")
    else:
        yield from _find_assertions(tree)


def _find_assertions(tree: ast.Module) -> Iterator[HiddenTest]:
    """Yield each module-level assertion as a test, or a single test if one is in a loop or block.

    Code without assertions is a single test if it raises or calls anything, and otherwise no test.
    """
    plain = [node for node in tree.body if isinstance(node, ast.Assert)]
    blocks = [
        node for node in tree.body if isinstance(node, ast.For | ast.While | ast.If | ast.With | ast.Try)
    ]
    inner = any(isinstance(node, ast.Assert) for block in blocks for node in ast.walk(block))
    if inner or not plain:
        if any(isinstance(node, ast.Assert | ast.Raise | ast.Call) for node in ast.walk(tree)):
            yield HiddenTest(name="tests", do="all")
        return
    for index, node in enumerate(plain):
        yield HiddenTest(name=f"assert_line_{node.lineno}", do="assert", details={"index": index})


def _iter_function_tests(tree: ast.Module) -> Iterator[HiddenTest]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield from _iter_tests_of_function(node, "")
        elif (
            isinstance(node, ast.ClassDef)
            and node.name.startswith("Test")
            and not _is_test_case_class(node, tree)
        ):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                    yield from _iter_tests_of_function(inner, node.name)


def _iter_tests_of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, kind: str) -> Iterator[HiddenTest]:
    name = f"{kind}.{node.name}" if kind else node.name
    details: dict[str, object] = {"name": node.name, "class": kind}
    count = _count_parameter_sets(node)
    if count is None:
        yield HiddenTest(name=name, do="function", details=details)
        return
    for number in range(count):
        yield HiddenTest(name=f"{name}[{number}]", do="function", details={**details, "set": number})


def _count_parameter_sets(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int | None:
    """Return the number of a test's parameter sets, or None if it has none or they can't be parsed."""
    counts = []
    for decorator in node.decorator_list:
        if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.parametrize")):
            continue
        values = decorator.args[1] if len(decorator.args) > 1 else None
        if not isinstance(values, ast.List | ast.Tuple) or any(
            isinstance(v, ast.Starred) for v in values.elts
        ):
            return None
        counts.append(len(values.elts))
    return prod(counts) if counts else None


def _find_test_methods(tree: ast.Module) -> Iterator[HiddenTest]:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        if not _is_test_case_class(node, tree):
            continue
        for method in dict.fromkeys(_iter_test_method_names(node, classes)):
            yield HiddenTest(
                name=f"{name}.{method}", do="unittest", details={"class": name, "method": method}
            )


def _iter_test_method_names(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], deep: int = 0
) -> Iterator[str]:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test"):
            yield inner.name
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes and deep < len(classes):
            yield from _iter_test_method_names(classes[base.id], classes, deep + 1)


def _is_test_case_class(node: ast.ClassDef, tree: ast.Module, deep: int = 0) -> bool:
    names = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    if any(name.endswith(_CASE_CLASS) for name in names):
        return True
    own = (other for other in tree.body if isinstance(other, ast.ClassDef) and other.name in names)
    return deep < len(tree.body) and any(
        _is_test_case_class(other, tree, deep + 1) for other in own if other is not node
    )


def find_used_names(trees: Sequence[ast.Module]) -> tuple[str, ...]:
    """Return the names that tests use but don't define. Omit names that can't belong to the solution."""
    used: dict[str, None] = {}
    bound: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used[name] = None
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias():
                bound.add(node.asname or node.name.partition(".")[0])
            case _:
                pass
    return tuple(name for name in used if name not in bound and name not in _NON_SOLUTION_NAMES)[:_MAX_NAMES]


def find_solution_modules(trees: Sequence[ast.Module]) -> tuple[str, ...]:
    """Return the modules that tests import but no image contains. Such a module is the solution."""
    found: dict[str, None] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.partition(".")[0] not in sys.stdlib_module_names | _INSTALLED:
                found[name] = None
    return tuple(found)[:_MAX_NAMES]


def find_preload_modules(*texts: str) -> tuple[str, ...]:
    """Return the modules that the texts import and that should be preloaded for all processes."""
    imports = "\n".join(line for text in texts for line in text.splitlines() if "import" in line)
    return find_mentioned_modules(_PRELOADABLE, imports)
