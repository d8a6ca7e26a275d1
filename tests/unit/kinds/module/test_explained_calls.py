"""Failures that are caused by a call, a key or a literal in another line."""

from __future__ import annotations

import ast

import pytest

from assayd.guest_results import RaisedException
from assayd.kinds.module.explained import add_explanation, explain_unexpected_exception
from assayd.kinds.module.explained_calls import add_data_keys
from assayd.kinds.module.mistakes import (
    check_dropped_results,
    check_generators,
    check_raised_strings,
    check_transports,
)
from assayd.model.finding import Finding
from assayd.model.policy import AdapterContract
from assayd.static.python.safe_fixes import CompileBudget

ADAPTER = """import datetime
import json
from dataclasses import dataclass

URL = "x"

class Plain:
    size: int

@dataclass
class Typed:
    size = int

class Weather:
    def __init__(self, **config):
        self.unit = "mm"

    async def fetch_raw(self, city):
        response = await client.get(self.URL, params={"city", city})
        return response.text

    async def transform(self, raw):
        raw = json.loads(raw)
        at = datetime.now()
        return {"grades": level(raw.get("rain"))}

def level(rain):
    return rain < 3
"""
TESTS = """import pytest

@pytest.fixture
def adapter():
    Weather(transport=MockTransport(httpx.Response(200)))

def test_transform(other):
    assert adapter.transform({}) == {"grade": 1}

async def test_fetch(adapter):
    with pytest.raises(ValueError):
        adapter.fetch_raw("")
    with pytest.raises(ValueError, "x"):
        pass
    httpx.Response(json={})

def test_self(self, adapter):
    pass
"""
TEXTS = {"adapter.py": ADAPTER, "test_adapter.py": TESTS}


def explain(
    message: str,
    file: str,
    line: int,
    test: str = "",
    *,
    traceback: str = "",
    value: tuple[str, str] | None = None,
) -> Finding:
    plain = Finding(rule="tests.failed", category="test_failure", message=message, file=file, line=line)
    raised = RaisedException(
        error_type="TypeError",
        message=message,
        file=file,
        line=line,
        traceback=traceback,
        where="",
        phase="call",
        values=() if value is None else (value,),
    )
    return add_explanation(plain, raised, TEXTS, test)


FETCH = "test_adapter.py::test_fetch"


