"""Reports undefined names, with an edit if only one meaning is possible.

    x = null                          name.other_language    edit: x = None   (true, false, null, nil, none)
    re.match(…), never imported       name.not_imported      edit: import re
    Path(…), never imported           name.not_imported      edit: from pathlib import Path
    datetime.now(), never imported    name.not_imported      edit: from datetime import datetime
    import pandas, never used         import.needless        edit: the line is removed

A name is ignored if the source binds it anywhere, or uses it in a way that the imported module doesn't
support. A name whose use certainly fails is reported as an error. In scripts, it is reported as a warning,
because a script is judged by its exit code.

`check_undefined` finds names that are read although no scope of the source binds them.

    parts = path.split("/"); prats[1]     name.undefined    did you mean 'parts'?

Nothing is reported if the source has a star import, accesses its namespace dynamically, or catches
NameError. Code under a condition on the Python version, and names in annotations that are never evaluated,
are ignored. Decision: docs/decisions/0038.
"""

from __future__ import annotations

import ast
import builtins
import datetime
import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from assayd.findings.python_failures import NearestName, find_nearest_name
from assayd.findings.source_text import byte_offset_to_column, get_line, get_snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.static.python.imports import PolicyModules, iter_unused_imports
from assayd.static.python.names import NAMES_BY_PACKAGE
from assayd.static.python.returns import NO_VALUE_RULE, check_returns
from assayd.static.python.safe_fixes import build_edit, parse_or_none
from assayd.static.python.scopes import (
    NodeSite,
    Scope,
    ScopedTree,
    ScopeKind,
    build_scoped_tree,
    find_bound_names,
    find_insertion_line,
    list_nodes,
)
from assayd.static.python.source import PythonSource

UNDEFINED_RULE = Rule(
    id="name.undefined",
    title="A name that isn't defined",
    help="Bad: prats[1], with parts = path.split('/'). Good: parts[1].",
)

_BUILTIN_VARIABLES = frozenset(vars(builtins)) | {
    "exit",
    "quit",
    "copyright",
    "credits",
    "license",
    "help",
    "WindowsError",
}
_MODULE_ATTRIBUTES = frozenset(
    {
        "__annotations__", "__builtins__", "__cached__", "__class__", "__dict__", "__doc__", "__file__",
        "__loader__",
        "__module__", "__name__", "__package__", "__path__", "__qualname__", "__spec__",
    }
)  # fmt: skip
_NAMESPACES = frozenset({"exec", "globals", "locals", "vars", "execfile", "__builtins__", "builtins", "eval"})
"""Names whose use can create bindings that aren't visible in the source."""
_CAUGHT_NAME_ERRORS = frozenset({"NameError", "Exception", "BaseException", "UnboundLocalError"})
_VERSION_CHECK_PATTERN = re.compile(
    r"version|PY_?[23]|py_?[23]|python_?[23]|six|IS_PY|unicode_type|TYPE_CHECKING|MYPY", re.ASCII
)
_MAX_UNDEFINED = 50


_CLASSES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
"""Built-in classes, which are also used without a call: isinstance(x, list), except ValueError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndefinedName:
    """An unbound name, with the locations that read it."""

    name: str
    sites: tuple[NodeSite, ...]


def check_undefined(
    source: PythonSource,
    *,
    given: Collection[str] = (),
    severity: Severity = Severity.ERROR,
    leaving_out: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield the findings for names that the source reads but never binds.

    Yield nothing if a star import, or dynamic access to a namespace, can bind further names.

    Args:
        source: the parsed source.
        given: names that are bound before the source runs.
        severity: the severity of the findings.
        leaving_out: names that another check covers.
    """
    bound = find_bound_names(source.tree) if source.tree is not None else None
    if source.tree is None or bound is None:
        return
    known = {*bound, *_BUILTIN_VARIABLES, *_MODULE_ATTRIBUTES, *given, *leaving_out}
    names = [n for n in list_nodes(source.tree) if isinstance(n, ast.Name)]
    unknown = {n.id for n in names if isinstance(n.ctx, ast.Load) and n.id not in known}
    if not unknown or any(n.id in _NAMESPACES - bound for n in names):
        return
    tree = build_scoped_tree(source.tree)
    passed = _find_skipped_nodes(source.tree)
    for one in list(_find_undefined(tree, unknown, passed))[:_MAX_UNDEFINED]:
        yield _finding(one, source, tree, severity)


