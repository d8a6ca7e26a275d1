"""Checks a module's manifest, the contract of its adapter, and the first parameter of its methods.

Checks the adapter's contract in its source: a registered class that defines the methods itself.

    class Weather: …                  contract.no_decorator     (nothing registers it)
    @register_adapter on a function   contract.not_a_class
    no get_schema in the class        contract.missing_method
    def transform(): …                contract.method_form      (takes no self)

Decorators are recognized with and without a call, as dotted names, and under any imported name. Source:
docs/kinds/module.md.

Checks the manifest of a module against its schema; each error has a JSON pointer.

    {"version": "1.0"}              manifest.value     /version
    {"colour": "red"}               manifest.unknown   /colour
    no "module_id"                  manifest.missing   /module_id
    {"capabilities": "current"}     manifest.type      /capabilities

Source: docs/kinds/module.md.

Finds methods whose first parameter doesn't match the first argument that Python passes.

def transform(raw): self.x            contract.method_form   the method has no self
@staticmethod def fetch(self, city)   contract.method_form   a static method gets no self
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_line
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import AdapterContract
from assayd.model.text_limits import shorten_text
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import NodeSite, Scope, ScopedTree, ScopeKind, list_nodes, resolve_name

RULES = (
    Rule(
        id="contract.no_file",
        title="The adapter's file is missing",
        help="Good: adapter.py, or the name in the manifest's entrypoint.",
    ),
    Rule(
        id="contract.no_decorator",
        title="No class is registered",
        help="Bad: class Weather: …. Good: @register_adapter above it.",
    ),
    Rule(
        id="contract.not_a_class",
        title="The registered object isn't a top-level class",
        help="Bad: @register_adapter above a function. Good: above a class.",
    ),
    Rule(
        id="contract.missing_method",
        title="A required method is missing",
        help="Bad: a class without get_schema. Good: def get_schema(self): ….",
    ),
    Rule(
        id="contract.method_form",
        title="A method without self",
        help="Bad: def transform(): …. Good: def transform(self, raw): ….",
    ),
)

_CATEGORY = "missing_method"
_PROPERTIES = ("property", "cached_property", "setter", "getter", "deleter")


def check_contract(file: str, text: str, tree: ScopedTree, contract: AdapterContract) -> Iterator[Finding]:
    """Yield the contract's findings about the adapter's file."""
    for finding in _check_classes(text, tree, contract):
        yield replace(finding, file=file)


def no_file(files: list[str]) -> Finding:
    """Return the finding for a module without any file that could be the adapter."""
    among = f"; the files are {shorten_text(', '.join(files), 200)}" if files else ""
    return Finding(
        rule="contract.no_file",
        category=_CATEGORY,
        message=f"The file adapter.py is missing{among}.",
        suggestion="Name the adapter's file adapter.py.",
    )


def find_registered_classes(tree: ScopedTree, contract: AdapterContract) -> list[ast.ClassDef]:
    """Return the top-level classes that a decorator of the contract registers."""
    marked = (
        site.node for site in _iter_registered_classes(tree, contract) if site.scope.kind is ScopeKind.MODULE
    )
    return [node for node in marked if isinstance(node, ast.ClassDef)]


def _check_classes(text: str, tree: ScopedTree, contract: AdapterContract) -> Iterator[Finding]:
    classes = find_registered_classes(tree, contract)
    for site in _iter_registered_classes(tree, contract):
        if site.node not in classes:
            message = "The registered object isn't a top-level class."
            yield finding_at(
                site.node,
                text,
                "contract.not_a_class",
                message,
                suggestion="Register a class at the top level.",
            )
    meant = classes or _find_candidate_classes(tree, contract)
    if not classes:
        yield _build_no_decorator_finding(text, tree, contract, meant)
    for node in meant if len(meant) == 1 else classes:
        methods = {
            one.name: one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for method in methods.values():
            if method.name not in contract.methods and _is_property(method) and _lacks_self_parameter(method):
                yield _build_no_self_finding(node, method, text)
        for name in contract.methods:
            if name not in methods:
                yield _build_missing_method_finding(node, name, list(methods), text)
            elif _lacks_self_parameter(methods[name]):
                yield _build_no_self_finding(node, methods[name], text)


def _iter_registered_classes(tree: ScopedTree, contract: AdapterContract) -> Iterator[NodeSite]:
    for site in tree.sites:
        node = site.node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_is_registering_decorator(one, site.scope, contract) for one in node.decorator_list):
                yield site


def _is_registering_decorator(decorator: ast.expr, scope: Scope, contract: AdapterContract) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(target, ast.Attribute):
        return target.attr in contract.decorators
    if not isinstance(target, ast.Name):
        return False
    imported = {origin.name for origin in resolve_name(target.id, scope).origins}
    return target.id in contract.decorators or bool(imported & set(contract.decorators))


def _find_candidate_classes(tree: ScopedTree, contract: AdapterContract) -> list[ast.ClassDef]:
    """Return the top-level classes that define at least one of the contract's methods."""
    top = (site.node for site in tree.sites if site.scope.kind is ScopeKind.MODULE)
    return [
        node
        for node in top
        if isinstance(node, ast.ClassDef) and _defines_any_method(node, set(contract.methods))
    ]


