"""The tests in a text, compared with those that the test framework collects."""

from __future__ import annotations

import ast
import textwrap

import pytest

from assayd.kinds.module.expected_tests import ExpectedTests, check_tests, find_expected_tests


def expected(text: str, **others: str) -> ExpectedTests:
    texts = {"test_it.py": text, **{f"{name}.py": other for name, other in others.items()}}
    return find_expected_tests(
        "test_it.py", {name: ast.parse(textwrap.dedent(body)) for name, body in texts.items()}
    )


def test_functions_and_classes_are_found() -> None:
    found = expected("""
        import pytest, unittest
        def helper(): ...
        def test_a(): ...
        async def test_b(): ...
        @pytest.mark.parametrize("x", [1, 2])
        def test_c(x): ...
        class TestGroup:
            def test_d(self): ...
            def helper(self): ...
            class TestInner:
                def test_e(self): ...
        class Case(unittest.TestCase):
            def test_f(self): ...
        class Later(unittest.IsolatedAsyncioTestCase):
            async def test_g(self): ...
    """)
    assert found.certain == (
        "test_a", "test_b", "test_c", "TestGroup::test_d", "TestGroup::TestInner::test_e", "Case::test_f",
        "Later::test_g",
    )  # fmt: skip
    assert found.possible == ()


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.fixture\ndef test_data(): ...",
        "class Other:\n    def test_a(self): ...",
        "class TestA:\n    def __init__(self): ...\n    def test_a(self): ...",
        "class TestA:\n    __test__ = False\n    def test_a(self): ...",
        "def f():\n    def test_a(): ...",
    ],
)
def test_what_is_not_collected_is_not_expected(text: str) -> None:
    assert expected(text) == ExpectedTests()


@pytest.mark.parametrize(
    "text",
    [
        "if x:\n    def test_a(): ...",
        "try:\n    def test_a(): ...\nexcept E:\n    def test_a(): ...",
        "test_a = make()",
        "@some_decorator\ndef test_a(): ...",
        "from base import test_a",
        "from base import *",
        "from base import test_b as test_a",
    ],
)
def test_what_depends_on_the_run_is_only_possible(text: str) -> None:
    found = expected(text, base="def test_a(): ...\ndef test_b(): ...\n")
    assert "test_a" in found.possible
    assert found.certain == ()


def test_inherited_tests_are_expected_under_the_class_that_inherits() -> None:
    found = expected(
        "from base import Common\nclass TestA(Common):\n    def test_own(self): ...\n",
        base="import unittest\nclass Common(unittest.TestCase):\n    def test_shared(self): ...\n",
    )
    assert found.certain == ("TestA::test_own", "TestA::test_shared")


@pytest.mark.parametrize(
    "text",
    [
        "class TestA(TestB): ...\nclass TestB(TestA): ...",
        "class TestA(TestA):\n    def test_a(self): ...",
        "from test_it import *",
        "".join(f"class Test{n}(Test{n - 1}, Test{n - 1}): ...\n" for n in range(60)),
    ],
)
def test_circles_come_to_an_end(text: str) -> None:
    assert isinstance(expected(text), ExpectedTests)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("def test_a(): ...\ndef test_a(): ...", "tests.duplicate", 2),
        ("class TestA:\n    def test_a(self): ...\n    def test_a(self): ...", "tests.duplicate", 3),
        ("class TestA:\n    def __init__(self): ...", "tests.not_collectable", 2),
        ("class A(unittest.TestCase):\n    async def test_a(self): ...", "tests.never_runs", 2),
        ("def test_a():\n    yield", "tests.never_runs", 1),
        ("async def test_a():\n    for x in y:\n        yield x", "tests.never_runs", 1),
        ("class TestA:\n    def test_a(self):\n        yield from ()", "tests.never_runs", 2),
        ("pytest_plugins = ['x']", "tests.hook", 1),
        ("def pytest_runtest_call(item): ...", "tests.hook", 1),
    ],
)
def test_remark_has_its_rule_and_place(text: str, rule: str, line: int) -> None:
    [finding] = check_tests("test_it.py", text, {"test_it.py": ast.parse(text)})
    assert (finding.rule, finding.file, finding.line) == (rule, "test_it.py", line)
    assert finding.suggestion


@pytest.mark.parametrize(
    "text",
    [
        "class A(unittest.IsolatedAsyncioTestCase):\n    async def test_a(self): ...",
        "class A(Base):\n    async def test_a(self): ...",
        "class TestA:\n    async def test_a(self): ...",
        "class Other:\n    def test_a(self):\n        yield",
        "@pytest.fixture\ndef test_data():\n    yield 1",
        "def test_a():\n    def numbers():\n        yield 1\n    assert list(numbers())",
        "def test_a():\n    assert sum(x for x in y)",
    ],
)
def test_tests_that_run_are_left_alone(text: str) -> None:
    base = "class Base(unittest.IsolatedAsyncioTestCase): ..."
    trees = {"test_it.py": ast.parse(f"from base import Base\n{text}"), "base.py": ast.parse(base)}
    assert list(check_tests("test_it.py", text, trees)) == []


def test_plugins_are_taken_out_by_an_edit() -> None:
    text = "x = 1\npytest_plugins = [\n  'x']\n"
    [finding] = check_tests("t.py", text, {"t.py": ast.parse(text)})
    assert finding.edit is not None
    assert (finding.edit.start_line, finding.edit.end_line, finding.edit.replacement) == (2, 3, "")
