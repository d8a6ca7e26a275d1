"""Scans Python for forbidden operations to explain violations; isolation is enforced by the container.

Code can use a module only as the base of a listed name, never as a value. All violations are reported
together, in source order. The following lines each violate one rule:

    import sys                        import.not_allowed
    class A: import re                import.in_class
    fnmatch.os                        attribute.not_allowed
    f(re)                             module.as_value
    os.path.join = print              module.modified
    run = eval                        builtin.not_allowed
    type("T", (), {})                 builtin.not_allowed
    operator.attrgetter(name)         attribute.dynamic
    x.__globals__                     attribute.dunder
    __builtins__                      name.dunder
    g.gi_frame                        attribute.internal
    Path(p).read_text()               attribute.file_access
    os.path.abspath(p)                attribute.environment     (a warning)
    "{0.__class__}".format(x)         format.attribute
    template.format(x)                format.dynamic_template   (a warning)
    type X = int                      node.not_allowed

Some functions of allowed modules can be used in only one form, because the scan can't check arguments that
are computed at run time:

    operator.attrgetter(name)               attribute.dynamic       (good: attrgetter("year"))
    operator.methodcaller(name)             attribute.dynamic       (good: methodcaller("strip"))
    functools.wraps(f, ("__globals__",))    attribute.dynamic       (good: wraps(f))
    logging.basicConfig(filename="x")       attribute.file_access   (good: basicConfig(level=logging.INFO))
    c = warnings.catch_warnings()           attribute.internal      (good: with warnings.catch_warnings(): …)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from assayd.model.finding import Finding, Rule, Severity, add_profile_keys
from assayd.model.policy import ImportPolicy
from assayd.model.text_limits import FINDINGS
from assayd.static.python import imports as python_imports
from assayd.static.python.attributes import (
    check_attribute,
    check_match_args,
    check_match_class,
    check_module_value,
    check_named_access,
    explain_refused_attribute,
)
from assayd.static.python.imports import check_imports, list_imports_once
from assayd.static.python.names import (
    BUILTINS,
    INTERNALS_PATTERN,
    READABLE_DUNDERS,
    UNDEFINABLE_DUNDERS,
    can_bind,
    can_read_own,
    is_dunder,
)
from assayd.static.python.scopes import NodeSite, ScopeKind, resolve_name
from assayd.static.python.source import PythonSource
from assayd.static.python.view import Check, SecurityView

_Words = tuple[str, str, str]
_FILE_ARGUMENTS = frozenset({"filename", "filemode", "encoding", "errors", "handlers"})


def check_restricted_use(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``f = operator.attrgetter`` as attribute.dynamic. Only certain direct calls are allowed."""
    node = site.node
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    for dotted in sorted(view.resolve_dotted(node, site.scope) & _FORMS.keys()):
        if not view.is_restricted(dotted.rpartition(".")[0]):
            continue
        parent = site.parent
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        refused = _FORMS[dotted](view, call)
        if refused is not None:
            yield view.error(node, *refused)


def _check_literal_names(form: str) -> Callable[[SecurityView, ast.Call | None], _Words | None]:
    """Return the check of calls whose names must be literals.

    The finding's message shows the call as `form`.
    """

    def judge(view: SecurityView, call: ast.Call | None) -> _Words | None:
        words = (
            "attribute.dynamic",
            f"{form} is used with a name that is computed.",
            f'Write {form}("name").',
        )
        if call is None or not call.args:
            return words
        names = call.args[:1] if form == "methodcaller" else call.args
        for name in names:
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                return words
            for part in name.value.split("."):
                refused = explain_refused_attribute(part, view.uses_paths, view.own)
                if refused is not None:
                    return refused
        return None

    return judge


