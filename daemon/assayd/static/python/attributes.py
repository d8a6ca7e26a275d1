"""Checks, for the security scan, attributes of modules and other values, also by name and in formats."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from string import Formatter

from assayd.findings.source_text import get_line
from assayd.guest.near import find_nearest
from assayd.model.finding import Edit, Finding, Severity
from assayd.static.python.imports import finding_at, suggest_name
from assayd.static.python.names import (
    BY_NAME,
    ENVIRONMENT_FUNCTIONS,
    ENVIRONMENT_METHODS,
    FILE_METHODS,
    INTERNALS_PATTERN,
    OPERATOR_METHODS,
    READABLE_DUNDERS,
    SETTABLE_THROUGH_SUPER,
    STREAM_ATTRIBUTES,
    can_read_own,
    is_dunder,
    normalize_name,
)
from assayd.static.python.scopes import NodeSite
from assayd.static.python.view import SecurityView, has_known_fields, is_path

FORMAT_METHODS = frozenset({"format", "format_map", "vformat"})
_ATTRIBUTE_PATTERN = re.compile(r"\.([^.\[\]]+)")
_MAX_DEPTH = 3


def find_format_template(
    node: ast.Attribute, parent: ast.AST | None, constants: Mapping[str, str]
) -> str | None:
    """Return the template string of a ``.format`` call, or None if it is unknown.

    The template can be a literal, or a name that is bound only once, to a literal.
    """
    value: ast.expr = node.value
    if isinstance(value, ast.Name) and value.id == "str":
        if not isinstance(parent, ast.Call) or parent.func is not node or not parent.args:
            return None
        value = parent.args[0]
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name)
        case _:
            return None


def iter_template_attributes(text: str, depth: int = 0) -> Iterator[str]:
    """Yield the attributes that a template accesses, including those in nested format specs.

    Yield nothing for an invalid template.
    """
    try:
        fields = list(Formatter().parse(text))
    except ValueError:
        return  # str.format rejects this template at run time.
    for _, field, spec, _ in fields:
        yield from _ATTRIBUTE_PATTERN.findall(field or "")
        if spec and depth < _MAX_DEPTH:
            yield from iter_template_attributes(spec, depth + 1)


_READONLY_NAMES = frozenset({"__class__", "__match_args__"})
"""Special attributes that can be read but not replaced."""
_ADVICE_BY_DUNDER = {
    "__dict__": "Write vars(x) for the fields of an object.",
    "__bases__": "Write isinstance(x, Class), or issubclass(A, B).",
    "__mro__": "Write isinstance(x, Class), or issubclass(A, B).",
    "__getattribute__": 'Write getattr(x, "name").',
    "__getattr__": 'Write getattr(x, "name").',
    "__setattr__": 'Write setattr(x, "name", value).',
    "__delattr__": 'Write delattr(x, "name").',
    "__subclasses__": "List the classes literally, e.g. [First, Second].",
    "__globals__": "Use a dict literal of the functions by name.",
    "__code__": "Write the value that you need literally.",
    "__wrapped__": "Keep the function under a separate name before wrapping it.",
}


def explain_refused_attribute(
    name: str, uses_paths: bool, own: Container[str] = ()
) -> tuple[str, str, str] | None:
    """Return rule, message and suggestion if an attribute of an unknown value isn't allowed, or None.

    Args:
        name: the attribute.
        uses_paths: whether the value may be a path.
        own: the attributes that the source itself defines.
    """
    name = normalize_name(name)
    if is_dunder(name) and name not in OPERATOR_METHODS | READABLE_DUNDERS:
        if name in own and can_read_own(name):
            return None
        near = find_nearest(name, sorted(OPERATOR_METHODS | READABLE_DUNDERS))
        meant = f"Did you mean '{near[0]}'?" if near is not None and near[1] else None
        suggestion = _ADVICE_BY_DUNDER.get(name, meant or "Remove the special attribute.")
        return "attribute.dunder", f"The special attribute {name!r} isn't allowed.", suggestion
    if INTERNALS_PATTERN.fullmatch(name):
        message = f"{name!r} exposes the internals of running code."
        return "attribute.internal", message, "Remove it."
    if uses_paths and name in FILE_METHODS:
        message = f"{name!r} accesses files if called on a path."
        suggestion = (
            "Use pure attributes of a path: parts, name, stem, suffix, parent, parents. Data of the file "
            "(size, times) isn't available."
        )
        return "attribute.file_access", message, suggestion
    return None


def check_attribute(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``fnmatch.os`` as attribute.not_allowed, and ``x.__globals__`` as attribute.dunder."""
    node = site.node
    if not isinstance(node, ast.Attribute):
        return
    owners = view.resolve_modules(node.value, site.scope)
    for module in sorted(owners):
        yield from _check_module_attribute(view, node, module)
    if any(view.is_restricted(module) for module in owners):
        return
    own_method = node.attr in view.own and not is_path(node.value, view.paths)
    of_path = view.uses_paths and not owners and not own_method
    fine = _is_frozen_setattr(view, node, site) or _is_super_call(view, node, site)
    refused = None if fine else explain_refused_attribute(node.attr, of_path, view.own)
    if refused is None and node.attr in _READONLY_NAMES and not isinstance(node.ctx, ast.Load):
        message = f"{node.attr!r} of an object is replaced."
        refused = ("attribute.dunder", message, "Create an object of another class.")
    if refused is None and node.attr in STREAM_ATTRIBUTES - view.own and view.uses_streams and not owners:
        message = f"{node.attr!r} exposes the open file below a stream."
        refused = ("attribute.file_access", message, "Write to the stream.")
    if refused is not None:
        found = view.error(node, *refused)
        yield replace(found, edit=_build_vars_edit(view, node)) if node.attr == "__dict__" else found
    elif not owners:
        yield from _check_method(view, node, site, of_path)


