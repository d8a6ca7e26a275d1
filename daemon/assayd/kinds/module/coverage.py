"""Reports the parts of the adapter that the tests don't execute. Source: docs/quality.md.

methods of the contract that no test runs      quality.untested_method
share of its functions' lines that they run    quality.coverage  (info)
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from assayd.findings.source_text import get_snippet
from assayd.kinds.module.pytest_record import LineCoverage
from assayd.model.finding import Finding, Layer, Rule, Severity

RULES = (
    Rule(
        id="quality.untested_method",
        title="No test runs a method",
        severity=Severity.WARNING,
        help="Bad: no test calls transform(). Good: assert adapter.transform(raw) == {…}.",
    ),
    Rule(
        id="quality.coverage",
        title="Test coverage of the adapter",
        severity=Severity.INFO,
        help="Counts lines of functions by the blocks that began.",
    ),
)
_MOST_RANGES = 20

_SHARE = 0.25
"""Share of the adapter's lines from which methods without tests cause a warning."""

Methods = Mapping[str, Sequence[Sequence[int]]]


def find_methods(tree: ast.Module) -> dict[str, list[list[int]]]:
    """Return the methods of all top-level classes of a file, each with its first and last lines."""
    found: dict[str, list[list[int]]] = {}
    for holder in tree.body:
        for node in holder.body if isinstance(holder, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append([node.lineno, node.end_lineno or node.lineno])
    return found


def judge_coverage(
    file: str, text: str, methods: Methods, contract: Sequence[str], found: Sequence[LineCoverage]
) -> Iterator[Finding]:
    """Yield findings about the parts of the adapter that no test ran. `methods` are the file's methods."""
    if not found:
        return
    ran, known = _merge_lines(found)
    # If no test imported the file, nothing of it ran.
    idle = {
        name: methods[name] for name in contract if name in methods and not _was_executed(methods[name], ran)
    }
    total = sorted(line for line in known if line > 0)
    own = [line for line in total for first, last in _iter_method_ranges(idle) if first <= line <= last]
    if idle and len(own) >= _SHARE * len(total):
        yield from (_untested_method_finding(file, text, name, places[0][0]) for name, places in idle.items())
    if total:
        yield _coverage_finding(file, total, [line for line in total if line not in ran], list(idle))


def merge_lines_run(found: Sequence[LineCoverage]) -> set[int] | None:
    """Return the lines of functions that at least one test executed, or None if they are unknown."""
    ran, known = _merge_lines(found)
    return ran if known else None


def _was_executed(places: Sequence[Sequence[int]], ran: Collection[int]) -> bool:
    return any(-place[0] in ran for place in places)


def _iter_method_ranges(methods: Methods) -> Iterator[Sequence[int]]:
    return (place for places in methods.values() for place in places)


def _untested_method_finding(file: str, text: str, method: str, line: int) -> Finding:
    return Finding(
        rule="quality.untested_method",
        category="quality",
        message=f"No test runs {method}().",
        severity=Severity.WARNING,
        layer=Layer.RUNTIME,
        file=file,
        line=line,
        snippet=get_snippet(text, line),
        suggestion=f"Call {method}() in a test, and assert its result.",
    )


def _coverage_finding(file: str, total: Sequence[int], missed: Sequence[int], idle: Sequence[str]) -> Finding:
    methods = f"; methods that no test runs: {', '.join(idle)}" if idle else ""
    return Finding(
        rule="quality.coverage",
        category="quality",
        message=f"The tests run {len(total) - len(missed)} of {len(total)} lines in functions.",
        severity=Severity.INFO,
        layer=Layer.RUNTIME,
        file=file,
        context=f"lines that no test runs: {_format_ranges(missed)}{methods}" if missed else None,
    )


def _merge_lines(found: Iterable[LineCoverage]) -> tuple[set[int], set[int]]:
    """Return the executed lines, and all lines. Numbers of ``def`` lines are negative."""
    ran: set[int] = set()
    known: set[int] = set()
    for one in found:
        for number, (owner, lines) in enumerate(zip(one.owners, one.lines, strict=True)):
            own = {*lines, *([-owner] if owner else [])}
            known |= own
            ran |= own if number in one.seen else set()
    return ran, known


def _format_ranges(lines: Sequence[int]) -> str:
    """Return lines as ranges, e.g. ``3, 7-9``."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], line]
        else:
            ranges.append([line])
    told = ", ".join("-".join(map(str, each)) for each in ranges[:_MOST_RANGES])
    return told + (f" and {len(ranges) - _MOST_RANGES} more" if len(ranges) > _MOST_RANGES else "")
