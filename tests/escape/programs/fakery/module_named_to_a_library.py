# expect: policy_violation verdict=failed rules~policy.import events~"import shutil" | run: program=module
# A library imports what it is told the name of; the name is the test's.
import pydantic.utils


def test_fine():
    assert pydantic.utils.import_string("shutil.rmtree")
