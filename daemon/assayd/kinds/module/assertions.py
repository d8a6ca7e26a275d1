"""Finds tests that pass for any return values of the tested code. Reads only the source text.

    def test_a(): adapter.transform(raw)                    quality.no_assertion
    def test_a(): assert True, or x == x, or (x, "told")    quality.tautology
    try: assert …, then except Exception: pass              quality.swallowed
    def check_grade(): assert …, which no test calls        quality.not_run

A test is reported only if none of its assertions can fail. Source: docs/quality.md.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import or_

from assayd.findings.source_text import SplitText, line_at
from assayd.kinds.module.always_true import NameBindings, is_always_true, repeats_method_call
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import nodes_of

RULES = (
    Rule(
        id="quality.no_assertion",
        title="A test without an assertion",
        severity=Severity.WARNING,
        help="Bad: adapter.transform(raw). Good: assert adapter.transform(raw) == {…}.",
    ),
    Rule(
        id="quality.not_run",
        title="A test that pytest doesn't run",
        severity=Severity.WARNING,
        help="Bad: def check_grade(): assert …. Good: def test_grade(): assert ….",
    ),
    Rule(
        id="quality.tautology",
        title="A test whose assertions are always true",
        severity=Severity.WARNING,
        help="Bad: assert True; assert x == x. Good: assert adapter.transform(raw) == {…}.",
    ),
    Rule(
        id="quality.swallowed",
        title="A test that swallows its own failure",
        severity=Severity.WARNING,
        help="Bad: try: assert …, except Exception: pass. Good: let the assertion fail.",
    ),
)
_DEPTH = 4
_MOST_TESTS = 1000
_MOST_STATEMENTS = 20_000
"""Maximum statements of a whole file; a function's count once per call."""
_CHECKING = ("assert", "check", "verif", "expect", "should", "ensure", "must", "raises", "warns", "fail")
"""Name parts of functions that check something: functions defined elsewhere are trusted by these."""
_CATCH_ALL = frozenset({"Exception", "BaseException", "AssertionError"})
_OFF = frozenset({"skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure"})
Definition = ast.FunctionDef | ast.AsyncFunctionDef


def check_assertions(
    file: str, text: str, tree: ast.Module, methods: Collection[str], used: Collection[str]
) -> Iterator[Finding]:
    """Yield the findings about the tests of a file.

    Args:
        file: its name.
        text: its content.
        tree: its syntax tree.
        methods: attributes that every adapter has, so that asserting their existence proves nothing.
        used: the names that the module uses; see `find_used_names`.
    """
    yield from _not_run(file, text, tree, used)
    helpers = {node.name: node for node in nodes_of(tree) if isinstance(node, Definition)}
    budget = _StatementBudget(left=_MOST_STATEMENTS)
    read = [
        (test, list(_AssertionFinder(helpers=helpers, seen=(test.name,), budget=budget).block(test.body)))
        for test in islice(_tests(tree), _MOST_TESTS)
    ]
    plain = [_find_test_fault(test, found, frozenset(methods)) for test, found in read]
    if None in plain:  # Comparing a call with itself is fine in addition to a test that can fail.
        strict = [_find_test_fault(test, found, frozenset(methods), repeats=True) for test, found in read]
        plain = plain if None in strict else strict
    for verdict in plain:
        if verdict is not None:
            rule, message, suggestion, place = verdict
            warning = Severity.WARNING
            told = finding_at(place, text, rule, message, suggestion=suggestion, severity=warning)
            yield replace(told, file=file)


