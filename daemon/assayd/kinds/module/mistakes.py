"""Finds mistakes that are visible only across several files, or that cause failures in other lines.

    from readings import grades       import.no_name         readings.py has `grade`
    platform="openmeteo"              contract.manifest      the manifest says open_meteo
    return response.json              call.missing           a method that isn't called (a warning)
    API_KEY = "q8Zr…"                 source.secret          a warning

Dynamic bindings of a file (a star import, `__getattr__`) aren't checked before the run.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_line, get_snippet
from assayd.kinds.module.contract import get_last_name
from assayd.kinds.module.files import is_test, module_name
from assayd.kinds.module.imports import resolve_absolute
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import AdapterContract
from assayd.model.text_limits import shorten_text
from assayd.static.python.imports import finding_at
from assayd.static.python.returns import build_return_edit
from assayd.static.python.safe_fixes import CompileBudget
from assayd.static.python.scopes import find_bound_names, list_nodes

RULES = (
    Rule(
        id="import.no_name",
        title="A name that another file doesn't have",
        help="Bad: from rates import converted, if rates.py defines convert.",
    ),
    Rule(
        id="contract.manifest",
        title="The decorator and the manifest disagree",
        help='Bad: platform="openmeteo", if the manifest says open_meteo.',
    ),
    Rule(
        id="contract.no_base",
        title="The adapter has no base class",
        severity=Severity.WARNING,
        help="Bad: class Weather: …. Good: class Weather(Adapter): ….",
    ),
    Rule(
        id="call.missing",
        title="A method that isn't called",
        severity=Severity.WARNING,
        help="Bad: return response.json. Good: return response.json().",
    ),
    Rule(
        id="call.at_import",
        title="A request when the module is imported",
        severity=Severity.WARNING,
        help="Bad: CITIES = httpx.get(URL) at the top. Good: in fetch_raw().",
    ),
    Rule(
        id="files.json",
        title="A JSON file that can't be parsed",
        severity=Severity.WARNING,
        help="Bad: {'city': 'Oslo'}. Good: double quotes.",
    ),
    Rule(
        id="source.secret",
        title="A secret in the source",
        severity=Severity.WARNING,
        help='Bad: API_KEY = "…". Good: self.config["api_key"].',
    ),
)
_METHODS = frozenset(
    {
        "aclose", "append", "capitalize", "casefold", "close", "copy", "items", "json", "keys", "lower",
        "lstrip", "model_dump", "raise_for_status", "read", "readlines", "read_text", "rstrip", "split",
        "splitlines", "strip", "title", "upper", "values",
    }
)  # fmt: skip
_SECRET_NAME_PATTERN = re.compile(
    r"(?:api_?key|secret|passw(?:or)?d|token|credential|private_?key|auth_?key)", re.IGNORECASE
)
_SECRET_VALUE_PATTERN = re.compile(
    r"(?:Bearer\s+)?(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|xox[abp]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)$"
)
_PLACEHOLDER_PATTERN = re.compile(
    r"your|example|dummy|test|fake|sample|changeme|placeholder|xxx|demo|<|\{|\$|\s|^[a-z_.-]+$|^[A-Z_]+$|/",
    re.IGNORECASE,
)
_MIN_SECRET_CHARS = 10
_MAX_SECRETS = 10
_MAX_EDITS = 20
"""Maximum edits of a file that are compiled to check them."""

Trees = Mapping[str, ast.Module]


def list_own_names(trees: Trees) -> Mapping[str, frozenset[str]]:
    """Return the importable names of each file, by the dotted name of the file.

    Files that bind names dynamically (by a star import or `__getattr__`) are omitted.
    """
    found: dict[str, frozenset[str]] = {}
    for file, tree in trees.items():
        names = find_bound_names(tree)
        if names is not None and "__getattr__" not in names:
            found[module_name(file)] = names
    return found


def check_own_names(
    file: str, text: str, tree: ast.Module, own: Mapping[str, frozenset[str]]
) -> Iterator[Finding]:
    """Check own imports: ``from readings import grades`` if only `grade` exists -> import.no_name."""
    for node in list_nodes(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = resolve_absolute(file, node)
        if module not in own or module is None:
            continue
        for alias in node.names:
            missing = (
                alias.name != "*" and alias.name not in own[module] and f"{module}.{alias.name}" not in own
            )
            if missing:
                yield replace(
                    _build_unknown_name_finding(node, text, module, alias.name, own[module]), file=file
                )


def _build_unknown_name_finding(
    node: ast.ImportFrom, text: str, module: str, name: str, known: frozenset[str]
) -> Finding:
    near = find_close_names(name, sorted(known))
    public = ", ".join(sorted(one for one in known if not one.startswith("_"))[:8])
    hint = f"Did you mean `{near[0]}`?" if near else f"Define it there, or import an existing name: {public}."
    message = f"{module}.py has no `{name}`."
    found = finding_at(node, text, "import.no_name", message, suggestion=hint)
    return replace(found, edit=build_word_edit(text, node.lineno, name, near[0]) if near else None)


def find_intended_names(findings: list[Finding]) -> frozenset[str]:
    """Return the intended names of misspelt imports, so that uses of the intended names aren't reported."""
    meant = (re.search(r"Did you mean `(\w+)`", one.suggestion or "") for one in findings)
    return frozenset(found[1] for found in meant if found is not None)


