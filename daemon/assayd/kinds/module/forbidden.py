"""Finds uses of forbidden names in a module by resolving expressions instead of comparing spellings.

    os.system("id")                       forbidden.name
    from os import system                 forbidden.name
    o = os; o.system("id")                forbidden.name
    def f(o=os): o.system("id")           forbidden.name
    pathlib.os.system("id")               forbidden.name      (a module that another brings along)
    getattr(os, "system")                 forbidden.name
    sys.modules["os"].system              forbidden.name      (sys.modules, and values from it)
    vars(os)["system"]                    forbidden.name
    run = eval                            forbidden.name
    getattr(os, name)                     attribute.dynamic
    vars(os)[name]                        attribute.dynamic
    f.__globals__                         attribute.internal
    getattr(f, "__globals__")             attribute.internal
    __builtins__["eval"]                  name.dunder

The check follows names through imports and plain assignments. The run-time policy checks computed names.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from assayd.model.finding import Finding, Rule
from assayd.static.python.imports import finding_at
from assayd.static.python.names import normalize_name
from assayd.static.python.scopes import NodeSite, Scope, ScopedTree, resolve_name

RULES = (
    Rule(
        id="forbidden.name",
        profile_key="adapter.forbidden",
        title="A name that the contract forbids",
        help="Bad: os.system(…), eval(…). Good: the replacement in the suggestion.",
    ),
)

_CATEGORY = "forbidden_name"
_BUILTINS = frozenset(vars(builtins))
_INTERNAL_ATTRIBUTES = frozenset(
    {
        "__builtins__", "__closure__", "__code__", "__globals__", "__loader__", "__self__", "__spec__",
        "__subclasses__", "ag_await", "ag_code", "ag_frame", "cr_await", "cr_code", "cr_frame", "f_back",
        "f_builtins", "f_code", "f_globals", "f_locals", "f_trace", "get_stack", "gi_code", "gi_frame",
        "gi_yieldfrom", "tb_frame", "tb_next",
    }
)  # fmt: skip
"""Attributes that lead from an object to frames, code and namespaces."""
_NAMESPACES = frozenset({"__builtins__", "__loader__", "__spec__"})
_HINT_BY_NAME = {
    "eval": "Use json.loads for data.",
    "exec": "Write the code directly.",
    "compile": "Use re.compile for patterns; write other code directly.",
    "__import__": "Write an import statement.",
    "importlib": "Write an import statement.",
    "sys.modules": 'Use unittest.mock.patch.dict("sys.modules", …) in tests.',
    "sys": "Remove access to the interpreter's state.",
    "os._exit": "Let the code end normally.",
    "os": "Remove other processes and foreign descriptors; open files with open().",
    "subprocess": "Remove calls of other programs.",
    "shutil.rmtree": "Use the tmp_path fixture in tests; pytest removes it.",
    "pytest": "Use fixtures; hooks belong to plugins.",
}
_MAX_ASSIGNMENT_STEPS = 3
_MAX_CHAIN = 8


@dataclass(slots=True, kw_only=True)
class _FileNames:
    """One file, with the dotted names to which each of its names can refer."""

    text: str
    tree: ScopedTree
    forbidden: frozenset[str]
    own: frozenset[str]
    aliases: dict[str, set[str]] = field(default_factory=dict)

    def resolve_dotted(self, node: ast.AST, scope: Scope) -> set[str]:
        """Return the dotted names to which an expression can refer, or an empty set if they are unknown."""
        match node:
            case ast.Name(id=name):
                return self._resolve_name(name, scope)
            case ast.Attribute(value=value, attr=attr):
                return set(_append_attribute(self.resolve_dotted(value, scope), attr))
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
                return set(_look_up_items(self.resolve_dotted(value, scope), key))
            case ast.Call():
                return self._resolve_call(node, scope)
            case _:
                return {
                    name
                    for choice in _list_possible_values(node)
                    for name in self.resolve_dotted(choice, scope)
                }

    def which(self, names: Iterable[str]) -> str | None:
        """Return the first forbidden name among the possible meanings of an expression, or None."""
        for name in sorted(names):
            parts = name.split(".")
            own = parts[0] in self.own
            for start in range(len(parts)):
                tail = ".".join(parts[start:])
                if tail in self.forbidden and not (own and "." not in tail):
                    return tail
        return None

    def find_forbidden_module(self, names: Iterable[str]) -> str | None:
        """Return the last part of a name, if a module with forbidden attributes is called that, or None."""
        prefixes = {entry.rpartition(".")[0] for entry in self.forbidden} - {""}
        lasts = (name.rpartition(".")[2] for name in sorted(names))
        return next((name for name in lasts if name in prefixes), None)

    def resolve_assignments(self) -> None:
        """Resolve names through plain assignments, up to a few steps."""
        for _ in range(_MAX_ASSIGNMENT_STEPS):
            before = sum(map(len, self.aliases.values()))
            for site in self.tree.sites:
                for target, value in _iter_simple_assignments(site.node):
                    if names := self.resolve_dotted(value, site.scope):
                        self.aliases.setdefault(target, set()).update(names)
            if sum(map(len, self.aliases.values())) == before:
                return

    def _resolve_name(self, name: str, scope: Scope) -> set[str]:
        if name == "__builtins__":
            return {"builtins"}
        found = resolve_name(name, scope)
        names = {o.module if o.name is None else f"{o.module}.{o.name}" for o in found.origins}
        names |= self.aliases.get(name, set())
        if found.may_be_builtin and not names and normalize_name(name) in _BUILTINS:
            names = {f"builtins.{normalize_name(name)}"}
        return names

    def _resolve_call(self, node: ast.Call, scope: Scope) -> set[str]:
        """Return the possible results of a call that looks up an object by its name.

        Return an empty set for other calls.
        """
        function = self.resolve_dotted(node.func, scope)
        first, *others = node.args or [ast.Constant(value=None)]
        if "builtins.getattr" in function and others:
            return set(_append_attribute(self.resolve_dotted(first, scope), _get_literal_text(others[0])))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__getattribute__":
            return set(
                _append_attribute(self.resolve_dotted(node.func.value, scope), _get_literal_text(first))
            )
        if function & {"builtins.__import__", "importlib.import_module", "pytest.importorskip"}:
            return {_get_literal_text(first) or ""} - {""}
        if "builtins.vars" in function:
            return set(_append_attribute(self.resolve_dotted(first, scope), "__dict__"))
        if isinstance(node.func, ast.Call) and "operator.attrgetter" in self.resolve_dotted(
            node.func.func, scope
        ):
            names = [_get_literal_text(arg) for arg in node.func.args]
            return {
                found
                for name in names
                for found in _append_attribute(self.resolve_dotted(first, scope), name)
            }
        return set()


def check_forbidden(
    file: str, text: str, tree: ScopedTree, forbidden: Iterable[str], own: Iterable[str]
) -> Iterator[Finding]:
    """Yield the findings about all names of one file.

    Args:
        file: the name of the file.
        text: the content of the file.
        tree: the syntax tree of the file, with scopes.
        forbidden: modules, attributes of modules, and builtins.
        own: the top-level packages of the module's own files, whose names can be any single word.
    """
    entries = frozenset(f"builtins.{name}" if name in _BUILTINS else name for name in forbidden)
    read = _FileNames(text=text, tree=tree, forbidden=entries, own=frozenset(own))
    read.resolve_assignments()
    for site in tree.sites:
        for finding in _check_node(read, site):
            yield replace(finding, file=file, category=_CATEGORY)


def _check_node(read: _FileNames, site: NodeSite) -> Iterator[Finding]:
    node = site.node
    match node:
        case ast.ImportFrom(level=0, module=str(module)):
            for alias in node.names:
                if name := read.which({f"{module}.{alias.name}"}):
                    yield _build_forbidden_finding(read, node, name)
        case ast.Name(ctx=ast.Load()):
            if node.id in _NAMESPACES:
                message = f"The special name {node.id!r} isn't allowed."
                yield finding_at(node, read.text, "name.dunder", message, suggestion="Remove it.")
            elif name := read.which(
                n for n in read.resolve_dotted(node, site.scope) if n.startswith("builtins.")
            ):
                yield _build_forbidden_finding(read, node, name)
        case ast.Attribute():
            yield from _check_attribute(read, node, site.scope)
        case ast.Subscript() | ast.Call():
            yield from _check_dynamic_access(read, node, site.scope)
        case _:
            return


def _check_attribute(read: _FileNames, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    if name := read.which(read.resolve_dotted(node, scope)):
        yield _build_forbidden_finding(read, node, name)
    elif normalize_name(node.attr) in _INTERNAL_ATTRIBUTES:
        message = f"{node.attr!r} exposes the internals of running code."
        yield finding_at(node, read.text, "attribute.internal", message, suggestion="Remove it.")


def _check_dynamic_access(
    read: _FileNames, node: ast.Call | ast.Subscript, scope: Scope
) -> Iterator[Finding]:
    """Yield findings about access by name: from a mapping, or by getattr and similar functions."""
    if name := read.which(read.resolve_dotted(node, scope)):
        yield _build_forbidden_finding(read, node, name)
        return
    if revealing := _find_revealing_name(node):
        message = f"{revealing!r} exposes the internals of running code."
        yield finding_at(node, read.text, "attribute.internal", message, suggestion="Remove it.")
    for base, key in _find_dynamic_access(read, node, scope):
        module = read.find_forbidden_module(base)
        if module is not None and _get_literal_text(key) is None:
            message = f"An attribute of {module} is accessed by a computed name."
            suggestion = f"Write the name itself: {module}.name."
            yield finding_at(node, read.text, "attribute.dynamic", message, suggestion=suggestion)


def _find_dynamic_access(
    read: _FileNames, node: ast.Call | ast.Subscript, scope: Scope
) -> Iterator[tuple[set[str], ast.expr]]:
    """Yield each object with a by-name access, and the expression that computes the name."""
    match node:
        case ast.Subscript(value=value, slice=key):
            names = read.resolve_dotted(value, scope)
            yield {name.removesuffix(".__dict__") for name in names if name.endswith(".__dict__")}, key
        case ast.Call(func=ast.Attribute(value=value, attr="__getattribute__"), args=[key, *_]):
            yield read.resolve_dotted(value, scope), key
        case ast.Call(func=function, args=[value, key, *_]) if "builtins.getattr" in read.resolve_dotted(
            function, scope
        ):
            yield read.resolve_dotted(value, scope), key
        case _:
            return


def _find_revealing_name(node: ast.Call | ast.Subscript) -> str | None:
    """Return the literal name in an access to frames, code or namespaces, or None."""
    given = (
        [*node.args, *(one.value for one in node.keywords)] if isinstance(node, ast.Call) else [node.slice]
    )
    parts = (part for one in given for part in (_get_literal_text(one) or "").split("."))
    return next((part for part in parts if normalize_name(part) in _INTERNAL_ATTRIBUTES), None)


def _build_forbidden_finding(read: _FileNames, node: ast.AST, name: str) -> Finding:
    plain = name.removeprefix("builtins.")
    instead = next(
        (_HINT_BY_NAME[key] for key in (plain, plain.partition(".")[0]) if key in _HINT_BY_NAME), None
    )
    return finding_at(
        node,
        read.text,
        "forbidden.name",
        f"{plain!r} isn't allowed in a module.",
        suggestion=instead or "Remove it.",
    )


def _look_up_items(bases: Iterable[str], key: str) -> Iterator[str]:
    """Yield the values that a mapping of names contains for a key."""
    for base in bases:
        if base == "sys.modules":
            yield key
        elif base == "builtins":
            yield f"builtins.{key}"
        elif base.endswith(".__dict__"):
            yield f"{base.removesuffix('.__dict__')}.{key}"


def _iter_simple_assignments(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the name and value of each simple assignment."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pair_targets(target, value)
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.NamedExpr(target=target, value=value)
        ):
            yield from _pair_targets(target, value)
        case ast.For(target=target, iter=ast.Tuple(elts=values) | ast.List(elts=values)):
            for value in values:
                yield from _pair_targets(target, value)
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args) | ast.Lambda(args=args):
            plain = [*args.posonlyargs, *args.args]
            given = zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True)
            named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
            yield from ((arg.arg, value) for arg, value in (*given, *named) if value is not None)
        case _:
            return


def _pair_targets(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case (
            (ast.Tuple(elts=names) | ast.List(elts=names)),
            (ast.Tuple(elts=values) | ast.List(elts=values)),
        ):
            for one, other in zip(names, values, strict=False):
                yield from _pair_targets(one, other)
        case _:
            return


def _list_possible_values(node: ast.AST) -> list[ast.expr]:
    """Return the operands that an expression can evaluate to, e.g. both branches of a conditional."""
    match node:
        case ast.NamedExpr(value=value):
            return [value]
        case ast.IfExp(body=one, orelse=other):
            return [one, other]
        case ast.BoolOp(values=values):
            return values
        case _:
            return []


def _get_literal_text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _append_attribute(bases: Iterable[str], name: str | None) -> Iterator[str]:
    """Yield each base name with an attribute appended, except names that are too long.

    Yield nothing if `name` is None.
    """
    for base in bases:
        if name is not None and base.count(".") < _MAX_CHAIN:
            yield f"{base}.{normalize_name(name)}"