def find_used_names(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Return the names, attributes, imported names and strings in the files of a module."""
    used: set[str] = set()
    for node in chain.from_iterable(map(nodes_of, trees)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                used.add(name)
            case ast.Constant(value=str() as value):
                used.add(value)
            case _:
                pass
    return frozenset(used)


def _not_run(file: str, text: str, tree: ast.Module, used: Collection[str]) -> Iterator[Finding]:
    """Yield the findings about functions with assertions that neither pytest nor the module calls."""
    defined = [node for node in tree.body if isinstance(node, Definition)]
    fixtures = {one.name for one in defined if "fixture" in map(_last_name, one.decorator_list)}
    names = {one.name for one in defined}
    text = SplitText(text)
    for node in defined[:_MOST_TESTS]:
        if node.name.startswith(("test", "pytest_")) or node.name in used:
            continue
        known = {_last_name(each) for each in node.decorator_list}
        asked = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        if "parametrize" not in known and asked - fixtures:
            continue
        if known - {"parametrize", "asyncio", "anyio"} or not any(
            isinstance(one, ast.Assert) for one in node.body
        ):
            continue
        name = f"test_{node.name.removeprefix('check_').removeprefix('verify_')}"
        message = f"pytest doesn't run {node.name}: its name doesn't begin with `test_`."
        line, old = line_at(text, node.lineno) or "", f"def {node.name}("
        edit = None
        if line.count(old) == 1 and name not in names:
            new = line.replace(old, f"def {name}(")
            edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new)
            names.add(name)
        told = finding_at(
            node, text, "quality.not_run", message, suggestion=f"Name it `{name}`.", severity=Severity.WARNING
        )
        yield replace(told, file=file, edit=edit)


def _tests(tree: ast.Module) -> Iterator[Definition]:
    """Yield the test functions, and the methods of test classes, except disabled ones."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and not _is_disabled(node) else [node]
        for each in inner:
            if isinstance(each, Definition) and each.name.startswith("test") and not _is_disabled(each):
                yield each


def _is_disabled(node: Definition | ast.ClassDef) -> bool:
    return any(_last_name(each) in _OFF for each in node.decorator_list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assertion:
    """A location at which a test can fail. `test` is the asserted expression; None counts as fallible."""

    node: ast.AST
    test: ast.expr | None
    swallowed: bool


def _find_test_fault(
    test: Definition, found: Sequence[_Assertion], methods: frozenset[str], *, repeats: bool = False
) -> tuple[str, str, str, ast.AST] | None:
    """Return the rule, message, hint and node of a test's fault, or None if the test has no fault.

    If `repeats` is true, an assertion that compares a call with itself is treated as always true.
    """
    if not found:
        message = f"{test.name} has no assertion: it passes whatever the adapter returns."
        return "quality.no_assertion", message, "Assert the expected result: assert result == {…}.", test
    open_ones = [one for one in found if not one.swallowed]
    if not open_ones:
        message = f"{test.name} swallows its own failure: it passes even if its assertion fails."
        hint = "Remove the try, or catch only the exception that you expect: with pytest.raises(KeyError)."
        return "quality.swallowed", message, hint, found[0].node
    made = NameBindings.from_test(test)
    told = [one.test for one in open_ones if one.test is not None]
    true = [is_always_true(one, made, methods) for one in told]
    repeated = [repeats and repeats_method_call(one, made, methods) for one in told]
    if len(told) < len(open_ones) or not all(map(or_, true, repeated)):
        return None
    message = f"Every assertion of {test.name} is always true."
    if not all(true):
        message = f"{test.name} compares the adapter only with itself."
    hint = "Assert what the adapter returns: assert result == {…}."
    return "quality.tautology", message, hint, open_ones[0].node


@dataclass(slots=True, kw_only=True)
class _StatementBudget:
    """The number of statements that can still be read; when it reaches 0, tests are treated as correct."""

    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _AssertionFinder:
    """A finder of assertions. `helpers` lists the file's functions, and `seen` the calling functions."""

    helpers: Mapping[str, Definition]
    seen: tuple[str, ...]
    budget: _StatementBudget
    swallowed: bool = False

    def block(self, body: Sequence[ast.stmt]) -> Iterator[_Assertion]:
        """Yield the assertions that a block can reach, including those in functions that it calls."""
        for statement in body:
            yield from self._find_in_statement(statement)
            if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return

    def _find_in_statement(self, statement: ast.stmt) -> Iterator[_Assertion]:
        self.budget.left -= 1
        if self.budget.left < 0:
            yield _Assertion(node=statement, test=None, swallowed=False)
            return
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return  # Counted at its call.
            case ast.Assert() | ast.Raise():
                test = statement.test if isinstance(statement, ast.Assert) else None
                yield _Assertion(node=statement, test=test, swallowed=self.swallowed)
            case ast.If() | ast.While() if _is_false(statement.test):
                yield from self.block(statement.orelse)
                return
            case ast.Try():
                yield from self._find_in_try(statement)
                return
            case ast.With(items=items) | ast.AsyncWith(items=items) if any(map(_suppresses_all, items)):
                yield from replace(self, swallowed=True).block(statement.body)
                return
        yield from self._calls(statement)
        for block in _nested_blocks(statement):
            yield from self.block(block)

    def _find_in_try(self, node: ast.Try) -> Iterator[_Assertion]:
        hides = any(_catches_all(each) and not self._may_fail(each) for each in node.handlers)
        yield from (replace(self, swallowed=True) if hides else self).block(node.body)
        for block in (*(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            yield from self.block(block)

    def _may_fail(self, handler: ast.ExceptHandler) -> bool:
        return any(True for _ in self.block(handler.body))

    def _calls(self, node: ast.AST) -> Iterator[_Assertion]:
        """Yield the assertions in the functions that a statement's own expressions call."""
        for call in _calls(node):
            name = _last_name(call.func)
            helper = self.helpers.get(name)
            if helper is not None and name not in self.seen and len(self.seen) < _DEPTH:
                inner = replace(self, seen=(*self.seen, name)).block(helper.body)
                yield from (replace(one, test=None) for one in inner)
            elif helper is None and any(word in name.lower() for word in _CHECKING):
                yield _Assertion(node=call, test=_unittest_assertion(call, name), swallowed=self.swallowed)


def _catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _last_name(kind) in _CATCH_ALL for kind in kinds)


def _suppresses_all(item: ast.withitem) -> bool:
    node = item.context_expr
    named = isinstance(node, ast.Call) and _last_name(node.func) == "suppress"
    return named and any(_last_name(kind) in _CATCH_ALL for kind in getattr(node, "args", ()))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in an expression, or in a statement; skip the statement's blocks."""
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Call):
            yield each
        inner = (child for child in ast.iter_child_nodes(each) if not isinstance(child, ast.stmt))
        pending += [child for child in inner if not isinstance(child, ast.ExceptHandler | ast.match_case)]


def _nested_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for case in getattr(node, "cases", ()):
        yield case.body


def _unittest_assertion(call: ast.Call, name: str) -> ast.expr | None:
    """Return the expression that a unittest method asserts, or None if the expression is unknown."""
    match name, call.args:
        case "assertTrue" | "assert_", [value, *_]:
            return value
        case "assertFalse", [value, *_]:
            return ast.UnaryOp(op=ast.Not(), operand=value)
        case "assertEqual" | "assertEquals" | "assertIs", [left, right, *_]:
            return ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])
        case "assertIsNotNone", [value, *_]:
            return ast.Compare(left=value, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)])
        case "assertIsInstance", [value, kind, *_]:
            return ast.Call(func=ast.Name(id="isinstance", ctx=ast.Load()), args=[value, kind], keywords=[])
    return None


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _last_name(node: ast.expr | None) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
