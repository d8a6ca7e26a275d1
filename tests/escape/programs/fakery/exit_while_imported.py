# expect: exited_nonzero verdict=failed rules~tests.exited | run: program=module
import sys

sys.exit(0)


def test_wrong():
    assert False
