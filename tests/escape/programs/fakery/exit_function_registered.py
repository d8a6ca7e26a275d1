# expect: policy_violation verdict=failed rules~policy.import static~import.not_allowed | run: program=module
import atexit

atexit.register(print, "ESCAPED atexit ran")


def test_fine():
    pass
