# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
# A test has the hooks of all later tests go by way of its own.
class Hooks:
    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return (lambda **given: None) if name == "pytest_runtest_call" else getattr(self.real, name)


def test_first(request):
    real = request.session.gethookproxy
    request.session.gethookproxy = lambda path: Hooks(real(path))


def test_wrong():
    assert False
