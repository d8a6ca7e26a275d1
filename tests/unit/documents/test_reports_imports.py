"""Imports that are not allowed, as the report lists them."""

from __future__ import annotations

from assayd.documents.base import plain
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
    assert plain(list_violations([READ], [SEEN])) == [
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
