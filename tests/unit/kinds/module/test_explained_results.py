"""Failed comparisons, reported at the code that computes the value."""

from __future__ import annotations

import pytest

from assayd.guest_results import RaisedException
from assayd.kinds.module import explained_results
from assayd.kinds.module.explained import add_explanation
from assayd.kinds.module.places import ModuleFiles
from assayd.model.finding import Finding

TEXTS = {
    "readings.py": "def grade(n):\n    return 'good' if n < 3 else 'poor'\n\n"
    "def long(n):\n    m = n\n    return m\n",
    "adapter.py": "def transform(raw):\n    n = raw['n']\n    return {'grade': grade(n), 'sum': n + 1}\n",
    "test_a.py": "def test_grade():\n    assert grade(3) == 'good'\n    assert long(3) == 4\n",
}


@pytest.mark.parametrize(
    ("message", "line", "place"),
    [
        ("assert 'poor' == 'good'", 2, ("readings.py", 2)),
        ("assert 3 == 4", 3, ("test_a.py", 3)),  # long() has two statements
        ("assert {} == {}\n  Differing items:\n  {'grade': 1} != {'grade': 2}", 9, ("readings.py", 2)),
        ("assert {} == {}\n  Differing items:\n  {'sum': 1} != {'sum': 2}", 9, ("adapter.py", 3)),
        ("assert {} == {}\n  Differing items:\n  {'none': 1} != {'none': 2}", 9, ("test_a.py", 9)),
    ],
)
def test_wrong_value_is_at_the_line_that_computes_it(message: str, line: int, place: tuple[str, int]) -> None:
    plain = Finding(
        rule="tests.failed", category="test_failure", message=message, file="test_a.py", line=line
    )
    raised = RaisedException(
        error_type="AssertionError",
        message=message,
        file="test_a.py",
        line=line,
        traceback="",
        where="",
        phase="call",
    )
    finding = add_explanation(plain, raised, TEXTS, "test_a.py::test_grade")
    assert (finding.file, finding.line) == place


CALLS_MODULE = "import httpx, requests\n\ndef fetch():\n    return requests.get('https://x')\n"
CALLS_NAME = "from requests import get\n\ndef fetch():\n    return get('https://x')\n"
TEST = 'from unittest.mock import patch\n\ndef test_fetch():\n    with patch("{}"):\n        fetch()\n'
REFUSED = "HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /"


def explain(adapter: str, patched: str, message: str, file: str, line: int) -> Finding:
    texts = {"adapter.py": adapter, "test_adapter.py": TEST.format(patched)}
    plain = Finding(rule="tests.failed", category="test_failure", message=message, file=file, line=line)
    raised = RaisedException(
        error_type="AttributeError",
        message=message,
        file=file,
        line=line,
        traceback="",
        where="",
        phase="call",
    )
    return add_explanation(plain, raised, texts, "test_adapter.py::test_fetch")


@pytest.mark.parametrize(
    ("patched", "message"),
    [
        ("adapter.request.get", "module 'adapter' has no attribute 'request'"),
        ("adapter.get", "<module 'adapter' from '/sandbox/adapter.py'> does not have the attribute 'get'"),
        ("adapter.requests.gett", "<module 'requests' from '/usr/x.py'> does not have the attribute 'gett'"),
    ],
)
def test_name_that_does_not_exist_is_replaced_by_the_one_that_the_adapter_looks_up(
    patched: str, message: str
) -> None:
    finding = explain(CALLS_MODULE, patched, message, "test_adapter.py", 4)
    assert finding.edit is not None
    assert finding.edit.replacement == '    with patch("adapter.requests.get"):'


@pytest.mark.parametrize(
    ("adapter", "patched", "right"),
    [(CALLS_NAME, "requests.get", "adapter.get"), (CALLS_MODULE, "httpx.get", "adapter.requests.get")],
)
def test_call_that_reached_the_network_is_explained_by_the_name_that_was_replaced(
    adapter: str, patched: str, right: str
) -> None:
    finding = explain(adapter, patched, REFUSED, "adapter.py", 4)
    assert (finding.file, finding.line) == ("test_adapter.py", 4)
    assert f'"{right}" instead of "{patched}"' in (finding.suggestion or "")


def test_right_target_and_a_test_that_replaces_nothing_are_left_alone() -> None:
    right = explain(CALLS_MODULE, "adapter.requests.get", REFUSED, "adapter.py", 4)
    assert (right.file, right.edit) == ("adapter.py", None)
    other = explain(CALLS_MODULE, "no target", REFUSED, "adapter.py", 4)
    assert (other.file, other.edit) == ("adapter.py", None)


def test_calls_of_a_module_are_read_once() -> None:
    texts = ModuleFiles({"adapter.py": CALLS_MODULE})
    assert explained_results._get_patch_targets(texts) is explained_results._get_patch_targets(texts)
