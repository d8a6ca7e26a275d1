"""Reports undefined names, with an edit if only one meaning is possible.

    x = null                          name.other_language    edit: x = None   (true, false, null, nil, none)
    re.match(…), never imported       name.not_imported      edit: import re
    Path(…), never imported           name.not_imported      edit: from pathlib import Path
    datetime.now(), never imported    name.not_imported      edit: from datetime import datetime
    import pandas, never used         import.needless        edit: the line is removed

A name is ignored if the source binds it anywhere, or uses it in a way that the imported module doesn't
support. A name whose use certainly fails is reported as an error. In scripts, it is reported as a warning,
because a script is judged by its exit code.
"""

from __future__ import annotations

import ast
import datetime
import importlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from assayd.findings.source_text import column_of, snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.static.python.imports import PolicyModules, unused_imports
from assayd.static.python.names import PACKAGE_NAMES
from assayd.static.python.returns import NO_VALUE_RULE, check_returns
from assayd.static.python.safe_fixes import edit_between
from assayd.static.python.scopes import bound_names, insertion_line, nodes_of
from assayd.static.python.source import PythonSource
from assayd.static.python.undefined import UNDEFINED_RULE, check_undefined

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

Allows = Callable[[str, str | None], bool]
"""Returns whether a module, or a name of it, can be imported."""

