# expect: exited_nonzero verdict=failed rules~tests.exited | run: program=module
import pytest


def test_first():
    pytest.exit("all is well", returncode=0)


def test_wrong():
    assert False