def _check_wraps_call(_: SecurityView, call: ast.Call | None) -> _Words | None:
    plain = call is not None and len(call.args) == 1 and not call.keywords
    if plain and not isinstance(call.args[0], ast.Starred):  # type: ignore[union-attr]  # it is there when plain
        return None
    message = "functools.wraps is allowed only with one argument, the wrapped function."
    return "attribute.dynamic", message, "Write @functools.wraps(function)."


def _check_basic_config(_: SecurityView, call: ast.Call | None) -> _Words | None:
    if (
        call is not None
        and not call.args
        and all(k.arg not in {None, *_FILE_ARGUMENTS} for k in call.keywords)
    ):
        return None
    message = "logging.basicConfig is allowed only with plain settings, because others open files."
    return "attribute.file_access", message, "Write logging.basicConfig(level=logging.INFO, format=…)."


def _check_catch_warnings(view: SecurityView, call: ast.Call | None) -> _Words | None:
    """Reject ``catch_warnings`` outside ``with``, because the object exposes the module `warnings`."""
    if call is not None and isinstance(view.tree.parent(call), ast.withitem):
        return None
    message = "warnings.catch_warnings is allowed only in a with statement."
    return "attribute.internal", message, "Write: with warnings.catch_warnings(): …"


_FORMS: Mapping[str, Callable[[SecurityView, ast.Call | None], _Words | None]] = {
    "functools.wraps": _check_wraps_call,
    "logging.basicConfig": _check_basic_config,
    "operator.attrgetter": _check_literal_names("attrgetter"),
    "operator.methodcaller": _check_literal_names("methodcaller"),
    "warnings.catch_warnings": _check_catch_warnings,
}


def check_name(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``run = eval`` as builtin.not_allowed, and ``__builtins__`` as name.dunder."""
    node = site.node
    if not isinstance(node, ast.Name):
        return
    loaded = isinstance(node.ctx, ast.Load)
    if is_dunder(node.id) and node.id not in BUILTINS and not _is_allowed_dunder(node.id, loaded):
        yield view.build_dunder_finding(node, node.id)
    if not loaded and site.scope.kind is ScopeKind.CLASS and INTERNALS_PATTERN.fullmatch(node.id):
        # A pattern could read such a field of a class without naming it.
        message = f"{node.id!r} exposes the internals of running code."
        yield view.error(node, "attribute.internal", message, "Choose another name.")
    found = resolve_name(node.id, site.scope)
    if not loaded or not found.may_be_builtin or (found.shadowed and not is_dunder(node.id)):
        return
    if node.id in BUILTINS:
        message = f"{node.id!r} isn't allowed: {BUILTINS[node.id]}."
        yield view.error(node, "builtin.not_allowed", message, _suggest_builtin_fix(node.id))
    elif node.id == "vars" and not _inspects_one_value(view, node):
        message = "'vars' is allowed only for the fields of one object."
        yield view.error(node, "builtin.not_allowed", message, "Write vars(x), or build the dict.")
    elif node.id == "type" and not _only_inspects_type(view, node):
        message = "'type' is allowed only with one argument; with more it creates classes."
        yield view.error(node, "builtin.not_allowed", message, "Write type(x), or a class statement.")


def check_type_call(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``type(x)("T", (), {})`` as builtin.not_allowed."""
    match site.node:
        case ast.Call(func=ast.Call(func=ast.Name() as maker), args=[_, ast.Tuple(), ast.Dict()]) as node:
            makes = view.is_builtin(maker, "type", site.scope)
        case _:
            return
    if makes:
        message = "A class is created by calling a type."
        yield view.error(node, "builtin.not_allowed", message, "Write a class statement.")


def _suggest_builtin_fix(builtin: str) -> str:
    if builtin == "open":
        return "Use the arguments: no files can be opened."
    if builtin == "compile":
        return "Use re.compile(…) for patterns; otherwise remove it."
    if builtin in {"globals", "locals"}:
        return "Build a dict with the needed values."
    return f"Remove it, or rename your variable {builtin}."


def _is_allowed_dunder(name: str, loaded: bool) -> bool:
    """Return whether code can read a special name or, if `loaded` is False, bind it."""
    readable = name in READABLE_DUNDERS or can_read_own(name)
    return readable if loaded else can_bind(name)


def _inspects_one_value(view: SecurityView, node: ast.AST) -> bool:
    match view.tree.parent(node):
        case ast.Call(func=func, args=[argument], keywords=[]) if func is node:
            return not isinstance(argument, ast.Starred)
        case _:
            return False


def _only_inspects_type(view: SecurityView, node: ast.Name) -> bool:
    """Return whether ``type`` is only used to inspect a value, or in a comparison, annotation or key."""
    parent = view.tree.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = view.tree.parent(parent)
    match parent:
        case ast.Call() if parent.func is node:
            asks = not _has_arguments(parent, 2)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "map")):
            asks = True
        case ast.keyword(arg="key") | ast.Compare() | ast.arg() | ast.Subscript() | ast.BinOp():
            asks = True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            asks = parent.returns is node
        case ast.AnnAssign():
            asks = parent.annotation is node
        case _:
            asks = False
    return asks