_PATH_NAMES = PACKAGE_NAMES["os"] | {"path"}
_LITERALS = {
    "true": "True", "TRUE": "True", "false": "False", "FALSE": "False",
    "null": "None", "NULL": "None", "none": "None", "nil": "None",
}  # fmt: skip
_MODULES = frozenset(
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
_SUBMODULES = {
    "urllib": ("urllib.parse",),
    "xml": ("xml.etree.ElementTree",),
    "concurrent": ("concurrent.futures",),
}
"""Packages that usually mean one of their modules."""
_OTHERS = frozenset({"aiohttp", "httpx", "pydantic", "pytest", "requests"})
"""Modules of the adapter image; their names aren't looked up."""
_FROM = {
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
_HOMES = {name: module for module, names in _FROM.items() for name in names.split()}
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
    """Yield the findings for undefined names in a parsed source.

    Args:
        source: the parsed source.
        policy: the allowed imports; a policy that only observes allows everything in `offered`.
        offered: the top-level modules of the image, if code can import all of them.
        leaving_out: modules whose names another check covers.
        given: names that are bound before the source runs.
        severity: the severity of an unbound name.
    """
    bound = bound_names(source.tree) if source.tree is not None else None
    if source.tree is None or bound is None:
        return
    uses = _UndefinedUses(source.tree, bound | frozenset(given))
    known = [
        *_check_literals(uses, source.text),
        *_check_missing_imports(uses, source, _allowed_predicate(policy, offered or (), leaving_out)),
    ]
    yield from (replace(finding, severity=severity) for finding in known)
    named = {name for name in uses.names if any(f.message.startswith(f"{name!r} ") for f in known)}
    others = {name for module in leaving_out for name in dir(importlib.import_module(module))}
    yield from check_returns(source, severity=severity)
    yield from check_undefined(source, given=given, severity=severity, leaving_out=named | others)
    for module, edit in unused_imports(source.tree, source.text) if offered is not None else ():
        if module.partition(".")[0] not in (offered or ()):
            message = f"{module!r} is imported but never used, and the image doesn't have it."
            remedy = "Remove the line."
            yield _warning_finding("import.needless", message, edit.start_line, source.text, remedy, edit)


def _allowed_predicate(
    policy: ImportPolicy, offered: Collection[str], leaving_out: Collection[str]
) -> Allows:
    modules = PolicyModules.of(policy)

    def allows(module: str, name: str | None) -> bool:
        if module in leaving_out:
            return False
        if policy.mode is not ImportMode.ENFORCE:
            return module.partition(".")[0] in offered
        return policy.allows(module) and (name is None or modules.allows_name(module, name))

    return allows


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndefinedUse:
    """A use of an undefined name, with its line and the accessed attributes (None for any other use)."""

    line: int
    attributes: frozenset[str] | None
    known: frozenset[str] = frozenset()


class _UndefinedUses:
    """A record of all names that a source reads but never binds."""

    def __init__(self, tree: ast.Module, bound: frozenset[str]) -> None:
        nodes = nodes_of(tree)
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
        """Return the recorded use of a name."""
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
    found = [node for name in uses.names if name in _LITERALS for node in uses.names[name]]
    if not found:
        return
    lines = text.split("\n")
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    for node in reversed(found):
        line = lines[node.lineno - 1]
        start = column_of(line, node.col_offset) - 1
        lines[node.lineno - 1] = line[:start] + _LITERALS[node.id] + line[start + len(node.id) :]
    edit = edit_between(text, "\n".join(lines))
    for name in dict.fromkeys(node.id for node in found):
        message, remedy = f"{name!r} isn't a Python literal.", f"Write {_LITERALS[name]}."
        first = next(node.lineno for node in found if node.id == name)
        yield _warning_finding("name.other_language", message, first, text, remedy, edit)


def _check_missing_imports(uses: _UndefinedUses, source: PythonSource, allows: Allows) -> Iterator[Finding]:
    """Report ``re.match(…)`` as name.not_imported, with one edit that adds all missing imports."""
    statements = {}
    for name in uses.names:
        if name in _HOMES or name in _MODULES or name in _SUBMODULES or name in _OTHERS:
            statement = _import_for(name, uses.asked(name), allows)
            if statement is not None:
                statements[name] = statement
    if not statements or source.tree is None:
        return
    line = insertion_line(source.tree)
    added = "\n".join(sorted(set(statements.values())))
    edit = Edit(start_line=line, end_line=line - 1, replacement=added)
    for name, statement in statements.items():
        message = f"{name!r} is used but not imported."
        first = uses.asked(name).line
        yield _warning_finding(
            "name.not_imported", message, first, source.text, f"Put at the top: {statement}", edit
        )


def _import_for(name: str, asked: _UndefinedUse, allows: Allows) -> str | None:
    """Return the import that binds a name, or None if several imports are possible."""
    if name in _HOMES:
        return f"from {_HOMES[name]} import {name}" if allows(_HOMES[name], name) else None
    if asked.attributes is None:
        named = name == "datetime" and asked.known and all(hasattr(datetime.datetime, n) for n in asked.known)
        return "from datetime import datetime" if named and allows(name, name) else None
    if name in _OTHERS:
        return f"import {name}" if allows(name, None) else None
    if name in _SUBMODULES:
        return next(
            (f"import {one}" for one in _SUBMODULES[name] if _refers_to_submodule(one, asked, allows)), None
        )
    if name == "datetime":
        return _datetime_import(asked.attributes, allows)
    return _plain_import(name, asked.attributes, allows)


def _plain_import(name: str, attributes: frozenset[str], allows: Allows) -> str | None:
    """Return the import of a module if it is allowed and the module has all accessed attributes."""
    if name == "os" and attributes <= _PATH_NAMES and not allows("os", None):
        return "import os.path" if allows("os.path", None) else None
    module = importlib.import_module(name)
    had = allows(name, None) and all(hasattr(module, each) and allows(name, each) for each in attributes)
    return f"import {name}" if had else None


def _refers_to_submodule(dotted: str, asked: _UndefinedUse, allows: Allows) -> bool:
    """Return whether all uses of a package refer to one particular module of the package."""
    return asked.known == {dotted.split(".")[1]} and allows(dotted, None)


def _datetime_import(attributes: frozenset[str], allows: Allows) -> str | None:
    """Return the import of the module or of the class `datetime`, inferred from the accessed attributes."""
    of_module = all(hasattr(datetime, each) for each in attributes)
    of_class = all(hasattr(datetime.datetime, each) for each in attributes)
    if of_module == of_class or not allows("datetime", "datetime"):
        return None
    return "import datetime" if of_module else "from datetime import datetime"


def _warning_finding(
    rule: str, message: str, line: int, text: str, remedy: str, edit: Edit | None
) -> Finding:
    return Finding(
        rule=rule,
        category=rule.partition(".")[0],
        message=message,
        severity=Severity.WARNING,
        line=line,
        snippet=snippet(text, line),
        suggestion=remedy,
        edit=edit,
    )