def check_decorator(
    file: str, text: str, node: ast.ClassDef, manifest: Mapping[str, object], contract: AdapterContract
) -> Iterator[Finding]:
    """Check ``@register_adapter(platform="openmeteo")`` against the manifest -> contract.manifest."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or get_last_name(decorator.func) not in contract.decorators:
            continue
        yield from _check_missing_arguments(file, text, decorator, manifest)
        for given in decorator.keywords:
            said = manifest.get(given.arg or "")
            value = given.value.value if isinstance(given.value, ast.Constant) else None
            if (
                given.arg in {"category", "platform"}
                and isinstance(said, str)
                and isinstance(value, str)
                and said != value
            ):
                message = f'The decorator says {given.arg}="{value}", and the manifest "{said}".'
                hint = f'Write the same in both: {given.arg}="{said}".'
                found = finding_at(given.value, text, "contract.manifest", message, suggestion=hint)
                edit = build_word_edit(text, given.value.lineno, value, said, quoted=True)
                yield replace(found, file=file, edit=edit)


def _check_missing_arguments(
    file: str, text: str, node: ast.Call, manifest: Mapping[str, object]
) -> Iterator[Finding]:
    """Check ``@register_adapter(category="weather")`` without platform -> contract.manifest (a warning)."""
    given = {each.arg for each in node.keywords}
    for name in ("category", "platform"):
        said = manifest.get(name)
        if name in given or node.args or not given & {"category", "platform"} or not isinstance(said, str):
            continue
        hint = f'Add {name}="{said}" to the decorator.'
        found = finding_at(
            node,
            text,
            "contract.manifest",
            f"The decorator has no {name}.",
            suggestion=hint,
            severity=Severity.WARNING,
        )
        line = get_line(text, node.lineno) or ""
        end = node.end_col_offset
        edit = None
        if node.end_lineno == node.lineno and end is not None and line.isascii():
            new = f'{line[: end - 1]}, {name}="{said}"{line[end - 1 :]}'
            edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new)
        yield replace(found, file=file, edit=edit)


def check_base_class(
    file: str, text: str, tree: ast.Module, node: ast.ClassDef, contract: AdapterContract
) -> Iterator[Finding]:
    """Check for ``class Weather:`` if `Adapter` is imported but unused -> contract.no_base (a warning)."""
    imported = {
        alias.asname or alias.name
        for each in tree.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
        if alias.name in contract.base_classes
    }
    used = {each.id for each in list_nodes(tree) if isinstance(each, ast.Name)}
    if node.bases or node.keywords or not imported or imported & used:
        return
    base = min(imported)
    line = get_line(text, node.lineno) or ""
    new = re.sub(
        rf"\bclass\s++{re.escape(node.name)}\s*+(?:\(\s*+\))?\s*+:",
        f"class {node.name}({base}):",
        line,
        count=1,
    )
    found = finding_at(
        node,
        text,
        "contract.no_base",
        f"{node.name} has no base class, and `{base}` is imported and unused.",
        suggestion=f"Write `class {node.name}({base}):`.",
        severity=Severity.WARNING,
    )
    edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new) if new != line else None
    yield replace(found, file=file, category="missing_method", edit=edit)


def check_calls(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check for uncalled methods: ``return response.json`` -> call.missing (a warning)."""
    called = {
        each.func.id
        for each in list_nodes(tree)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    for node in list_nodes(tree):
        value: ast.expr | None = None
        match node:
            case ast.Expr(value=ast.Attribute() as value) | ast.Return(value=ast.Attribute() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Attribute() as value) if (
                target not in called
            ):
                pass
            case ast.For(iter=ast.Attribute() as value) | ast.comprehension(iter=ast.Attribute() as value):
                pass
            case _:
                continue
        if isinstance(value, ast.Attribute) and _is_uncalled_method(value, node):
            name = ast.unparse(value)
            found = finding_at(
                value,
                text,
                "call.missing",
                f"`{name}` is the method itself: it isn't called.",
                suggestion=f"Call it: `{name}()`.",
                severity=Severity.WARNING,
            )
            yield replace(
                found, file=file, edit=build_word_edit(text, value.end_lineno or 0, name, f"{name}()")
            )


def _is_uncalled_method(value: ast.Attribute, node: ast.AST) -> bool:
    base = value.value
    if (
        not isinstance(base, ast.Name)
        or base.id in vars(builtins)
        or base.id[:1].isupper()
        or base.id == "self"
    ):
        return False
    return value.attr in _METHODS or (
        isinstance(node, ast.Expr) and value.attr.startswith(("raise_", "close"))
    )


def check_dropped_results(file: str, text: str, tree: ast.Module, budget: CompileBudget) -> Iterator[Finding]:
    """Check for a missing `return`: ``-> float: round(x, 2)`` -> function.no_value (a warning)."""
    edits = 0
    for node in list_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
            continue
        last = node.body[-1]
        promised = ast.unparse(node.returns).strip("'\"")
        dropped = _find_dropped_expression(last)
        if dropped is None or _NO_VALUE_PATTERN.match(promised):
            continue
        if any(isinstance(n, ast.Return | ast.Yield) for n in ast.walk(node)):
            continue
        found = finding_at(
            last,
            text,
            "function.no_value",
            f"{node.name}() returns None: the result of its last line is dropped.",
            suggestion=f"Write: return {dropped}",
            severity=Severity.WARNING,
        )
        edits += 1
        name = None if isinstance(last, ast.Expr) else dropped
        edit = build_return_edit(last, text, name, budget=budget) if edits <= _MAX_EDITS else None
        yield replace(found, file=file, category="function", edit=edit)


def _find_dropped_expression(statement: ast.stmt) -> str | None:
    """Return the expression that a function's last statement computes but doesn't return.

    Return None for other statements.
    """
    match statement:
        case ast.Expr(value=value) if isinstance(value, _VALUES):
            return ast.unparse(value)[:120]
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
        ):
            return name
    return None


