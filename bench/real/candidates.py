"""Finds candidates of a gathering in git directories: bash, SQL, path parsers, nodes and adapters, by rule.

What a candidate is, says each function; `natively.py` decides which of them run, `halves.py` which half they
are of. Nothing of a repository is executed here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

_LARGEST = 8_000
_LARGEST_PYTHON = 90_000
_BLOCK = re.compile(r"^```[ ]?(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = {"bash", "sh", "shell", "console"}
_TESTS = re.compile(
    r"(^|/)(tests?|testing|vendor|_vendor|node_modules)(/|_)|(^|/)(test_|conftest|setup)|_test\."
)
_CLIENTS = {"requests", "httpx", "aiohttp"}
_ADAPTER_IMPORTS = _CLIENTS | {
    "pydantic",
    "urllib3",
    "certifi",
    "yarl",
    "multidict",
    "attr",
    "typing_extensions",
}
_PATH_NAME = re.compile(r"path|file|url|uri|href|ext$|suffix|folder|dir", re.IGNORECASE)
_PLAIN_TYPES = {"int", "float", "str", "bool", "list", "dict", "tuple", "set"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A piece of somebody's code, and what it needs to run."""

    type: str
    source: str
    text: str
    more: Mapping[str, Any]


class Repository:
    """Reads the newest commit of a git directory."""

    def __init__(self, folder: Path, name: str) -> None:
        """Remember the folder and the name OWNER/NAME."""
        self.folder, self.name = folder, name

    def files(self) -> list[str]:
        """Return the paths of the files, in order."""
        return self._git("ls-tree", "-r", "-z", "--name-only", "HEAD").rstrip("\0").split("\0")

    def texts(self, ending: str, largest: int) -> Iterator[tuple[str, str]]:
        """Return path and text of each file whose name ends so and that isn't larger."""
        paths = [path for path in self.files() if re.search(ending, path)]
        asked = "".join(f"HEAD:{path}\n" for path in paths if "\n" not in path)
        done = subprocess.run(
            ["git", f"--git-dir={self.folder}", "cat-file", "--batch=%(objectsize)"],
            input=asked.encode(), capture_output=True, check=True,
        ).stdout  # fmt: skip
        at = 0
        for path in paths:
            line_end = done.index(b"\n", at)
            if not done[at:line_end].isdigit():
                at = line_end + 1
                continue
            size = int(done[at:line_end])
            content = done[line_end + 1 : line_end + 1 + size]
            at = line_end + size + 2
            if size <= largest and b"\0" not in content:
                yield path, content.decode("utf-8", "replace")

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", f"--git-dir={self.folder}", *arguments], capture_output=True, check=True
        )
        return done.stdout.decode("utf-8", "replace")


def bash(repository: Repository) -> Iterator[Candidate]:
    """Return blocks of pages, shell files, and scripts with the arguments of their tests (`*.bats`)."""
    for path, page in repository.texts(r"\.(md|rst|markdown)$", 400_000):
        for number, (word, text) in enumerate(_BLOCK.findall(page), 1):
            if word.lower() in _SHELL and len(text) <= _LARGEST:
                yield _candidate("bash", repository, f"{path}#{number}", _without_prompts(text))
    for path, text in repository.texts(r"\.(sh|bash)$", _LARGEST):
        if not re.search(r"/\.meta/", path):
            yield _candidate("bash", repository, path, text)
    tested = dict(repository.texts(r"\.(sh|bats)$", 60_000))
    for path, text in tested.items():
        if path.endswith(".meta/example.sh"):
            bats = next(
                (t for p, t in tested.items() if p.endswith(".bats") and p.startswith(path[:-16])), ""
            )
            for line in re.findall(r"^\s*run bash \w+\.sh (.+)$", bats, re.MULTILINE)[:1]:
                if not re.search(r"[$`<>|&;()]", line):
                    yield _candidate("bash", repository, path, f"set -- {line}\n{text}")


def _without_prompts(text: str) -> str:
    """Return the commands of a dialog: the lines with a prompt, and those that continue them."""
    if not re.search(r"^\$ ", text, re.MULTILINE):
        return text
    lines = re.findall(r"^(?:\$|>) (.*)$", text, re.MULTILINE)
    return "\n".join(lines) + "\n"


def sql(repository: Repository) -> Iterator[Candidate]:
    """Return SQL files with the folder that they are of, and blocks of pages."""
    for path, text in sorted(repository.texts(r"\.sql$", 100_000), key=lambda one: _natural(one[0])):
        yield _candidate("sql", repository, path, text, folder=f"{repository.name}/{Path(path).parent}")
    for path, page in repository.texts(r"\.(md|rst|markdown)$", 400_000):
        for number, (word, text) in enumerate(_BLOCK.findall(page), 1):
            if word.lower() in {"sql", "sqlite"}:
                folder = f"{repository.name}/{path}"
                yield _candidate("sql", repository, f"{path}#{number}", text, folder=folder)


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def functions(repository: Repository) -> Iterator[Candidate]:
    """Return path parsers (functions of one path) and nodes (typed functions with an example)."""
    for path, text in repository.texts(r"\.py$", _LARGEST_PYTHON):
        tree = None if _TESTS.search(path) else _parsed(text)
        for function in tree.body if tree else ():
            if not isinstance(function, ast.FunctionDef) or function.decorator_list or _yields(function):
                continue
            is_path_parser = _is_path_parser(function) and function.name != "extract"
            example = _example(function)
            needed = _needed(tree, function) if is_path_parser or example else None
            if needed is None:
                continue
            source = f"{path}:{function.name}"
            if is_path_parser:
                call = (
                    f'\n\ndef extract(path: str) -> dict:\n    return {{"result": {function.name}(path)}}\n'
                )
                yield _candidate("extractor", repository, source, needed + call)
            if example is not None and not set(example[0]) & _bound(tree):
                yield _candidate("code", repository, source, needed + example[1], inputs=example[0])


