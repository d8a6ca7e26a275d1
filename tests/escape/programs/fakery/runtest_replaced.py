# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
# The method that runs every test is exchanged for one that does nothing.
import pytest

pytest.Function.runtest = lambda self: None


def test_wrong():
    assert False
