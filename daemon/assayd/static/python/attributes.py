"""The security scan's rules on attributes: of modules, of unknown values, by name, in format texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from assayd.model.finding import Finding, Severity
from assayd.static.python import format as python_format
from assayd.static.python.imports import finding_at, name_suggestion
from assayd.static.python.names import (
    BY_NAME,
    FILE_METHODS,
    INTERNALS,
    OPERATOR_METHODS,
    READABLE_DUNDERS,
    is_dunder,
    normal,
)
from assayd.static.python.scopes import Site
from assayd.static.python.view import View


def refused_attribute(name: str, uses_paths: bool) -> tuple[str, str, str] | None:
    """Say why an attribute of an unknown value may not be used: rule, message, suggestion."""
    name = normal(name)
    if is_dunder(name) and name not in OPERATOR_METHODS | READABLE_DUNDERS:
        suggestion = "Write type(x)." if name == "__class__" else "Do without special attributes."
        return "attribute.dunder", f"The special attribute {name!r} may not be used.", suggestion
    if INTERNALS.fullmatch(name):
        message = f"{name!r} leads to the internals of running code."
        return "attribute.internal", message, "Do without it."
    if uses_paths and name in FILE_METHODS:
        message = f"{name!r} touches files when it is asked of a path."
        suggestion = "Use the pure part of a path: parts, name, stem, suffix, parent, parents."
        return "attribute.file_access", message, suggestion
    return None


def check_attribute(view: View, site: Site) -> Iterator[Finding]:
    """``fnmatch.os`` -> attribute.not_allowed; ``x.__class__`` -> attribute.dunder."""
    node = site.node
    if not isinstance(node, ast.Attribute):
        return
    owners = view.modules_of(node.value, site.scope)
    for module in sorted(owners):
        yield from _module_attribute(view, node, module)
    if any(view.restricts(module) for module in owners):
        return
    of_path = view.uses_paths and not owners
    refused = None if _sets_in_frozen(view, node, site) else refused_attribute(node.attr, of_path)
    if refused is not None:
        yield view.error(node, *refused)
    elif owners:
        return
    elif node.attr == "replace" and view.uses_paths and _replaces_file(view, node, site):
        message = "'replace' with one argument moves a file when it is asked of a path."
        yield view.error(node, "attribute.file_access", message, "Write text.replace(old, new).")
    elif node.attr in python_format.METHODS:
        yield from _format(view, node, site)


def _module_attribute(view: View, node: ast.Attribute, module: str) -> Iterator[Finding]:
    dotted = f"{module}.{node.attr}"
    if not view.governs(module):
        return
    if not view.modules.allows_name(module, node.attr):
        message = f"{dotted} may not be used."
        yield view.error(node, "attribute.not_allowed", message, name_suggestion(module, view.modules))
    elif not isinstance(node.ctx, ast.Load):
        yield view.error(node, "module.modified", f"{dotted} is changed.", "Bind a name of your own instead.")


def check_module_value(view: View, site: Site) -> Iterator[Finding]:
    """``f(re)`` -> module.as_value."""
    node = site.node
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return
    if isinstance(site.parent, ast.Attribute):
        return
    for module in sorted(view.modules_of(node, site.scope)):
        if view.restricts(module) and view.governs(module):
            message = f"The module {module!r} is used as a value."
            suggestion = f"Use {module} only as in {module}.name; pass functions, not modules."
            yield view.error(node, "module.as_value", message, suggestion)


def check_by_name(view: View, site: Site) -> Iterator[Finding]:
    """``getattr(x, name)`` -> attribute.dynamic."""
    node = site.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    function = node.func.id
    if function not in BY_NAME or not view.is_builtin(node.func, function, site.scope):
        return
    plain = len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2])
    name = node.args[1] if plain else None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        message = f"{function} with a computed name."
        suggestion = f'Give the name in plain text: {function}(x, "name", …).'
        yield view.error(node, "attribute.dynamic", message, suggestion)
        return
    yield from _named(view, node, name.value)


def check_match_class(view: View, site: Site) -> Iterator[Finding]:
    """``case object(__class__=c)`` -> attribute.dunder."""
    if isinstance(site.node, ast.MatchClass):
        for name in site.node.kwd_attrs:
            yield from _named(view, site.node, name)


def _named(view: View, node: ast.AST, name: str) -> Iterator[Finding]:
    """Judge an attribute that is taken by name, where its use cannot be seen."""
    refused = refused_attribute(name, view.uses_paths)
    if refused is not None:
        yield view.error(node, *refused)
    elif view.uses_paths and normal(name) == "replace":
        message = "'replace' moves a file when it is asked of a path."
        yield view.error(node, "attribute.file_access", message, "Write text.replace(old, new).")
    elif normal(name) in python_format.METHODS:
        message = f"{name!r} of a text follows the attributes that the text names."
        yield view.error(node, "format.attribute", message, 'Use an f-string: f"{value}".')


def _format(view: View, node: ast.Attribute, site: Site) -> Iterator[Finding]:
    """``"{0.__class__}".format(x)`` -> format.attribute."""
    template = python_format.template(node, site.parent, view.constants)
    if template is None:
        message = f"The template of .{node.attr}() cannot be read beforehand."
        yield finding_at(
            node,
            view.text,
            "format.dynamic_template",
            message,
            suggestion='Use an f-string: f"{value}".',
            severity=Severity.WARNING,
        )
        return
    for name in python_format.attributes(template):
        if refused_attribute(name, view.uses_paths) is not None:
            message = f"The format text follows the attribute {name!r}."
            yield view.error(node, "format.attribute", message, 'Use an f-string: f"{value}".')


def _sets_in_frozen(view: View, node: ast.Attribute, site: Site) -> bool:
    """Return whether this is ``object.__setattr__(self, "name", value)``, as frozen dataclasses need it."""
    call = site.parent
    if node.attr != "__setattr__" or not view.is_builtin(node.value, "object", site.scope):
        return False
    match call:
        case ast.Call(func=func, args=[_, ast.Constant(value=str(name)), _], keywords=[]) if func is node:
            return refused_attribute(name, view.uses_paths) is None
        case _:
            return False


def _replaces_file(view: View, node: ast.Attribute, site: Site) -> bool:
    """Return whether ``x.replace`` may be the path's: text takes two arguments, dates take names."""
    if view.is_builtin(node.value, "str", site.scope):
        return False
    call = site.parent
    if not isinstance(call, ast.Call) or call.func is not node:
        return True
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg in (None, "target") for k in call.keywords
    ):
        return True
    return len(call.args) == 1 and not call.keywords
