# expect: policy_violation verdict=failed rules~policy.operation static~forbidden.name | run: program=module
import sys


def test_wrong():
    assert sys._getframe().f_back
