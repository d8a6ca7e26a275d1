"""Finds methods whose first parameter doesn't match the first argument that Python passes.

def transform(raw): self.x            contract.method_form   the method has no self
@staticmethod def fetch(self, city)   contract.method_form   a static method gets no self
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from assayd.findings.source_text import get_line
from assayd.model.finding import Edit, Finding
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import list_nodes

_SELF_NAMES = frozenset({"self", "cls", "mcs", "_", "this"})


def check_methods(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check ``def transform(raw): return self.x``, or `self` in a static method -> contract.method_form."""
    for node in list_nodes(tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if (static := _check_static_method(text, node, method)) is not None:
                    yield replace(static, file=file, category="missing_method")
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and _lacks_self(method):
                    message = f"{node.name}.{method.name} has no self parameter."
                    names = ["self", *(each.arg for each in method.args.args[:1])]
                    more = ", …" if len(method.args.args) > 1 else ""
                    shown = f"def {method.name}({', '.join(names)}{more})"
                    found = finding_at(
                        method, text, "contract.method_form", message, suggestion=f"Write: {shown}:"
                    )
                    edit = _build_self_edit(text, method)
                    yield replace(found, file=file, category="missing_method", edit=edit)


def _check_static_method(text: str, owner: ast.ClassDef, method: ast.stmt) -> Finding | None:
    """Return the finding for a static method whose first parameter is `self`."""
    if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or not method.args.args:
        return None
    static = next((one for one in method.decorator_list if get_last_name(one) == "staticmethod"), None)
    if static is None or method.args.args[0].arg != "self":
        return None
    message = f"{owner.name}.{method.name} is static, so `self` gets the first argument."
    found = finding_at(static, text, "contract.method_form", message, suggestion="Remove @staticmethod.")
    if (get_line(text, static.lineno) or "").strip() != "@staticmethod":
        return found
    return replace(found, edit=Edit(start_line=static.lineno, end_line=static.lineno, replacement=""))


def _lacks_self(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {get_last_name(one) for one in method.decorator_list}
    if decorators - {"property", "cached_property"} or method.args.vararg or method.args.posonlyargs:
        return False
    arguments = method.args.args
    if arguments and arguments[0].arg in _SELF_NAMES:
        return False
    if method.name in {"__new__", "__init_subclass__", "__class_getitem__"}:
        return False
    uses_self = any(isinstance(node, ast.Name) and node.id == "self" for node in ast.walk(method))
    return not arguments or uses_self or arguments[0].annotation is not None


def _build_self_edit(text: str, method: ast.FunctionDef | ast.AsyncFunctionDef) -> Edit | None:
    line = get_line(text, method.lineno)
    opened = re.search(rf"\bdef\s+{re.escape(method.name)}\s*\(", line or "")
    if line is None or opened is None:
        return None
    rest = line[opened.end() :]
    comma = "" if rest.lstrip().startswith(")") else ", "
    return Edit(
        start_line=method.lineno,
        end_line=method.lineno,
        replacement=f"{line[: opened.end()]}self{comma}{rest}",
    )


def get_last_name(node: ast.expr) -> str:
    """Return the last name in an expression such as ``client.get`` or ``os.environ["KEY"]``, or ""."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""