def _has_arguments(call: ast.Call, count: int) -> bool:
    """Return whether a call may have at least `count` arguments, which unpacked arguments always may."""
    spread = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    return spread or len(call.args) + len(call.keywords) >= count


_UNKEYED_RULES = (
    *python_imports.RULES,
    Rule(id="import.in_class", title="An import in a class body", help="Bad: class A: import re."),
    Rule(
        id="module.as_value",
        title="A module is used as a value",
        help="Bad: f(re). Good: f(re.match).",
    ),
    Rule(id="module.modified", title="A module is modified", help="Bad: os.path.join = f."),
    Rule(id="builtin.not_allowed", title="A builtin that isn't allowed", help="Bad: eval(text)."),
    Rule(
        id="attribute.dynamic",
        title="An attribute with a computed name",
        help='Bad: operator.attrgetter(name). Good: operator.attrgetter("year").',
    ),
    Rule(
        id="attribute.dunder",
        title="A special attribute",
        help="Bad: x.__dict__. Good: vars(x).",
    ),
    Rule(id="attribute.internal", title="An attribute that exposes frames or code"),
    Rule(
        id="attribute.file_access",
        title="A method that accesses files",
        help="Bad: Path(p).exists(). Good: Path(p).name.",
    ),
    Rule(
        id="attribute.environment",
        title="A path function reads the container's folders",
        severity=Severity.WARNING,
        help="Bad: os.path.abspath(path). Good: os.path.normpath(path).",
    ),
    Rule(id="name.dunder", title="A special name", help="Bad: __builtins__. Good: __name__."),
    Rule(id="format.attribute", title="A format string that follows special attributes"),
    Rule(
        id="format.dynamic_template",
        title="The format string is unknown before the run",
        severity=Severity.WARNING,
        help='Bad: template.format(x). Good: f"{x}".',
    ),
    Rule(id="node.not_allowed", title="Syntax that isn't known to be harmless"),
)
_KEY_BY_RULE = {
    "import.in_class": "imports.names",
    "module.as_value": "imports.names",
    "module.modified": "imports.names",
    "builtin.not_allowed": "enforcement",
    "attribute.dynamic": "enforcement",
    "attribute.dunder": "enforcement",
    "attribute.internal": "enforcement",
    "attribute.file_access": "imports.names",
    "name.dunder": "enforcement",
    "format.attribute": "enforcement",
    "node.not_allowed": "enforcement",
}
RULES = add_profile_keys(_UNKEYED_RULES, _KEY_BY_RULE)