_VALUES = (
    ast.Call, ast.IfExp, ast.Await, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.BinOp, ast.Compare,
    ast.Subscript, ast.Name, ast.Attribute, ast.JoinedStr, ast.ListComp, ast.DictComp, ast.SetComp,
)  # fmt: skip


def check_generators(file: str, text: str, tree: ast.Module, contract: AdapterContract) -> Iterator[Finding]:
    """Check for ``def transform(self, raw) -> dict: yield …``, a generator -> contract.method_form."""
    for node in list_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name not in contract.methods:
            continue
        inner = {
            each
            for one in ast.walk(node)
            if one is not node and isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for each in ast.walk(one)
        }
        yields = [one for one in ast.walk(node) if isinstance(one, ast.Yield) and one not in inner]
        promised = ast.unparse(node.returns) if node.returns is not None else "Iterator"
        if not yields or re.search(r"Iterat|Generat|^Any$|^object$", promised):
            continue
        first = yields[0]
        line = get_line(text, first.lineno) or ""
        new = re.sub(r"\byield\b", "return", line, count=1)
        found = finding_at(
            first,
            text,
            "contract.method_form",
            f"`yield` makes {node.name}() a generator, and its annotation says {shorten_text(promised, 40)}.",
            suggestion=f"Write `{new.strip()}`.",
        )
        edit = Edit(start_line=first.lineno, end_line=first.lineno, replacement=new)
        yield replace(found, file=file, category="missing_method", edit=edit if len(yields) == 1 else None)


