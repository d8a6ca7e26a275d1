# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
import pytest


@pytest.fixture(autouse=True)
def exchanged(request):
    request.node.runtest = lambda: None


def test_wrong():
    assert False
