from __future__ import annotations

import ast
import time

import pytest

from assayd.kinds.module.assertions import check_assertions, find_used_names
from assayd.model.finding import Finding
from support.slowness import SLOWER_BY

METHODS = ("fetch_raw", "transform", "get_schema")


def rules(code: str) -> list[str]:
    return [finding.rule for finding in found_in(code)]


def found_in(code: str, *others: str) -> list[Finding]:
    tree, *rest = map(ast.parse, (code, *others))
    return list(check_assertions("test_a.py", code, tree, METHODS, find_used_names([tree, *rest])))


def rules_in_test(body: str) -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return rules(f"def test_a():\n{lines}")


@pytest.mark.parametrize(
    "body",
    ["adapter.transform(raw)", "result == {}", "return 1 == 2", "if False:\n    assert result", "pass"],
)
def test_a_test_without_an_assertion_is_found(body: str) -> None:
    assert rules_in_test(body) == ["quality.no_assertion"]


@pytest.mark.parametrize(
    "body",
    [
        "assert True",
        "assert 'fine'",
        "assert (result == 3, 'wrong')",
        "assert schema == schema",
        "assert 1 + 1 == 2",
        "assert result == 3 or True",
        "assert not False",
        "result = adapter.transform(raw)\nexpected = result\nassert result == expected",
        "assert adapter.transform(raw) == adapter.transform(raw)",
        "expected = Adapter().transform(raw)\nresult = Adapter().transform(raw)\nassert result == expected",
        "assert len(result) >= 0",
        "assert 0 <= len(result)",
        "assert isinstance(result, object)",
        "assert Adapter() is not None",
        "adapter = Adapter()\nassert adapter",
        "adapter = Adapter()\nassert isinstance(adapter, Adapter)",
        "assert hasattr(adapter, 'transform')",
        "assert [result]",
        "assert f'{result} is fine'",
    ],
)
def test_a_test_that_asserts_only_what_is_always_true_is_found(body: str) -> None:
    assert rules_in_test(body) == ["quality.tautology"]


@pytest.mark.parametrize("call", ["assertTrue(True)", "assertEqual(x, x)", "assertIsNotNone(Adapter())"])
def test_the_assertions_of_unittest_are_read_too(call: str) -> None:
    code = f"class A(TestCase):\n    def test_a(self):\n        self.{call}\n"
    assert rules(code) == ["quality.tautology"]


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    assert result\nexcept Exception:\n    pass",
        "try:\n    assert result\nexcept:\n    return",
        "try:\n    assert result\nexcept AssertionError as problem:\n    print(problem)",
        "with suppress(Exception):\n    assert result",
    ],
)
def test_a_test_that_swallows_its_failure_is_found(body: str) -> None:
    assert rules_in_test(body) == ["quality.swallowed"]


@pytest.mark.parametrize(
    "body",
    [
        "assert result == 3",
        "assert True\nassert result == 3",
        "with pytest.raises(KeyError):\n    adapter.transform({})",
        "mock.assert_called_once_with(3)",
        "check(result)",
        "try:\n    adapter.transform({})\nexcept KeyError as problem:\n    assert problem.args",
        "try:\n    call()\nexcept Exception as problem:\n    assert 'x' in str(problem)",
        "try:\n    call()\nexcept Exception:\n    pytest.fail('raised')",
        "try:\n    call()\nexcept KeyError:\n    pass\nelse:\n    raise AssertionError",
        "for row in rows:\n    assert row",
        "assert adapter.pages() == adapter.pages()",
        "before = adapter.total\nadapter.transform(raw)\nassert adapter.total == before",
        "adapter = make()\nassert adapter is not None",
    ],
)
def test_a_test_that_can_fail_is_left_alone(body: str) -> None:
    assert rules_in_test(body) == []


def test_comparing_the_adapter_with_itself_is_fine_next_to_a_test_that_can_fail() -> None:
    same = "def test_a():\n    assert adapter.transform(raw) == adapter.transform(raw)\n"
    assert rules(same + "def test_b():\n    assert adapter.transform(raw) == {}\n") == []
    assert rules(same + same.replace("_a", "_b")) == ["quality.tautology"] * 2
    assert rules(same + "def test_b():\n    assert True\n") == ["quality.tautology"] * 2


def test_an_assertion_in_a_function_of_the_file_counts_where_it_is_called() -> None:
    helper = "def compare(a):\n    assert a == 3\n"
    assert rules(helper + "def test_a():\n    compare(f())\n") == []
    assert rules(helper + "def test_a():\n    f()\n") == ["quality.no_assertion"]


def test_a_test_that_is_switched_off_is_left_alone() -> None:
    assert rules("@pytest.mark.skip\ndef test_a():\n    pass\n") == []


def test_functions_that_call_one_another_without_end_are_read_in_fair_time() -> None:
    calls = "".join(f"    f{n}()\n" for n in range(30))
    code = "".join(f"def f{n}():\n{calls}" for n in range(30)) + f"def test_a():\n{calls}"
    assert rules(code) == []


def test_function_with_an_assertion_that_pytest_does_not_run_is_found() -> None:
    good = "def test_a():\n    assert f() == 1\n"
    assert rules(f"{good}def check_b():\n    assert f() == 2\n") == ["quality.not_run"]


@pytest.mark.parametrize(
    "code",
    [
        "def check_b():\n    assert f() == 2\ndef test_b():\n    check_b()\n",
        "@pytest.fixture\ndef given():\n    assert f()\n",
        "def pytest_configure():\n    assert f()\n",
        "def helper():\n    return 1\n",
    ],
)
def test_function_of_the_tests_that_something_calls_is_fine(code: str) -> None:
    assert "quality.not_run" not in rules(code)


@pytest.mark.parametrize(
    "other",
    [
        "from test_a import check_b\n",
        "from test_a import check_b as compare\n",
        "import test_a\ndef test_c():\n    test_a.check_b()\n",
    ],
)
def test_function_that_another_file_of_the_module_uses_is_fine(other: str) -> None:
    code = "def check_b():\n    assert f() == 2\n"
    assert found_in(code, other) == []
    assert [one.rule for one in found_in(code, "import test_a\n")] == ["quality.not_run"]


def test_two_functions_that_would_get_one_name_get_one_edit() -> None:
    code = "".join(f"def {name}_grade():\n    assert f()\n" for name in ("check", "verify"))
    found = found_in(code)

    assert [one.edit is not None for one in found if one.rule == "quality.not_run"] == [True, False]


def test_many_functions_that_pytest_does_not_run_are_found_in_little_time() -> None:
    code = "".join(f"def check_{number}():\n    assert f()\n" for number in range(3000))
    began = time.process_time()
    found = found_in(code)

    assert time.process_time() - began < 0.5 * SLOWER_BY
    assert {one.rule for one in found} == {"quality.not_run"}