def check_raised_strings(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check for raised strings: ``raise "no name"`` -> call.missing (a warning)."""
    for node in list_nodes(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Constant | ast.JoinedStr):
            continue
        line = get_line(text, node.lineno) or ""
        said = ast.get_source_segment(text, node.exc) or ""
        new = line.replace(said, f"ValueError({said})", 1) if said else line
        found = finding_at(
            node,
            text,
            "call.missing",
            "A string can't be raised.",
            suggestion=f"Raise an exception: `{new.strip()}`.",
            severity=Severity.WARNING,
        )
        edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new) if new != line else None
        yield replace(found, file=file, edit=edit)


def check_transports(texts: Mapping[str, str], trees: Trees) -> Iterator[Finding]:
    """Check for ``httpx.AsyncClient(timeout=10)`` that ignores the tests' transport -> call.missing."""
    passed = {
        name
        for file, text in texts.items()
        if is_test(file)
        for name in re.findall(r"\b(\w+)\(\s*transport=", text)
    }
    if not passed or any(not is_test(file) and "transport" in text for file, text in texts.items()):
        return
    for file, tree in trees.items():
        classes = [] if is_test(file) else [one for one in tree.body if isinstance(one, ast.ClassDef)]
        for node in (each for one in classes if one.name in passed and one.bases for each in ast.walk(one)):
            if isinstance(node, ast.Call) and get_last_name(node.func) in {"AsyncClient", "Client"}:
                line = get_line(texts[file], node.lineno) or ""
                name = get_last_name(node.func)
                given = 'transport=self.config.get("transport")'
                comma = ", " if node.args or node.keywords else ""
                new = line.replace(f"{name}(", f"{name}({given}{comma}", 1)
                found = finding_at(
                    node,
                    texts[file],
                    "call.missing",
                    "The client ignores the transport that the tests pass, so it connects to the network.",
                    suggestion='Pass it: `transport=self.config.get("transport")`.',
                    severity=Severity.WARNING,
                )
                edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=new)
                yield replace(found, file=file, edit=edit)


_NO_VALUE_PATTERN = re.compile(
    r"^(?:(?:None|NoReturn|Never|Any|object)$|(?:typing\.)?(?:Optional|Iterator|Generator|AsyncIterator)\b"
    r"|.*\bNone\b)"
)


