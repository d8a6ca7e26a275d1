"""Scans Python for what submitted code has no business with. Explains; the container is the wall.

A module may be used only as the base of a name that the policy lists; it is no value. All violations are
given at once, in source order. One bad line for each rule:

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
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import islice

from assayd.model.finding import Finding, Rule, Severity
from assayd.model.policy import ImportPolicy
from assayd.model.text_limits import FINDINGS
from assayd.static.python import imports as python_imports
from assayd.static.python.attributes import (
    check_attribute,
    check_by_name,
    check_match_args,
    check_match_class,
    check_module_value,
)
from assayd.static.python.builtins import check_name, check_type_call
from assayd.static.python.careful import check_careful
from assayd.static.python.imports import check_imports, said_once
from assayd.static.python.names import NOT_DEFINED, is_dunder
from assayd.static.python.scopes import NodeSite, ScopeKind
from assayd.static.python.source import PythonSource
from assayd.static.python.view import Check, View

RULES = (
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
        title="A path function reads the current folder or home",
        severity=Severity.WARNING,
        help="Bad: os.path.abspath(path). Good: os.path.normpath(path).",
    ),
    Rule(id="name.dunder", title="A special name", help="Bad: __builtins__. Good: __name__."),
    Rule(id="format.attribute", title="A format string that follows special attributes"),
    Rule(
        id="format.dynamic_template",
        title="A format string that is unknown before the run",
        severity=Severity.WARNING,
        help='Bad: template.format(x). Good: f"{x}".',
    ),
    Rule(id="node.not_allowed", title="Syntax that isn't known to be harmless"),
)

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


def scan(source: PythonSource, policy: ImportPolicy) -> tuple[Finding, ...]:
    """Return all violations of a text that parses, in source order, up to the cap."""
    if source.tree is None:
        return ()
    view = View.of(source.text, source.tree, policy)
    every = (finding for site in view.tree.sites for finding in _check(view, site))
    found = set(islice(every, FINDINGS))
    return tuple(said_once(sorted(found, key=lambda f: (f.line or 0, f.column or 0, f.rule, f.message))))


def _check(view: View, site: NodeSite) -> Iterator[Finding]:
    kind = type(site.node)
    if kind.__name__ not in _NODES:
        message = f"{kind.__name__} is syntax that isn't allowed."
        yield view.error(site.node, "node.not_allowed", message, "Use syntax of Python 3.11.")
    for check in _CHECKS.get(kind, ()):
        yield from check(view, site)
    for name in _identifiers(site):
        if is_dunder(name):
            yield view.dunder_name(site.node, name)


def _imports(view: View, site: NodeSite) -> Iterator[Finding]:
    """``import sys`` -> import.not_allowed; ``class A: import re`` -> import.in_class."""
    if isinstance(site.node, ast.Import | ast.ImportFrom):
        yield from check_imports(site.node, view.modules, view.text)
        if site.scope.kind is ScopeKind.CLASS:
            message = "An import in a class body makes the module an attribute."
            yield view.error(site.node, "import.in_class", message, "Import at the top of the file.")


def _method(view: View, site: NodeSite) -> Iterator[Finding]:
    """``def __getattribute__(self, name)`` -> name.dunder; all others may be defined."""
    if isinstance(site.node, ast.FunctionDef | ast.AsyncFunctionDef):
        name = site.node.name
        defines = site.scope.kind is ScopeKind.CLASS and name not in NOT_DEFINED
        if is_dunder(name) and not defines:
            yield view.dunder_name(site.node, name)


_CHECKS: Mapping[type[ast.AST], tuple[Check, ...]] = {
    ast.Import: (_imports,),
    ast.ImportFrom: (_imports,),
    ast.Name: (check_name, check_module_value, check_careful, check_match_args),
    ast.Assign: (check_match_args,),
    ast.AnnAssign: (check_match_args,),
    ast.Attribute: (check_attribute, check_module_value, check_careful),
    ast.Call: (check_by_name, check_type_call),
    ast.MatchClass: (check_match_class,),
    ast.FunctionDef: (_method,),
    ast.AsyncFunctionDef: (_method,),
}


def _identifiers(site: NodeSite) -> Iterator[str]:
    """Return the names that a node carries as plain text and that are none of a Name or Attribute."""
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
