# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module as=adapter
# An honest test would fail; the adapter has the framework pass it.
import pytest

pytest.Function.runtest = lambda self: None