def _check_method(
    view: SecurityView, node: ast.Attribute, site: NodeSite, of_path: bool
) -> Iterator[Finding]:
    """Report ``path.replace(…)`` (attribute.file_access) and ``s.format(x)`` (format.dynamic_template)."""
    if of_path and node.attr in ENVIRONMENT_METHODS:
        yield _build_environment_finding(view, node, node.attr)
    elif node.attr == "replace" and view.uses_paths and _may_replace_file(view, node, site):
        message = "'replace' with one argument moves a file if called on a path."
        yield view.error(node, "attribute.file_access", message, "Write text.replace(old, new).")
    elif node.attr in FORMAT_METHODS:
        yield from _check_format(view, node, site)


def _check_module_attribute(view: SecurityView, node: ast.Attribute, module: str) -> Iterator[Finding]:
    dotted = f"{module}.{node.attr}"
    if not view.should_check_uses(module):
        return
    if not view.modules.allows_name(module, node.attr):
        message = f"{dotted} isn't allowed."
        yield view.error(
            node, "attribute.not_allowed", message, suggest_name(module, view.modules, node.attr)
        )
    elif not isinstance(node.ctx, ast.Load):
        yield view.error(
            node, "module.modified", f"{dotted} is modified.", "Use a separate variable instead."
        )
    elif dotted in ENVIRONMENT_FUNCTIONS:
        yield _build_environment_finding(view, node, dotted)


def _build_environment_finding(view: SecurityView, node: ast.Attribute, name: str) -> Finding:
    """Return the warning attribute.environment, e.g. for ``os.path.abspath(p)``."""
    return finding_at(
        node,
        view.text,
        "attribute.environment",
        f"{name!r} reads the folder, home or environment of the container.",
        suggestion="Use only the path's text; it isn't a path on this machine.",
        severity=Severity.WARNING,
    )


