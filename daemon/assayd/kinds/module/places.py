"""Indexes short lines, functions, fixtures and fields of a module's files, to explain failures.

Because the submitter controls the texts, lines and locations, the work is limited: each file is split and
parsed only once per run, long lines and long files aren't read, and only the first failures are explained.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import SplitText, get_snippet
from assayd.model.finding import Edit, Finding
from assayd.static.python.work import is_slow_to_parse

MAX_EXPLAINED = 20
"""Maximum failures per run to explain; the others keep their plain messages."""
MAX_SOURCE_HINTS = 100
"""Maximum failures per run whose hint uses the source; the others have the hint of their exception type."""
MAX_MESSAGE_CHARS = 600
"""Characters of a message to compare with the patterns."""
MOST_CHARS = 100_000
MAX_PARSED_CHARS = 400_000
"""Maximum characters of all files of a module."""
_LINE_CHARS = 300
"""Maximum characters of a line; an edit of a longer one would be unreadable, too."""
_MAX_LINES = 5000
_MAX_NODES = 50_000
_MAX_SIMILAR_CHARS = 60
_MAX_NAMES = 100
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedFile:
    """The nodes of a file that explanations need, in the order of `ast.walk`."""

    body: Sequence[ast.stmt] = ()
    definitions: Sequence[Function | ast.ClassDef] = ()
    dicts: Sequence[ast.Dict] = ()
    decorations: Mapping[str, Collection[str]] = field(default_factory=dict)


class ModuleFiles(Mapping[str, str]):
    """The texts of a module by name, each parsed at most once, and the remaining explanation limit."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Store the texts. Each text is parsed on first use."""
        self._texts = {name: SplitText(text) for name, text in texts.items()}
        self._short: dict[str, list[str]] = {}
        self._parsed: dict[str, _ParsedFile] = {}
        self._chars_left = MAX_PARSED_CHARS
        self._explained_left = MAX_EXPLAINED
        self._advised_left = MAX_SOURCE_HINTS
        self.patch_targets: list[tuple[str, str, int]] | None = None
        self.known: dict[tuple[object, ...], Finding] = {}

    def __getitem__(self, name: str) -> str:
        """Return the text of the file with this name."""
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the files."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._texts)

    def try_spend_explanation(self) -> bool:
        """Count one explanation of a failure. Return whether the limit still allows it."""
        self._explained_left -= 1
        return self._explained_left >= 0

    def try_spend_advice(self) -> bool:
        """Count one hint that requires reading the source. Return whether the limit still allows it."""
        self._advised_left -= 1
        return self._advised_left >= 0

    def lines(self, text: str) -> Sequence[str]:
        """Return the first lines of a source, at most 5,000, with an empty line for each that is too long."""
        if text not in self._short:
            lines = text[:MOST_CHARS].split("\n", _MAX_LINES)[:_MAX_LINES]
            self._short[text] = [line if len(line) <= _LINE_CHARS else "" for line in lines]
        return self._short[text]

    def line(self, text: str, number: int | None) -> str:
        """Return the line with this 1-based number, or "" if the line doesn't exist or is too long."""
        lines = self.lines(text)
        return lines[number - 1] if number is not None and 1 <= number <= len(lines) else ""

    def body(self, text: str) -> Sequence[ast.stmt]:
        """Return the statements of a file, or an empty list if the file can't be parsed."""
        return self._get_parsed(text).body

    def iter_functions(self, text: str) -> Iterator[Function]:
        """Yield the functions and methods in a file."""
        return (each for each in self._get_parsed(text).definitions if isinstance(each, FUNCTIONS))

    def iter_classes(self, text: str) -> Iterator[ast.ClassDef]:
        """Yield the classes in a file."""
        return (each for each in self._get_parsed(text).definitions if isinstance(each, ast.ClassDef))

    def get_dicts(self, text: str) -> Sequence[ast.Dict]:
        """Return the dict literals in a file."""
        return self._get_parsed(text).dicts

    def find_function_at(self, text: str, line: int) -> Function | None:
        """Return the innermost function that contains a 1-based line, or None if the line is in none."""
        around = [each for each in self.iter_functions(text) if each.lineno <= line <= (each.end_lineno or 0)]
        return around[-1] if around else None

    def list_decorated(self, text: str, word: str) -> Collection[str]:
        """Return the names of functions with a decorator that contains the given word, e.g. ``fixture``."""
        decorations = self._get_parsed(text).decorations
        return {name for name, words in decorations.items() if any(word in one for one in words)}

    def parameters(self, text: str, owner: str) -> Iterator[str]:
        """Yield the parameters of a function, or the fields, methods and parameters of a class."""
        for node in self._get_parsed(text).definitions:
            if node.name == owner and isinstance(node, ast.ClassDef):
                yield from list_fields(node)
            elif node.name == owner and isinstance(node, FUNCTIONS):
                yield from (each.arg for each in (*node.args.args, *node.args.kwonlyargs))

    def list_class_attributes_at(self, text: str, line: int) -> Collection[str]:
        """Return the attributes of the class that contains a 1-based line, or none outside of classes."""
        classes = [one for one in self.iter_classes(text) if one.lineno <= line <= (one.end_lineno or 0)]
        if not classes:
            return ()
        stored = {
            node.attr
            for node in ast.walk(classes[-1])
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
        return {*list_fields(classes[-1]), *stored}

    def _get_parsed(self, text: str) -> _ParsedFile:
        if text not in self._parsed:
            self._parsed[text] = self._parse(text)
        return self._parsed[text]

    def _parse(self, text: str) -> _ParsedFile:
        if len(text) > min(MOST_CHARS, self._chars_left) or text.count("\n") >= _MAX_LINES:
            return _ParsedFile()
        self._chars_left -= len(text)
        if is_slow_to_parse(text):
            return _ParsedFile()
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _ParsedFile()
        nodes: list[ast.AST] = []
        for node in ast.walk(tree):
            nodes.append(node)
            if len(nodes) > _MAX_NODES:
                return _ParsedFile()
        functions = [one for one in nodes if isinstance(one, FUNCTIONS)]
        return _ParsedFile(
            body=tree.body,
            definitions=[one for one in nodes if isinstance(one, (*FUNCTIONS, ast.ClassDef))],
            dicts=[one for one in nodes if isinstance(one, ast.Dict)],
            decorations={one.name: _list_names_in(one.decorator_list) for one in functions},
        )


def index_files(texts: Mapping[str, str]) -> ModuleFiles:
    """Return an index of the given texts. Return an existing index unchanged."""
    return texts if isinstance(texts, ModuleFiles) else ModuleFiles(texts)


def _list_names_in(nodes: Iterable[ast.expr]) -> Collection[str]:
    """Return the variable and attribute names in these expressions."""
    found: set[str] = set()
    for node in (one for each in nodes for one in ast.walk(each)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def find_similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar to a name. Compare only a limited number of them."""
    if len(name) > _MAX_SIMILAR_CHARS:
        return []
    compared = [one for one in dict.fromkeys(known) if len(one) <= _MAX_SIMILAR_CHARS]
    return find_close_names(name, compared[:_MAX_NAMES])


def relocate_finding(
    finding: Finding, file: str, line: int, text: str, suggestion: str, edit: Edit | None
) -> Finding:
    """Return a copy of a finding with a different location and suggestion."""
    return replace(
        finding,
        file=file,
        line=line,
        column=None,
        snippet=get_snippet(text, line),
        suggestion=suggestion,
        edit=edit,
    )


def list_fields(node: ast.ClassDef) -> Collection[str]:
    """Return the fields, methods and parameters of a class."""
    names = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    for each in node.body:
        if isinstance(each, FUNCTIONS):
            names |= (
                {arg.arg for arg in (*each.args.args, *each.args.kwonlyargs)}
                if each.name == "__init__"
                else {each.name}
            )
    return names - {"self"}
