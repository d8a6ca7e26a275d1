"""Finds tests that pass for any return values of the tested code. Reads only the source text.

    def test_a(): adapter.transform(raw)                    quality.no_assertion
    def test_a(): assert True, or x == x, or (x, "told")    quality.tautology
    try: assert …, then except Exception: pass              quality.swallowed
    def check_grade(): assert …, which no test calls        quality.not_run

A test is reported only if none of its assertions can fail. Source: docs/quality.md.

By syntax alone, these assertions hold regardless of the adapter:

True, "text", (x, "told"), 1 + 1 == 2, x == x, f(x) == f(x), x or True, len(x) >= 0, isinstance(x, object),
Adapter() is not None, hasattr(adapter, "transform")
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import or_

from assayd.findings.source_text import SplitText, get_line
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import list_nodes

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
_MAX_CALL_DEPTH = 4
_MAX_TESTS = 1000
_MAX_STATEMENTS = 20_000
"""Maximum statements of a whole file; a function's count once per call."""
_CHECKING_WORDS = (
    "assert",
    "check",
    "verif",
    "expect",
    "should",
    "ensure",
    "must",
    "raises",
    "warns",
    "fail",
)
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
    yield from _find_unreached_tests(file, text, tree, used)
    helpers = {node.name: node for node in list_nodes(tree) if isinstance(node, Definition)}
    budget = _StatementBudget(left=_MAX_STATEMENTS)
    read = [
        (
            test,
            list(
                _AssertionFinder(helpers=helpers, seen=(test.name,), budget=budget).iter_block_assertions(
                    test.body
                )
            ),
        )
        for test in islice(_iter_tests(tree), _MAX_TESTS)
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
    for node in chain.from_iterable(map(list_nodes, trees)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                used.add(name)
            case ast.Constant(value=str() as value):
                used.add(value)
            case _:
                pass
    return frozenset(used)


def _find_unreached_tests(file: str, text: str, tree: ast.Module, used: Collection[str]) -> Iterator[Finding]:
    """Yield the findings about functions with assertions that neither pytest nor the module calls."""
    defined = [node for node in tree.body if isinstance(node, Definition)]
    fixtures = {one.name for one in defined if "fixture" in map(_get_last_name, one.decorator_list)}
    names = {one.name for one in defined}
    text = SplitText(text)
    for node in defined[:_MAX_TESTS]:
        if node.name.startswith(("test", "pytest_")) or node.name in used:
            continue
        known = {_get_last_name(each) for each in node.decorator_list}
        asked = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        if "parametrize" not in known and asked - fixtures:
            continue
        if known - {"parametrize", "asyncio", "anyio"} or not any(
            isinstance(one, ast.Assert) for one in node.body
        ):
            continue
        name = f"test_{node.name.removeprefix('check_').removeprefix('verify_')}"
        message = f"pytest doesn't run {node.name}: its name doesn't begin with `test_`."
        line, old = get_line(text, node.lineno) or "", f"def {node.name}("
        edit = None
        if line.count(old) == 1 and name not in names:
            new = line.replace(old, f"def {name}(")
            edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new)
            names.add(name)
        told = finding_at(
            node, text, "quality.not_run", message, suggestion=f"Name it `{name}`.", severity=Severity.WARNING
        )
        yield replace(told, file=file, edit=edit)


def _iter_tests(tree: ast.Module) -> Iterator[Definition]:
    """Yield the test functions, and the methods of test classes, except disabled ones."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and not _is_disabled(node) else [node]
        for each in inner:
            if isinstance(each, Definition) and each.name.startswith("test") and not _is_disabled(each):
                yield each


def _is_disabled(node: Definition | ast.ClassDef) -> bool:
    return any(_get_last_name(each) in _OFF for each in node.decorator_list)


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
    """The number of statements that can still be read. When it reaches 0, tests are treated as correct."""

    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _AssertionFinder:
    """A finder of assertions. `helpers` lists the file's functions, and `seen` the calling functions."""

    helpers: Mapping[str, Definition]
    seen: tuple[str, ...]
    budget: _StatementBudget
    swallowed: bool = False

    def iter_block_assertions(self, body: Sequence[ast.stmt]) -> Iterator[_Assertion]:
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
                yield from self.iter_block_assertions(statement.orelse)
                return
            case ast.Try():
                yield from self._find_in_try(statement)
                return
            case ast.With(items=items) | ast.AsyncWith(items=items) if any(map(_suppresses_all, items)):
                yield from replace(self, swallowed=True).iter_block_assertions(statement.body)
                return
        yield from self._iter_called_assertions(statement)
        for block in _iter_nested_blocks(statement):
            yield from self.iter_block_assertions(block)

    def _find_in_try(self, node: ast.Try) -> Iterator[_Assertion]:
        hides = any(_catches_all(each) and not self._may_fail(each) for each in node.handlers)
        yield from (replace(self, swallowed=True) if hides else self).iter_block_assertions(node.body)
        for block in (*(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            yield from self.iter_block_assertions(block)

    def _may_fail(self, handler: ast.ExceptHandler) -> bool:
        return any(True for _ in self.iter_block_assertions(handler.body))

    def _iter_called_assertions(self, node: ast.AST) -> Iterator[_Assertion]:
        """Yield the assertions in the functions that a statement's own expressions call."""
        for call in _iter_calls(node):
            name = _get_last_name(call.func)
            helper = self.helpers.get(name)
            if helper is not None and name not in self.seen and len(self.seen) < _MAX_CALL_DEPTH:
                inner = replace(self, seen=(*self.seen, name)).iter_block_assertions(helper.body)
                yield from (replace(one, test=None) for one in inner)
            elif helper is None and any(word in name.lower() for word in _CHECKING_WORDS):
                yield _Assertion(
                    node=call, test=_extract_unittest_assertion(call, name), swallowed=self.swallowed
                )


def _catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _get_last_name(kind) in _CATCH_ALL for kind in kinds)


def _suppresses_all(item: ast.withitem) -> bool:
    node = item.context_expr
    named = isinstance(node, ast.Call) and _get_last_name(node.func) == "suppress"
    return named and any(_get_last_name(kind) in _CATCH_ALL for kind in getattr(node, "args", ()))


def _iter_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in an expression, or in a statement. Skip the statement's blocks."""
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Call):
            yield each
        inner = (child for child in ast.iter_child_nodes(each) if not isinstance(child, ast.stmt))
        pending += [child for child in inner if not isinstance(child, ast.ExceptHandler | ast.match_case)]


def _iter_nested_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for case in getattr(node, "cases", ()):
        yield case.body


def _extract_unittest_assertion(call: ast.Call, name: str) -> ast.expr | None:
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


def _get_last_name(node: ast.expr | None) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


_PURE_BUILTINS = frozenset({"abs", "bool", "dict", "float", "int", "len", "list", "max", "min", "set",
                   "sorted", "str", "sum", "tuple", "type", "isinstance", "range"})  # fmt: skip
_MAX_NODES = 200
_REFLEXIVE_OPS = ast.Eq | ast.Is | ast.LtE | ast.GtE


@dataclass(frozen=True, slots=True, kw_only=True)
class NameBindings:
    """The names that a test binds once.

    `kinds` maps a name to the class of its new object; `values` maps a name to its value expression.
    """

    kinds: dict[str, str]
    values: dict[str, ast.expr]

    @classmethod
    def from_test(cls, test: ast.FunctionDef | ast.AsyncFunctionDef) -> NameBindings:
        """Return the names that a test binds exactly once, by an assignment."""
        values: dict[str, ast.expr] = {}
        bindings: Counter[str] = Counter()
        for node in ast.walk(test):
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    bindings[name] += 1
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = value
        values = {name: value for name, value in values.items() if bindings[name] == 1}
        kinds = {name: kind for name, value in values.items() if (kind := _get_called_class_name(value))}
        return cls(kinds=kinds, values=values)

    def resolve_value(self, node: ast.expr) -> ast.expr:
        """Follow names to the expression that they are bound to. Stop at a name of a new object."""
        seen: set[str] = set()
        while isinstance(node, ast.Name) and node.id in self.values and node.id not in seen:
            seen.add(node.id)
            if node.id in self.kinds:
                break
            node = self.values[node.id]
        return node

    def resolve_class(self, node: ast.expr) -> str:
        """Return the class of an expression that creates a new object. Return "" for other expressions."""
        return self.kinds.get(node.id, "") if isinstance(node, ast.Name) else _get_called_class_name(node)


def _get_called_class_name(node: ast.expr) -> str:
    """Return the name of a called class. A name with an initial capital letter is treated as a class."""
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name if name[:1].isupper() and not name.isupper() else ""


def is_always_true(node: ast.expr, made: NameBindings, methods: Collection[str]) -> bool:
    """Return whether an assertion of this expression always passes.

    Args:
        node: the asserted expression.
        made: the names that the test binds exactly once.
        methods: attributes that every adapter has.
    """
    match node:
        case ast.BoolOp(op=op, values=values):
            judged = (is_always_true(value, made, methods) for value in values)
            return any(judged) if isinstance(op, ast.Or) else all(judged)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _is_true_comparison(left, op, right, made)
        case ast.Call(func=ast.Name(id="bool"), args=[value]):
            return is_always_true(value, made, methods)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return bool(made.resolve_class(node)) or _is_true_call(name, arguments, made, methods)
    return bool(made.resolve_class(node)) or _is_true_literal(node)


def _is_true_literal(node: ast.expr) -> bool:
    """Return whether an expression is a literal with a true value."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_constant(operand) and _is_empty(operand)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.JoinedStr(values=parts):
            return any(isinstance(part, ast.Constant) for part in parts)
    return isinstance(node, ast.Lambda) or (_is_constant(node) and not _is_empty(node))


def _is_true_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, made: NameBindings) -> bool:
    if isinstance(op, _REFLEXIVE_OPS) and _is_compared_with_itself(left, right, made):
        return True
    if isinstance(op, ast.IsNot | ast.NotEq) and _is_none(right) and made.resolve_class(left):
        return True
    if _is_length(left) and isinstance(op, ast.GtE | ast.Gt):
        return _read_number(right) < 0 or (_read_number(right) == 0 and isinstance(op, ast.GtE))
    if _is_length(right) and isinstance(op, ast.LtE | ast.Lt):
        return _read_number(left) < 0 or (_read_number(left) == 0 and isinstance(op, ast.LtE))
    return _is_constant(left) and _is_constant(right)  # The test passed, so the comparison is true.


def _is_compared_with_itself(left: ast.expr, right: ast.expr, made: NameBindings) -> bool:
    if _are_equal(left, right) and not _contains_call(left):
        return True
    return isinstance(left, ast.Name) and made.resolve_value(left) is made.resolve_value(right)


def repeats_method_call(node: ast.expr, made: NameBindings, methods: Collection[str]) -> bool:
    """Return whether an assertion compares a contract method with itself: ``a.get() == a.get()``.

    Such an assertion tests only adapters that keep state.
    """
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            one, other = made.resolve_value(left), made.resolve_value(right)
            calls = (each for each in ast.walk(one) if isinstance(each, ast.Call))
            named = any(isinstance(call.func, ast.Attribute) and call.func.attr in methods for call in calls)
            return named and _are_equal(one, other)
    return False


def _is_true_call(name: str, arguments: list[ast.expr], made: NameBindings, methods: Collection[str]) -> bool:
    match name, arguments:
        case "isinstance", [_, ast.Name(id="object")]:
            return True
        case "isinstance", [value, kind] if made.resolve_class(value):
            last = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
            return made.resolve_class(value) == last
        case ("hasattr", [_, ast.Constant(value=word)]) | ("callable", [ast.Attribute(attr=word)]):
            return word in methods
    return name in _PURE_BUILTINS and bool(arguments) and all(map(_is_constant, arguments))


def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression contains only literals and pure built-in functions."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) if name not in _PURE_BUILTINS:
                return False
            case ast.Attribute() | ast.Await() | ast.Lambda() | ast.NamedExpr():
                return False
    return True


def _is_empty(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.Tuple(elts=[]) | ast.List(elts=[]) | ast.Dict(keys=[]) | ast.JoinedStr(values=[]):
            return True
    return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _are_equal(left: ast.expr, right: ast.expr) -> bool:
    """Return whether two expressions have equal syntax trees. Treat very long ones as different."""
    long, other = (sum(1 for _ in ast.walk(each)) for each in (left, right))
    if long != other or long > _MAX_NODES:
        return False
    return ast.dump(left) == ast.dump(right)


def _contains_call(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Call | ast.Await) for inner in ast.walk(node))


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _read_number(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    return float("nan")
