"""Failed comparisons at the code that computes the value."""

from __future__ import annotations

import pytest

from assayd.guest_results.record import Raised
from assayd.kinds.module.explained import explained
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
    raised = Raised(
        error_type="AssertionError",
        message=message,
        file="test_a.py",
        line=line,
        traceback="",
        where="",
        phase="call",
    )
    finding = explained(plain, raised, TEXTS, "test_a.py::test_grade")
    assert (finding.file, finding.line) == place