_NODE_NAMES = """
    Add And AnnAssign Assert Assign AsyncFor AsyncFunctionDef AsyncWith Attribute AugAssign Await BinOp BitAnd
    BitOr BitXor BoolOp Break Call ClassDef Compare Constant Continue Del Delete Dict DictComp Div Eq
    ExceptHandler Expr FloorDiv For FormattedValue FunctionDef GeneratorExp Global Gt GtE If IfExp Import
    ImportFrom In Invert Is IsNot JoinedStr LShift Lambda List ListComp Load Lt LtE MatMult Match MatchAs
    MatchClass MatchMapping MatchOr MatchSequence MatchSingleton MatchStar MatchValue Mod Module Mult Name
    NamedExpr Nonlocal Not NotEq NotIn Or Pass Pow RShift Raise Return Set SetComp Slice Starred Store Sub
    Subscript Try TryStar Tuple UAdd USub UnaryOp While With Yield YieldFrom alias arg arguments comprehension
    keyword match_case withitem
"""
_NODES = frozenset(_NODE_NAMES.split())


def scan_source(source: PythonSource, policy: ImportPolicy) -> tuple[Finding, ...]:
    """Return the violations in a source, at most `FINDINGS`, in source order.

    Return an empty tuple if the source couldn't be parsed.
    """
    if source.tree is None:
        return ()
    view = SecurityView.from_source(source.text, source.tree, policy)
    every = (finding for site in view.tree.sites for finding in _check_node(view, site))
    found = set(islice(every, FINDINGS))
    return tuple(
        list_imports_once(sorted(found, key=lambda f: (f.line or 0, f.column or 0, f.rule, f.message)))
    )


def _check_node(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    kind = type(site.node)
    if kind.__name__ not in _NODES:
        message = f"{kind.__name__} is syntax that isn't allowed."
        yield view.error(site.node, "node.not_allowed", message, "Use syntax of Python 3.11.")
    for check in _CHECKS_BY_NODE.get(kind, ()):
        yield from check(view, site)
    for name in _iter_identifiers(site):
        if is_dunder(name):
            yield view.build_dunder_finding(site.node, name)


def _check_imports(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``import sys`` as import.not_allowed, and ``class A: import re`` as import.in_class."""
    if isinstance(site.node, ast.Import | ast.ImportFrom):
        yield from check_imports(site.node, view.modules, view.text)
        if site.scope.kind is ScopeKind.CLASS:
            message = "An import in a class body makes the module an attribute."
            yield view.error(site.node, "import.in_class", message, "Import at the top of the file.")


def _check_method(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``def __getattribute__(self, name)`` as name.dunder.

    Classes can define other special methods.
    """
    if isinstance(site.node, ast.FunctionDef | ast.AsyncFunctionDef):
        name = site.node.name
        defines = site.scope.kind is ScopeKind.CLASS and name not in UNDEFINABLE_DUNDERS
        if is_dunder(name) and not defines:
            yield view.build_dunder_finding(site.node, name)


_CHECKS_BY_NODE: Mapping[type[ast.AST], tuple[Check, ...]] = {
    ast.Import: (_check_imports,),
    ast.ImportFrom: (_check_imports,),
    ast.Name: (check_name, check_module_value, check_restricted_use, check_match_args),
    ast.Assign: (check_match_args,),
    ast.AnnAssign: (check_match_args,),
    ast.Attribute: (check_attribute, check_module_value, check_restricted_use),
    ast.Call: (check_named_access, check_type_call),
    ast.MatchClass: (check_match_class,),
    ast.FunctionDef: (_check_method,),
    ast.AsyncFunctionDef: (_check_method,),
}


def _iter_identifiers(site: NodeSite) -> Iterator[str]:
    """Yield the names that a node stores as strings instead of as `Name` or `Attribute` nodes."""
    match site.node:
        case ast.arg(arg=str(name)) | ast.keyword(arg=str(name)) | ast.ClassDef(name=name):
            yield name
        case ast.alias():
            yield site.node.asname or ""
            if isinstance(site.parent, ast.ImportFrom):
                yield site.node.name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Global() | ast.Nonlocal():
            yield from site.node.names
        case _:
            return
