# expect: policy_violation verdict=failed rules~policy.import static~import.not_allowed | run: program=module
# An import statement in other words.
import pytest


def test_fine():
    assert pytest.importorskip("subprocess").Popen
