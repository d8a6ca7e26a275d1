"""Explains test failures with the help of the module's files: the intended code, its location, an edit.

    'coroutine' object has no attribute …       the line that assigned it, with await
    assert <bound method Response.json …        the line that has `json` without parentheses
    the fixture 'adaptor' doesn't exist         the fixture with a similar name
    unexpected keyword argument 'particle'      the parameter or field with a similar name
    No such file or directory: 'anwser.json'    the file with a similar name

Because the guest controls the texts of exceptions, these texts can affect the wording of a finding and an
edit of the submitted lines, but never the verdict.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from assayd.did_you_mean import find_close_names
from assayd.guest_results import RaisedException
from assayd.kinds.module.explained_calls import CALLS, PROGRAMMING_ERRORS, add_data_keys
from assayd.kinds.module.explained_results import PATCH_EXPLAINERS, RESULTS
from assayd.kinds.module.files import is_test, module_name
from assayd.kinds.module.mistakes import build_word_edit
from assayd.kinds.module.places import (
    MAX_EXPLAINED,
    MAX_MESSAGE_CHARS,
    ModuleFiles,
    find_similar_names,
    index_files,
    relocate_finding,
)
from assayd.model.finding import Edit, Finding

Texts = ModuleFiles


def add_explanation(
    finding: Finding, raised: RaisedException, texts: Mapping[str, str], test: str = ""
) -> Finding:
    """Return the finding with an explanation of the exception, derived from the module's files.

    If no explanation is found, return the finding unchanged.

    Args:
        finding: the plain finding.
        raised: the exception.
        texts: the contents of the Python files by name.
        test: the id of the test; empty for an import.
    """
    files, message = index_files(texts), raised.message[:MAX_MESSAGE_CHARS]
    for pattern, explain in (*PATCH_EXPLAINERS, *CALLS, *_EXPLAINER_BY_PATTERN, *RESULTS):
        found = pattern.search(message)
        try:
            made = explain(finding, raised, found, files, test) if found is not None else None
        except RecursionError:  # A deeply nested expression.
            made = None
        if made is not None:
            return made
    return finding


def add_file_hints(found: Sequence[Finding], files: Mapping[str, str]) -> list[Finding]:
    """Add hints about similar file names and existing keys to the first findings of a run."""
    read = index_files(files)
    first = [add_data_keys(suggest_similar_file(one, read), read) for one in found[:MAX_EXPLAINED]]
    return [*first, *found[MAX_EXPLAINED:]]


def suggest_similar_file(finding: Finding, texts: Mapping[str, str]) -> Finding:
    """Return a finding about a missing file with the name of a similar submitted file.

    Return the finding unchanged if it has another cause, or if no file is similar.
    """
    found = _NO_FILE_PATTERN.search(finding.message)
    if found is None:
        return finding
    path = found[1]
    base = path.rpartition("/")[2]
    near = [name for name in texts if name.rpartition("/")[2] == base] or find_close_names(
        path, sorted(texts)
    )
    if not near or near[0] == path:
        return finding
    text = texts.get(finding.file or "", "")
    edit = build_word_edit(text, finding.line or 0, path, near[0], quoted=True)
    return replace(
        finding, suggestion=f"Did you mean '{near[0]}'? Paths start at the module's folder.", edit=edit
    )


_NO_FILE_PATTERN = re.compile(r"No such file or directory: '([^']{1,200})'")


def _explain_missing_await(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a failure caused by ``response = client.get(…)`` without `await`.

    Return None if the module's files don't show this cause.
    """
    file, text = raised.file or "", texts.get(raised.file or "", "")
    lines = texts.lines(text)
    patterns = [
        (name, re.compile(rf"(\s*+{re.escape(name)}\s*+=\s*+)(?!await\b)(\S.*\()"))
        for name, value in raised.values
        if value.startswith(("a coroutine", "<coroutine"))
    ]
    for number in range(min(raised.line or 1, len(lines)), 0, -1):
        for name, pattern in patterns:
            assigned = pattern.match(lines[number - 1]) if name in lines[number - 1] else None
            if assigned is not None:
                new = f"{assigned[1]}await {lines[number - 1][assigned.end(1) :]}"
                edit = Edit(start_line=number, end_line=number, replacement=new)
                hint = f"The call returns a coroutine. Write await before it: `{new.strip()}`."
                return relocate_finding(finding, file, number, text, hint, edit)
    return None


