# expect: policy_violation verdict=failed | run: program=module
# The refusal stands in the module that is loaded; one that is loaded anew has the real function.
import os
import sys

import pytest


def test_fine():
    for name in ("posix", "os"):
        sys.modules.pop(name)
    fresh = pytest.importorskip("os")
    fresh._exit(0)
