# expect: policy_violation verdict=failed rules~policy.import events~"import ftplib" | run: program=module
from pytest import MonkeyPatch


def test_fine():
    patch = MonkeyPatch()
    patch.setattr("ftplib.FTP", print)
    patch.undo()
