"""Edits for refused imports: dead code is removed together with the import that only it needs."""

from __future__ import annotations

import pytest

from assayd.model.finding import Severity
from assayd.model.policy import ExecutionPolicy
from assayd.static.python.imports import MAIN_RULE, add_import_edits
from assayd.static.python.security import scan_source
from assayd.static.python.source import parse_source

PROGRAM = """import doctest
import re

def extract(path):
    return {"digits": re.findall("[0-9]", path)}

if __name__ == "__main__":
    doctest.testmod()
"""


def edited(code: str, policy: ExecutionPolicy) -> list[tuple[str, Severity, int | None, int | None]]:
    source = parse_source(code)
    assert source.tree is not None
    found = scan_source(source, policy.imports)
    return [
        (f.rule, f.severity, f.edit and f.edit.start_line, f.edit and f.edit.end_line)
        for f in add_import_edits(found, source.tree, code, paths=True)
    ]


def test_an_import_for_the_program_alone_goes_with_its_part(policy: ExecutionPolicy) -> None:
    assert edited(PROGRAM, policy) == [
        (MAIN_RULE.id, Severity.WARNING, 7, 8),
        ("import.not_allowed", Severity.ERROR, 1, 1),
    ]


@pytest.mark.parametrize(
    "code",
    [
        PROGRAM.replace("    return", "    doctest.run\n    return"),
        PROGRAM.replace("    doctest.testmod()\n", "    doctest.testmod()\nelse:\n    x = 1\n"),
        PROGRAM.replace("doctest.testmod()", "x = doctest.testmod()").replace("def ", "print(x)\ndef "),
    ],
)
def test_what_else_needs_the_import_or_the_part_keeps_both(code: str, policy: ExecutionPolicy) -> None:
    assert [(rule, at) for rule, _, at, _ in edited(code, policy)] == [("import.not_allowed", None)]
