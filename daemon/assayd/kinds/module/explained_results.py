"""Explains failed comparisons, and patches of a name in the wrong module.

A failed comparison is attributed to the code that computes the value, if that code is a single line:

    assert grade(3) == "good"                   the only statement of grade()
    Differing items: {'share': 1} != …          the only statement of `share`, or the line that writes the key

If a test patches a name in the wrong module, the tested code doesn't use the patch:

    patch("adapter.request.get")        adapter.py has no `request`        adapter.requests.get
    patch("adapter.get")                it calls requests.get              adapter.requests.get
    patch("requests.get")               it has `from requests import get`  adapter.get
    patch("httpx.get")                  it calls requests.get              adapter.requests.get

Because the submitter controls the texts, they can affect the wording of a finding and an edit of the
submitted lines, but never the verdict.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_snippet
from assayd.guest_results import RaisedException
from assayd.kinds.module.files import is_python, is_test, module_name
from assayd.kinds.module.places import ModuleFiles, relocate_finding
from assayd.model.finding import Edit, Finding
from assayd.model.text_limits import shorten_text

Texts = ModuleFiles
_SHOWN_CHARS = 100


def _find_only_statement(name: str, texts: Texts) -> tuple[str, int] | None:
    """Return the file and line of a function's only statement.

    Return None if the function is longer, or if not exactly one function has this name.
    """
    found = [
        (file, node)
        for file, text in texts.items()
        if not is_test(file)
        for node in texts.iter_functions(text)
        if node.name == name
    ]
    if len(found) != 1:
        return None
    [(file, node)] = found
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return (file, body[0].lineno) if len(body) == 1 else None


def _find_computing_name(node: ast.expr) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case ast.Attribute(attr=name):
            return name
        case _:
            return None


def _find_values(key: str, texts: Texts) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions that the module stores in dicts under a given key."""
    for file, text in texts.items():
        for node in () if is_test(file) else texts.get_dicts(text):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    yield file, value


