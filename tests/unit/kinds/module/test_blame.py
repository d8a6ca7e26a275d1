"""The module file that a repair changes."""

from __future__ import annotations

import pytest

from assayd.kinds.module.files import find_faulty_file

FILES = (
    "adapter.py",
    "client.py",
    "pkg/rates.py",
    "test_adapter.py",
    "test_client.py",
    "tests/rates_test.py",
)


@pytest.mark.parametrize(
    ("errors", "file"),
    [
        ([], "adapter.py"),
        ([("contract.missing_method", "client.py")], "client.py"),
        ([("syntax.missing_colon", "test_client.py"), ("paths.conflict", "client.py")], "test_client.py"),
        ([("tests.import_failed", "test_client.py")], "test_client.py"),
        ([("tests.failed", "test_adapter.py")], "adapter.py"),
        ([("tests.hung", "test_adapter.py")], "adapter.py"),
        ([("tests.failed", "test_client.py")], "client.py"),
        ([("tests.error", "test_client.py")], "client.py"),
        ([("tests.exited", "test_client.py")], "client.py"),
        ([("sandbox.out_of_memory", "test_client.py")], "client.py"),
        ([("sandbox.raised", "client.py"), ("syntax.missing_colon", "test_client.py")], "client.py"),
        ([("tests.failed", "tests/rates_test.py")], "pkg/rates.py"),
        ([("tests.failed", "test_gone.py")], "adapter.py"),
        ([("tests.failed", "client.py")], "client.py"),
        ([("tests.import_failed", "test_client.py"), ("tests.failed", "test_adapter.py")], "adapter.py"),
    ],
)
def test_a_file_of_tests_is_never_at_fault_where_a_test_has_failed(
    errors: list[tuple[str, str]], file: str
) -> None:
    told = [{"rule": rule, "file": name} for rule, name in errors]
    assert find_faulty_file(told, FILES, "adapter.py") == file


def test_two_files_of_one_name_leave_the_adapter_at_fault() -> None:
    told = [{"rule": "tests.failed", "file": "test_rates.py"}]
    assert find_faulty_file(told, ("weather.py", "rates.py", "pkg/rates.py"), "weather.py") == "weather.py"
