# expect: exited_nonzero verdict=failed rules~tests.tampered static~attribute.internal | run: program=module
# A failed assertion raises what the framework takes for a test that skips itself.
import pytest

len.__self__.AssertionError = pytest.skip.Exception


def test_fine():
    pass


def test_wrong():
    assert False