def check_module_value(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``f(re)`` as module.as_value."""
    node = site.node
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return
    if isinstance(site.parent, ast.Attribute) or _is_getattr_argument(view, site):
        return
    for module in sorted(view.resolve_modules(node, site.scope)):
        if view.is_restricted(module) and view.should_check_uses(module):
            message = f"The module {module!r} is used as a value."
            suggestion = f"Use {module} only as in {module}.name; pass functions, not modules."
            yield view.error(node, "module.as_value", message, suggestion)


def check_named_access(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``getattr(x, "__globals__")`` as attribute.dunder. Computed names are checked at run time."""
    node = site.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    function = node.func.id
    if function not in BY_NAME or not view.is_builtin(node.func, function, site.scope):
        return
    match node.args:
        case [value, ast.Constant(value=str(name)), *_]:
            owners = [m for m in view.resolve_modules(value, site.scope) if view.should_check_uses(m)]
            for module in (m for m in sorted(owners) if not view.modules.allows_name(m, name)):
                message = f"{module}.{name} isn't allowed."
                instead = suggest_name(module, view.modules, name)
                found = view.error(node, "attribute.not_allowed", message, instead)
                yield replace(found, subject=f"{module}.{name}")
            if not owners:
                yield from _check_named(view, node, name)
        case _:
            return


def check_match_class(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``C(__dict__=c)`` (attribute.dunder), and ``C(x)`` if C is computed (attribute.dynamic)."""
    if not isinstance(site.node, ast.MatchClass):
        return
    for name in site.node.kwd_attrs:
        yield from _check_named(view, site.node, name)
    if site.node.patterns and not has_known_fields(site.node.cls, site.scope, view.tree):
        message = "The class of the pattern is computed, so its fields are unknown."
        yield view.error(site.node, "attribute.dynamic", message, "Name the fields: case Point(x=x, y=y).")


def check_match_args(view: SecurityView, site: NodeSite) -> Iterator[Finding]:
    """Report ``__match_args__ = ("__globals__",)`` as attribute.dunder."""
    match site.node:
        case ast.Assign(targets=[ast.Name(id="__match_args__")], value=value):
            pass
        case ast.AnnAssign(target=ast.Name(id="__match_args__"), value=ast.expr() as value):
            pass
        case ast.Name(id="__match_args__", ctx=ast.Store()) as node:
            if not isinstance(site.parent, ast.Assign | ast.AnnAssign):
                yield view.error(node, "attribute.dynamic", _COMPUTED_FIELDS, _PLAIN_FIELDS)
            return
        case _:
            return
    names = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    for name in names:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield from _check_named(view, site.node, name.value)
        else:
            yield view.error(site.node, "attribute.dynamic", _COMPUTED_FIELDS, _PLAIN_FIELDS)


_COMPUTED_FIELDS = "'__match_args__' is computed."
_PLAIN_FIELDS = 'Write the names of the fields: __match_args__ = ("x", "y").'


def _check_named(view: SecurityView, node: ast.AST, name: str) -> Iterator[Finding]:
    """Yield the finding if an attribute that is accessed by name, e.g. through getattr, isn't allowed."""
    refused = explain_refused_attribute(name, view.uses_paths, view.own)
    if refused is None and normalize_name(name) in _READONLY_NAMES and _is_attribute_change(node):
        message = f"{name!r} of an object is replaced."
        refused = ("attribute.dunder", message, "Create an object of another class.")
    if refused is not None:
        yield view.error(node, *refused)
    elif view.uses_paths and normalize_name(name) == "replace":
        message = "'replace' moves a file if called on a path."
        yield view.error(node, "attribute.file_access", message, "Write text.replace(old, new).")
    elif normalize_name(name) in FORMAT_METHODS:
        message = f"{name!r} of a string follows the attributes that the string names."
        yield view.error(node, "format.attribute", message, 'Use an f-string: f"{value}".')


def _is_attribute_change(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="setattr" | "delattr")):
            return True
        case _:
            return False


def _is_getattr_argument(view: SecurityView, site: NodeSite) -> bool:
    """Return whether a module is the first argument of ``getattr(module, "name")`` or ``hasattr``."""
    match site.parent:
        case ast.Call(func=ast.Name(id="getattr" | "hasattr" as name) as func, args=[first, _, *_]):
            return first is site.node and view.is_builtin(func, name, site.scope)
        case _:
            return False


def _is_super_call(view: SecurityView, node: ast.Attribute, site: NodeSite) -> bool:
    """Return whether an attribute is called as in ``super().__setattr__(…)``, which sets attributes."""
    match node:
        case ast.Attribute(value=ast.Call(func=func, args=[], keywords=[]), attr=attr):
            called = isinstance(site.parent, ast.Call) and site.parent.func is node
            return attr in SETTABLE_THROUGH_SUPER and called and view.is_builtin(func, "super", site.scope)
        case _:
            return False


def _build_vars_edit(view: SecurityView, node: ast.Attribute) -> Edit | None:
    """Return the edit that replaces ``x.__dict__`` by ``vars(x)``.

    Return None if `x` isn't a plain name, or if the expression isn't read on a single ASCII line.
    """
    line = get_line(view.text, node.lineno)
    if line is None or node.lineno != node.end_lineno or not isinstance(node.value, ast.Name):
        return None
    if not isinstance(node.ctx, ast.Load) or not line.isascii():
        return None
    asked = f"{node.value.id}.__dict__"
    if line.count(asked) != line.count("__dict__"):
        return None
    changed = re.sub(rf"(?<![\w.]){re.escape(asked)}(?!\w)", f"vars({node.value.id})", line)
    return Edit(start_line=node.lineno, end_line=node.lineno, replacement=changed)


_PLAIN_TEMPLATE = "Use a literal or constant template with plain fields: {0}, {name}, {0[key]}."


def _check_format(view: SecurityView, node: ast.Attribute, site: NodeSite) -> Iterator[Finding]:
    """Report ``"{0.__class__}".format(x)`` as format.attribute."""
    template = find_format_template(node, site.parent, view.constants)
    if template is None:
        message = f"The template of .{node.attr}() is unknown before the run."
        yield finding_at(
            node,
            view.text,
            "format.dynamic_template",
            message,
            suggestion=_PLAIN_TEMPLATE,
            severity=Severity.WARNING,
        )
        return
    for name in iter_template_attributes(template):
        if explain_refused_attribute(name, view.uses_paths) is not None:
            message = f"The format string follows the attribute {name!r}."
            literal = isinstance(node.value, ast.Constant)
            suggestion = 'Use an f-string: f"{value}".' if literal else _PLAIN_TEMPLATE
            yield view.error(node, "format.attribute", message, suggestion)


def _is_frozen_setattr(view: SecurityView, node: ast.Attribute, site: NodeSite) -> bool:
    """Return whether a call is ``object.__setattr__(self, "name", value)``, as in frozen dataclasses."""
    call = site.parent
    if node.attr != "__setattr__" or not view.is_builtin(node.value, "object", site.scope):
        return False
    match call:
        case ast.Call(func=func, args=[_, ast.Constant(value=str(name)), _], keywords=[]) if func is node:
            return name != "__class__" and explain_refused_attribute(name, view.uses_paths) is None
        case _:
            return False


def _may_replace_file(view: SecurityView, node: ast.Attribute, site: NodeSite) -> bool:
    """Return whether ``x.replace`` can be a path's method, based on the type of `x` and the arguments."""
    if view.is_builtin(node.value, "str", site.scope):
        return False
    call = site.parent
    if not isinstance(call, ast.Call) or call.func is not node:
        return True
    if any(k.arg in (None, "target") for k in call.keywords):
        return True
    spread = any(isinstance(a, ast.Starred) for a in call.args)
    return len(call.args) == 1 and not call.keywords and (not spread or is_path(node.value, view.paths))