def check_import_time(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check for calls at import time: ``CITIES = httpx.get(URL)`` -> call.at_import (a warning)."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            base = node.func.value
            if isinstance(base, ast.Name) and base.id in _CLIENTS and node.func.attr in _REQUESTS:
                name = ast.unparse(node.func)
                found = finding_at(
                    node,
                    text,
                    "call.at_import",
                    f"`{name}` runs when {file} is imported.",
                    suggestion="Move the request into a method, such as fetch_raw().",
                    severity=Severity.WARNING,
                )
                yield replace(found, file=file)


_CLIENTS = frozenset({"httpx", "requests", "aiohttp"})
_REQUESTS = frozenset({"get", "post", "put", "patch", "delete", "head", "request", "stream"})


def check_json(file: str, text: str) -> Finding | None:
    """Return the finding for a ``.json`` file that isn't valid JSON: files.json (a warning).

    Return None if the file is valid or nested too deeply to check.
    """
    try:
        json.loads(text)
    except RecursionError:
        return None
    except ValueError as problem:
        line = getattr(problem, "lineno", 1)
        return Finding(
            rule="files.json",
            category="paths",
            severity=Severity.WARNING,
            message=f"{file} isn't valid JSON: {getattr(problem, 'msg', 'it cannot be read')}.",
            file=file,
            line=line,
            snippet=get_snippet(text, line),
            suggestion="Write keys and text in double quotes, and no comma at the end.",
            edit=_build_json_edit(text),
        )
    return None


def _build_json_edit(text: str) -> Edit | None:
    """Return the edit that rewrites a Python literal as JSON, or None if the text isn't such a literal."""
    try:
        value = ast.literal_eval(text.strip()) if len(text) <= _MAX_LITERAL else None
        written = json.dumps(value) if isinstance(value, dict | list) else None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    lines = text.rstrip("\n").count("\n") + 1
    return None if written is None else Edit(start_line=1, end_line=lines, replacement=written)


_MAX_LITERAL = 10_000


def suggest_self_prefix(finding: Finding, text: str) -> Finding:
    """Suggest ``self.`` in a finding about an undefined name if an attribute with this name exists.

    Return other findings unchanged.
    """
    named = re.match(r"'(\w+)' is not defined", finding.message)
    if named is None or (f"self.{named[1]}" not in text and named[1] != "config"):
        return finding
    edit = build_word_edit(text, finding.line or 0, named[1], f"self.{named[1]}")
    return replace(finding, suggestion=f"Did you mean `self.{named[1]}`?", edit=edit)


def check_secrets(file: str, text: str, tree: ast.Module) -> Iterator[Finding]:
    """Check for secrets: ``API_KEY = "q8Zr41…"`` -> source.secret (a warning), except in test files."""
    if is_test(file):
        return
    told: set[int] = set()
    for name, value in _iter_named_values(tree):
        if (
            len(told) == _MAX_SECRETS
            or id(value) in told
            or not isinstance(value, ast.Constant)
            or not isinstance(value.value, str)
        ):
            continue
        if _is_secret(name, value.value):
            told.add(id(value))
            what = f"`{name}`" if name else "This text"
            found = finding_at(
                value,
                text,
                "source.secret",
                f"{what} looks like a secret: whoever reads the code has it.",
                suggestion='Read it from the configuration: `self.config["api_key"]`.',
                severity=Severity.WARNING,
            )
            yield replace(found, file=file, category="security", snippet=None)


def _iter_named_values(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in list_nodes(tree):
        match node:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                yield get_last_name(target), value
            case ast.keyword(arg=str(name), value=value):
                yield name, value
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    yield str(key.value) if isinstance(key, ast.Constant) else "", value
            case ast.Constant(value=str()):
                yield "", node
            case _:
                pass


def _is_secret(name: str, value: str) -> bool:
    if _SECRET_VALUE_PATTERN.match(value):
        return True
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    named = _SECRET_NAME_PATTERN.search(name) is not None
    return named and mixed and len(value) >= _MIN_SECRET_CHARS and not _PLACEHOLDER_PATTERN.search(value)


def build_word_edit(text: str, number: int, old: str, new: str, *, quoted: bool = False) -> Edit | None:
    """Return the edit that replaces a word, or None if the line doesn't contain it exactly once."""
    line = get_line(text, number)
    pattern = rf"(?<=[\"']){re.escape(old)}(?=[\"'])" if quoted else rf"(?<![\w.]){re.escape(old)}(?!\w)"
    if line is None or len(re.findall(pattern, line)) != 1:
        return None
    changed = re.sub(pattern, lambda _: new, line)
    return Edit(start_line=number, end_line=number, replacement=changed)