@pytest.mark.parametrize(
    ("message", "file", "line", "test", "place", "corrected"),
    [
        (
            "'set' object has no attribute 'items'",
            "adapter.py",
            19,
            "",
            ("adapter.py", 19),
            'response = await client.get(self.URL, params={"city": city})',
        ),
        (
            "the JSON object must be str, bytes or bytearray, not dict",
            "adapter.py",
            23,
            "",
            ("adapter.py", 23),
            "raw = raw",
        ),
        (
            "module 'datetime' has no attribute 'now'",
            "adapter.py",
            24,
            "",
            ("adapter.py", 24),
            "at = datetime.datetime.now()",
        ),
        (
            "'Weather' object has no attribute 'URL'",
            "adapter.py",
            19,
            "",
            ("adapter.py", 19),
            'response = await client.get(URL, params={"city", city})',
        ),
        (
            "'Weather' object has no attribute 'config'",
            "adapter.py",
            19,
            "",
            ("adapter.py", 15),
            "def __init__(self, **config):\n        super().__init__(**config)",
        ),
        (
            "'function' object has no attribute 'transform'",
            "test_adapter.py",
            8,
            "test_adapter.py::test_transform",
            ("test_adapter.py", 7),
            "def test_transform(adapter, other):",
        ),
        (
            "DID NOT RAISE <class 'ValueError'>",
            "test_adapter.py",
            11,
            FETCH,
            ("test_adapter.py", 12),
            'await adapter.fetch_raw("")',
        ),
        (
            "'Response' object is not callable",
            "adapter.py",
            19,
            FETCH,
            ("test_adapter.py", 5),
            "Weather(transport=MockTransport(lambda request: httpx.Response(200)))",
        ),
        (
            "Response.__init__() missing 1 required positional argument: 'status_code'",
            "test_adapter.py",
            15,
            FETCH,
            ("test_adapter.py", 15),
            "httpx.Response(200, json={})",
        ),
        (
            "'x' object (type: <class 'str'>) must be callable",
            "test_adapter.py",
            13,
            FETCH,
            ("test_adapter.py", 13),
            'with pytest.raises(ValueError, match="x"):',
        ),
        (
            "('self', <FixtureRequest for x>)",
            "test_adapter.py",
            17,
            "test_adapter.py::test_self",
            ("test_adapter.py", 17),
            "def test_self(adapter):",
        ),
        ("Plain() takes no arguments", "adapter.py", 19, "", ("adapter.py", 7), "@dataclass\nclass Plain:"),
        (
            "Typed.__init__() got an unexpected keyword argument 'size'",
            "adapter.py",
            19,
            "",
            ("adapter.py", 12),
            "size: int",
        ),
        ("assert '{}' == {'a': 1}", "test_adapter.py", 8, "", ("adapter.py", 20), "return response.json()"),
        (
            "assert {} == {}\n  Left contains 1 more item:\n  {'grades': 1}\n"
            "  Right contains 1 more item:\n  {'grade': 1}",
            "test_adapter.py",
            8,
            "",
            ("adapter.py", 25),
            'return {"grade": level(raw.get("rain"))}',
        ),
        (
            "assert <coroutine object Weather.transform at 0x7f> == {}",
            "test_adapter.py",
            8,
            "",
            ("adapter.py", 22),
            "def transform(self, raw):",
        ),
    ],
)
def test_failure_is_explained_at_its_cause(
    message: str, file: str, line: int, test: str, place: tuple[str, int], corrected: str
) -> None:
    finding = explain(message, file, line, test)
    assert (finding.file, finding.line) == place
    assert finding.edit is not None
    assert finding.edit.replacement.strip() == corrected


def test_fixture_that_returns_nothing_is_at_its_last_line() -> None:
    message = "'NoneType' object has no attribute 'fetch_raw'"
    finding = explain(message, "test_adapter.py", 12, FETCH, value=("adapter", "None"))
    assert (finding.file, finding.line) == ("test_adapter.py", 5)
    assert finding.edit is not None
    assert finding.edit.replacement.startswith("    return Weather(")


def test_wrong_argument_is_at_the_line_that_passes_it() -> None:
    trace = 'File "/sandbox/test_adapter.py", line 8, in x\nFile "/sandbox/adapter.py", line 25, in y\n'
    trace += 'File "/sandbox/adapter.py", line 28, in level\n'
    message = "'<' not supported between instances of 'NoneType' and 'int'"
    finding = explain(message, "adapter.py", 28, traceback=trace, value=("rain", "None"))
    assert (finding.file, finding.line) == ("adapter.py", 25)
    assert finding.suggestion is not None
    assert finding.suggestion.startswith("`rain` is None")


@pytest.mark.parametrize("error_type", ["TypeError", "AttributeError", "NameError"])
def test_programming_error_is_never_what_a_test_should_expect(error_type: str) -> None:
    plain = Finding(rule="tests.failed", category="test_failure", message="x", file="adapter.py", line=19)
    raised = RaisedException(
        error_type=error_type, message="x", file="adapter.py", line=19, traceback="", where="", phase="call"
    )
    assert explain_unexpected_exception(plain, raised, TEXTS, FETCH) is plain


def test_missing_key_is_explained_by_the_keys_of_the_data() -> None:
    line = 'return response.json()["results"]'
    plain = Finding(
        rule="tests.failed",
        category="test_failure",
        message="x: KeyError: 'results'",
        suggestion="Use a key that exists, or supply a default: `d.get(key, default)`.",
        file="adapter.py",
        line=1,
    )
    finding = add_data_keys(plain, {"adapter.py": line, "answer.json": '{"city": 1, "rain": 2}'})
    assert finding.suggestion == 'Remove `["results"]`, or use a key that the data has: city, rain.'
    assert finding.edit is not None
    assert finding.edit.replacement == "return response.json()"


