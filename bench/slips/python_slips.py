"""Puts one slip of the hand into a Python text: of twelve kinds, each at a place that is run.

name builtin attribute key keyword      two letters swapped
bracket colon quote comma import return taken away
equals                                  == made =
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import random
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

KINDS = (
    "name", "builtin", "attribute", "key", "keyword", "bracket", "colon", "quote", "comma", "import",
    "return",
    "equals",
)  # fmt: skip
_BUILTINS = frozenset(vars(builtins))
_MISSPELT = frozenset(
    {"def", "for", "while", "return", "import", "elif", "else", "class", "with", "from", "lambda"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """A text with one slip: `lines` where a finding may stand, `remedies` one of which must be said.

    `place` is the line that has to be run, where that is one alone.
    """

    kind: str
    text: str
    lines: frozenset[int]
    remedies: tuple[str, ...]
    place: int | None = None

    def is_touched(self, edit: Mapping[str, int]) -> bool:
        """Return whether an edit changes one of the lines."""
        return bool(self.lines & set(range(edit["start_line"], edit["end_line"] + 1)))


def slips(text: str, reached: Collection[int] | None, chance: random.Random) -> Iterator[Slip]:
    """Return one slip of each kind that the text has a place for.

    Args:
        text: a text that is right.
        reached: the lines that are run; None where nobody knows.
        chance: chooses among places.
    """
    tree = ast.parse(text)
    for kind in KINDS:
        found = [
            s
            for s in _MAKERS[kind](text, tree)
            if kind in STATIC or (reached is None and kind not in _WHEN_RUN) or _is_run(s, set(reached or ()))
        ]
        if found:
            yield chance.choice(found)


_WHEN_RUN = frozenset({"attribute", "key", "return"})
"""Slips that only a run tells of: none are made where nobody knows what runs."""


def _is_run(slip: Slip, reached: set[int]) -> bool:
    """Return whether what a slip is in is run; the line of a function's name is, wherever it is called."""
    return slip.place in reached if slip.place is not None else bool(slip.lines & reached)


STATIC = frozenset({"keyword", "bracket", "colon", "quote", "comma", "import", "equals"})