def adapters(repository: Repository) -> Iterator[Candidate]:
    """Return files whose imports are the standard library and HTTP clients."""
    for path, text in repository.texts(r"\.py$", _LARGEST_PYTHON):
        tree = None if _TESTS.search(path) else _parsed(text)
        if tree is None:
            continue
        modules = _modules(ast.walk(tree))
        if modules is None or not any(isinstance(one, ast.FunctionDef | ast.ClassDef) for one in tree.body):
            continue
        if modules & _CLIENTS and modules <= sys.stdlib_module_names | _ADAPTER_IMPORTS:
            yield _candidate("module", repository, path, text)


def _candidate(type_: str, repository: Repository, place: str, text: str, **more: object) -> Candidate:
    return Candidate(type=type_, source=f"{repository.name}:{place}", text=text, more=more)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None


def _modules(nodes: Iterator[ast.AST]) -> set[str] | None:
    """Return the top-level modules that are imported, or None if one is relative."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                return None
            found.add(node.module.split(".")[0])
    return found


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in ast.walk(function))


def _required(function: ast.FunctionDef) -> list[ast.arg] | None:
    given = function.args
    if given.vararg or given.kwarg or any(default is None for default in given.kw_defaults):
        return None
    positional = [*given.posonlyargs, *given.args]
    return positional[: len(positional) - len(given.defaults)]


def _is_path_parser(function: ast.FunctionDef) -> bool:
    required = _required(function)
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))
    return (
        returns and required is not None and len(required) == 1 and bool(_PATH_NAME.search(required[0].arg))
    )


def _needed(tree: ast.Module, function: ast.FunctionDef) -> str | None:
    """Return the function with all statements that it needs; None if one imports another package."""
    places = {name: statement for statement in tree.body for name in _names_of(statement)}
    wanted, kept = {function.name}, set[int]()
    while wanted:
        statement = places.get(wanted.pop())
        if statement is None or id(statement) in kept:
            continue
        kept.add(id(statement))
        if isinstance(statement, ast.Import | ast.ImportFrom):
            modules = _modules(iter([statement]))
            if modules is None or not modules <= sys.stdlib_module_names:
                return None
            continue
        inner = _modules(ast.walk(statement))
        if inner is None or not inner <= sys.stdlib_module_names:
            return None
        wanted |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    chosen = [one for one in tree.body if id(one) in kept or _is_future(one)]
    return "\n\n".join(map(ast.unparse, chosen)) + "\n"


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _names_of(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name.split(".")[0] for alias in names]
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.If() | ast.Try() | ast.For():
            inner = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
            stored = [node.id for node in inner if isinstance(node.ctx, ast.Store)]
            deeper = [
                node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement
            ]
            return stored + [
                name for one in deeper if not isinstance(one, ast.Assign) for name in _names_of(one)
            ]
    return []


def _bound(tree: ast.Module) -> set[str]:
    return {name for statement in tree.body for name in _names_of(statement)}


def _example(function: ast.FunctionDef) -> tuple[dict[str, Any], str] | None:
    """Return the inputs of the first example in a typed function's text, and the lines of the node."""
    required = _required(function) or []
    types = [_plain(one.annotation) for one in required]
    line = re.search(rf"^\s*>>> {function.name}(\(.*\))\s*$", ast.get_docstring(function) or "", re.MULTILINE)
    values = _arguments(line[1]) if line else None
    result = _plain(function.returns)
    if not required or None in (*types, result) or values is None or len(values) != len(required):
        return None
    names = [one.arg for one in required]
    declared = "".join(f"{name}: {type_}\n" for name, type_ in zip(names, types, strict=True))
    node = f"\n\n{declared}\nresult: {result} = {function.name}({', '.join(names)})\n"
    return dict(zip(names, values, strict=True)), node


def _arguments(call: str) -> list[Any] | None:
    """Return the arguments of a call's text, if they are literals that JSON has."""
    tree = _parsed(f"f{call}")
    made = tree.body[0].value if tree and isinstance(tree.body[0], ast.Expr) else None
    if not isinstance(made, ast.Call) or made.keywords:
        return None
    try:
        values = [ast.literal_eval(one) for one in made.args]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return values if all(_is_json(value) for value in values) else None


def _plain(annotation: ast.expr | None) -> str | None:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return (
        ast.unparse(annotation)
        if isinstance(base, ast.Name) and base.id in _PLAIN_TYPES and annotation
        else None
    )


def _is_json(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return (
        value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value))
    )
