# expect: exited_nonzero verdict=failed rules~tests.not_run | run: program=module
def test_first(request):
    request.session.items.clear()


def test_wrong():
    assert False