def _build_no_decorator_finding(
    text: str, tree: ScopedTree, contract: AdapterContract, meant: list[ast.ClassDef]
) -> Finding:
    """Return the finding for an unregistered adapter, with an edit if only one class is a candidate."""
    name = _find_imported_decorator(tree, contract)
    how = f"@{name or contract.decorators[0]}"
    where = "it" if meant else "the adapter's class"
    node: ast.AST = meant[0] if meant else tree.sites[0].node
    found = finding_at(
        node,
        text,
        "contract.no_decorator",
        f"No class is registered with {how}.",
        suggestion=f"Write {how} above {where}; from {contract.modules[0]} import {how[1:]}.",
    )
    if name is None or len(meant) != 1:
        return _set_category(found)
    first = min([meant[0].lineno, *(one.lineno for one in meant[0].decorator_list)])
    edit = Edit(start_line=first, end_line=first - 1, replacement=f"@{name}\n")
    return _set_category(replace(found, edit=edit))


def _find_imported_decorator(tree: ScopedTree, contract: AdapterContract) -> str | None:
    """Return the name under which a decorator of the contract is imported, or None if none is."""
    for site in tree.sites:
        if isinstance(site.node, ast.ImportFrom) and site.scope.kind is ScopeKind.MODULE:
            for alias in site.node.names:
                if alias.name in contract.decorators:
                    return alias.asname or alias.name
    return None


def _defines_any_method(node: ast.ClassDef, methods: set[str]) -> bool:
    defined = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return bool(defined & methods)


def _build_missing_method_finding(node: ast.ClassDef, name: str, defined: list[str], text: str) -> Finding:
    close = find_close_names(name, defined)
    if close:
        return _build_similar_method_finding(node, name, close[0], text)
    message = f"{node.name} has no method {name}."
    suggestion = f"Define it in the class itself: def {name}(self, …):"
    return _set_category(finding_at(node, text, "contract.missing_method", message, suggestion=suggestion))


def _build_similar_method_finding(node: ast.ClassDef, name: str, other: str, text: str) -> Finding:
    """Return the finding for a method whose name is similar to the name of a missing method."""
    method = next(one for one in node.body if getattr(one, "name", None) == other)
    found = finding_at(
        method,
        text,
        "contract.missing_method",
        f"{node.name} has no method {name}; it has {other}.",
        suggestion=f"Rename {other} to {name}.",
    )
    line = get_line(text, method.lineno) or ""
    edit = Edit(
        start_line=method.lineno,
        end_line=method.lineno,
        replacement=line.replace(f" {other}(", f" {name}(", 1),
    )
    return _set_category(replace(found, edit=edit))


