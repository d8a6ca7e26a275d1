# expect: policy_violation verdict=failed rules~policy.import events~"import shutil" | run: program=module
from pytest import MonkeyPatch


def test_fine():
    patch = MonkeyPatch()
    patch.setattr("shutil.rmtree", print)
    patch.undo()
