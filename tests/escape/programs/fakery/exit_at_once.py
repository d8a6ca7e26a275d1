# expect: policy_violation verdict=failed rules~tests.exited static~forbidden.name | run: program=module
import os


def test_wrong():
    try:
        os._exit(0)
    except BaseException:
        pass
