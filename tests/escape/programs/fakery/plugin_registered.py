# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
class Plugin:
    def pytest_runtest_makereport(self, item, call):
        call.excinfo = None


def test_first(request):
    request.config.pluginmanager.register(Plugin())


def test_wrong():
    assert False
