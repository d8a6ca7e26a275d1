# expect: exited_nonzero verdict=failed rules~tests.tampered | run: program=module
# What is called in the place of a test says that it is a method of it.
class Fake:
    def __init__(self, real):
        self.__func__ = real

    def __call__(self):
        pass


def test_first(request):
    for item in request.session.items:
        item.obj = Fake(item.obj)


def test_wrong():
    assert False
