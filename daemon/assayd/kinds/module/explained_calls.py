"""Explains failures whose cause (a call, a key or a literal) is in a different line than the failure.

'set' object has no attribute 'items'       {"city", city} is a set: write a colon
the JSON object must be str, not dict       json.loads() of a value that is already parsed
module 'datetime' has no attribute 'now'    datetime.datetime.now
object has no attribute 'URL'               self.URL for a constant of the module
'function' object has no attribute 'get'    a fixture that isn't a parameter of the test
DID NOT RAISE                               the call in pytest.raises isn't awaited
'Response' object is not callable           MockTransport takes a function
KeyError: 'results'                         the keys that the data has
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from assayd.findings.source_text import get_snippet
from assayd.guest_results import RaisedException
from assayd.kinds.module.files import is_test
from assayd.kinds.module.places import (
    MAX_PARSED_CHARS,
    ModuleFiles,
    find_similar_names,
    index_files,
    relocate_finding,
)
from assayd.model.finding import Edit, Finding
from assayd.static.python.returns import build_return_edit

Texts = ModuleFiles
PROGRAMMING_ERRORS = frozenset(
    {
        "AssertionError", "AttributeError", "Failed", "FrozenInstanceError", "ImportError",
        "IndentationError", "ModuleNotFoundError", "NameError", "SyntaxError", "TypeError",
        "UnboundLocalError",
    }
)  # fmt: skip
"""Programming errors, which no test should expect in place of its declared exception."""


def _find_failing_line(raised: RaisedException, texts: Texts) -> tuple[int, str]:
    number = raised.line or 0
    return number, texts.line(texts.get(raised.file or "", ""), number)


def _build_line_edit(number: int, line: str, new: str) -> Edit | None:
    return Edit(start_line=number, end_line=number, replacement=new) if new != line else None


def _explain_set(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``params={"city", city}``, which is a set instead of a dict."""
    number, line = _find_failing_line(raised, texts)
    new = _SET.sub(r"{\1: \2}", line)
    if new == line:
        return None
    hint = f"`{{a, b}}` is a set. A dict has a colon after each key: `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


_SET = re.compile(r"\{\s*+([\"'][^\"']++[\"'])\s*+,\s*+([^{}:,\s]++(?:\s++[^{}:,\s]++)*+)\s*+\}")


