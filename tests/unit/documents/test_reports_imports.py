"""Forbidden imports in the report."""

from __future__ import annotations

import pytest

from assayd.documents.base import to_plain
from assayd.documents.reports import list_violations
from assayd.model.finding import Finding, Layer, Severity
from assayd.model.run import PolicyEvent

READ = Finding(
    rule="import.not_allowed",
    category="import",
    message="Import of 'subprocess' is not allowed (it starts programs).",
    line=3,
    file="adapter.py",
)
SEEN = PolicyEvent(kind="import", detail="shutil", allowed=False, enforced=True, file="test_a.py", line=9)


def test_both_are_listed_with_where_they_were_found() -> None:
    assert to_plain(list_violations([READ], [SEEN])) == [
        {
            "module": "subprocess",
            "location": "static",
            "file": "adapter.py",
            "line": 3,
            "rule": "import.not_allowed",
        },
        {
            "module": "shutil",
            "location": "runtime",
            "file": "test_a.py",
            "line": 9,
            "rule": "import.not_allowed",
        },
    ]


def test_what_is_allowed_or_no_import_is_not_listed() -> None:
    warning = Finding(
        rule="import.not_allowed", category="import", message="Import of 'x'", severity=Severity.WARNING
    )
    told_again = Finding(
        rule="policy.import", category="policy", message="import of 'x'", layer=Layer.RUNTIME
    )
    other = Finding(rule="forbidden.name", category="forbidden", message="'os.system' may not be used.")
    events = [
        PolicyEvent(kind="import", detail="json", allowed=True, enforced=False),
        PolicyEvent(kind="open", detail="/etc/passwd", allowed=False, enforced=True),
    ]
    assert list_violations([warning, told_again, other], events) == []


def test_module_that_is_computed_has_no_name() -> None:
    message = "A module is imported by a computed name."
    computed = Finding(rule="import.not_allowed", category="import", message=message)
    [violation] = list_violations([computed], [])
    assert violation.module is None


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ('x = __import__("subprocess")', "subprocess"),
        ("x = __import__( 'os.path' )", "os.path"),
        ("x = __import__(name)", None),
    ],
)
def test_import_by_name_is_a_violation(line: str, module: str | None) -> None:
    """Regression: it was missing from the violations."""
    finding = Finding(
        rule="builtin.not_allowed",
        category="builtin",
        message="'__import__' isn't allowed: importing by name.",
        line=1,
        snippet=line,
    )
    [violation] = list_violations([finding], [])
    assert (violation.module, violation.line, violation.rule) == (module, 1, "builtin.not_allowed")


def test_import_by_name_in_a_module_is_a_violation() -> None:
    """Regression: it was missing, because it has a different rule."""
    finding = Finding(
        rule="forbidden.name",
        category="forbidden_name",
        message="'__import__' isn't allowed in a module.",
        file="adapter.py",
        line=3,
        snippet="x = __import__('subprocess')",
    )
    [violation] = list_violations([finding], [])
    assert (violation.module, violation.file, violation.line) == ("subprocess", "adapter.py", 3)


def test_other_forbidden_name_is_no_import() -> None:
    finding = Finding(rule="builtin.not_allowed", category="builtin", message="'eval' isn't allowed.", line=1)
    assert list_violations([finding], []) == []
