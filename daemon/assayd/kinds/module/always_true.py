"""Decides by syntax alone whether an assertion holds regardless of the adapter.

True, "text", (x, "told"), 1 + 1 == 2, x == x, f(x) == f(x), x or True, len(x) >= 0, isinstance(x, object),
Adapter() is not None, hasattr(adapter, "transform")
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

_PURE = frozenset({"abs", "bool", "dict", "float", "int", "len", "list", "max", "min", "set", "sorted", "str",
                   "sum", "tuple", "type", "isinstance", "range"})  # fmt: skip
_MOST_NODES = 200
_SAME = ast.Eq | ast.Is | ast.LtE | ast.GtE


@dataclass(frozen=True, slots=True, kw_only=True)
class NameBindings:
    """The names that a test binds once. `kinds` maps names to new objects' classes, `values` to values."""

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
        kinds = {name: kind for name, value in values.items() if (kind := _called_class_name(value))}
        return cls(kinds=kinds, values=values)

    def value_of(self, node: ast.expr) -> ast.expr:
        """Return the value of a name that is bound once, or the name itself for a new object."""
        seen: set[str] = set()
        while isinstance(node, ast.Name) and node.id in self.values and node.id not in seen:
            seen.add(node.id)
            if node.id in self.kinds:
                break
            node = self.values[node.id]
        return node

    def class_of(self, node: ast.expr) -> str:
        """Return the class of an expression that creates a new object; return "" for other expressions."""
        return self.kinds.get(node.id, "") if isinstance(node, ast.Name) else _called_class_name(node)


def _called_class_name(node: ast.expr) -> str:
    """Return the name of a called class; a name with an initial capital letter is treated as a class."""
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
            return bool(made.class_of(node)) or _is_true_call(name, arguments, made, methods)
    return bool(made.class_of(node)) or _is_true_literal(node)


def _is_true_literal(node: ast.expr) -> bool:
    """Return whether a literal value is true."""
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
    if isinstance(op, _SAME) and _is_compared_with_itself(left, right, made):
        return True
    if isinstance(op, ast.IsNot | ast.NotEq) and _is_none(right) and made.class_of(left):
        return True
    if _is_length(left) and isinstance(op, ast.GtE | ast.Gt):
        return _read_number(right) < 0 or (_read_number(right) == 0 and isinstance(op, ast.GtE))
    if _is_length(right) and isinstance(op, ast.LtE | ast.Lt):
        return _read_number(left) < 0 or (_read_number(left) == 0 and isinstance(op, ast.LtE))
    return _is_constant(left) and _is_constant(right)  # The test passed, so the comparison is true.


def _is_compared_with_itself(left: ast.expr, right: ast.expr, made: NameBindings) -> bool:
    if _are_equal(left, right) and not _contains_call(left):
        return True
    return isinstance(left, ast.Name) and made.value_of(left) is made.value_of(right)


def repeats_method_call(node: ast.expr, made: NameBindings, methods: Collection[str]) -> bool:
    """Return whether an assertion compares a contract method with itself: ``a.get() == a.get()``.

    Such an assertion tests only adapters that keep state.
    """
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            one, other = made.value_of(left), made.value_of(right)
            calls = (each for each in ast.walk(one) if isinstance(each, ast.Call))
            named = any(isinstance(call.func, ast.Attribute) and call.func.attr in methods for call in calls)
            return named and _are_equal(one, other)
    return False


def _is_true_call(name: str, arguments: list[ast.expr], made: NameBindings, methods: Collection[str]) -> bool:
    match name, arguments:
        case "isinstance", [_, ast.Name(id="object")]:
            return True
        case "isinstance", [value, kind] if made.class_of(value):
            last = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
            return made.class_of(value) == last
        case ("hasattr", [_, ast.Constant(value=word)]) | ("callable", [ast.Attribute(attr=word)]):
            return word in methods
    return name in _PURE and bool(arguments) and all(map(_is_constant, arguments))


def _is_constant(node: ast.expr) -> bool:
    """Return whether a value is a complete literal."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) if name not in _PURE:
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
    """Return whether two expressions have equal syntax trees; treat very long ones as different."""
    long, other = (sum(1 for _ in ast.walk(each)) for each in (left, right))
    if long != other or long > _MOST_NODES:
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