def _find_undefined(
    tree: ScopedTree, unknown: Collection[str], passed: Collection[ast.AST]
) -> Iterator[_UndefinedName]:
    found: dict[str, list[NodeSite]] = {}
    skipped: set[ast.AST] = set(passed)
    for site in tree.sites:  # Parents come before children.
        if site.node in skipped or site.parent in skipped:
            skipped.add(site.node)
        elif (
            isinstance(site.node, ast.Name)
            and site.node.id in unknown
            and isinstance(site.node.ctx, ast.Load)
        ):
            found.setdefault(site.node.id, []).append(site)
    for name, sites in found.items():
        yield _UndefinedName(name=name, sites=tuple(sites))


def _find_skipped_nodes(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes that the check skips. Their descendants are skipped, too."""
    late = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    passed: set[ast.AST] = set()
    for node in list_nodes(tree):
        match node:
            case ast.Try(handlers=handlers, body=body) if any(map(_catches_name_error, handlers)):
                passed.update(body)
            case ast.If(test=test) | ast.IfExp(test=test) if _VERSION_CHECK_PATTERN.search(ast.unparse(test)):
                passed.add(node)
            case ast.BoolOp(values=[first, *_]) if _VERSION_CHECK_PATTERN.search(ast.unparse(first)):
                passed.add(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = (n for n in ast.walk(node) if isinstance(n, ast.AnnAssign))
                passed.update(n.annotation for n in inner)
                if late and node.returns is not None:
                    passed.add(node.returns)
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation) if late:
                passed.add(annotation)
            case ast.Delete():
                passed.add(node)
            case _:
                pass
    return passed


def _catches_name_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(one, ast.Name) and one.id in _CAUGHT_NAME_ERRORS for one in named)


def _iter_scopes(scope: Scope) -> Iterator[Scope]:
    current: Scope | None = scope
    while current is not None:
        yield current
        current = current.parent


def _finding(one: _UndefinedName, source: PythonSource, tree: ScopedTree, severity: Severity) -> Finding:
    first = min(one.sites, key=lambda site: (_get_site_line(site), _get_site_column(site)))
    near = _guess_intended_name(first, tree) if len(one.name) > 2 else None
    line = _get_site_line(first)
    shown = get_line(source.text, line) or ""
    others = sorted({_get_site_line(site) for site in one.sites} - {line})
    also = f" (also in line{'s' * (len(others) > 1)} {', '.join(map(str, others[:10]))})" if others else ""
    remedy = f"Define or import '{one.name}' before it is used."
    if one.name == "self" and any(scope.kind is ScopeKind.CLASS for scope in _iter_scopes(first.scope)):
        remedy = "Add `self` as the first parameter of the method."
    if one.name in sys.stdlib_module_names:
        near, remedy = None, f"Add at the top: import {one.name}"
    elif near:
        remedy = f"Did you mean '{near.name}'?"
    foreign = near is None and one.name not in sys.stdlib_module_names
    if foreign and all(site.scope.kind is not ScopeKind.MODULE for site in one.sites):
        # Nothing is misspelled: the code fails only if it is reached, and the run shows that.
        severity = Severity.WARNING
    return Finding(
        rule=UNDEFINED_RULE.id,
        category="name",
        message=f"'{one.name}' is not defined anywhere in the code{also}.",
        severity=severity,
        line=line,
        column=byte_offset_to_column(shown, _get_site_column(first)),
        snippet=get_snippet(source.text, line),
        suggestion=remedy,
        edit=_build_misspelling_edit(one, near.name, source.text) if near and near.certain else None,
    )


def _guess_intended_name(site: NodeSite, tree: ScopedTree) -> NearestName | None:
    """Return the visible name that was probably intended, or None if no name is similar.

    For a call, functions and imports are preferred.
    """
    node = site.node
    name = node.id if isinstance(node, ast.Name) else ""
    chain = list(_iter_scopes(site.scope))
    visible = [s for s in chain if s is chain[0] or s.kind is not ScopeKind.CLASS]
    circles = [*(scope.bound for scope in visible), _BUILTIN_VARIABLES]
    called = isinstance(site.parent, ast.Call) and site.parent.func is node
    functions = {
        n.node.name
        for n in tree.sites
        if isinstance(n.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    callable_builtins = {n for n in _BUILTIN_VARIABLES if callable(getattr(builtins, n, None))}
    imported = {n for scope in visible for n in scope.imports}
    every = {n for circle in circles for n in circle}
    handed_on = isinstance(site.parent, ast.Call | ast.keyword)
    plain = every - functions - (set() if handed_on else callable_builtins - _CLASSES)
    return find_nearest_name(
        name, circles, (functions | callable_builtins | imported if called else plain) & every
    )


def _build_misspelling_edit(one: _UndefinedName, meant: str, text: str) -> Edit | None:
    """Return the edit that corrects a misspelled name at all of its locations.

    Return None if the name isn't found at a location, or if the result doesn't compile.
    """
    lines = text.split("\n")
    for site in sorted(one.sites, key=lambda s: (_get_site_line(s), _get_site_column(s)), reverse=True):
        line = lines[_get_site_line(site) - 1]
        start = byte_offset_to_column(line, _get_site_column(site)) - 1
        if line[start : start + len(one.name)] != one.name:
            return None
        lines[_get_site_line(site) - 1] = line[:start] + meant + line[start + len(one.name) :]
    changed = "\n".join(lines)
    return build_edit(text, changed) if parse_or_none(changed) is not None else None


def _get_site_line(site: NodeSite) -> int:
    return getattr(site.node, "lineno", 1)


def _get_site_column(site: NodeSite) -> int:
    return getattr(site.node, "col_offset", 0)


NAME_RULES = (
    Rule(
        id="name.other_language",
        title="A literal of another language",
        help="Bad: null, true, false. Good: None, True, False.",
    ),
    Rule(
        id="name.not_imported",
        title="A well-known name isn't imported",
        help="Bad: re.match(…) alone. Good: import re, and then re.match(…).",
    ),
    UNDEFINED_RULE,
    NO_VALUE_RULE,
)
RULES = (
    *NAME_RULES,
    Rule(
        id="import.needless",
        title="An unused import that must fail",
        severity=Severity.WARNING,
        help="Bad: import pandas, in an image without it. Good: nothing in its place.",
    ),
)
"""The rules of kinds that can import every module of the image."""

IsImportAllowed = Callable[[str, str | None], bool]
"""Returns whether a module, or a name of it, can be imported."""

_PATH_NAMES = NAMES_BY_PACKAGE["os"] | {"path"}
_LITERAL_BY_NAME = {
    "true": "True", "TRUE": "True", "false": "False", "FALSE": "False",
    "null": "None", "NULL": "None", "none": "None", "nil": "None",
}  # fmt: skip
_INSPECTED_MODULES = frozenset(
    {
        "abc", "argparse", "asyncio", "base64", "binascii", "bisect", "calendar", "collections",
        "contextlib", "copy",
        "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools",
        "glob",
        "gzip", "hashlib", "heapq", "hmac", "html", "inspect", "io", "ipaddress", "itertools", "json",
        "logging", "math",
        "mimetypes", "numbers", "operator", "os", "pathlib", "pickle", "pprint", "queue", "random", "re",
        "secrets",
        "shlex", "shutil", "sqlite3", "statistics", "string", "struct", "subprocess", "sys", "tempfile",
        "textwrap",
        "threading", "time", "traceback", "types", "typing", "unicodedata", "unittest", "uuid", "warnings",
        "weakref",
        "zipfile", "zlib", "zoneinfo",
    }
)  # fmt: skip
"""Modules that can be imported here without side effects, to look up their names."""
_USUAL_SUBMODULES = {
    "urllib": ("urllib.parse",),
    "xml": ("xml.etree.ElementTree",),
    "concurrent": ("concurrent.futures",),
}
"""Packages that usually mean one of their modules."""
_ADAPTER_MODULES = frozenset({"aiohttp", "httpx", "pydantic", "pytest", "requests"})
"""Modules of the adapter image; their names aren't looked up."""
_MODULE_NAMES = {
    "abc": "ABC ABCMeta abstractmethod",
    "bisect": "bisect_left bisect_right insort",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "contextlib": "ExitStack asynccontextmanager closing contextmanager nullcontext redirect_stdout suppress",
    "copy": "deepcopy",
    "dataclasses": "asdict astuple dataclass is_dataclass",
    "datetime": "timedelta timezone",
    "decimal": "Decimal InvalidOperation ROUND_HALF_EVEN ROUND_HALF_UP",
    "enum": "Enum Flag IntEnum IntFlag StrEnum",
    "fractions": "Fraction",
    "functools": "cached_property lru_cache partial reduce singledispatch total_ordering wraps cmp_to_key",
    "heapq": "heapify heappop heappush nlargest nsmallest",
    "http": "HTTPStatus",
    "io": "BytesIO StringIO",
    "itertools": "accumulate chain combinations dropwhile groupby islice permutations starmap takewhile"
    " zip_longest pairwise compress combinations_with_replacement filterfalse",
    "json": "JSONDecodeError",
    "logging": "getLogger",
    "math": "sqrt ceil floor isclose hypot",
    "operator": "attrgetter itemgetter methodcaller",
    "pathlib": "Path PurePath PurePosixPath PureWindowsPath",
    "pprint": "pprint",
    "random": "randint shuffle",
    "statistics": "fmean mean median pstdev stdev",
    "string": "ascii_letters ascii_lowercase ascii_uppercase punctuation",
    "tempfile": "NamedTemporaryFile TemporaryDirectory",
    "textwrap": "dedent",
    "time": "perf_counter sleep",
    "types": "MappingProxyType SimpleNamespace",
    "typing": "Any Callable ClassVar Dict Final Generic Iterable Iterator List Literal Mapping NamedTuple"
    " Optional Protocol Sequence Set Tuple Type TypeVar TypedDict Union cast",
    "unittest": "TestCase",
    "unittest.mock": "AsyncMock MagicMock Mock patch",
    "urllib.parse": "parse_qs parse_qsl quote_plus unquote urlencode urljoin urlparse urlsplit urlunparse",
    "uuid": "UUID uuid4 uuid5",
    "zoneinfo": "ZoneInfo",
}
_MODULE_OF_NAME = {name: module for module, names in _MODULE_NAMES.items() for name in names.split()}
"""The module of each name that has one well-known source."""


def check_undefined_names(
    source: PythonSource,
    policy: ImportPolicy,
    *,
    offered: Collection[str] | None = None,
    leaving_out: Collection[str] = (),
    given: Collection[str] = (),
    severity: Severity = Severity.ERROR,
) -> Iterator[Finding]:
    """Yield the findings for undefined names, missing returns and needless imports in a parsed source.

    Args:
        source: the parsed source.
        policy: the allowed imports; a policy that only observes allows everything in `offered`.
        offered: the top-level modules of the image, if code can import all of them.
        leaving_out: modules whose names another check covers.
        given: names that are bound before the source runs.
        severity: the severity of an unbound name.
    """
    bound = find_bound_names(source.tree) if source.tree is not None else None
    if source.tree is None or bound is None:
        return
    uses = _UndefinedUses(source.tree, bound | frozenset(given))
    known = [
        *_check_literals(uses, source.text),
        *_check_missing_imports(uses, source, _build_allowed_predicate(policy, offered or (), leaving_out)),
    ]
    yield from (replace(finding, severity=severity) for finding in known)
    named = {name for name in uses.names if any(f.message.startswith(f"{name!r} ") for f in known)}
    others = {name for module in leaving_out for name in dir(importlib.import_module(module))}
    yield from check_returns(source, severity=severity)
    yield from check_undefined(source, given=given, severity=severity, leaving_out=named | others)
    for module, edit in iter_unused_imports(source.tree, source.text) if offered is not None else ():
        if module.partition(".")[0] not in (offered or ()):
            message = f"{module!r} is imported but never used, and the image doesn't have it."
            remedy = "Remove the line."
            yield _build_warning_finding(
                "import.needless", message, edit.start_line, source.text, remedy, edit
            )


def _build_allowed_predicate(
    policy: ImportPolicy, offered: Collection[str], leaving_out: Collection[str]
) -> IsImportAllowed:
    modules = PolicyModules.from_policy(policy)

    def allows(module: str, name: str | None) -> bool:
        if module in leaving_out:
            return False
        if policy.mode is not ImportMode.ENFORCE:
            return module.partition(".")[0] in offered
        return policy.allows(module) and (name is None or modules.allows_name(module, name))

    return allows


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndefinedUse:
    """The uses of an undefined name: the line of the first, and the accessed attributes.

    `attributes` is None if the name is also used without an attribute; `known` contains the attributes in
    either case.
    """

    line: int
    attributes: frozenset[str] | None
    known: frozenset[str] = frozenset()


class _UndefinedUses:
    """A record of all names that a source reads but never binds."""

    def __init__(self, tree: ast.Module, bound: frozenset[str]) -> None:
        nodes = list_nodes(tree)
        self._asked = {
            id(node.value): node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        self.names: dict[str, list[ast.Name]] = {}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
                self.names.setdefault(node.id, []).append(node)

    def asked(self, name: str) -> _UndefinedUse:
        """Return the line of a name's first use and the attributes read from the name."""
        found = self.names[name]
        attributes = [self._asked.get(id(node)) for node in found]
        known = frozenset(each for each in attributes if each is not None)
        return _UndefinedUse(
            line=min(node.lineno for node in found),
            attributes=None if None in attributes else known,
            known=known,
        )


def _check_literals(uses: _UndefinedUses, text: str) -> Iterator[Finding]:
    """Report ``x = null`` as name.other_language, with one edit that corrects all such names."""
    found = [node for name in uses.names if name in _LITERAL_BY_NAME for node in uses.names[name]]
    if not found:
        return
    lines = text.split("\n")
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    for node in reversed(found):
        line = lines[node.lineno - 1]
        start = byte_offset_to_column(line, node.col_offset) - 1
        lines[node.lineno - 1] = line[:start] + _LITERAL_BY_NAME[node.id] + line[start + len(node.id) :]
    edit = build_edit(text, "\n".join(lines))
    for name in dict.fromkeys(node.id for node in found):
        message, remedy = f"{name!r} isn't a Python literal.", f"Write {_LITERAL_BY_NAME[name]}."
        first = next(node.lineno for node in found if node.id == name)
        yield _build_warning_finding("name.other_language", message, first, text, remedy, edit)


def _check_missing_imports(
    uses: _UndefinedUses, source: PythonSource, allows: IsImportAllowed
) -> Iterator[Finding]:
    """Report ``re.match(…)`` as name.not_imported, with one edit that adds all missing imports."""
    statements = {}
    for name in uses.names:
        if (
            name in _MODULE_OF_NAME
            or name in _INSPECTED_MODULES
            or name in _USUAL_SUBMODULES
            or name in _ADAPTER_MODULES
        ):
            statement = _choose_import(name, uses.asked(name), allows)
            if statement is not None:
                statements[name] = statement
    if not statements or source.tree is None:
        return
    line = find_insertion_line(source.tree)
    added = "\n".join(sorted(set(statements.values())))
    edit = Edit(start_line=line, end_line=line - 1, replacement=added)
    for name, statement in statements.items():
        message = f"{name!r} is used but not imported."
        first = uses.asked(name).line
        yield _build_warning_finding(
            "name.not_imported", message, first, source.text, f"Put at the top: {statement}", edit
        )


def _choose_import(name: str, asked: _UndefinedUse, allows: IsImportAllowed) -> str | None:
    """Return the import that binds a name, or None if it isn't allowed or isn't certain."""
    if name in _MODULE_OF_NAME:
        return f"from {_MODULE_OF_NAME[name]} import {name}" if allows(_MODULE_OF_NAME[name], name) else None
    if asked.attributes is None:
        named = name == "datetime" and asked.known and all(hasattr(datetime.datetime, n) for n in asked.known)
        return "from datetime import datetime" if named and allows(name, name) else None
    if name in _ADAPTER_MODULES:
        return f"import {name}" if allows(name, None) else None
    if name in _USUAL_SUBMODULES:
        return next(
            (f"import {one}" for one in _USUAL_SUBMODULES[name] if _refers_to_submodule(one, asked, allows)),
            None,
        )
    if name == "datetime":
        return _choose_datetime_import(asked.attributes, allows)
    return _build_plain_import(name, asked.attributes, allows)


def _build_plain_import(name: str, attributes: frozenset[str], allows: IsImportAllowed) -> str | None:
    """Return the import of a module, or None if it isn't allowed or lacks an accessed attribute."""
    if name == "os" and attributes <= _PATH_NAMES and not allows("os", None):
        return "import os.path" if allows("os.path", None) else None
    module = importlib.import_module(name)
    had = allows(name, None) and all(hasattr(module, each) and allows(name, each) for each in attributes)
    return f"import {name}" if had else None


def _refers_to_submodule(dotted: str, asked: _UndefinedUse, allows: IsImportAllowed) -> bool:
    """Return whether all uses of a package refer to one particular module of the package."""
    return asked.known == {dotted.split(".")[1]} and allows(dotted, None)


def _choose_datetime_import(attributes: frozenset[str], allows: IsImportAllowed) -> str | None:
    """Return the import of the module or of the class `datetime`, inferred from the accessed attributes.

    Return None if both or neither have them, or if the import isn't allowed.
    """
    of_module = all(hasattr(datetime, each) for each in attributes)
    of_class = all(hasattr(datetime.datetime, each) for each in attributes)
    if of_module == of_class or not allows("datetime", "datetime"):
        return None
    return "import datetime" if of_module else "from datetime import datetime"


def _build_warning_finding(
    rule: str, message: str, line: int, text: str, remedy: str, edit: Edit | None
) -> Finding:
    return Finding(
        rule=rule,
        category=rule.partition(".")[0],
        message=message,
        severity=Severity.WARNING,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=remedy,
        edit=edit,
    )