def swapped(word: str) -> str | None:
    """Swap two letters in the middle of a word; None where that changes nothing."""
    for at in range(len(word) // 2, len(word) - 1):
        if word[at] != word[at + 1] and word[at].isalpha() and word[at + 1].isalpha():
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return None


def _put(text: str, line: int, start: int, end: int, new: str) -> str:
    """Replace a part of a line; columns are bytes, as the parser counts them."""
    lines = text.split("\n")
    raw = lines[line - 1].encode()
    lines[line - 1] = (raw[:start] + new.encode() + raw[end:]).decode()
    return "\n".join(lines)


def _names(text: str, tree: ast.Module, builtin: bool) -> Iterator[Slip]:
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    never = _never_evaluated(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or len(node.id) < 4:
            continue
        if node in never:
            continue
        wrong = swapped(node.id)
        if wrong is None or wrong in bound | _BUILTINS or (node.id in bound) == builtin:
            continue
        if builtin and node.id not in _BUILTINS:
            continue
        changed = _put(text, node.lineno, node.col_offset, node.col_offset + len(node.id.encode()), wrong)
        yield Slip(
            kind="builtin" if builtin else "name",
            text=changed,
            lines=frozenset({node.lineno}),
            remedies=(node.id,),
        )


def _never_evaluated(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes of annotations that are text only: ``from __future__ import annotations``."""
    late = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        notes = [getattr(node, "annotation", None), getattr(node, "returns", None)] if late else []
        if inside:
            notes += [n.annotation for n in ast.walk(node) if isinstance(n, ast.AnnAssign)]
        found.update(inner for note in notes if isinstance(note, ast.AST) for inner in ast.walk(note))
    return found


def _attributes(text: str, tree: ast.Module) -> Iterator[Slip]:
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and len(node.attr) >= 4:
            wrong, end = swapped(node.attr), node.end_col_offset or 0
            if wrong is None or wrong in attributes or node.end_lineno is None:
                continue
            changed = _put(text, node.end_lineno, end - len(node.attr), end, wrong)
            lines = frozenset({node.end_lineno, node.lineno})
            yield Slip(kind="attribute", text=changed, lines=lines, remedies=(node.attr,))


def _keys(text: str, tree: ast.Module) -> Iterator[Slip]:
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key)) as where, ctx=ast.Load()) if len(key) >= 4:
                wrong = swapped(key)
                raw = text.split("\n")[where.lineno - 1]
                if wrong is None or raw.count(key) != 1 or not raw.isascii():
                    continue
                start = raw.index(key)
                changed = _put(text, where.lineno, start, start + len(key), wrong)
                yield Slip(kind="key", text=changed, lines=frozenset({where.lineno}), remedies=(key,))
            case _:
                pass


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _cut(text: str, token: tokenize.TokenInfo, kind: str, new: str, remedies: tuple[str, ...]) -> Slip | None:
    (line, start), (last, end) = token.start, token.end
    lines = text.split("\n")
    if line != last:
        return None
    raw = lines[line - 1]
    lines[line - 1] = raw[:start] + new + raw[end:]
    changed = "\n".join(lines)
    try:
        compile(changed, "slip.py", "exec")
    except SyntaxError:
        return Slip(kind=kind, text=changed, lines=frozenset({line}), remedies=remedies)
    except ValueError:
        return None
    return None


def _of_tokens(
    kind: str, choose: Callable[[tokenize.TokenInfo, tokenize.TokenInfo], tuple[str, tuple[str, ...]] | None]
) -> Callable[[str, ast.Module], Iterator[Slip]]:
    """Make slips of single tokens: `choose` gives what stands in their place, and the remedies."""

    def make(text: str, _: ast.Module) -> Iterator[Slip]:
        tokens = _tokens(text)
        for token, following in pairwise(tokens):
            chosen = choose(token, following)
            slip = None if chosen is None else _cut(text, token, kind, *chosen)
            if slip is not None:
                yield slip

    return make


def _bracket(token: tokenize.TokenInfo, following: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    ends = following.type in {tokenize.NEWLINE, tokenize.COMMENT} and token.string in {")", "]", "}"}
    return ("", (token.string, "Close the")) if ends else None


def _colon(token: tokenize.TokenInfo, following: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    return ("", ("colon", "':'")) if token.string == ":" and following.type == tokenize.NEWLINE else None


def _quote(token: tokenize.TokenInfo, _: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    plain = (
        token.type == tokenize.STRING and token.string[:1] in "\"'" and token.string[:3] not in {'"""', "'''"}
    )
    return (token.string[:-1], ("quote", token.string[-1])) if plain and len(token.string) > 3 else None


def _comma(token: tokenize.TokenInfo, following: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    inside = following.type in {tokenize.NAME, tokenize.NUMBER}
    return ("", ("comma",)) if token.string == "," and inside else None


def _keyword(token: tokenize.TokenInfo, _: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    wrong = swapped(token.string) if token.string in _MISSPELT else None
    return (wrong, (token.string,)) if wrong and not keyword.iskeyword(wrong) else None


def _equals(token: tokenize.TokenInfo, _: tokenize.TokenInfo) -> tuple[str, tuple[str, ...]] | None:
    return ("=", ("==",)) if token.string == "==" else None


def _imports(text: str, tree: ast.Module) -> Iterator[Slip]:
    lines = text.split("\n")
    bound = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    for node in tree.body:
        if (
            not isinstance(node, ast.Import | ast.ImportFrom)
            or len(node.names) != 1
            or node.lineno != node.end_lineno
        ):
            continue
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
            continue
        [alias] = node.names
        name = (alias.asname or alias.name).partition(".")[0]
        uses = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
        others = sum(any((a.asname or a.name).partition(".")[0] == name for a in one.names) for one in bound)
        if not uses or others != 1 or name == "*":
            continue
        kept = [line for number, line in enumerate(lines, 1) if number != node.lineno]
        after = {line - (line > node.lineno) for line in uses}
        written = lines[node.lineno - 1].strip()
        plain = (
            f"import {alias.name}"
            if isinstance(node, ast.Import)
            else f"from {node.module} import {alias.name}"
        )
        # Without its alias the name is unknown; that it has to be imported is what can be said.
        remedies = (written, plain, *((f"import '{name}'",) if alias.asname else ()))
        yield Slip(kind="import", text="\n".join(kept), lines=frozenset(after), remedies=remedies)


def _returns(text: str, tree: ast.Module) -> Iterator[Slip]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        own = [n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
        last = node.body[-1]
        if len(own) != 1 or not isinstance(last, ast.Return) or last.value is None:
            continue
        changed = _put(text, last.lineno, last.col_offset, last.value.col_offset, "")
        if last.lineno != last.value.lineno:
            continue
        span = frozenset(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        yield Slip(kind="return", text=changed, lines=span, remedies=("return",), place=last.lineno)


_MAKERS: dict[str, Callable[[str, ast.Module], Iterator[Slip]]] = {
    "name": lambda text, tree: _names(text, tree, False),
    "builtin": lambda text, tree: _names(text, tree, True),
    "attribute": _attributes,
    "key": _keys,
    "keyword": _of_tokens("keyword", _keyword),
    "bracket": _of_tokens("bracket", _bracket),
    "colon": _of_tokens("colon", _colon),
    "quote": _of_tokens("quote", _quote),
    "comma": _of_tokens("comma", _comma),
    "import": _imports,
    "return": _returns,
    "equals": _of_tokens("equals", _equals),
}
