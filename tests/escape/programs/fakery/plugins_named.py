# expect: exited_nonzero verdict=failed rules~tests.failed static~tests.hook | run: program=module
# Plugins that a file of tests names are not loaded, and hooks that it defines are not called.
pytest_plugins = ["adapter"]


def pytest_runtest_makereport(item, call):
    call.excinfo = None


def test_wrong():
    assert False