def _explain_coroutine_compared(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``assert adapter.fetch_raw("Oslo") == X``, which lacks `await`.

    Return None if the module's files don't show this cause.
    """
    file, text, name = raised.file or "", texts.get(raised.file or "", ""), found[1].rpartition(".")[2]
    number = raised.line or 0
    line = texts.line(text, number)
    call = re.search(rf"(?<!await )(?<![\w.)\]])[\w.]++(?<=\b{re.escape(name)})\(", line)
    if call is None:
        return None
    new = f"{line[: call.start()]}await {line[call.start() :]}"
    edit: Edit | None = Edit(start_line=number, end_line=number, replacement=new)
    around = texts.find_function_at(text, number)
    if not isinstance(around, ast.AsyncFunctionDef):
        edit = None
    hint = f"`{name}` is async. Write `await` before the call, in an `async def` function."
    return relocate_finding(finding, file, number, text, hint, edit)


def _explain_uncalled_method(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``return response.json``, which returns the method instead of its result."""
    name = found[1].rpartition(".")[2]
    pattern = re.compile(rf"\.{re.escape(name)}\b(?!\s*+\(|[\"'])")
    places = [
        (file, number, line)
        for file, text in texts.items()
        for number, line in enumerate(texts.lines(text), 1)
        if pattern.search(line) and not line.lstrip().startswith("#")
    ]
    if len(places) != 1:
        return replace(finding, suggestion=f"`{name}` isn't called. Write parentheses: `{name}()`.")
    [(file, number, line)] = places
    new = pattern.sub(f".{name}()", line, count=1)
    edit = Edit(start_line=number, end_line=number, replacement=new)
    return relocate_finding(
        finding, file, number, texts[file], f"`{name}` isn't called. Write `{new.strip()}`.", edit
    )


def _explain_unknown_fixture(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``def test_x(adaptor)``: the fixture is named `adapter`, or it has no decorator.

    Return None if the module's files don't show this cause.
    """
    file, _, name = test.partition("::")
    text, wanted = texts.get(file, ""), found[1]
    known = {each.name: each for each in texts.iter_functions(text)}
    if wanted in known:
        number = known[wanted].lineno
        line = texts.line(text, number)
        indent = line[: len(line) - len(line.lstrip())]
        new = f"{indent}@pytest.fixture\n{line}"
        edit = Edit(start_line=number, end_line=number, replacement=new) if line else None
        hint = f"`{wanted}` is a plain function. Write `@pytest.fixture` above it."
        return relocate_finding(finding, file, number, text, hint, edit)
    decorated = texts.list_decorated(text, "fixture")
    fixtures = [each for each in known if each in decorated]
    node = known.get(name.partition("[")[0].rpartition("::")[2])
    number = node.lineno if node is not None else 0
    patch = _replace_plugin(wanted, texts)
    if number and patch is not None:
        return relocate_finding(finding, file, number, text, patch, None)
    near = find_similar_names(wanted, [*_FIXTURES, *fixtures])
    if not near or not number:
        return (
            relocate_finding(finding, file, number, text, finding.suggestion or "", None) if number else None
        )
    edit_or_none = build_word_edit(text, number, wanted, near[0])
    return relocate_finding(
        finding, file, number, text, f"Did you mean the fixture `{near[0]}`?", edit_or_none
    )


def _replace_plugin(fixture: str, texts: Texts) -> str | None:
    """Return the replacement for a plug-in's fixture that fakes a client, and the call to replace.

    Return None if the fixture is unknown, or if no file calls the client.
    """
    library = _FAKED_CLIENTS.get(fixture)
    if library is None:
        return None
    call = re.compile(
        rf"(?<![\w.]){library}\.(get|post|put|patch|delete|request|Client|AsyncClient|Session)\("
    )
    for name, text in texts.items():
        if not is_test(name) and (found := call.search(text)) is not None:
            target = f"{module_name(name)}.{library}.{found[1]}"
            return (
                f'The image has no fixture `{fixture}`. Write `monkeypatch.setattr("{target}", …)` instead.'
            )
    return None


_FAKED_CLIENTS = {"requests_mock": "requests", "httpx_mock": "httpx", "respx_mock": "httpx"}
_FIXTURES = ("monkeypatch", "tmp_path", "capsys", "caplog", "request", "recwarn", "event_loop")


def _explain_unknown_argument(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``Reading(particle=…)`` if the field is `particles`.

    Return None if the module's files don't show this cause.
    """
    owner, wanted = found[1].removesuffix(".__init__").rpartition(".")[2], found[2]
    near = find_similar_names(
        wanted, (name for text in texts.values() for name in texts.parameters(text, owner))
    )
    if not near:
        return None
    text = texts.get(raised.file or "", "")
    edit = build_word_edit(text, raised.line or 0, wanted, near[0])
    return replace(finding, suggestion=f"Did you mean `{near[0]}`?", edit=edit)


def _explain_unused_argument(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain an unused argument: ``parametrize("particle", …)`` for ``def test_grade(particles)``.

    Return None if the module's files don't show this cause.
    """
    owner, wanted = found[1], found[2]
    for file, text in texts.items():
        node = next((each for each in texts.iter_functions(text) if each.name == owner), None)
        if node is None:
            continue
        near = find_similar_names(wanted, [each.arg for each in node.args.args])
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        hint = f"Did you mean `{near[0]}`?" if near else f"Add `{wanted}` to the parameters of {owner}."
        edit = build_word_edit(text, first, wanted, near[0]) if near else None
        return relocate_finding(finding, file, first, text, hint, edit)
    return None


def _explain_unknown_mark(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    text = texts.get(raised.file or "", "")
    edit = build_word_edit(text, raised.line or 0, f"pytest.mark.{found[1]}", f"pytest.mark.{found[2]}")
    return replace(finding, suggestion=f"Did you mean `{found[2]}`?", edit=edit)


def _explain_missing_self(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a missing ``self.``: ``round(particles / LIMIT)`` in a class with the field `particles`.

    Return None if the module's files don't show this cause.
    """
    name, text = found[1], texts.get(raised.file or "", "")
    function = texts.find_function_at(text, raised.line or 0)
    first = function.args.args[0].arg if function is not None and function.args.args else ""
    if first != "self" or name not in texts.list_class_attributes_at(text, raised.line or 0):
        return None
    edit = build_word_edit(text, raised.line or 0, name, f"self.{name}")
    return replace(finding, suggestion=f"`{name}` is an attribute. Write `self.{name}`.", edit=edit)


def _explain_field_order(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain a field without a default that follows a field with a default.

    Return None if the module's files don't show this cause.
    """
    text = texts.get(raised.file or "", "")
    pattern = re.compile(rf"\s++{re.escape(found[1])}\s*+:")
    lines = [n for n, line in enumerate(texts.lines(text), 1) if pattern.match(line)]
    hint = f"Move `{found[1]}` before the fields with a default, or give it one."
    return (
        relocate_finding(finding, raised.file or "", lines[0], text, hint, None) if len(lines) == 1 else None
    )


def _explain_wrong_with_statement(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``with httpx.AsyncClient()`` without `async`, and ``async with httpx.Client()``."""
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    if found[2]:
        other = re.sub(rf"\b{re.escape(found[1])}\(", f"Async{found[1]}(", line)
        known = found[1] == "Client" and other != line
        hint = "Write `httpx.AsyncClient`, or a plain `with`." if known else "Write a plain `with`."
        new = other if known else line.replace("async with", "with", 1)
    else:
        hint, new = (
            f"{found[1]} is asynchronous. Write `async with`.",
            re.sub(r"\bwith\b", "async with", line, count=1),
        )
    edit = Edit(start_line=number, end_line=number, replacement=new) if new != line else None
    return replace(finding, suggestion=hint, edit=edit)


def _explain_json_load_of_text(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``json.load("answer.json")``: `json.load` expects an open file.

    Return None if the module's files don't show this cause.
    """
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    loaded = re.search(r"json\.load\(\s*+([\"'][^\"']++[\"'])\s*+\)", line)
    if "json.load(" not in line:
        return None
    new = f"{line[: loaded.start()]}json.load(open({loaded[1]})){line[loaded.end() :]}" if loaded else line
    path = re.search(r"json\.load\(\s*+(Path\([^()]*+\))\s*+\)", line)
    if path is not None:
        new = f"{line[: path.start()]}json.loads({path[1]}.read_text()){line[path.end() :]}"
        edit_of_path = Edit(start_line=number, end_line=number, replacement=new)
        return replace(
            finding, suggestion=f"`json.load()` takes an open file. Write `{new.strip()}`.", edit=edit_of_path
        )
    edit = Edit(start_line=number, end_line=number, replacement=new) if loaded else None
    hint = "Write json.load(open(path)), or json.loads(text): json.load() needs an open file."
    return replace(finding, suggestion=hint, edit=edit)


def _explain_needless_await(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``await response.json()`` if json() isn't async."""
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    edit = None
    if line.count("await ") == 1:
        edit = Edit(start_line=number, end_line=number, replacement=line.replace("await ", "", 1))
    hint = (
        f"The call returns a {found[1]}, not a coroutine. Remove `await`, or make the function `async def`."
    )
    return replace(finding, suggestion=hint, edit=edit)


def _explain_method_as_value(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``response.json["x"]``: the method isn't called."""
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    uses = list(re.finditer(r"\.(\w++)(?=\[|\s*+[:)]|\s*+$)", line))
    if len(uses) != 1:
        return replace(finding, suggestion="A method isn't called here. Write parentheses after its name.")
    new = f"{line[: uses[0].end()]}(){line[uses[0].end() :]}"
    edit = Edit(start_line=number, end_line=number, replacement=new)
    hint = f"`{uses[0][1]}` isn't called. Write `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=edit)


def _explain_called_value(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``reading.share()`` for a property, or ``adapter()`` for the value of a fixture.

    Return None if the module's files don't show this cause.
    """
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    function = texts.find_function_at(text, number)
    parameters = {each.arg for each in function.args.args} if function is not None else set()
    properties = {name for each in texts.values() for name in texts.list_decorated(each, "property")}
    calls = [
        one
        for one in re.finditer(r"\b(\w++)\(\)", line)
        if one[1] in properties or (one[1] in parameters and not line[: one.start()].endswith("."))
    ]
    if len(calls) != 1:
        return None
    new = f"{line[: calls[0].end() - 2]}{line[calls[0].end() :]}"
    edit = Edit(start_line=number, end_line=number, replacement=new)
    hint = f"`{calls[0][1]}` is a value, not a function. Remove the parentheses: `{new.strip()}`."
    return replace(finding, suggestion=hint, edit=edit)


def _explain_dict_attribute(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``raw.city`` for a dict, which needs ``raw["city"]``.

    Return None if the module's files don't show this cause.
    """
    if finding.suggestion is not None and finding.suggestion.startswith("Did you mean"):
        return None
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    line = texts.line(text, number)
    places = list(re.finditer(rf"\.{re.escape(found[1])}\b(?!\s*+\()", line))
    edit = None
    if len(places) == 1:
        new = f'{line[: places[0].start()]}["{found[1]}"]{line[places[0].end() :]}'
        edit = Edit(start_line=number, end_line=number, replacement=new)
    hint = f'A dict has keys, not attributes. Write `["{found[1]}"]`.'
    return replace(finding, suggestion=hint, edit=edit)


def _explain_call_on_class(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    hint = f"{found[1]} is called on the class. Create an instance first: `{found[1]}().{found[2]}(…)`."
    text, number = texts.get(raised.file or "", ""), raised.line or 0
    edit = build_word_edit(text, number, f"{found[1]}.{found[2]}", f"{found[1]}().{found[2]}")
    return replace(finding, suggestion=hint, edit=edit)


def _explain_parameter_count(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``parametrize(("a", "b"), [(1,)])``: a value is missing."""
    hint = f"Each case needs {found[1]} values, one per name, but one case has {found[2]}."
    for file, text in texts.items():
        lines = [n for n, line in enumerate(texts.lines(text), 1) if "parametrize(" in line]
        if len(lines) == 1 and file.rpartition("/")[2].startswith("test"):
            return relocate_finding(finding, file, lines[0], text, hint, None)
    return replace(finding, suggestion=hint)


def _explain_circular_import(
    finding: Finding, raised: RaisedException, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    hint = f"{found[2]} and this file import each other. Move `{found[1]}` to a third file."
    return replace(finding, suggestion=hint)


def explain_unexpected_exception(
    finding: Finding, raised: RaisedException, texts: Mapping[str, str], test: str
) -> Finding:
    """Return the finding with a hint if its test expects a different exception than the raised one.

    Otherwise, return the finding unchanged.
    """
    file, _, name = test.partition("::")
    files = index_files(texts)
    text, kind = files.get(file, ""), raised.error_type.rpartition(".")[2]
    wanted = name.partition("[")[0].rpartition("::")[2]
    node = next((one for one in files.iter_functions(text) if one.name == wanted), None)
    if node is None or kind in PROGRAMMING_ERRORS:
        return finding
    lines = files.lines(text)[node.lineno - 1 : node.end_lineno]
    for number, line in enumerate(lines, node.lineno):
        expected = re.search(r"pytest\.raises\(\s*+([\w.]++)", line)
        if expected is not None and expected[1].rpartition(".")[2] != kind and kind.isidentifier():
            new = f"{line[: expected.start(1)]}{kind}{line[expected.end(1) :]}"
            edit = Edit(start_line=number, end_line=number, replacement=new)
            hint = f"The code raised {kind}. Expect {kind}, or raise {expected[1]}."
            return relocate_finding(finding, file, number, text, hint, edit)
    return finding


_Explain = Callable[[Finding, RaisedException, re.Match[str], Texts, str], Finding | None]
_EXPLAINER_BY_PATTERN: tuple[tuple[re.Pattern[str], _Explain], ...] = (
    (re.compile(r"^'coroutine' object"), _explain_missing_await),
    (re.compile(r"<coroutine object ([\w.]{1,200}) at"), _explain_coroutine_compared),
    (re.compile(r"<(?:bound|built-in) method ([\w.]{1,200}) of"), _explain_uncalled_method),
    (re.compile(r"^\('(\w{1,100})', <FixtureRequest"), _explain_unknown_fixture),
    (
        re.compile(r"^([\w.]{1,200})\(\) got an unexpected keyword argument '(\w{1,100})'"),
        _explain_unknown_argument,
    ),
    (
        re.compile(r"^In (\w{1,200}): function uses no (?:argument|fixture) '(\w{1,100})'"),
        _explain_unused_argument,
    ),
    (re.compile(r"^Unknown '(\w{1,100})' mark, did you mean '(\w{1,100})'"), _explain_unknown_mark),
    (re.compile(r"^name '(\w{1,100})' is not defined"), _explain_missing_self),
    (re.compile(r"^non-default argument '(\w{1,100})' follows default"), _explain_field_order),
    (
        re.compile(r"^'(\w{1,100})' object does not support the (asynchronous )?context manager"),
        _explain_wrong_with_statement,
    ),
    (re.compile(r"^'(?:str|\w*Path)' object has no attribute 'read'"), _explain_json_load_of_text),
    (re.compile(r"^object (\w{1,100}) can't be used in 'await' expression"), _explain_needless_await),
    (
        re.compile(
            r"^'(?:builtin_function_or_method|method|function)' object is not (?:subscriptable|iterable)"
        ),
        _explain_method_as_value,
    ),
    (re.compile(r"^'(\w{1,100})' object is not callable"), _explain_called_value),
    (re.compile(r"^'dict' object has no attribute '(\w{1,100})'"), _explain_dict_attribute),
    (
        re.compile(r"^(\w{1,100})\.(\w{1,100})\(\) missing 1 required positional argument: 'self'"),
        _explain_call_on_class,
    ),
    (re.compile(r"number of names \((\d+)\)(?s:.*)number of values \((\d+)\)"), _explain_parameter_count),
    (
        re.compile(r"cannot import name '(\w+)' from partially initialized module '([\w.]+)'"),
        _explain_circular_import,
    ),
)
