"""Work on texts and failures that a submitter chooses is bounded, because it runs in the event loop."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from types import ModuleType

import pytest

import assayd.findings
import assayd.kinds.code
import assayd.kinds.module
from assayd.guest_results import RaisedException
from assayd.kinds.module.explained import add_explanation, add_file_hints
from assayd.kinds.module.generating import MANIFEST
from assayd.kinds.module.places import MAX_EXPLAINED, MAX_PARSED_CHARS, ModuleFiles
from assayd.kinds.module.validator import PreparedModule, validator
from assayd.model.finding import Finding
from assayd.model.run import Cause, ResourceUsage, RunEndReason, RunOutcome, RunResult, UnitResult
from assayd.policies import PolicySet

HOSTILE = (
    " " * 2000,
    "/" * 2000,
    "a." * 1000,
    "{'a'," + " " * 2000,
    "import " * 300,
    "{'a', " + "b " * 1000,
    "raise 'a'" + " " * 2000 + "b",
    "assert a" + "." * 2000,
    "pytest.raises(" + " " * 2000,
    "Left contains 1 more item: {'a'" + " " * 2000,
)
MAX_S = 0.05
MODULES = [
    importlib.import_module(f"{package.__name__}.{found.name}")
    for package in (assayd.findings, assayd.kinds.code, assayd.kinds.module)
    for found in pkgutil.iter_modules(package.__path__)
]


def patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    """Return the patterns of a value or a table."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, dict):
        yield from patterns_in([*value, *value.values()])


def written_in(module: ModuleType) -> Iterator[re.Pattern[str]]:
    """Return the patterns that a module's functions build, with `a` in place of each inserted name."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=call), args=[first, *_]):
                parts = first.values if isinstance(first, ast.JoinedStr) else [first]
                texts = [str(one.value) if isinstance(one, ast.Constant) else "a" for one in parts]
                if call != "escape" and isinstance(first, ast.JoinedStr | ast.Constant):
                    yield re.compile("".join(texts))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.removeprefix("assayd."))
def test_no_pattern_is_slow_on_a_hostile_text(module: ModuleType) -> None:
    slow = []
    for pattern in {*patterns_in([*vars(module).values()]), *written_in(module)}:
        for text in HOSTILE:
            begun = process_time()
            list(pattern.finditer(text))
            if process_time() - begun > MAX_S:
                slow.append((pattern.pattern, text[:20]))
    assert slow == []


def test_patterns_are_collected_from_tables_and_functions() -> None:
    calls = importlib.import_module("assayd.kinds.module.explained_calls")
    assert len([*patterns_in(calls.CALLS)]) == len(calls.CALLS)
    assert any("Response" in pattern.pattern for pattern in written_in(calls))


TESTS = "def test_a():\n" + "    value = None\n" * 300
CODE = "class Reading:\n    size: int\n\ndef grade(rain):\n    return rain < 3\n"
FILES = {f"test_{n}.py": f"# {n}\n{TESTS}" for n in range(10)} | {"adapter.py": CODE}
MESSAGES = (
    "'NoneType' object has no attribute 'x'",
    "Reading() got an unexpected keyword argument 'siz'",
    "'rain'",
)
ERRORS = ("AttributeError", "TypeError", "KeyError")


def failing(file: str, count: int = 200) -> bytes:
    names = [f"{file}::test_a[{n}]" for n in range(count)]
    lines: list[dict[str, object]] = [{"event": "collected", "tests": names}]
    for number, name in enumerate(names):
        lines.append({"event": "started", "id": name})
        lines.append(
            {
                "event": "ended",
                "id": name,
                "outcome": "failed",
                "duration_s": 0.0,
                "stdout": "",
                "stderr": "",
                "error_type": ERRORS[number % 3],
                "message": MESSAGES[number % 3],
                "file": file,
                "line": 3 + number,
                "traceback": "",
                "where": "test_a",
                "values": {"value": "None"},
            }
        )
    final = {"status": "failed", "lines": len(lines), "collected": count, "ended": count, "notes": []}
    return b"\n".join(json.dumps(line).encode() for line in (*lines, final))


def test_thousands_of_failures_are_judged_with_bounded_work(
    policies: PolicySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[object] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda *given, **more: (parsed.append(given), parse(*given, **more))[1])
    units = [
        UnitResult(
            name=name,
            wait_status=256,
            results=(failing(name),) if name != "contract" else (),
            usage=ResourceUsage(wall_s=1.0),
            outcome=RunOutcome(cause=Cause.EXITED_NONZERO),
        )
        for name in ("contract", *sorted(name for name in FILES if name != "adapter.py"))
    ]
    run = RunResult(end=RunEndReason.FINISHED, outcome=RunOutcome(cause=Cause.COMPLETED), units=tuple(units))
    payload = PreparedModule(manifest=MANIFEST, files=FILES, expected={})

    judgement = validator.judge(payload, policies.get("module_validation"), run)

    assert len(judgement.cases) == 2000
    found = [one for one in judgement.stage_findings["sandbox"] if one.rule == "tests.failed"]
    assert len({one.line for one in found}) >= 200
    assert any(one.suggestion == "Did you mean `size`?" for one in found)
    assert len(parsed) <= len(FILES)


def raised(message: str, line: int) -> RaisedException:
    return RaisedException(
        error_type="TypeError",
        message=message,
        file="a.py",
        line=line,
        traceback="",
        where="",
        phase="call",
    )


def test_long_lines_and_long_files_are_not_read() -> None:
    plain = Finding(rule="tests.failed", category="test_failure", message="m", file="a.py", line=1)
    is_set = "'set' object has no attribute 'items'"
    short, long = ModuleFiles({"a.py": "x = {'a', b}"}), ModuleFiles({"a.py": "x = {'a', b}" + " " * 300})
    assert add_explanation(plain, raised(is_set, 1), short).edit is not None
    assert add_explanation(plain, raised(is_set, 1), long) == plain

    text = "def f(): ...\n" + "#" * (MAX_PARSED_CHARS // 5)
    files = ModuleFiles({str(n): f"{text}{n}" for n in range(7)})
    assert [len([*files.iter_functions(one)]) for one in files.values()] == [1, 1, 1, 1, 0, 0, 0]

    slow = 'f"' + "{a}" * 33_000 + '"'
    assert [*ModuleFiles({"a.py": slow}).body(slow)] == []


def test_only_the_first_findings_are_compared_with_the_files() -> None:
    message = "No such file or directory: 'dta.json'"
    found = [Finding(rule="tests.failed", category="test_failure", message=message)] * (MAX_EXPLAINED + 5)
    changed = [one.suggestion is not None for one in add_file_hints(found, {"data.json": "{}"})]
    assert changed == [True] * MAX_EXPLAINED + [False] * 5
