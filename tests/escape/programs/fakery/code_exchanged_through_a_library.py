# expect: policy_violation verdict=failed rules~policy.operation static~attribute.internal | run: program=module
# The code of what runs a test is exchanged, by a library that is asked to.
from unittest import mock

import pytest


def nothing(self):
    pass


mock.patch.object(pytest.Function.runtest, "__code__", getattr(nothing, "__code__")).start()


def test_wrong():
    assert False
