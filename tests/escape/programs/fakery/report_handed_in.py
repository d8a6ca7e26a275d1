# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
# A report that no step of a test has made.
from unittest import mock


def test_first(request):
    report = mock.Mock(nodeid="test_adapter.py::test_wrong", when="call", passed=True, failed=False)
    request.config.hook.pytest_runtest_logreport(report=report)


def test_wrong():
    assert False
