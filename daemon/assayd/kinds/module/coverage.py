"""Says what the tests don't run of the adapter. Source: docs/quality.md.

a method of the contract that no test runs     quality.untested_method
how many lines of its functions they run       quality.coverage  (info)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assayd.findings.source_text import snippet
from assayd.kinds.module.pytest_record import Coverage
from assayd.model.finding import Finding, Layer, Rule, Severity

RULES = (
    Rule(
        id="quality.untested_method",
        title="A method that no test runs",
        severity=Severity.WARNING,
        help="Bad: no test calls transform(). Good: assert adapter.transform(raw) == {…}.",
    ),
    Rule(
        id="quality.coverage",
        title="How much of the adapter the tests run",
        severity=Severity.INFO,
        help="Counts lines of functions by the blocks that began.",
    ),
)
_MOST_RANGES = 20

Methods = Mapping[str, Sequence[int]]


def methods_of(tree: ast.Module) -> dict[str, list[int]]:
    """Return the methods of all classes at the top of a file, each with the lines of its definitions."""
    found: dict[str, list[int]] = {}
    for holder in tree.body:
        for node in holder.body if isinstance(holder, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(node.lineno)
    return found


def judge_coverage(
    file: str, text: str, methods: Methods, contract: Sequence[str], found: Sequence[Coverage]
) -> Iterator[Finding]:
    """Judge what all tests together ran of the adapter; `methods` are those that its file defines."""
    if not found:
        return
    ran, known = _lines(found)
    for method in contract:
        # No test may have imported the file: then nothing of it is known, and nothing ran.
        lines = [line for line in methods.get(method, ()) if not known or -line in known]
        if lines and not any(-line in ran for line in lines):
            yield Finding(
                rule="quality.untested_method",
                category="quality",
                message=f"No test runs {method}().",
                severity=Severity.WARNING,
                layer=Layer.RUNTIME,
                file=file,
                line=lines[0],
                snippet=snippet(text, lines[0]),
                suggestion=f"Call {method}() in a test, and assert its result.",
            )
    if not known:
        return
    lines_known = sorted(line for line in known if line > 0)
    missed = [line for line in lines_known if line not in ran]
    yield Finding(
        rule="quality.coverage",
        category="quality",
        message=f"The tests run {len(lines_known) - len(missed)} of {len(lines_known)} lines in functions.",
        severity=Severity.INFO,
        layer=Layer.RUNTIME,
        file=file,
        context=f"lines that no test runs: {_ranges(missed)}" if missed else None,
    )


def _lines(found: Iterable[Coverage]) -> tuple[set[int], set[int]]:
    """Return the lines that ran, and all; a function's own line, of its ``def``, is negative."""
    ran: set[int] = set()
    known: set[int] = set()
    for one in found:
        for number, (owner, lines) in enumerate(zip(one.owners, one.lines, strict=True)):
            own = {*lines, *([-owner] if owner else [])}
            known |= own
            ran |= own if number in one.seen else set()
    return ran, known


def _ranges(lines: Sequence[int]) -> str:
    """Return lines as ranges, e.g. ``3, 7-9``."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], line]
        else:
            ranges.append([line])
    told = ", ".join("-".join(map(str, each)) for each in ranges[:_MOST_RANGES])
    return told + (f" and {len(ranges) - _MOST_RANGES} more" if len(ranges) > _MOST_RANGES else "")
