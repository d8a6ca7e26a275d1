# expect: policy_violation verdict=failed rules~policy.import events~"import subprocess" | run: program=module
from unittest import mock


def test_fine():
    try:
        with mock.patch("subprocess.run") as run:
            run()
    except ImportError:
        pass