CONTRACT = AdapterContract(methods=("fetch_raw", "transform"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def transform(self, raw) -> dict[str, Any]:\n    yield raw\n", 1),
        ("def transform(self, raw) -> Iterator[dict]:\n    yield raw\n", 0),
        ("def transform(self, raw):\n    yield raw\n", 0),
        ("def rows(self) -> dict:\n    yield raw\n", 0),
        (
            "def transform(self, raw) -> dict:\n    def f():\n        yield 1\n    return dict(f())\n",
            0,
        ),
    ],
)
def test_generator_for_a_value_is_found(text: str, count: int) -> None:
    assert len(list(check_generators("adapter.py", text, ast.parse(text), CONTRACT))) == count


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ('raise "no name"\n', 'raise ValueError("no name")'),
        ('raise ValueError("no name")\n', None),
        ("raise error\n", None),
    ],
)
def test_raised_string_is_found(text: str, new: str | None) -> None:
    found = [one.edit.replacement for one in check_raised_strings("a.py", text, ast.parse(text)) if one.edit]
    assert found == ([] if new is None else [new])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('def f() -> dict:\n    {"a": 1}\n', 1),
        ('def f() -> dict:\n    a = {"a": 1}\n', 1),
        ('def f() -> dict:\n    return {"a": 1}\n', 0),
        ("def f() -> None:\n    x\n", 0),
        ('def f() -> str:\n    """Say nothing."""\n', 0),
    ],
)
def test_dropped_literal_is_found(text: str, count: int) -> None:
    assert (
        len(list(check_dropped_results("a.py", text, ast.parse(text), CompileBudget.for_texts([text]))))
        == count
    )


def test_client_that_ignores_the_tests_transport_is_found() -> None:
    texts = {"adapter.py": HEAD + "AsyncClient(timeout=1)\n", "test_a.py": "Air(transport=x)\n"}
    [finding] = check_transports(texts, {name: ast.parse(text) for name, text in texts.items()})
    assert finding.edit is not None
    assert finding.edit.replacement.strip() == (
        'client = AsyncClient(transport=self.config.get("transport"), timeout=1)'
    )
    used = {**texts, "adapter.py": HEAD + 'AsyncClient(transport=self.config["transport"])\n'}
    assert not list(check_transports(used, {name: ast.parse(text) for name, text in used.items()}))
    other = {**texts, "test_a.py": "Client(transport=x)\n"}
    assert not list(check_transports(other, {name: ast.parse(text) for name, text in other.items()}))


HEAD = "class Air(Adapter):\n    def f(self):\n        client = "


@pytest.mark.parametrize(
    ("text", "message", "corrected"),
    [
        (
            'DATA = json.loads(Path("a.json").read_text)\n',
            "the JSON object must be str, bytes or bytearray, not method",
            'DATA = json.loads(Path("a.json").read_text())',
        ),
        (
            "ok = response.status == 200\n",
            "'Response' object has no attribute 'status'",
            "ok = response.status_code == 200",
        ),
        (
            "city = raw.strip\n",
            "assert {'city': <built-in method strip of str object>} == {}",
            "city = raw.strip()",
        ),
    ],
)
def test_call_without_parentheses_or_with_another_name_is_corrected(
    text: str, message: str, corrected: str
) -> None:
    plain = Finding(rule="tests.failed", category="test_failure", message=message, file="a.py", line=1)
    raised = RaisedException(
        error_type="TypeError",
        message=message,
        file="a.py",
        line=1,
        traceback="",
        where="",
        phase="call",
        values=(),
    )
    finding = add_explanation(plain, raised, {"a.py": text}, "")

    assert finding.edit is not None
    assert finding.edit.replacement == corrected
