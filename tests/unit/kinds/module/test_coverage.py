from __future__ import annotations

import ast

from assayd.kinds.module.pytest_record import LineCoverage, find_methods, judge_coverage

TEXT = """class A:
    def fetch(self):
        return 1

    def transform(self, raw):
        if raw:
            return 2
        return 3
"""
METHODS = find_methods(ast.parse(TEXT))
OWNERS, LINES = (2, 5, 0), ((3,), (6, 8), (7,))


def found(*seen: int) -> list[tuple[str, str | None]]:
    coverage = LineCoverage(owners=OWNERS, lines=LINES, seen=frozenset(seen))
    judged = judge_coverage("a.py", TEXT, METHODS, ("fetch", "transform"), [coverage])
    return [(finding.message, finding.context) for finding in judged]


def test_a_method_that_no_test_runs_is_found() -> None:
    assert found(1) == [
        ("No test runs fetch().", None),
        (
            "The tests run 2 of 4 lines in functions.",
            "lines that no test runs: 3, 7; methods that no test runs: fetch",
        ),
    ]


def test_methods_that_all_run_make_a_figure_alone() -> None:
    assert found(0, 1, 2) == [("The tests run 4 of 4 lines in functions.", None)]


def test_a_small_method_beside_much_that_runs_is_in_the_figure_alone() -> None:
    text = TEXT.replace("        return 3", "        raw = 4\n        return 3")
    large = LineCoverage(owners=(2, 5), lines=((3,), (6, 7, 8, 9)), seen=frozenset({1}))
    judged = judge_coverage("a.py", text, find_methods(ast.parse(text)), ("fetch", "transform"), [large])
    assert [finding.rule for finding in judged] == ["quality.coverage"]


def test_an_adapter_that_no_test_imports_has_no_method_that_runs() -> None:
    nothing = LineCoverage(owners=(), lines=(), seen=frozenset())
    judged = judge_coverage("a.py", TEXT, METHODS, ("fetch", "transform"), [nothing])
    assert [finding.message for finding in judged] == ["No test runs fetch().", "No test runs transform()."]


def test_without_a_word_of_the_container_nothing_is_said() -> None:
    assert list(judge_coverage("a.py", TEXT, METHODS, ("fetch",), [])) == []
