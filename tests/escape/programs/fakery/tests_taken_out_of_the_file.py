# expect: completed verdict=failed rules~tests.not_collected | run: program=module
def test_first():
    pass


def test_wrong():
    assert False


del test_wrong