def _build_no_self_finding(
    owner: ast.ClassDef, method: ast.FunctionDef | ast.AsyncFunctionDef, text: str
) -> Finding:
    message = f"{owner.name}.{method.name} has no self parameter."
    suggestion = f"Write: def {method.name}(self{'' if _is_property(method) else ', …'}):"
    return _set_category(finding_at(method, text, "contract.method_form", message, suggestion=suggestion))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method is a property, so that reading the attribute calls the method."""
    names = (one.attr if isinstance(one, ast.Attribute) else one for one in node.decorator_list)
    return any((one.id if isinstance(one, ast.Name) else one) in _PROPERTIES for one in names)


def _lacks_self_parameter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    spec = node.args
    bare = not (spec.posonlyargs or spec.args or spec.vararg)
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)
    return bare and not static


def _set_category(finding: Finding) -> Finding:
    return replace(finding, category=_CATEGORY)


MANIFEST_RULES = (
    Rule(id="manifest.missing", title="A required field is missing", help="Every module has a version."),
    Rule(id="manifest.unknown", title="An unknown field", help="Bad: colour. Good: description."),
    Rule(
        id="manifest.type",
        title="A field has the wrong type",
        help='Bad: "capabilities": "current". Good: "capabilities": ["current"].',
    ),
    Rule(
        id="manifest.value",
        title="A field value has the wrong form",
        help='Bad: "version": "1.0". Good: "version": "1.0.0".',
    ),
    Rule(
        id="manifest.module_id",
        title="The id doesn't match category and platform",
        severity=Severity.WARNING,
        help="Good: weather/open_meteo for the category weather and the platform open_meteo.",
    ),
    Rule(
        id="manifest.entrypoint",
        title="The entrypoint isn't in the adapter",
        severity=Severity.WARNING,
        help="Good: the name of the adapter's class, or of its file.",
    ),
)

_FORMS = {
    r"^[a-z0-9_]+/[a-z0-9_]+$": "category/platform in lowercase letters, digits and underscores",
    r"^[0-9]+\.[0-9]+\.[0-9]+$": "three numbers separated by dots, e.g. 1.0.0",
    r"^[a-z_]+$": "lowercase letters and underscores",
    r"^[a-z0-9_]+$": "lowercase letters, digits and underscores",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "an identifier, e.g. WeatherAdapter",
}
_EXAMPLE_BY_FIELD: Mapping[int | str, str] = {
    "module_id": '"weather/open_meteo"',
    "version": '"1.0.0"',
    "category": '"weather"',
    "platform": '"open_meteo"',
    "entrypoint": '"OpenMeteo"',
    "capabilities": '["current", "forecast"]',
    "auth": '{"type": "api_key", "required_credentials": ["key"]}',
    "pagination": '{"supported": true, "type": "page", "max_page_size": 100}',
    "rate_limits": '{"requests_per_minute": 60}',
    "outputs": '{"mime_types": ["application/json"]}',
    "artifacts": '{"produces": ["file"]}',
}
_ID, _VERSION, _WORD, _WORD_WITH_DIGITS, _IDENTIFIER = _FORMS


def _build_text_constraints(pattern: str) -> StringConstraints:
    return StringConstraints(pattern=pattern)


class _ManifestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Auth(_ManifestModel):
    """The authentication of the platform, as described in a manifest."""

    type: Literal["none", "api_key", "oauth2", "basic"]
    required_credentials: list[str] = Field(default_factory=list)


class Pagination(_ManifestModel):
    """The pagination of responses, as described in a manifest."""

    supported: bool = True
    type: Literal["offset", "cursor", "page"] | None = None
    max_page_size: int | None = Field(None, ge=1)


class Outputs(_ManifestModel):
    """The output of the adapter, as described in a manifest."""

    schema_ref: str | None = None
    mime_types: list[str] = Field(default_factory=list)


class Artifacts(_ManifestModel):
    """The artifacts of the adapter, as described in a manifest."""

    produces: list[Literal["chart", "file", "log", "report"]] = Field(default_factory=list)


class Manifest(_ManifestModel):
    """The complete manifest of a module."""

    module_id: Annotated[str, _build_text_constraints(_ID)]
    version: Annotated[str, _build_text_constraints(_VERSION)]
    category: Annotated[str, _build_text_constraints(_WORD)]
    platform: Annotated[str, _build_text_constraints(_WORD_WITH_DIGITS)]
    entrypoint: Annotated[str, _build_text_constraints(_IDENTIFIER)]
    capabilities: Annotated[list[Annotated[str, _build_text_constraints(_WORD)]], Field(min_length=1)]
    description: str | None = Field(None, max_length=500)
    auth: Auth | None = None
    pagination: Pagination | None = None
    rate_limits: dict[str, object] | None = None
    outputs: Outputs | None = None
    artifacts: Artifacts | None = None


def check_manifest(manifest: Mapping[str, object]) -> Iterator[Finding]:
    """Yield all findings about a manifest, in the order of the schema, or none if it is valid."""
    try:
        read = Manifest.model_validate(dict(manifest))
    except ValidationError as problem:
        for error in problem.errors(include_url=False):
            yield _build_manifest_finding(error)
        return
    expected = f"{read.category}/{read.platform}"
    if read.module_id != expected:
        yield Finding(
            rule="manifest.module_id",
            category="schema_error",
            severity=Severity.WARNING,
            message=shorten_text(
                f"The module_id is {read.module_id!r}; category and platform say {expected!r}."
            ),
            context="/module_id",
            suggestion=f'Write "module_id": "{shorten_text(expected, 100)}".',
        )


def build_entrypoint_finding(entrypoint: str, known: list[str]) -> Finding:
    """Return the warning for a manifest's entrypoint that has an unknown name."""
    return Finding(
        rule="manifest.entrypoint",
        category="schema_error",
        severity=Severity.WARNING,
        message=f"The entrypoint {shorten_text(entrypoint, 100)!r} isn't in the adapter.",
        context="/entrypoint",
        suggestion=f"Name one of {', '.join(known)}.",
    )