def _explain_differing_key(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``Differing items: {'share': 0.1} != {'share': 0.2}`` with the line that computes `share`.

    Return None if the module's files don't show this cause.
    """
    written = list(_find_values(found[1], texts))
    if len(written) != 1:
        return None
    [(file, value)] = written
    name = _find_computing_name(value)
    place = _find_only_statement(name, texts) if name is not None else None
    return _relocate_to_line(finding, place or (file, value.lineno), texts, f"'{found[1]}'")


def _explain_wrong_result(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``assert grade(3) == "good"`` if the function has only one statement.

    Return None if the module's files don't show this cause.
    """
    line = texts.line(texts.get(raised.file or "", ""), raised.line)
    called = re.match(r"\s*+assert\s++(?:await\s++)?(?:\w++\.)*+(\w++)\(", line)
    place = _find_only_statement(called[1], texts) if called is not None else None
    return (
        None
        if called is None or place is None
        else _relocate_to_line(finding, place, texts, f"{called[1]}()")
    )


def _relocate_to_line(finding: Finding, place: tuple[str, int], texts: Texts, what: str) -> Finding:
    file, number = place
    shown = shorten_text((get_snippet(texts[file], number) or "").strip(), _SHOWN_CHARS)
    hint = f"Correct `{shown}`, which computes {what}, to give the expected value."
    return relocate_finding(replace(finding, edit=None), file, number, texts[file], hint, None)


Explain = Callable[[Finding, RaisedException, re.Match[str], Texts, str], Finding | None]
RESULTS: tuple[tuple[re.Pattern[str], Explain], ...] = (
    (re.compile(r"Differing items:\s+\{'(\w{1,100})': "), _explain_differing_key),
    (re.compile(r"^assert (?!<)[^\n]{1,500} == "), _explain_wrong_result),
)
"""Patterns of assertion messages with their explanations, tried after all others."""


_PATCHED_PATTERN = re.compile(r"\b(?:patch|setattr)\(\s*+([\"'])([A-Za-z_][\w.]{0,150}+)\1")
_IMPORTED = re.compile(r"\s*+import\s++([\w., ]{1,200}+)$")
_FROM_PATTERN = re.compile(r"\s*+from\s++[\w.]{1,100}+\s++import\s++\(?([\w, ]{1,200}+)\)?\s*+$")
_CALLED_PATTERN = re.compile(r"(?<![\w.])(\w{1,60}+)(?:\.(\w{1,60}+))?\(")
_MAX_TARGETS = 200
_MAX_SUGGESTED = 3


def _get_patch_targets(texts: ModuleFiles) -> list[tuple[str, str, int]]:
    """Return the ``patch()`` targets for calls in the module's files, with the files and lines."""
    if texts.patch_targets is None:
        texts.patch_targets = _find_patch_targets(texts)
    return texts.patch_targets


def _find_patch_targets(texts: ModuleFiles) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    for file in sorted(name for name in texts if is_python(name) and not is_test(name)):
        lines = texts.lines(texts[file])
        modules, names = (
            set(_iter_imported_names(lines, _IMPORTED)),
            set(_iter_imported_names(lines, _FROM_PATTERN)),
        )
        for number, line in enumerate(lines, 1):
            for owner, name in _CALLED_PATTERN.findall(line):
                if owner in modules and name:
                    found.append((f"{module_name(file)}.{owner}.{name}", file, number))
                elif owner in names:
                    target = f"{module_name(file)}.{owner}"
                    found.append((f"{target}.{name}" if name else target, file, number))
                if len(found) >= _MAX_TARGETS:
                    return found
    return found


def _iter_imported_names(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the names bound by imports that match a pattern."""
    for line in lines:
        if (found := pattern.match(line)) is not None:
            yield from (part.split()[-1] for part in found[1].split(",") if part.split())


def _explain_missing_target(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: ModuleFiles, test: str
) -> Finding | None:
    """Explain that the patched name doesn't exist.

    Return None if the module's files don't show this cause.
    """
    text = texts.get(raised.file or "", "")
    patched = _PATCHED_PATTERN.search(texts.line(text, raised.line))
    if patched is None or raised.file is None or raised.line is None:
        return None
    targets = list(dict.fromkeys(target for target, _, _ in _get_patch_targets(texts)))
    return _suggest_target(
        finding, texts, raised.file, raised.line, patched, _find_similar_targets(patched[2], targets)
    )


def _explain_wrong_target(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: ModuleFiles, test: str
) -> Finding | None:
    """Explain that a call used the network because the test patched a different name.

    Return None if the module's files don't show this cause.
    """
    file, _, name = test.partition("::")
    here = [
        target for target, at, line in _get_patch_targets(texts) if (at, line) == (raised.file, raised.line)
    ]
    lines = texts.lines(texts.get(file, ""))
    begins = [n for n, line in enumerate(lines) if re.match(rf"\s*+(?:async )?def {re.escape(name)}\(", line)]
    if not here or len(begins) != 1:
        return None
    for number, line in enumerate(lines[begins[0] :], begins[0] + 1):
        if number > begins[0] + 1 and re.match(r"(?:async )?def |class |@", line):
            break
        patched = _PATCHED_PATTERN.search(line)
        if patched is not None and patched[2] not in here:
            return _suggest_target(finding, texts, file, number, patched, here)
    return None


def _find_similar_targets(patched: str, targets: Sequence[str]) -> list[str]:
    """Return the targets whose last part equals that of the patched name.

    If there are none, return those with the most similar last part, or else all targets.
    """
    last = patched.rpartition(".")[2]
    same = [target for target in targets if target.rpartition(".")[2] == last]
    near = find_close_names(last, sorted({target.rpartition(".")[2] for target in targets}))
    return same or [target for target in targets if target.rpartition(".")[2] in near[:1]] or list(targets)


def _suggest_target(
    finding: Finding, texts: ModuleFiles, file: str, line: int, patched: re.Match[str], meant: Sequence[str]
) -> Finding | None:
    if not meant or patched[2] in meant:
        return None
    text = texts[file]
    shown = " or ".join(f'"{target}"' for target in meant[:_MAX_SUGGESTED])
    hint = f'Replace the name where the code looks it up. Write {shown} instead of "{patched[2]}".'
    edit = None
    if len(meant) == 1:
        whole = texts.line(text, line)
        new = whole[: patched.start(2)] + meant[0] + whole[patched.end(2) :]
        edit = Edit(start_line=line, end_line=line, replacement=new)
    return relocate_finding(finding, file, line, text, hint, edit)


_Explain = Callable[[Finding, RaisedException, re.Match[str], ModuleFiles, str], Finding | None]
PATCH_EXPLAINERS: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (
        re.compile(
            r"^(?:module '[\w.]{1,200}' has no|<module '[\w.]{1,200}'[^>]{0,300}+> does not have the)"
            r" attribute"
        ),
        _explain_missing_target,
    ),
    (
        re.compile(
            r"Max retries exceeded|All connection attempts failed|[Nn]ame (?:or service not known|resolution)"
            r"|Cannot connect to host|Network is unreachable|Connection refused"
        ),
        _explain_wrong_target,
    ),
)