def _explain_repeated_parsing(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``json.loads(raw)`` for a value that is already a dict."""
    number, line = _find_failing_line(raised, texts)
    call = re.search(r"\bjson\.loads\(\s*+([\w.\[\]\"']++)\s*+\)", line)
    if found[1].endswith(("method", "function")):
        uncalled = re.search(r"\bjson\.loads\(.*?(\.\w++)(?=\s*+\))", line)
        if uncalled is None:
            return None
        new = f"{line[: uncalled.end()]}(){line[uncalled.end() :]}"
        hint = f"`{uncalled[1][1:]}` isn't called. Write `{new.strip()}`."
        return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))
    if call is None:
        return None
    new = f"{line[: call.start()]}{call[1]}{line[call.end() :]}"
    hint = f"`{call[1]}` is a {found[1]} already. Use it without `json.loads()`: `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


def _explain_module_for_class(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``datetime.now()`` after ``import datetime``, which binds the module, not the class."""
    number, line = _find_failing_line(raised, texts)
    module, name = found[1], found[2]
    new = re.sub(rf"\b{module}\.{name}\b", f"{module}.{module}.{name}", line, count=1)
    if new == line:
        return None
    hint = f"`{module}` is the module here. Write `{module}.{module}.{name}`, or import the class: "
    hint += f"`from {module} import {module}`."
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


def _explain_self_for_constant(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``self.URL`` if `URL` is a constant of the module."""
    text = texts.get(raised.file or "", "")
    number, line = _find_failing_line(raised, texts)
    name = found[2]
    bound = {
        each.id
        for node in texts.body(text)
        if isinstance(node, ast.Assign)
        for each in node.targets
        if isinstance(each, ast.Name)
    }
    if name in bound and f"self.{name}" in line:
        new = line.replace(f"self.{name}", name)
        hint = f"`{name}` is a name of the module, not an attribute. Write `{name}` without `self.`"
        return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))
    if name == "config":
        init = next((each for each in texts.iter_functions(text) if each.name == "__init__"), None)
        if init is not None and "super().__init__" not in "\n".join(
            texts.lines(text)[init.lineno - 1 : init.end_lineno]
        ):
            given = init.args.kwarg.arg if init.args.kwarg is not None else None
            call = f"super().__init__(**{given})" if given else "super().__init__()"
            first = texts.line(text, init.lineno)
            indent = first[: len(first) - len(first.lstrip())] + "    "
            edit = None
            if first.rstrip().endswith(":"):
                new = f"{first}\n{indent}{call}"
                edit = Edit(start_line=init.lineno, end_line=init.lineno, replacement=new)
            hint = f"`__init__` doesn't call the base class. Write `{call}` as its first line."
            return relocate_finding(finding, raised.file or "", init.lineno, text, hint, edit)
    return None


def _explain_fixture(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``def test_x(): adapter.transform(…)``, which lacks the parameter for the fixture."""
    file, _, name = test.partition("::")
    text = texts.get(file, "")
    own = name.partition("[")[0].rpartition("::")[2]
    node = next((each for each in texts.iter_functions(text) if each.name == own), None)
    fixtures = set(texts.list_decorated(text, "fixture"))
    if node is None:
        return None
    given = {each.arg for each in node.args.args}
    used = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in fixtures - given]
    if not used:
        return None
    line = texts.line(text, node.lineno)
    new = re.sub(r"\(\s*+(?=\))", f"({used[0]}", line, count=1)
    if new == line:
        new = re.sub(r"\((?=\w)", f"({used[0]}, ", line, count=1)
    if not line:
        return None
    hint = f"`{used[0]}` is a fixture: name it as a parameter. Write `{new.strip()}`."
    return relocate_finding(finding, file, node.lineno, text, hint, _build_line_edit(node.lineno, line, new))


def _explain_missing_exception(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``with pytest.raises(ValueError): adapter.fetch_raw("")``: `await` is missing."""
    file = test.partition("::")[0]
    text = texts.get(file, "")
    methods = {
        node.name
        for each in texts.values()
        for node in texts.iter_functions(each)
        if isinstance(node, ast.AsyncFunctionDef)
    }
    around = texts.find_function_at(text, raised.line or 0)
    if around is None:
        return None
    for number in range(around.lineno + 1, (around.end_lineno or around.lineno) + 1):
        line = texts.line(text, number)
        call = _CALL_PATTERN.search(line)
        if call is not None and call[1] in methods and "await " not in line:
            new = f"{line[: call.start()]}await {line[call.start() :]}"
            hint = f"`{call[1]}` is async: without `await` it doesn't run. Write `{new.strip()}`."
            known = isinstance(around, ast.AsyncFunctionDef)
            return relocate_finding(
                finding, file, number, text, hint, _build_line_edit(number, line, new) if known else None
            )
    hint = f"The call in the `with` block raises no {found[1]}. Check its arguments, or the code."
    return replace(finding, suggestion=hint)


_CALL_PATTERN = re.compile(r"(?<!await )(?<![\w.])(?:\w++\.)*+(\w++)\(")


def _explain_response_as_handler(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``MockTransport(httpx.Response(…))``: the argument must be a function of the request."""
    for file, text in texts.items():
        for number, line in enumerate(texts.lines(text), 1):
            call = re.search(r"MockTransport\((?=\s*+(?:\w++\.)?Response\()", line)
            if call is not None:
                new = f"{line[: call.end()]}lambda request: {line[call.end() :]}"
                hint = "MockTransport takes a function. Write `lambda request:` before the response."
                return relocate_finding(
                    finding, file, number, text, hint, _build_line_edit(number, line, new)
                )
    return None


def _explain_handler_parameters(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``MockTransport(lambda: …)``: the handler has no parameter."""
    for file, text in texts.items():
        for number, line in enumerate(texts.lines(text), 1):
            if "Transport" in line and re.search(r"\blambda\s*+:", line):
                new = re.sub(r"\blambda\s*+:", "lambda request:", line, count=1)
                hint = f"The handler is called with the request. Write `{new.strip()}`."
                return relocate_finding(
                    finding, file, number, text, hint, _build_line_edit(number, line, new)
                )
    return None


def _explain_missing_argument(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``Reading(raw["city"])`` if `Reading` has a further required field."""
    owner, name = found[1].removesuffix(".__init__").rpartition(".")[2], found[2]
    known = list(dict.fromkeys(one for text in texts.values() for one in texts.parameters(text, owner)))
    shown = ", ".join(each for each in known[:_MAX_SHOWN] if each not in {"self", "cls"})
    number, line = _find_failing_line(raised, texts)
    if owner == "Response" and name == "status_code" and line:
        new = re.sub(r"\bResponse\((?!\d)", "Response(200, ", line, count=1)
        hint = f"A response has its status first. Write `{new.strip()}`."
        return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))
    hint = f"Pass `{name}` too: `{owner}({shown})`." if shown else f"Pass `{name}` too."
    return replace(finding, suggestion=hint)


def _explain_missing_key(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a missing key in a test, e.g. ``data["results"]``, by a similar key that the code writes."""
    wanted = found[1]
    if raised.meant is not None or not is_test(raised.file or ""):
        return None
    left = _MAX_KEYS
    for file, text in texts.items():
        if file == raised.file or is_test(file) or f'"{wanted}"' in text or f"'{wanted}'" in text:
            continue
        for number, line in enumerate(texts.lines(text), 1):
            keys = _KEY.findall(line)[:left]
            left -= len(keys)
            near = find_similar_names(wanted, keys) if keys else []
            if near:
                new = re.sub(rf"([\"']){re.escape(near[0])}\1", rf"\g<1>{wanted}\g<1>", line, count=1)
                hint = f"The key '{near[0]}' was probably meant to be '{wanted}'. Write `{new.strip()}`."
                return relocate_finding(
                    finding, file, number, text, hint, _build_line_edit(number, line, new)
                )
    return None


_KEY = re.compile(r"[\"'](\w{3,60})[\"']\s*+:")
_MAX_KEYS = 300
_MAX_SHOWN = 20


def add_data_keys(finding: Finding, files: Mapping[str, str]) -> Finding:
    """Add the keys that exist in the module's data to a finding about a missing key.

    Args:
        finding: the finding of a failed run.
        files: all files of the module by name.
    """
    found = re.search(r"KeyError: '(\w{1,60})'$", finding.message)
    keys = list(_find_data_keys(files)) if found is not None else []
    if found is None or not keys or not (finding.suggestion or "").startswith("Use a key that exists"):
        return finding
    shown = ", ".join(keys[:10])
    number, line = finding.line or 0, index_files(files).line(files.get(finding.file or "", ""), finding.line)
    plain = re.sub(rf"(?<=\))\[([\"']){found[1]}\1\]", "", line, count=1)
    edit = _build_line_edit(number, line, plain)
    what = f'Remove `["{found[1]}"]`, or use' if edit is not None else "Use"
    return replace(finding, suggestion=f"{what} a key that the data has: {shown}.", edit=edit)


def _find_data_keys(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the top-level keys of the module's JSON files. Skip files that are too long or invalid."""
    left = MAX_PARSED_CHARS
    for file, text in texts.items():
        if file.endswith(".json") and len(text) <= left:
            left -= len(text)
            try:
                read = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(read, dict):
                yield from map(str, read)


def _explain_raised_text(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``raise "no name"``: a string can't be raised."""
    number, line = _find_failing_line(raised, texts)
    said = re.search(r"\braise\s++(f?[\"'].*[\"'])$", line.rstrip())
    if said is None:
        return None
    new = f"{line[: said.start(1)]}ValueError({said[1]}){line[said.end(1) :]}"
    hint = f"Raise an exception: `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


def _explain_passed_value(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``grade(raw.get("pm"))``: the calling line passes None or a string."""
    text, line = texts.get(raised.file or "", ""), raised.line or 0
    function = texts.find_function_at(text, line)
    given = {each.arg for each in function.args.args} - {"self"} if function is not None else set()
    wrong = {"NoneType": r"None$", "str": r"['\"]"}.get(found[1], "")
    name = next((one for one, value in raised.values if one in given and re.match(wrong, value)), None)
    frames = _find_frames(raised, texts)
    if name is None or not wrong or len(frames) < _MIN_FRAMES or frames[-1] != (raised.file, line):
        return None
    file, number = frames[-2]
    if is_test(file):
        return None
    shown = (get_snippet(texts[file], number) or "").strip()
    what = "None" if found[1] == "NoneType" else "a string"
    hint = f"`{name}` is {what}, and this line passes it: `{shown[:100]}`. Correct the value or its key here."
    return relocate_finding(finding, file, number, texts[file], hint, None)


_MIN_FRAMES = 2


def _find_frames(raised: RaisedException, texts: Texts) -> list[tuple[str, int]]:
    """Return the file and line of each traceback frame in the module's files, outermost frame first."""
    found = re.findall(r'File "([^"\n]{1,300})", line (\d{1,6})', raised.traceback)
    names = sorted(texts, key=len, reverse=True)
    placed = (
        (next((name for name in names if path == name or path.endswith(f"/{name}")), None), int(number))
        for path, number in found
    )
    return [(name, number) for name, number in placed if name is not None]


def _explain_other_keys(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``assert {"grades": …} == {"grade": …}`` with the line that writes the wrong key."""
    written, wanted = found[1], found[2]
    pattern = re.compile(rf"[\"']{re.escape(written)}[\"']\s*+:")
    places = [
        (file, number, line)
        for file, text in texts.items()
        if not is_test(file)
        for number, line in enumerate(texts.lines(text), 1)
        if pattern.search(line)
    ]
    if len(places) != 1:
        return None
    [(file, number, line)] = places
    new = re.sub(rf"([\"']){re.escape(written)}\1(?=\s*+:)", rf"\g<1>{wanted}\g<1>", line, count=1)
    hint = f"The test expects the key '{wanted}', and the code writes '{written}'. Write `{new.strip()}`."
    return relocate_finding(finding, file, number, texts[file], hint, _build_line_edit(number, line, new))


def _explain_returned_text(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``return response.text``: the test expects the parsed value."""
    places = [
        (file, number, line)
        for file, text in texts.items()
        if not is_test(file)
        for number, line in enumerate(texts.lines(text), 1)
        if re.search(r"\breturn\s++\w++\.(?:text|content)\b", line)
    ]
    if len(places) != 1:
        return None
    [(file, number, line)] = places
    new = re.sub(r"\.(?:text|content)\b", ".json()", line, count=1)
    hint = f"The code returns unparsed text. Write `{new.strip()}`."
    return relocate_finding(finding, file, number, texts[file], hint, _build_line_edit(number, line, new))


def _contains_node(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    return any(isinstance(one, kinds) for one in ast.walk(node))


def _explain_needless_async(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``async def transform(…)`` without `await`, which tests call as a plain method."""
    name = found[1].rpartition(".")[2]
    if isinstance(
        texts.find_function_at(texts.get(raised.file or "", ""), raised.line or 0), ast.AsyncFunctionDef
    ):
        return None
    for file, text in texts.items():
        for node in texts.iter_functions(text) if not is_test(file) else ():
            line = texts.line(text, node.lineno)
            named = line and node.name == name and isinstance(node, ast.AsyncFunctionDef)
            if named and not _contains_node(node, ast.Await, ast.AsyncWith, ast.AsyncFor):
                new = line.replace("async def", "def", 1)
                hint = (
                    f"`{name}` awaits nothing, and the test calls it without `await`. Write `{new.strip()}`."
                )
                return relocate_finding(
                    finding, file, node.lineno, text, hint, _build_line_edit(node.lineno, line, new)
                )
    return None


def _explain_fixture_without_value(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a fixture that ends without `return`."""
    file = test.partition("::")[0]
    text = texts.get(file, "")
    wrong = {name for name, value in raised.values if value == "None"}
    wrong &= set(texts.list_decorated(text, "fixture"))
    for node in texts.iter_functions(text):
        last = node.body[-1]
        line = texts.line(text, last.lineno)
        silent = node.name in wrong and isinstance(last, ast.Expr)
        if silent and line and not _contains_node(node, ast.Return, ast.Yield):
            edit = build_return_edit(last, text)
            new = f"return {ast.unparse(last)}" if edit is None else edit.replacement.strip()
            hint = f"The fixture `{node.name}` returns nothing. Write `{new}`."
            return relocate_finding(finding, file, last.lineno, text, hint, edit)
    return None


def _explain_misspelt_attribute(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a misspelt attribute of a module: ``@pytest.fixtures``."""
    number, line = _find_failing_line(raised, texts)
    if raised.meant is None:
        return None
    new = re.sub(rf"\b{found[1]}\.{found[2]}\b", f"{found[1]}.{raised.meant}", line, count=1)
    hint = f"Did you mean `{found[1]}.{raised.meant}`?"
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


def _explain_raises_match(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``pytest.raises(ValueError, "no name")``, which lacks the keyword ``match=``."""
    number, line = _find_failing_line(raised, texts)
    new = re.sub(r"(pytest\.raises\(\s*+[\w.]++,\s*+)(?=[rf]?[\"'])", r"\1match=", line, count=1)
    if new == line:
        return None
    hint = f"The text of the exception is compared by `match=`. Write `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=_build_line_edit(number, line, new))


def _explain_self_in_test(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``def test_x(self, adapter)`` outside a class, in which `self` isn't a fixture."""
    file, _, name = test.partition("::")
    text = texts.get(file, "")
    for node in texts.iter_functions(text):
        line = texts.line(text, node.lineno)
        if line and node.name == name.partition("[")[0]:
            new = re.sub(r"\(\s*+self\s*+,?\s*+", "(", line, count=1)
            hint = f"The test isn't in a class, so it has no `self`. Write `{new.strip()}`."
            return relocate_finding(
                finding, file, node.lineno, text, hint, _build_line_edit(node.lineno, line, new)
            )
    return None


def _find_class(name: str, texts: Texts) -> tuple[str, ast.ClassDef] | None:
    for file, text in texts.items():
        for node in texts.iter_classes(text):
            if node.name == name:
                return file, node
    return None


def _imports_dataclass(line: str) -> bool:
    return re.search(r"\bdataclass\b", line.partition("import ")[2]) is not None


def _explain_missing_dataclass(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``class Reading: city: str`` without `@dataclass`."""
    place = _find_class(found[1], texts)
    if place is None or not any(isinstance(one, ast.AnnAssign) for one in place[1].body):
        return None
    file, node = place
    line = texts.line(texts[file], node.lineno)
    edit = None
    if line and any(_imports_dataclass(one) for one in texts.lines(texts[file])):
        edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=f"@dataclass\n{line}")
    hint = f"`{node.name}` has fields and no `__init__`. Write `@dataclass` above the class."
    return relocate_finding(finding, file, node.lineno, texts[file], hint, edit)


def _get_constant_type(node: ast.expr) -> str:
    return type(node.value).__name__ if isinstance(node, ast.Constant) else "object"


def _explain_missing_annotation(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``city = str`` in a dataclass: without an annotation, the name isn't a field."""
    place = _find_class(found[1].removesuffix(".__init__").rpartition(".")[2], texts)
    for one in place[1].body if place is not None else ():
        names = (
            [each.id for each in one.targets if isinstance(each, ast.Name)]
            if isinstance(one, ast.Assign)
            else []
        )
        if place is not None and found[2] in names and isinstance(one, ast.Assign):
            file, line = place[0], texts.line(texts[place[0]], one.lineno)
            if not line:
                return None
            kind = one.value.id if isinstance(one.value, ast.Name) else _get_constant_type(one.value)
            value = "" if isinstance(one.value, ast.Name) else f" = {ast.unparse(one.value)}"
            new = f"{line[: len(line) - len(line.lstrip())]}{found[2]}: {kind}{value}"
            hint = f"A field of a dataclass has an annotation. Write `{new.strip()}`."
            return relocate_finding(
                finding, file, one.lineno, texts[file], hint, _build_line_edit(one.lineno, line, new)
            )
    return None


def _explain_status_attribute(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``response.status`` for a response of httpx or requests, which has `status_code`."""
    number, line = _find_failing_line(raised, texts)
    new = re.sub(r"\.status\b", ".status_code", line, count=1)
    return replace(finding, suggestion="Write `status_code`.", edit=_build_line_edit(number, line, new))


def _explain_unknown_method(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``adapter.fetch(…)`` for a class with the method `fetch_raw`."""
    place = _find_class(found[1], texts)
    if raised.meant is not None or place is None:
        return None
    known = [one.name for one in place[1].body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    wanted = found[2]
    near = find_similar_names(wanted, known) or [
        one for one in known if one.startswith(wanted) or wanted.startswith(one)
    ]
    if not near:
        return None
    number, line = _find_failing_line(raised, texts)
    new = re.sub(rf"\.{re.escape(wanted)}\b", f".{near[0]}", line, count=1)
    return replace(finding, suggestion=f"Did you mean `{near[0]}`?", edit=_build_line_edit(number, line, new))


Explain = Callable[[Finding, RaisedException, re.Match[str], Texts, str], Finding | None]
CALLS: tuple[tuple[re.Pattern[str], Explain], ...] = (
    (re.compile(r"^'set' object (?:has no attribute|is not subscriptable|is not a mapping)"), _explain_set),
    (re.compile(r"^the JSON object must be str.*, not (\w{1,60})"), _explain_repeated_parsing),
    (re.compile(r"^(?:type object|module) '(datetime|time|date)' has no attribute '(\w{1,60})'"),
     _explain_module_for_class),
    (re.compile(r"^'(\w{1,100})' object has no attribute '(\w{1,100})'"), _explain_self_for_constant),
    (re.compile(r"^'(\w{1,100})' object has no attribute '(\w{1,100})'"), _explain_unknown_method),
    (re.compile(r"^'Response' object has no attribute 'status'"), _explain_status_attribute),
    (re.compile(r"^'(?:function|FixtureFunctionDefinition)' object has no attribute"), _explain_fixture),
    (re.compile(r"^DID NOT RAISE <class '(?:\w+\.)*(\w{1,100})'>"), _explain_missing_exception),
    (re.compile(r"^'Response' object is not callable"), _explain_response_as_handler),
    (re.compile(r"<lambda>\(\) takes 0 positional arguments but 1 was given"), _explain_handler_parameters),
    (re.compile(r"^([\w.]{1,200})\(\) missing \d+ required [\w-]+ arguments?: '(\w{1,100})'"),
     _explain_missing_argument),
    (re.compile(r"^'([^'\\]{1,80})'$"), _explain_missing_key),
    (re.compile(r"(?:between instances of|unsupported operand|argument of type) .*?'(NoneType|str)'"),
     _explain_passed_value),
    (re.compile(r"^'(NoneType)' object (?:has no|is not)"), _explain_passed_value),
    (re.compile(r"Left contains 1 more item:\s+\{'(\w{1,100})'[^\n]*+\n\s*+Right contains 1 more item:\s+"
                r"\{'(\w{1,100})'"), _explain_other_keys),
    (re.compile(r"^assert b?['\"].{0,2000}? == [{\[]"), _explain_returned_text),
    (re.compile(r"<coroutine object ([\w.]{1,200}) at"), _explain_needless_async),
    (re.compile(r"^'NoneType' object has no attribute"), _explain_fixture_without_value),
    (re.compile(r"^module (\w{1,60}) has no attribute (\w{1,60})$"), _explain_misspelt_attribute),
    (re.compile(r"^['\"].*['\"] object \(type: <class 'str'>\) must be callable"), _explain_raises_match),
    (re.compile(r"^\('self', <FixtureRequest"), _explain_self_in_test),
    (re.compile(r"^(\w{1,100})\(\) takes no arguments"), _explain_missing_dataclass),
    (re.compile(r"^([\w.]{1,200})\(\) got an unexpected keyword argument '(\w{1,100})'"),
     _explain_missing_annotation),
    (re.compile(r"^exceptions must derive from BaseException"), _explain_raised_text),
)  # fmt: skip
"""Patterns of messages with their explanations, tried after `PATCH_EXPLAINERS` and before all others."""
