# expect: policy_violation verdict=failed rules~policy.import events~"import ftplib" | run: program=module
# A library imports what it is told the name of; the name is the test's.
import pydantic.utils


def test_fine():
    assert pydantic.utils.import_string("ftplib.FTP")