def _build_manifest_finding(error: ErrorDetails) -> Finding:
    pointer = "".join(f"/{_escape_pointer(str(part))}" for part in error["loc"])
    rule, what, suggestion = _explain_error(error)
    return Finding(
        rule=rule,
        category="schema_error",
        message=shorten_text(f"manifest {pointer}: {what}."),
        context=shorten_text(pointer, 200),
        suggestion=shorten_text(suggestion),
    )


def _explain_error(error: ErrorDetails) -> tuple[str, str, str]:
    """Return the rule, message and fix for one error."""
    field, kind, limits = str(error["loc"][-1]), error["type"], error.get("ctx", {})
    match kind:
        case "missing":
            return "manifest.missing", "is missing", f'Add "{field}".'
        case "extra_forbidden":
            names = ", ".join(Manifest.model_fields) if len(error["loc"]) == 1 else "those of the schema"
            return "manifest.unknown", "isn't a field of the manifest", f"Remove it; fields are {names}."
        case "string_pattern_mismatch":
            form, given = _FORMS[limits["pattern"]], shorten_text(str(error["input"]), 60)
            return "manifest.value", f"{given!a} isn't {form}", f"Write {form}.{_format_example(error)}"
        case "literal_error":
            return "manifest.value", "isn't a known value", f"Use one of {limits['expected']}."
        case "string_too_long" | "greater_than_equal" | "too_short":
            return (
                "manifest.value",
                error["msg"][:1].lower() + error["msg"][1:],
                "Change the value accordingly.",
            )
        case _:
            wanted = error["msg"].removeprefix("Input should be ")
            return "manifest.type", f"should be {wanted}", f"Write {wanted}.{_format_example(error)}"


def _format_example(error: ErrorDetails) -> str:
    """Return an example of a valid field, or an empty string if there is none."""
    field = error["loc"][0]
    return f' For example: "{field}": {_EXAMPLE_BY_FIELD[field]}' if field in _EXAMPLE_BY_FIELD else ""


def _escape_pointer(part: str) -> str:
    """Return a key escaped for a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1")


_SELF_NAMES = frozenset({"self", "cls", "mcs", "_", "this"})


def check_methods(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check ``def transform(raw): return self.x``, or `self` in a static method -> contract.method_form."""
    for node in list_nodes(tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if (static := _check_static_method(text, node, method)) is not None:
                    yield replace(static, file=file, category="missing_method")
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and _has_no_self_parameter(
                    method
                ):
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
    """Return the finding for a static method whose first parameter is `self`, or None for others."""
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


def _has_no_self_parameter(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
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
