# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module as=adapter
# What an exception is put into says of itself that there is none.
import pytest


class No:
    def __call__(self):
        return False


pytest.ExceptionInfo.__bool__ = No()
