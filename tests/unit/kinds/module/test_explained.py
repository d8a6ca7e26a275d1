"""Explanations of a failed test from the module's files."""

from __future__ import annotations

import pytest

from assayd.guest_results import RaisedException
from assayd.kinds.module.explained import add_explanation, explain_unexpected_exception, suggest_similar_file
from assayd.model.finding import Finding

TEXTS = {
    "adapter.py": """class Reading:
    particles: float

    @property
    def share(self):
        return particles / 2

async def fetch(client):
    response = client.get("x")
    response.raise_for_status()
    return response.json
""",
    "test_adapter.py": """import pytest

def adapter():
    return Reading(particle=1)

@pytest.fixture
def reading():
    return Reading()

def test_share(readin):
    assert reading().share() == 1

async def test_fetch(client):
    with pytest.raises(KeyError):
        fetch(client) == {}
    json.load("answer.json")
    with AsyncClient() as client:
        await sorted([])
""",
}


def explain(
    message: str, file: str, line: int, test: str = "", values: tuple[tuple[str, str], ...] = ()
) -> Finding:
    """Return the finding of an exception with this text at a line."""
    plain = Finding(rule="tests.failed", category="test_failure", message=message, file=file, line=line)
    raised = RaisedException(
        error_type="TypeError",
        message=message,
        file=file,
        line=line,
        traceback="",
        where="",
        phase="call",
        values=values,
    )
    return add_explanation(plain, raised, TEXTS, test)


@pytest.mark.parametrize(
    ("message", "file", "line", "test", "place", "corrected"),
    [
        (
            "'coroutine' object has no attribute 'raise_for_status'",
            "adapter.py",
            10,
            "",
            ("adapter.py", 9),
            '    response = await client.get("x")',
        ),
        (
            "assert <bound method Response.json of <Response>> == {}",
            "test_adapter.py",
            15,
            "",
            ("adapter.py", 11),
            "    return response.json()",
        ),
        (
            "assert <coroutine object fetch at 0x7f> == {}",
            "test_adapter.py",
            15,
            "",
            ("test_adapter.py", 15),
            "        await fetch(client) == {}",
        ),
        (
            "('readin', <FixtureRequest for <Function test_share>>)",
            "",
            0,
            "test_adapter.py::test_share",
            ("test_adapter.py", 10),
            "def test_share(reading):",
        ),
        (
            "('adapter', <FixtureRequest for <Function test_share>>)",
            "",
            0,
            "test_adapter.py::test_share",
            ("test_adapter.py", 3),
            "@pytest.fixture\ndef adapter():",
        ),
        (
            "Reading.__init__() got an unexpected keyword argument 'particle'",
            "test_adapter.py",
            4,
            "",
            ("test_adapter.py", 4),
            "    return Reading(particles=1)",
        ),
        (
            "name 'particles' is not defined",
            "adapter.py",
            6,
            "",
            ("adapter.py", 6),
            "        return self.particles / 2",
        ),
        (
            "'float' object is not callable",
            "test_adapter.py",
            11,
            "",
            ("test_adapter.py", 11),
            "    assert reading().share == 1",
        ),
        (
            "'str' object has no attribute 'read'",
            "test_adapter.py",
            16,
            "",
            ("test_adapter.py", 16),
            '    json.load(open("answer.json"))',
        ),
        (
            "'AsyncClient' object does not support the context manager protocol",
            "test_adapter.py",
            17,
            "",
            ("test_adapter.py", 17),
            "    async with AsyncClient() as client:",
        ),
        (
            "object list can't be used in 'await' expression",
            "test_adapter.py",
            18,
            "",
            ("test_adapter.py", 18),
            "        sorted([])",
        ),
    ],
)
def test_exception_is_explained_at_its_cause(
    message: str, file: str, line: int, test: str, place: tuple[str, int], corrected: str
) -> None:
    found = explain(message, file, line, test, (("response", "a coroutine"),))
    assert (found.file, found.line) == place
    assert found.edit is not None
    assert found.edit.replacement == corrected


@pytest.mark.parametrize(
    ("fixture", "library"), [("requests_mock", "requests"), ("httpx_mock", "httpx"), ("respx_mock", "httpx")]
)
def test_missing_plugin_is_replaced_by_a_patch_of_the_call(fixture: str, library: str) -> None:
    texts = {
        "adapter.py": f"import {library}\n\ndef search(q):\n    return {library}.get(q)\n",
        "test_adapter.py": f"def test_search({fixture}):\n    {fixture}.get('x')\n",
    }
    message = f"('{fixture}', <FixtureRequest for <Function test_search>>)"
    plain = Finding(rule="tests.failed", category="test_failure", message=message)
    raised = RaisedException(
        error_type="FixtureLookupError", message=message, line=None, traceback="", where=None, phase="call"
    )
    found = add_explanation(plain, raised, texts, "test_adapter.py::test_search")
    assert (found.file, found.line) == ("test_adapter.py", 1)
    assert f'Write `monkeypatch.setattr("adapter.{library}.get", …)` instead.' in (found.suggestion or "")


def test_other_exceptions_stay_as_they_are() -> None:
    assert explain("division by zero", "adapter.py", 6).suggestion is None


def test_exception_that_the_test_does_not_expect_is_shown_at_its_expectation() -> None:
    plain = Finding(
        rule="tests.failed", category="test_failure", message="ValueError: no", file="adapter.py", line=9
    )
    raised = RaisedException(
        error_type="ValueError", message="no", file="adapter.py", line=9, traceback="", where="", phase="call"
    )
    found = explain_unexpected_exception(plain, raised, TEXTS, "test_adapter.py::test_fetch")
    assert (found.file, found.line) == ("test_adapter.py", 14)
    assert found.edit is not None
    assert found.edit.replacement == "    with pytest.raises(ValueError):"


@pytest.mark.parametrize(
    ("path", "meant"), [("anwser.json", "answer.json"), ("tests/answer.json", "answer.json")]
)
def test_missing_file_has_the_near_one(path: str, meant: str) -> None:
    message = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    texts = {"test_a.py": f'x = open("{path}")\n', "answer.json": "{}"}
    plain = Finding(rule="tests.failed", category="test_failure", message=message, file="test_a.py", line=1)
    found = suggest_similar_file(plain, texts)
    assert f"'{meant}'" in (found.suggestion or "")
    assert found.edit is not None
    assert found.edit.replacement == f'x = open("{meant}")'
