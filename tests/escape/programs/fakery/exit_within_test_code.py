# expect: exited_nonzero verdict=failed rules~tests.exited | run: program=module
import sys


def test_wrong():
    sys.exit(0)
